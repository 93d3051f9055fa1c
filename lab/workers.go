package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/shlex"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/devices/peers"
	"normbench/kernels/devices/worker"
	"normbench/kernels/families"
	"normbench/sweep"
)

// StartLimit is how long a worker's command may take to start, as in a scheduler's queue, unless asked
// otherwise.
const StartLimit = 15 * time.Minute

// maxWorkers is the most workers of one command. More are a typing error.
const maxWorkers = 1024

// countRE matches the number of workers before a command.
var countRE = regexp.MustCompile(`^(-?\d+):(.*)$`)

// workerCommands splits what --worker says into commands, one for each worker.
func workerCommands(texts []string) (commands [][]string, err error) {
	const help = "quote it as for a shell: --worker 'ssh gpu1 normbench worker --device cuda:0'; four workers are " +
		"--worker 4:'srun normbench worker'"
	for _, text := range texts {
		n, command := 1, text
		if m := countRE.FindStringSubmatch(text); m != nil {
			command = m[2]
			if n, err = strconv.Atoi(m[1]); err != nil || n < 1 || n > maxWorkers {
				return nil, hint.Errorf(fmt.Sprintf("write 1 to %d in front of the command, as in --worker "+
					"4:'srun normbench worker'", maxWorkers), "--worker %q asks for %s workers", text, m[1])
			}
		}
		words, err := shlex.Split(command)
		if err != nil || len(words) == 0 {
			return nil, hint.Errorf(help, "malformed worker command %q", text)
		}
		commands = append(commands, slices.Repeat([][]string{words}, n)...)
	}
	return commands, nil
}

// A startedWorker is what came of one of the commands.
type startedWorker struct {
	at     int // of the commands
	client *worker.Client
	err    error
}

// A workerStart is commands on their way to be workers.
type workerStart struct {
	commands [][]string
	left     int // that have not started, nor failed
	came     chan startedWorker
	cancel   []context.CancelFunc // of each that has not started
}

// startWorkers starts a worker by each command, all at once: a driver takes a second or two for each process on a
// host with several GPUs, and a scheduler minutes.
func (l *Lab) startWorkers(c *OpenOptions, commands [][]string, env ...string) (*workerStart, error) {
	hash, err := families.Hash(peers.Register(l.Registry, nil))
	if err != nil {
		return nil, err
	}
	o := worker.ClientOptions{Env: append(env, l.Loader.Env()...), Timeout: c.limit(time.Minute),
		Stderr: &console.PlainWriter{Writer: l.Err}, Unkept: func(text string) { l.NoteOnce(text) },
		Program: worker.Program{Kernels: hash}}
	if len(c.Workers) > 0 { // else they are this very program
		o.Program.Version, o.Start = l.Tool, cmp.Or(c.Start, StartLimit)
	}
	n := len(commands)
	w := &workerStart{commands: commands, left: n, came: make(chan startedWorker, n), cancel: make([]context.CancelFunc, n)}
	for i, command := range commands {
		ctx, cancel := context.WithCancel(l.Ctx)
		w.cancel[i] = cancel
		of := o
		of.Command = command
		go func() {
			d, err := worker.Start(ctx, of)
			if err == nil {
				if err = kernels.CheckID(d.Info().ID); err != nil {
					d.Close()
				}
			}
			if err != nil && ctx.Err() == nil {
				err = startError(err, kernels.MakePrintable(strings.Join(command, " "), 4096), o.Start)
			}
			w.came <- startedWorker{i, d, err}
		}()
	}
	return w, nil
}

// startError says what to do about a worker that did not start.
func startError(err error, command string, limit time.Duration) error {
	f := (*kernels.Failure)(nil)
	switch {
	case hint.Of(err) != "":
		return err
	case errors.As(err, &f) && f.Status == kernels.StatusTimeout && limit > 0:
		return hint.Errorf("give a command that waits for a scheduler more --start-timeout; it must run "+
			"`normbench worker`", "worker %q has not started within %s", command, limit)
	}
	return hint.Errorf("the command must run `normbench worker`", "worker %q: %w", command, err)
}

// take notes that a worker came.
func (w *workerStart) take(s startedWorker) {
	w.left--
	w.cancel[s.at] = nil // its context is that of its life
}

// cancelAll ends what has not started, and closes what does meanwhile. only says of which commands.
func (w *workerStart) cancelAll(only func(command []string) bool) {
	for i, cancel := range w.cancel {
		if cancel != nil && only(w.commands[i]) {
			cancel()
		}
	}
}

// drain waits for the rest of those that were cancelled.
func (w *workerStart) drain() {
	for w.left > 0 {
		s := <-w.came
		w.take(s)
		if s.err == nil {
			s.client.Close()
		}
	}
}

// String says what is waited for.
func (w *workerStart) String() string {
	if n := len(w.commands); n > 1 {
		return fmt.Sprintf("%d of %d workers to start", w.left, n)
	}
	return fmt.Sprintf("worker %q to start", kernels.MakePrintable(strings.Join(w.commands[0], " "), 200))
}

// startTogether starts workers and waits for all of them. The first that fails ends the others.
func (l *Lab) startTogether(c *OpenOptions, commands [][]string, env ...string) ([]kernels.Device, error) {
	w, err := l.startWorkers(c, commands, env...)
	if err != nil {
		return nil, err
	}
	step := l.Wait("waiting for %s", w)
	defer step.End()
	devices := make([]kernels.Device, len(commands))
	for w.left > 0 {
		s := <-w.came
		w.take(s)
		if s.err != nil {
			w.cancelAll(func([]string) bool { return true })
			w.drain()
			Close(slices.DeleteFunc(devices, func(d kernels.Device) bool { return d == nil }))
			return nil, cmp.Or(l.Ctx.Err(), s.err)
		}
		devices[s.at] = s.client
		step.Set("waiting for %s", w)
	}
	return devices, nil
}

// A DeviceGroup is the devices of one kind: those that are there, and those that join them until Joining is
// closed; nil where none will.
type DeviceGroup struct {
	Devices []kernels.Device
	Joining <-chan kernels.Device

	joining  chan kernels.Device
	commands []string // of its workers
	all      []kernels.Device
	ended    bool
	err      error
}

// EachGroup opens devices and calls do for each kind, at the same time. Where workers wait for a
// scheduler, it begins with those that have started, and the others join. What fails to start is an error before
// that, and is left out after. It returns the error of the first kind that has one.
func (l *Lab) EachGroup(c *OpenOptions, do func(*DeviceGroup) error) error {
	if len(c.Workers) == 0 || c.Device != "" {
		devices, err := l.Open(c)
		if err != nil {
			return err
		}
		r := &groupRunner{lab: l, do: do}
		for _, d := range devices {
			r.add(d, "")
		}
		r.run(c)
		return r.firstError()
	}
	commands, err := workerCommands(c.Workers)
	if err != nil {
		return err
	}
	l.Started()
	w, err := l.startWorkers(c, commands)
	if err != nil {
		return err
	}
	r := &groupRunner{lab: l, do: do, start: w}
	if err := r.gather(); err != nil {
		return err
	}
	r.run(c)
	return r.firstError()
}

// A groupRunner runs what is done with each group of devices.
type groupRunner struct {
	lab    *Lab
	do     func(*DeviceGroup) error
	start  *workerStart // nil where all are there
	groups []*DeviceGroup
	fresh  []*DeviceGroup // that do not run yet
}

// add adds a device to the group of its kind, and says whether that is new.
func (r *groupRunner) add(d kernels.Device, command string) (g *DeviceGroup, isNew bool) {
	id := d.Info().ID
	i := slices.IndexFunc(r.groups, func(g *DeviceGroup) bool { return g.all[0].Info().ID == id })
	if isNew = i < 0; isNew {
		g = &DeviceGroup{}
		if r.start != nil && r.start.left > 0 {
			g.joining = make(chan kernels.Device, r.start.left)
			g.Joining = g.joining
		}
		i, r.groups, r.fresh = len(r.groups), append(r.groups, g), append(r.fresh, g)
	}
	g = r.groups[i]
	g.all, g.commands = append(g.all, d), append(g.commands, command)
	if slices.Contains(r.fresh, g) {
		g.Devices = append(g.Devices, d)
	}
	return g, isNew
}

// gather waits for the workers that start soon, or for the first one.
func (r *groupRunner) gather() error {
	w, l := r.start, r.lab
	step := l.Wait("waiting for %s", w)
	defer step.End()
	soon, over := time.NewTimer(console.Pause), false
	defer soon.Stop()
	var came []startedWorker
	for w.left > 0 && (!over || len(came) == 0) {
		select {
		case s := <-w.came:
			w.take(s)
			if s.err != nil {
				w.cancelAll(func([]string) bool { return true })
				w.drain()
				for _, s := range came {
					s.client.Close()
				}
				return cmp.Or(l.Ctx.Err(), s.err)
			}
			came = append(came, s)
			step.Set("waiting for %s", w)
		case <-soon.C:
			over = true
		}
	}
	slices.SortFunc(came, func(a, b startedWorker) int { return a.at - b.at })
	for _, s := range came {
		r.add(s.client, strings.Join(w.commands[s.at], " "))
	}
	if w.left > 0 {
		l.Notef("%d of %d workers have started; the others join when they have", len(came), len(w.commands))
	}
	return nil
}

// run runs all groups to their ends.
func (r *groupRunner) run(c *OpenOptions) {
	l, ended, running := r.lab, make(chan *DeviceGroup), 0
	came := make(chan startedWorker) // nothing, where nothing starts
	if r.start != nil {
		came = r.start.came
	}
	launch := func() {
		for _, g := range r.fresh {
			running++
			go func() {
				if g.err = l.checkEffect(c, g.Devices[0]); g.err == nil {
					l.noteRung(g.Devices[0].Info())
					g.err = r.do(g)
				}
				ended <- g
			}()
		}
		r.fresh = nil
	}
	launch()
	for running > 0 || r.start != nil && r.start.left > 0 {
		select {
		case s := <-came:
			r.start.take(s)
			r.receive(s)
			launch()
		case g := <-ended:
			running--
			g.ended = true
			Close(g.all)
			if r.start == nil {
				break
			}
			// Others by the same command have nothing to do any more; nor has any, if the sweep cannot be done.
			unfinished := (*sweep.UnfinishedError)(nil)
			refused := g.err != nil && !errors.As(g.err, &unfinished)
			r.start.cancelAll(func(command []string) bool {
				return refused || slices.Contains(g.commands, strings.Join(command, " "))
			})
		}
	}
}

// receive gives a worker that has started late to its group.
func (r *groupRunner) receive(s startedWorker) {
	l, w := r.lab, r.start
	command := strings.Join(w.commands[s.at], " ")
	switch cancelled := errors.Is(s.err, context.Canceled); {
	case cancelled:
	case s.err != nil:
		l.Notef("left out: %s", console.OneLine(s.err.Error()))
	default:
		g, isNew := r.add(s.client, command)
		switch {
		case g.ended:
			s.client.Close()
		case !isNew:
			g.joining <- s.client
			fallthrough
		default:
			l.Notef("worker %q has started; %d of %d have not", kernels.MakePrintable(command, 200), w.left,
				len(w.commands))
		}
	}
	if w.left == 0 {
		for _, g := range r.groups {
			if g.joining != nil {
				close(g.joining)
			}
		}
	}
}

// firstError returns the error of the first group that has one.
func (r *groupRunner) firstError() error {
	var errs []error
	for _, g := range r.groups {
		errs = append(errs, g.err)
	}
	return cmp.Or(errs...)
}

// startAll starts workers at once, and returns those that started, and an error of the others.
func startAll(n int, start func(i int) (*worker.Client, error)) ([]kernels.Device, error) {
	devices, errs := make([]kernels.Device, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			d, err := start(i)
			if errs[i] = err; err == nil {
				devices[i] = d
			}
		})
	}
	wg.Wait()
	return slices.DeleteFunc(devices, func(d kernels.Device) bool { return d == nil }), cmp.Or(errs...)
}
