package lab

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/report/export"
	"normbench/sweep/record"
	"normbench/sweep/replay"
	"normbench/sweep/shapes"
)

// replay is a device that serves the measurements of records. Those of another state of the cache
// than is asked for are left out.
func (l *Lab) replay(c *OpenOptions, path string) ([]kernels.Device, error) {
	if path == "" {
		return nil, hint.Errorf("write replay:RECORDS, such as replay:results/nvidia-h200",
			"replay: names no records")
	}
	ps, notes, err := export.Load(path)
	if err != nil {
		return nil, err
	}
	l.NoteOnce(notes...)
	rs, info, other := l.replayRecords(ps, c.Cache, path)
	if len(rs) == 0 && other != "" {
		help := "add --" + other
		if other == "cold" {
			help = "leave --" + c.Cache + " out"
		}
		return nil, hint.Errorf(help, "%s has %s times, not %s ones, and a replay takes no others", path,
			other, c.Cache)
	}
	// The driver names the measurements by their hash: records of two recordings are not of one
	// device.
	h := sha256.New()
	for _, r := range rs {
		fmt.Fprintln(h, r.Problem, r.Variant(), r.Status, len(r.SamplesUS))
		binary.Write(h, binary.LittleEndian, r.SamplesUS) //nolint:errcheck // a hash takes all
	}
	driver, _, _ := strings.Cut(info.Driver, recordingMark) // of a replay of a replay
	info.Driver = strings.TrimSpace(fmt.Sprintf("%s%s%.6x", driver, recordingMark, h.Sum(nil)))
	d, err := replay.New(info, path, c.Seed, rs)
	if err != nil {
		return nil, err
	}
	return []kernels.Device{d}, nil
}

// replayRecords makes the records of problems in a state of the cache, with their device. other is another
// state that some were recorded in.
func (l *Lab) replayRecords(ps []*export.ProblemRecords, cache, path string) (rs []*record.Record,
	info kernels.DeviceInfo, other string) {
	var id *families.Identity
	for _, p := range ps {
		if state := p.Run.Protocol.Cache(); state != cache {
			other = state
			continue
		}
		if info = p.Run.Device; id == nil {
			id = families.NewIdentity(l.Registry, info.Kind)
		}
		if len(p.Stream) > 0 {
			rs = append(rs, &record.Record{Problem: p.Problem, Family: record.Stream,
				Status: kernels.StatusOK, SamplesUS: p.Stream})
		}
		for _, r := range p.Records {
			rs = append(rs, r)
			if id.SourceOf(r.Family) != r.Source {
				l.NoteOnce(r.Family + " has changed since it was recorded in " + path)
			}
		}
	}
	return rs, info, other
}

const recordingMark = " recording "

// ReplayProblems are those asked for, of which a replay must have one.
func ReplayProblems(sel *shapes.Selection, d *replay.Device, c *OpenOptions) ([]kernels.Problem, error) {
	all := d.Problems()
	slices.SortFunc(all, record.CompareProblems)
	fits, err := sel.Filter()
	if err != nil {
		return nil, err
	}
	ps := slices.DeleteFunc(slices.Clone(all), func(p kernels.Problem) bool { return !fits(p) })
	if sel.Shapes != "" || sel.Model != "" {
		if ps, err = sel.Problems(""); err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(ps, func(p kernels.Problem) bool { return slices.Contains(all, p) }) {
			ps = nil // else the others fail by name
		}
	}
	if len(ps) == 0 {
		return nil, hint.Errorf(fmt.Sprintf("leave the problem flags out to search all it has: "+
			"%s, such as %s",
			console.Count(len(all), "problem"), all[0]), "%s has none of these problems",
			strings.TrimPrefix(c.Device, "replay:"))
	}
	return ps, nil
}
