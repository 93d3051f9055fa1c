package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/replay"
	"normbench/report/export"
	"normbench/sweep/record"
	"normbench/sweep/shapes"
)

// replayDevice is a device that serves the measurements of records. Those of another state of the
// cache than the flags ask for are left out.
func (e *env) replayDevice(m *machine, path string) ([]kernels.Device, error) {
	if path == "" {
		return nil, hint.Errorf("write replay:RECORDS, such as replay:results/nvidia-h200", "replay: names no records")
	}
	ps, notes, err := export.Load(path)
	if err != nil {
		return nil, err
	}
	for _, n := range notes {
		e.Notef("%s", n)
	}
	var ms []replay.Measurement
	var info kernels.DeviceInfo
	other := ""
	stale := map[string]bool{}
	var source func(string) string
	for _, p := range ps {
		if state := p.Run.Protocol.Cache(); state != m.cache {
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
			x := replay.Measurement{Problem: p.Problem, Variant: r.Variant(), Status: r.Status, Reason: r.Reason, Check: r.Check, SamplesUS: r.SamplesUS}
			for _, s := range r.Stages {
				x.Stages = append(x.Stages, replay.Stage{Stage: s.Stage, SamplesUS: s.SamplesUS})
			}
			ms = append(ms, x)
			if source(r.Family) != r.Source && !stale[r.Family] {
				stale[r.Family] = true
				e.Notef("%s has changed since it was recorded in %s", r.Family, path)
			}
		}
	}
	if len(ms) == 0 && other != "" {
		return nil, errOtherState(m, path, other)
	}
	return replaying(m.seed, info, path, ms)
}

// replayProblems are those asked for, of which a replay of path must have one.
func replayProblems(sel *shapes.Selection, all []kernels.Problem, path string) ([]kernels.Problem, error) {
	slices.SortFunc(all, record.CompareProblems)
	fits, err := sel.Filter()
	if err != nil {
		return nil, err
	}
	ps := slices.DeleteFunc(slices.Clone(all), func(p kernels.Problem) bool { return !fits(p) })
	if sel.Shapes != "" {
		if ps, err = sel.Problems(""); err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(ps, func(p kernels.Problem) bool { return slices.Contains(all, p) }) {
			ps = nil // else the others fail by name
		}
	}
	if len(ps) == 0 {
		return nil, hint.Errorf(fmt.Sprintf("leave the problem flags out to search all it has: %s, such as %s",
			console.Count(len(all), "problem"), all[0]), "%s has none of these problems", path)
	}
	return ps, nil
}

func errOtherState(m *machine, path, has string) error {
	help := "add --" + has
	if has == "cold" {
		help = "leave --" + m.cache + " out"
	}
	return hint.Errorf(help, "%s has %s times, not %s ones, and a replay takes no others", path, has, m.cache)
}

// replaying is a device of measurements. Its driver names them by their hash: records of two recordings
// are not of one device.
func replaying(seed uint64, info kernels.DeviceInfo, path string, ms []replay.Measurement) ([]kernels.Device, error) {
	h := sha256.New()
	for i := range ms {
		m := &ms[i]
		fmt.Fprintln(h, m.Problem, m.Variant, m.Status, len(m.SamplesUS))
		binary.Write(h, binary.LittleEndian, m.SamplesUS) //nolint:errcheck // a hash takes all
	}
	driver, _, _ := strings.Cut(info.Driver, recordingMark) // of a replay of a replay
	info.Driver = strings.TrimSpace(fmt.Sprintf("%s%s%.6x", driver, recordingMark, h.Sum(nil)))
	d, err := replay.New(info, path, seed, ms)
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
