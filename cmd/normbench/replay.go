package main

import (
	"os"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/kernels/replay"
	"normbench/report/export"
	"normbench/sweep/record"
)

// replayDevice is a device that serves recorded measurements: records, or a
// kernel_tuner cache that was exported from some.
func (e *env) replayDevice(path string, seed uint64) ([]kernels.Device, error) {
	if path == "" {
		return nil, hint.Errorf("write replay:RECORDS, such as replay:results/nvidia-h200", "replay: names no records")
	}
	if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
		data, err := replay.ReadMaybeGzip(path)
		if err != nil {
			return nil, err
		}
		if replay.IsFree(data) {
			return replayCache(path, data, seed)
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
	stale := map[string]bool{}
	var source func(string) string
	for p, err := range set.Problems() {
		if err != nil {
			return nil, err
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
			if source(r.Family) != families.FromSchema1(r.Source) && !stale[r.Family] {
				stale[r.Family] = true
				e.notef("%s has changed since it was recorded in %s", r.Family, path)
			}
		}
	}
	d, err := replay.New(info, path, seed, ms)
	if err != nil {
		return nil, err
	}
	return []kernels.Device{d}, nil
}

func replayCache(path string, data []byte, seed uint64) ([]kernels.Device, error) {
	if !replay.IsOurs(data) {
		f, err := replay.ParseFree(path, data)
		if err != nil {
			return nil, err
		}
		return nil, errForeignCache(path, f)
	}
	c, err := replay.ParseCache(path, data)
	if err != nil {
		return nil, err
	}
	d, err := replay.New(c.Device, path, seed, c.Entries)
	if err != nil {
		return nil, err
	}
	return []kernels.Device{d}, nil
}
