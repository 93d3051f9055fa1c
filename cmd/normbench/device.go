package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"normbench/kernels"
	"normbench/kernels/devices/cpu"
	"normbench/kernels/devices/local"
	"normbench/kernels/devices/worker"
	"normbench/kernels/families"
	"normbench/lab"
)

func workerCommand(e *env) *cli.Command {
	x := &commonFlags{hosts: true}
	var device, baseline string
	return e.command(&cli.Command{
		Name:   "worker",
		Hidden: true, // --worker starts it
		Usage:  "drive a device for another normbench, by JSON lines on standard input and output",
		Flags: []cli.Flag{
			&cli.StringFlag{Destination: &device, Name: "device", Category: catWhere,
				Usage: "cpu, cuda or cuda:N", Value: "cuda"},
			baselineFlag(&baseline),
			x.kernelsFlag(),
		},
	}, x, func() error { return work(e, device, baseline) })
}

func baselineFlag(to *string) cli.Flag {
	return &cli.StringFlag{Destination: to, Name: "baseline-kernels", Category: catWhat,
		Usage: "`FOLDER` kernels/families of another checkout, or of an earlier --kernels; A runs " +
			"the kernels there, as the manifests there launch them"}
}

// work serves a device until its input ends.
func work(e *env, name, baseline string) error {
	n := 0
	var bad error
	switch {
	case name == "cpu" && baseline != "":
		bad = lab.NoSources("the cpu")
	case name == "cpu":
	default:
		if err := e.UseBaseline(baseline); err != nil {
			return err
		}
		n, bad = local.Ordinal(name)
	}
	// Ctrl-C is the parent's to act on: it ends the worker's input.
	signal.Ignore(os.Interrupt)
	e.Started() // so is the end that a batch system announces to all processes
	hash, err := families.Hash(e.Registry)
	if err != nil {
		return err
	}
	asked := false
	open := func(step time.Duration) (d kernels.Device, err error) {
		asked = true
		switch {
		case bad != nil:
			return nil, bad
		case name == "cpu":
			d, err = cpu.Open(e.Registry)
		default:
			d, err = local.OpenGPU(e.Registry, n, step, lab.Helper()...)
		}
		bad = err
		return d, err
	}
	err = worker.Serve(context.Background(), &orphanGuard{Reader: e.stdin}, e.Raw, worker.Program{Version: e.Tool, Kernels: hash},
		open)
	switch {
	case err != nil:
		return err
	case !asked: // who asks nothing wants to know as much
		d, err := open(0)
		if err != nil {
			return err
		}
		return d.Close()
	case bad != nil:
		return lab.Exit(exitTrouble, nil) // it was the answer
	}
	return nil
}

// orphaned is how long a worker goes on with its request after its parent is gone.
const orphaned = 30 * time.Second

// An orphanGuard reads a worker's standard input ahead. At its end the parent is gone, and a kernel that
// hangs must not outlive it for long: the guard ends the process after orphaned.
type orphanGuard struct {
	io.Reader
	once sync.Once
}

func (l *orphanGuard) Read(b []byte) (int, error) {
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
