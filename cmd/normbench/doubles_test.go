package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/devices/worker"
)

// fakeWorker serves an H200 on which small problems are read faster from the cache, and the ruler's
// kernels take their time, if its argument is "fit". Problems of 1000 rows never end; where it is
// "endless", none does. With "ab" configs of cta_reg with some numbers of warps are slower, faster,
// noisy, wrong or fail; with "wrong" those of one are wrong, too. With "state" its sensors say that
// no time is to be trusted, with "unkept" it says that its cubins do not stay.
func fakeWorker() {
	how := strings.Join(os.Args[1:], " ")
	rulers := map[string]float64{"rms_fwd/empty": 2e-6, "rms_fwd/pair": 4e-6, "rms_fwd/spin": 202e-6,
		"rms_fwd/kept": 8e-6}
	ab := how == "ab" || how == "wrong" || how == "regressed" || how == "noisy" // times that say which config is which
	// of the base, whatever the map has, none count, nor of problems of selftest, which have 4096 columns
	warps := func(p kernels.Problem, v kernels.Variant) int {
		if !ab || p.N == 4096 || v.Family != "rms_fwd/cta_reg" {
			return 0
		}
		return v.Config.Get(kernels.Warps)
	}
	fails := map[int]kernels.Status{8: kernels.StatusWrong, 32: kernels.StatusLaunch}
	if how == "wrong" {
		fails[1] = kernels.StatusWrong
	}
	f := &devicetest.Fake{Seconds: func(p kernels.Problem, v kernels.Variant, sample int) float64 {
		if p.M == 1000 || how == "endless" {
			fmt.Fprintln(os.Stderr, "no end")
			time.Sleep(time.Hour)
		}
		if s := rulers[v.Family]; s > 0 && (!ab || p.N == 4096) {
			return s
		} else if !ab || p.N == 4096 {
			return devicetest.Typical(p, v, sample)
		}
		slower := map[int]float64{1: 1.05, 2: 0.95, // slower and faster
			16: 1 + 0.4*(float64(sample*104729%97)/96-0.5)} // noisy
		if how == "noisy" {
			slower[0] = slower[16]
		}
		if how == "regressed" && v.Family == "rms_warp" { // and not what it was in another checkout
			slower[0] = 1.05
		}
		return 50e-6 * (1 + 0.004*float64(sample*7919%101-50)/50) * cmp.Or(slower[warps(p, v)], 1)
	}, Fail: func(p kernels.Problem, v kernels.Variant) *kernels.Failure {
		if status := fails[warps(p, v)]; status != "" {
			return kernels.Failf(status, "as asked")
		}
		return nil
	}}
	if how == "fit" || ab {
		f.Warm = 0.65
	}
	var dev kernels.Device = f
	switch how {
	case "victim": // its ID leads out of the folder of results
		f.DeviceInfo = devicetest.H200()
		f.DeviceInfo.ID = "../../victim"
	case "state":
		dev = &devicetest.SensorFake{Fake: f, Reading: func(int) kernels.Reading {
			return kernels.Reading{MaxClockMHz: 1980, Confidential: true}
		}}
	case "unkept":
		dev = compiling{f}
	}
	serve(os.Stdin, os.Stdout, func(time.Duration) (kernels.Device, error) { return dev, nil })
}

// serve is a worker of a device.
func serve(in io.Reader, out io.Writer, open func(time.Duration) (kernels.Device, error)) {
	if err := worker.Serve(context.Background(), in, out, worker.Program{}, open); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitTrouble)
	}
}

// evenDevice takes for each variant of a problem always the same time, so that each record
// can be told right from wrong. Its memory has a peak rate.
func evenDevice() kernels.Device {
	d := devicetest.CPU()
	d.PeakRate = 4.8e12
	return &devicetest.Fake{DeviceInfo: d,
		Seconds: func(p kernels.Problem, v kernels.Variant, _ int) float64 { return evenSeconds(p, v) }}
}

func evenSeconds(p kernels.Problem, v kernels.Variant) float64 { return devicetest.Typical(p, v, 0) }

// faultyWorker serves an evenDevice and misbehaves: FAULT STEP N MARK has it do the fault
// in the N-th request of a step and after; with a MARK only once, of which that file keeps note.
func faultyWorker() {
	honest := func(in io.Reader, out io.Writer) {
		serve(in, out, func(time.Duration) (kernels.Device, error) { return evenDevice(), nil })
	}
	if len(os.Args) == 1 {
		honest(os.Stdin, os.Stdout)
		return
	}
	n, _ := strconv.Atoi(os.Args[3])
	p, _ := strconv.ParseFloat(strings.TrimPrefix(os.Args[3], "p"), 64)
	asked := 0
	devicetest.Misbehave(os.Stdin, os.Stdout, honest, os.Args[1], func(step string) bool {
		switch nth, every := strings.CutPrefix(os.Args[3], "/"); {
		case step != os.Args[2] && (os.Args[2] != "any" || step == "hello" || step == "prefetch"):
			return false
		case every:
			asked++
			return asked%len(nth) == 0
		case strings.HasPrefix(os.Args[3], "p"):
			return rand.Float64() < p
		}
		if n--; n > 0 {
			return false
		}
		if len(os.Args) > 4 {
			f, err := os.OpenFile(os.Args[4], os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return false
			}
			f.Close()
		}
		return true
	})
}

// compiling is a device whose cache folder cannot be written.
type compiling struct{ *devicetest.Fake }

func (compiling) CacheWarning() string { return "cubins are not kept in /full: as asked" }

// withPeers is a device that has peers.
type withPeers struct {
	*devicetest.Fake
	peers []kernels.Peer
}

func (w withPeers) Peers() []kernels.Peer { return w.peers }

// fakePython takes 30 us for compile-max, 40 for liger and 61 for torch; compile
// answers wrong, te raises, quack is not there. Where NORMBENCH_TEST_PEERS is
// "none" no peer is; where it is "no torch", PyTorch is not; where it is "crash", te
// crashes, and where it is "close", torch takes 41 us.
func fakePython() {
	d := withPeers{&devicetest.Fake{}, []kernels.Peer{
		{Name: "torch", System: "PyTorch eager", Version: "torch 9.9"},
		{Name: "compile", System: "torch.compile", Version: "torch 9.9", Builds: "compiles"},
		{Name: "compile-max", System: "torch.compile, tuned", Version: "torch 9.9",
			Builds: "tunes"},
		{Name: "liger", System: "Liger-Kernel", Version: "liger-kernel 9.9", Builds: "compiles"},
		{Name: "quack", System: "quack", Missing: "ModuleNotFoundError: No module named 'quack'"},
		{Name: "te", System: "TransformerEngine", Version: "transformer-engine 9.9",
			Builds: "compiles"},
	}}
	for i, arg := range os.Args[1:] {
		if arg == "--peer" && strings.HasPrefix(os.Args[i+2], kernels.Callable) {
			d.peers = append(d.peers, kernels.Peer{Name: os.Args[i+2], System: "mine",
				Version: "source 1"})
		}
	}
	if os.Getenv("NORMBENCH_TEST_PEERS") == "none" {
		for i := range d.peers {
			d.peers[i].Version, d.peers[i].Missing = "", "ImportError: as asked"
		}
	}
	d.Seconds = func(_ kernels.Problem, v kernels.Variant, sample int) float64 {
		us := map[string]float64{"peer/torch": 61e-6, "peer/liger": 40e-6,
			"peer/compile-max": 30e-6, "py:my.py:norm": 35e-6}[v.Family]
		if os.Getenv("NORMBENCH_TEST_PEERS") == "close" && v.Family == "peer/torch" {
			us = 41e-6
		}
		return us * (1 + 0.004*float64(sample*7919%101-50)/50)
	}
	d.Fail = func(p kernels.Problem, v kernels.Variant) *kernels.Failure {
		switch {
		case v.Family == "peer/compile", v.Family == "py:my.py:rounded":
			return kernels.Failf(kernels.StatusWrong, "y is wrong")
		case v.Family == "peer/te" && os.Getenv("NORMBENCH_TEST_PEERS") == "no gpu":
			return kernels.Failf(kernels.StatusUnfit, "it needs a GPU: it raised RuntimeError: 0 active drivers")
		case v.Family == "peer/te" && os.Getenv("NORMBENCH_TEST_PEERS") == "crash":
			os.Exit(3)
		case v.Family == "peer/te":
			return kernels.Failf(kernels.StatusLaunch, "it raised ValueError: as asked")
		case p.Residual:
			return kernels.Failf(kernels.StatusRefused, "it has no residual")
		}
		return nil
	}
	serve(os.Stdin, os.Stdout, func(time.Duration) (kernels.Device, error) {
		if os.Getenv("NORMBENCH_TEST_PEERS") == "no torch" {
			return nil, hint.Errorf("install PyTorch there", "fake-python has no torch: as asked")
		}
		return d, nil
	})
}
