package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	"normbench/kernels"
	"normbench/kernels/cpu"
	"normbench/kernels/families"
	"normbench/kernels/worker"
	"normbench/lab"
)

func workerCommand() *command {
	var device, baseline = "cuda", ""
	c := &command{
		common:   &common{},
		path:     "worker",
		usage:    "drive a device for another normbench, by JSON lines on standard input and output",
		examples: "worker --device cuda:0\nworker --device cpu",
		run:      func(e *env) error { return work(e, device, baseline) },
	}
	c.add(catWhere, "device", &device, "cpu, cuda or cuda:N").offering("cpu", "cuda", "cuda:0")
	c.addBaseline(&baseline)
	c.addKernels()
	return c
}

func (c *command) addBaseline(to *string) {
	c.add(catWhat, "baseline-kernels", to, "`FOLDER` kernels/families of another checkout, or of "+
		"an earlier --kernels; BASE runs the CUDA sources there")
}

// work serves a device until its input ends.
func work(e *env, name, baseline string) error {
	if err := e.UseBaseline(baseline); err != nil {
		return err
	}
	n := 0
	var bad error
	if name != "cpu" {
		n, bad = lab.Ordinal(name)
	} else if e.Baseline != "" {
		bad = lab.NoSources("the cpu")
	}
	// Ctrl-C is the parent's to act on: it ends the worker's input.
	signal.Ignore(os.Interrupt)
	e.Started() // so is the end that a batch system announces to all processes
	hash, err := families.Hash(e.Registry)
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
			d, err = cpu.Open(e.Registry)
		default:
			d, err = lab.OpenGPU(e.Registry, n)
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
		return &exitError{code: exitTrouble} // it was the answer
	}
	return nil
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
