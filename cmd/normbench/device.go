package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/shlex"
	"github.com/urfave/cli/v2"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/cpu"
	"normbench/kernels/families"
	"normbench/kernels/manifest"
	"normbench/kernels/peers"
	"normbench/kernels/replay"
	"normbench/kernels/rule"
	"normbench/kernels/worker"
)

// devices opens what --device and --worker ask for. GPUs are driven by workers
// of this same program, one each; the cpu is driven in-process.
func (e *env) devices(m *machine) ([]kernels.Device, error) {
	devices, err := e.openDevices(m)
	if err == nil {
		if err = e.checkEffect(m, devices[0]); err != nil {
			closeAll(devices)
			return nil, err
		}
		if d := devices[0].Info(); d.Kind == kernels.KindCUDA {
			if step := families.Step(d); step.Near != rule.Own {
				e.Notef("no map of %s: its defaults are by %s; `normbench learn` makes its own", d.ID, step)
			}
		}
	}
	return devices, err
}

// checkEffect refuses flags that change nothing on the open device. Otherwise a person who gave one
// would believe that the result depends on it.
func (e *env) checkEffect(m *machine, dev kernels.Device) error {
	kind := ""
	switch dev.(type) {
	case *cpu.Device:
		kind = "the cpu, which no worker drives"
	case *replay.Device:
		kind = "a replay of recorded times"
	}
	if kind != "" && m.given["timeout"] {
		return hint.Errorf("leave it out; it bounds the steps of a worker", "--timeout has no effect on %s", kind)
	}
	if e.baseline == "" {
		return nil
	}
	if kind == "" && dev.Info().Kind == kernels.KindCPU {
		kind = "a cpu"
	}
	if kind != "" {
		return errNoSources(kind)
	}
	return nil
}

func errNoSources(device string) error {
	return hint.Errorf("use --device cuda", "--baseline-kernels has no effect on %s: it runs no CUDA sources", device)
}

func (e *env) openDevices(m *machine) ([]kernels.Device, error) {
	if path, ok := strings.CutPrefix(m.device, "replay:"); ok && len(m.workers) == 0 {
		defer e.measuring() // but not while it reads
		return e.replayDevice(m, path)
	}
	e.measuring()
	if len(m.workers) > 0 {
		if m.given["device"] {
			return nil, hint.Errorf("name the device in the worker's command", "--worker and --device exclude each other")
		}
		return e.workers(m.workers, m.timeout)
	}
	switch m.device {
	case "cpu":
		return e.cpus()
	case "auto":
		if !haveCUDA {
			return e.cpus()
		}
		d, err := e.cudaWorkers("cuda:0", m.timeout)
		if err != nil && e.ctx.Err() == nil {
			e.Notef("no GPU, using the cpu: %s", console.OneLine(err.Error()))
			return e.cpus()
		}
		return d, err
	}
	return e.cudaWorkers(m.device, m.timeout)
}

// cacheVariable sets the size of the cpu's last-level cache, in place of the one that cpu.New finds.
const cacheVariable = "NORMBENCH_CPU_CACHE"

// cpu is this machine's processor as a device.
func (e *env) cpu() (*cpu.Device, error) {
	d := cpu.New(e.registry)
	text := os.Getenv(cacheVariable)
	if text == "" {
		return d, nil
	}
	n := cpu.ParseSize(text)
	if n < 1<<20 {
		return nil, hint.Errorf("use a size of 1M or more, such as 32M", "%s is %q", cacheVariable, text)
	}
	return d.WithCache(n), nil
}

func (e *env) cpus() ([]kernels.Device, error) {
	d, err := e.cpu()
	if err != nil {
		return nil, err
	}
	return []kernels.Device{d}, nil
}

// cudaWorkers starts a worker of this program for each GPU named.
func (e *env) cudaWorkers(names string, timeout time.Duration) ([]kernels.Device, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var commands [][]string
	for _, name := range strings.Split(names, ",") {
		if _, err := ordinal(name); err != nil {
			return nil, err
		}
		if !haveCUDA {
			return nil, hint.Errorf("build it with `make cuda`, or use --device cpu", "this normbench was built without CUDA, so there is no device %q", name)
		}
		command := []string{self, "worker", "--device", name}
		if e.baseline != "" {
			command = append(command, "--baseline-kernels", e.baseline)
		}
		if e.kernels != "" {
			command = append(command, "--kernels", e.kernels)
		}
		commands = append(commands, command)
	}
	return e.start(commands, timeout)
}

// ordinal reads cuda or cuda:N.
func ordinal(name string) (int, error) {
	rest, ok := strings.CutPrefix(name, "cuda")
	if ok && rest == "" {
		return 0, nil
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(rest, ":")); ok && strings.HasPrefix(rest, ":") && err == nil && n >= 0 {
		return n, nil
	}
	return 0, hint.Errorf("use auto, cpu, cuda or cuda:N; `normbench list devices` shows what is there", "unknown device %q", name)
}

func (e *env) workers(commands []string, timeout time.Duration) ([]kernels.Device, error) {
	var split [][]string
	for _, text := range commands {
		words, err := shlex.Split(text)
		if err != nil || len(words) == 0 {
			return nil, hint.Errorf("quote it as for a shell: --worker 'ssh gpu1 normbench worker --device cuda:0'", "malformed worker command %q", text)
		}
		split = append(split, words)
	}
	return e.start(split, timeout)
}

func (e *env) start(commands [][]string, timeout time.Duration) ([]kernels.Device, error) {
	hash, err := families.Hash(peers.Register(e.registry, nil))
	if err != nil {
		return nil, err
	}
	var devices []kernels.Device
	for _, command := range commands {
		d, err := worker.Start(e.ctx, worker.Options{Command: command, Timeout: timeout, Stderr: &console.Plain{Writer: e.Err}, Unkept: func(text string) { e.Once(text) }, Kernels: hash})
		if err != nil {
			closeAll(devices)
			if hint.Of(err) == "" { // it died or spoke something else
				err = hint.Errorf("the command must run `normbench worker`", "worker %q: %w", strings.Join(command, " "), err)
			}
			return nil, err
		}
		devices = append(devices, d)
		if err := kernels.CheckID(d.Info().ID); err != nil {
			closeAll(devices)
			return nil, hint.With(fmt.Errorf("worker %q: %w", strings.Join(command, " "), err), "the command must run `normbench worker`")
		}
	}
	return devices, nil
}

func closeAll(devices []kernels.Device) {
	for _, d := range devices {
		d.Close()
	}
}

// useBaseline adds the kernels of --baseline-kernels to the registry.
func (e *env) useBaseline(c *cli.Context) error {
	dir := c.String("baseline-kernels")
	if dir == "" {
		return nil
	}
	var r *kernels.Registry
	var err error
	if manifests, _ := filepath.Glob(filepath.Join(dir, "*.yaml")); len(manifests) > 0 { // kernels of a user
		old, fs, bad := manifest.Load(families.New(), dir)
		if bad != nil {
			return bad
		}
		r, err = families.WithBaselineOf(e.registry, fs, old.File)
	} else {
		r, err = families.WithBaseline(e.registry, dir)
	}
	if err != nil {
		return err
	}
	e.registry, e.baseline = r, dir
	return nil
}

func (e *env) workerCommand() *cli.Command {
	return &cli.Command{
		Name:  "worker",
		Usage: "drive a device for another normbench, by JSON lines on standard input and output",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "device", Category: catWhere, Usage: "cpu, cuda or cuda:N", Value: "cuda"},
			&cli.StringFlag{Name: "baseline-kernels", Category: catWhat, Usage: "`FOLDER` of another checkout's kernels, or of an earlier --kernels, for compare"},
			kernelsFlag,
		},
		Action: func(c *cli.Context) error {
			if err := e.useBaseline(c); err != nil {
				return err
			}
			name, n := c.String("device"), 0
			var bad error
			if name != "cpu" {
				n, bad = ordinal(name)
			} else if e.baseline != "" {
				bad = errNoSources("the cpu")
			}
			// Ctrl-C is the parent's to act on: it ends the worker's input.
			signal.Ignore(os.Interrupt)
			e.measuring() // so is the end that a batch system announces to all processes
			hash, err := families.Hash(e.registry)
			if err != nil {
				return err
			}
			asked := false
			open := func() (d kernels.Device, err error) {
				asked = true
				switch {
				case bad != nil:
					return nil, bad
				case name == "cpu":
					d, err = e.cpu()
				default:
					d, err = openCUDA(e.registry, n)
				}
				bad = err
				return d, err
			}
			err = worker.Serve(context.Background(), &leash{Reader: e.stdin}, e.Raw, hash, open)
			switch {
			case err != nil:
				return err
			case !asked: // who asks nothing wants to know as much
				d, err := open()
				if err != nil {
					return err
				}
				return d.Close()
			case bad != nil:
				return &coded{code: exitTrouble} // it was the answer
			}
			return nil
		},
	}
}

// orphaned is how long a worker goes on with its request after its parent is gone.
const orphaned = 30 * time.Second

// A leash is a worker's standard input, read ahead: at its end the parent is gone, and a
// kernel that hangs must not outlive it for long.
type leash struct {
	io.Reader
	once sync.Once
}

func (l *leash) Read(b []byte) (int, error) {
	l.once.Do(func() {
		in, out := io.Pipe()
		from := l.Reader
		l.Reader = in
		go func() {
			_, err := io.Copy(out, from)
			time.AfterFunc(orphaned, func() { os.Exit(exitTrouble) })
			out.CloseWithError(err)
		}()
	})
	return l.Reader.Read(b)
}
