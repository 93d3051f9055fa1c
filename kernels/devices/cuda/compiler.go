package cuda

import (
	"slices"
	"strings"
	"sync"

	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
)

// A compileQueue turns launches into cubins in the background, each unit once. What is asked for
// comes first, then what was announced last. The results stay until trim.
type compileQueue struct {
	registry *kernels.Registry
	arch     string
	compile  nvrtc.CompileFunc

	sources sync.Map // nvrtc.Source by name: reading one takes a millisecond, and each visit asks for some

	mu     sync.Mutex
	wake   *sync.Cond
	asked  []*unitState    // in the order asked for
	lists  []*announcement // the newest last; without those of which all is begun
	units  map[string]*unitState
	closed bool
}

// An announcement is the units of a problem that are asked for soon, the first first.
type announcement struct {
	problem kernels.Problem
	units   []*unitState
}

type unitState struct {
	Unit
	begun  bool
	used   bool // it was asked for
	ready  chan struct{}
	binary *nvrtc.Binary
	err    error
}

// newCompileQueue compiles so many units at a time. The caller sets arch before the first.
func newCompileQueue(r *kernels.Registry, compile nvrtc.CompileFunc, atOnce int) *compileQueue {
	c := &compileQueue{registry: r, compile: compile, units: map[string]*unitState{}}
	c.wake = sync.NewCond(&c.mu)
	for range atOnce {
		go c.work()
	}
	return c
}

func (c *compileQueue) work() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		u := c.next()
		for ; u == nil && !c.closed; u = c.next() {
			c.wake.Wait()
		}
		if c.closed {
			return
		}
		u.begun = true
		c.mu.Unlock()
		u.binary, u.err = c.compile(u.Source, u.Options)
		c.mu.Lock()
		close(u.ready)
	}
}

// next takes a unit off the queue, nil if there is none.
func (c *compileQueue) next() *unitState {
	for len(c.asked) > 0 {
		u := c.asked[0]
		c.asked = c.asked[1:]
		if !u.begun {
			return u
		}
	}
	for len(c.lists) > 0 {
		a := c.lists[len(c.lists)-1]
		for len(a.units) > 0 {
			u := a.units[0]
			a.units = a.units[1:]
			if !u.begun {
				return u
			}
		}
		c.lists = c.lists[:len(c.lists)-1]
	}
	return nil
}

// announce queues the launches of a problem's plans in place of those announced of it before.
func (c *compileQueue) announce(p kernels.Problem, plans []kernels.Plan) {
	list := &announcement{problem: p}
	var made []Unit
	for _, plan := range plans {
		for i := range plan.Launches {
			if l := &plan.Launches[i]; l.IsKernel() {
				if u, err := c.make(l); err == nil {
					made = append(made, u)
				}
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range made {
		if u := c.unit(m); !u.begun && !slices.Contains(list.units, u) {
			list.units = append(list.units, u)
		}
	}
	c.lists = slices.DeleteFunc(c.lists, func(a *announcement) bool { return a.problem == p })
	if len(list.units) > 0 {
		c.lists = append(c.lists, list)
	}
	c.wake.Broadcast()
}

// make is NewUnit with sources as they were when first read.
func (c *compileQueue) make(l *kernels.Launch) (Unit, error) {
	if src, ok := c.sources.Load(l.Source); ok {
		return unitOf(src.(nvrtc.Source), l, c.arch)
	}
	src, err := nvrtc.ReadSource(c.registry.File, l.Source)
	if err != nil {
		return Unit{}, err
	}
	c.sources.Store(l.Source, src)
	return unitOf(src, l, c.arch)
}

func (c *compileQueue) ask(l *kernels.Launch) *unitState {
	made, err := c.make(l)
	if err != nil {
		u := &unitState{err: err, ready: make(chan struct{})}
		close(u.ready)
		return u
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.unit(made)
	if !u.begun && !u.used {
		c.asked = append(c.asked, u)
		c.wake.Signal()
	}
	u.used = true
	return u
}

// unit is the unit of that key. A new one is in no queue.
func (c *compileQueue) unit(made Unit) *unitState {
	key := made.key()
	u, ok := c.units[key]
	if !ok {
		u = &unitState{Unit: made, ready: make(chan struct{})}
		c.units[key] = u
	}
	return u
}

// binary waits for a launch's cubin.
func (c *compileQueue) binary(l *kernels.Launch) (*nvrtc.Binary, error) {
	u := c.ask(l)
	<-u.ready
	return u.binary, u.err
}

func (c *compileQueue) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.wake.Broadcast()
}

// key identifies the unit within a process.
func (u Unit) key() string {
	var b strings.Builder
	b.WriteString(u.Source.Name)
	for _, d := range u.Options.Defines {
		b.WriteByte(' ')
		b.WriteString(d.Name + "=" + d.Value)
	}
	for _, s := range slices.Concat(u.Options.Extra, u.Options.Include, u.Options.Names,
		[]string{u.Options.NVCC}) {
		b.WriteByte(' ')
		b.WriteString(s)
	}
	return b.String()
}
