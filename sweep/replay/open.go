package replay

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/sweep/record"
)

// Open opens the device that serves the measurements of a records file, with a seed. Those of another state of the
// cache than is asked for are left out. note is told what was not read, and which families of r have changed since.
func Open(r *kernels.Registry, path, cache string, seed uint64, note func(...string)) (*Device, error) {
	if path == "" {
		return nil, hint.Errorf("write replay:RECORDS, such as replay:results/nvidia-h200",
			"replay: names no records")
	}
	ps, notes, err := record.ReadProblems(path)
	if err != nil {
		return nil, err
	}
	note(notes...)
	var rs []*record.Record
	var info kernels.DeviceInfo
	var id *families.Identity
	other := "" // state that some were recorded in
	for _, p := range ps {
		if state := p.Run.Protocol.Cache(); state != cache {
			other = state
			continue
		}
		if info = p.Run.Device; id == nil {
			id = families.NewIdentity(r, info.Kind)
		}
		if len(p.Stream) > 0 {
			rs = append(rs, &record.Record{Problem: p.Problem, Family: record.Stream,
				Status: kernels.StatusOK, SamplesUS: p.Stream})
		}
		for _, x := range p.Records {
			rs = append(rs, x)
			if id.SourceOf(x.Family) != x.Source {
				note(x.Family + " has changed since it was recorded in " + path)
			}
		}
	}
	if len(rs) == 0 && other != "" {
		help := "add --" + other
		if other == "cold" {
			help = "leave --" + cache + " out"
		}
		return nil, hint.Errorf(help, "%s has %s times, not %s ones, and a replay takes no others", path, other, cache)
	}
	driver, _, _ := strings.Cut(info.Driver, recordingMark) // of a replay of a replay
	info.Driver = strings.TrimSpace(fmt.Sprintf("%s%s%.6x", driver, recordingMark, hash(rs)))
	return New(info, path, seed, rs)
}

const recordingMark = " recording "

// hash returns a hash of measurements, by which the driver names them: records of two recordings are not of one device.
func hash(rs []*record.Record) []byte {
	h := sha256.New()
	for _, r := range rs {
		fmt.Fprintln(h, r.Problem, r.Variant(), r.Status, len(r.SamplesUS))
		binary.Write(h, binary.LittleEndian, r.SamplesUS) //nolint:errcheck // a hash takes all
	}
	return h.Sum(nil)
}
