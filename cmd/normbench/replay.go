package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/kernels/replay"
	"normbench/report/export"
	"normbench/sweep/record"
)

// replayDevice is a device that serves recorded measurements: records, or a
// kernel_tuner cache that was exported from some. Those of another state of the cache than the flags ask
// for are left out.
func (e *env) replayDevice(c *cli.Context, path string) ([]kernels.Device, error) {
	if path == "" {
		return nil, hint.Errorf("write replay:RECORDS, such as replay:results/nvidia-h200", "replay: names no records")
	}
	if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
		data, err := replay.ReadMaybeGzip(path)
		if err != nil {
			return nil, err
		}
		if replay.IsFree(data) {
			return replayCache(c, path, data)
		}
	}
	set, notes, err := export.Load(path)
	if err != nil {
		return nil, err
	}
	defer set.Close()
	for _, n := range notes {
		e.notef("%s", n)
	}
	var ms []replay.Measurement
	var info kernels.DeviceInfo
	other := ""
	stale := map[string]bool{}
	var source func(string) string
	for p, err := range set.Problems() {
		if err != nil {
			return nil, err
		}
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
			if source(r.Family) != families.Translate(r.Source) && !stale[r.Family] {
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

func replayCache(c *cli.Context, path string, data []byte) ([]kernels.Device, error) {
	if !replay.IsOurs(data) {
		f, err := replay.ParseFree(path, data)
		if err != nil {
			return nil, err
		}
		return nil, errForeignCache(path, f)
	}
	f, err := replay.ParseCache(path, data)
	if err != nil {
		return nil, err
	}
	if state := cmp.Or(f.Cache, "cold"); state != asked(c) {
		return nil, errOtherState(c, path, state)
	}
	return replaying(c, f.Device, path, f.Entries)
}
