package cuda

import (
	"slices"
	"strings"
	"sync"

	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
)

// A compileQueue compiles launches to cubins in the background, each unit once. Units that somebody
// waits for come first, then those announced last. Binaries stay until trim.
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

// An announcement lists the units of a problem that will be asked for soon, in that order.
type announcement struct {
	problem kernels.Problem
	units   []*unitState
}

// A unitState is a unit with how far it is compiled.
type unitState struct {
	Unit
	begun  bool
	used   bool // it was asked for
	ready  chan struct{}
	binary *nvrtc.Binary
	err    error
}

// newCompileQueue starts a queue that compiles so many units at a time. The caller sets arch before the
// first.
func newCompileQueue(r *kernels.Registry, compile nvrtc.CompileFunc, atOnce int) *compileQueue {
	c := &compileQueue{registry: r, compile: compile, units: map[string]*unitState{}}
	c.wake = sync.NewCond(&c.mu)
	for range atOnce {
		go c.work()
	}
	return c
}

// work compiles units until the queue is closed, in a goroutine.
func (c *compileQueue) work() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		u := c.takeUnit()
		for ; u == nil && !c.closed; u = c.takeUnit() {
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

// takeUnit takes the next unit off the queue, nil if there is none.
func (c *compileQueue) takeUnit() *unitState {
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
				if u, err := c.newUnit(l); err == nil {
					made = append(made, u)
				}
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range made {
		if u := c.findOrAddUnit(m); !u.begun && !slices.Contains(list.units, u) {
			list.units = append(list.units, u)
		}
	}
	c.lists = slices.DeleteFunc(c.lists, func(a *announcement) bool { return a.problem == p })
	if len(list.units) > 0 {
		c.lists = append(c.lists, list)
	}
	c.wake.Broadcast()
}

// newUnit is NewUnit with sources as they were when first read.
func (c *compileQueue) newUnit(l *kernels.Launch) (Unit, error) {
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

// ask puts the unit of a launch at the front of the queue, if it is not compiled yet, and returns it.
func (c *compileQueue) ask(l *kernels.Launch) *unitState {
	made, err := c.newUnit(l)
	if err != nil {
		u := &unitState{err: err, ready: make(chan struct{})}
		close(u.ready)
		return u
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.findOrAddUnit(made)
	if !u.begun && !u.used {
		c.asked = append(c.asked, u)
		c.wake.Signal()
	}
	u.used = true
	return u
}

// findOrAddUnit finds the state of a unit, and adds a new one, which is in no queue yet.
func (c *compileQueue) findOrAddUnit(made Unit) *unitState {
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

// close ends the queue's goroutines; who waits for a unit gets an error.
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
