package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/replay"
	"normbench/report/export"
	"normbench/sweep/record"
)

// replayDevice is a device that serves the measurements of records. Those of another state of the
// cache than the flags ask for are left out.
func (e *env) replayDevice(c *cli.Context, path string) ([]kernels.Device, error) {
	if path == "" {
		return nil, hint.Errorf("write replay:RECORDS, such as replay:results/nvidia-h200", "replay: names no records")
	}
	ps, notes, err := export.Load(path)
	if err != nil {
		return nil, err
	}
	for _, n := range notes {
		e.notef("%s", n)
	}
	var ms []replay.Measurement
	var info kernels.DeviceInfo
	other := ""
	stale := map[string]bool{}
	var source func(string) string
	for _, p := range ps {
		if state := p.Run.Protocol.Cache(); state != asked(c) {
			other = state
			continue
		}
		if info = p.Run.Device; source == nil {
			source = sourcesOf(e.registry, info.Kind)
		}
		if len(p.Stream) > 0 {
			ms = append(ms, replay.Measurement{Problem: p.Problem, Variant: kernels.Variant{Family: record.Stream}, Status: kernels.StatusOK, SamplesUS: p.Stream})
		}
		for _, r := range p.Records {
			m := replay.Measurement{Problem: p.Problem, Variant: r.Variant(), Status: r.Status, Reason: r.Reason, Check: r.Check, SamplesUS: r.SamplesUS}
			for _, s := range r.Stages {
				m.Stages = append(m.Stages, replay.Stage{Stage: s.Stage, SamplesUS: s.SamplesUS})
			}
			ms = append(ms, m)
			if source(r.Family) != r.Source && !stale[r.Family] {
				stale[r.Family] = true
				e.notef("%s has changed since it was recorded in %s", r.Family, path)
			}
		}
	}
	if len(ms) == 0 && other != "" {
		return nil, errOtherState(c, path, other)
	}
	return replaying(c, info, path, ms)
}

// replayProblems are those of --shapes, of which d must have one; else all of d that fit the other
// problem flags.
func replayProblems(c *cli.Context, d *replay.Device, path string) ([]kernels.Problem, error) {
	all := d.Problems()
	slices.SortFunc(all, record.CompareProblems)
	var ps []kernels.Problem
	var err error
	if c.IsSet("shapes") {
		if ps, err = problems(c, d.Info()); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(ps, func(p kernels.Problem) bool { return slices.Contains(all, p) }) {
			return ps, nil // the others fail by name
		}
		ps = nil
	} else {
		for _, p := range all {
			if fitsFlags(c, p) {
				ps = append(ps, p)
			}
		}
	}
	if len(ps) == 0 {
		err = hint.Errorf(fmt.Sprintf("leave the problem flags out to search all it has: %s, such as %s", count(len(all), "problem"), all[0]), "%s has none of these problems", path)
	}
	return ps, err
}

// fitsFlags says whether p is of what the problem flags besides --shapes ask for.
func fitsFlags(c *cli.Context, p kernels.Problem) bool {
	quant := "none"
	for _, o := range kernels.Options() {
		if o.Flag == "quant" && o.Named(p) {
			quant = o.Name
		}
		if len(o.Values) == 0 && c.IsSet(o.Flag) && c.Bool(o.Flag) != o.Has(p) {
			return false
		}
	}
	for flag, v := range map[string]string{"op": string(p.Op), "pass": string(p.Pass), "dtype": p.DType.String(), "weight-dtype": p.Weight.String(), "quant": quant} {
		if c.IsSet(flag) && !slices.Contains(strings.Split(c.String(flag), ","), v) {
			return false
		}
	}
	bias := c.String("bias")
	return bias == "auto" || (bias == "yes") == p.Bias
}

// asked is the state of the cache that the flags ask for.
func asked(c *cli.Context) string {
	switch {
	case c.Bool("warm"):
		return "warm"
	case c.Bool("rotate"):
		return "rotate"
	}
	return "cold"
}

func errOtherState(c *cli.Context, path, has string) error {
	help := "add --" + has
	if has == "cold" {
		help = "leave --" + asked(c) + " out"
	}
	return hint.Errorf(help, "%s has %s times, not %s ones, and a replay takes no others", path, has, asked(c))
}

// replaying is a device of measurements. Its driver names them by their hash: records of two recordings
// are not of one device.
func replaying(c *cli.Context, info kernels.DeviceInfo, path string, ms []replay.Measurement) ([]kernels.Device, error) {
	h := sha256.New()
	for i := range ms {
		m := &ms[i]
		fmt.Fprintln(h, m.Problem, m.Variant, m.Status, len(m.SamplesUS))
		binary.Write(h, binary.LittleEndian, m.SamplesUS) //nolint:errcheck // a hash takes all
	}
	driver, _, _ := strings.Cut(info.Driver, recordingMark) // of a replay of a replay
	info.Driver = strings.TrimSpace(fmt.Sprintf("%s%s%.6x", driver, recordingMark, h.Sum(nil)))
	d, err := replay.New(info, path, c.Uint64("seed"), ms)
	if err != nil {
		return nil, err
	}
	return []kernels.Device{d}, nil
}

const recordingMark = " recording "

// checkRecording refuses to add to the records of a replay of something else: they would be taken for
// those of this recording.
func checkRecording(dev kernels.Device, out string) error {
	if _, replayed := dev.(*replay.Device); !replayed {
		return nil
	}
	dir := filepath.Join(out, dev.Info().ID)
	f, err := record.Load(dir)
	if err != nil {
		return nil //nolint:nilerr // there are none, or the writer says more
	}
	for _, r := range f.Runs {
		if r.Device.Driver != dev.Info().Driver {
			return hint.Errorf("give each recording a folder of its own by --out", "%s has a replay of another recording", dir)
		}
	}
	return nil
}
