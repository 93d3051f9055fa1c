package tune

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"normbench/internal/console"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/replay"
	"normbench/sweep/search"
	"normbench/sweep/stats"
)

// Current are the entries of a protocol in a records file, problem by problem. Only records of
// today's code and of today's launch rules count.
func Current(f *record.File, r *kernels.Registry, info kernels.DeviceInfo,
	pr record.Protocol) iter.Seq[[]record.Entry] {
	id := families.NewIdentity(r, info.Kind)
	now := f.Latest(func(x *record.Entry) bool { return x.Run.Protocol == pr && IsCurrent(r, id, x) })
	return func(yield func([]record.Entry) bool) {
		for es := range now.ByProblem() {
			base, err := r.Base(es[0].Problem, info)
			if strings.HasPrefix(info.ID, replay.Prefix) && !slices.ContainsFunc(es,
				func(x record.Entry) bool { return x.Variant == base }) {
				if !yield(es) { // the recording lacks today's base, and the search had another
					return
				}
				continue
			}
			for i := range es {
				es[i].Base = err == nil && es[i].Variant == base
			}
			if !yield(es) {
				return
			}
		}
	}
}

// IsCurrent says whether an entry is of the code as it is.
func IsCurrent(r *kernels.Registry, id *families.Identity, x *record.Entry) bool {
	if x.Variant.Family == record.Stream {
		return true
	}
	code, err := sweep.Code(r, id, x.Problem, x.Variant, x.Run.Device)
	return err == nil && x.Is(code)
}

// History is what the records of a results folder know of the same kernels on the
// same kind of device, for searches to start from.
func History(f *record.File, info kernels.DeviceInfo, r *kernels.Registry) *search.History {
	h, best := &search.History{}, map[kernels.Problem]float64{}
	source := families.NewIdentity(r, info.Kind).SourceOf
	cold := func(x *record.Entry) bool { return x.Run.Protocol.Cold }
	for _, x := range slices.Concat(f.Latest(cold), f.SearchEntries(cold)) {
		if x.Status != kernels.StatusOK || x.StreamUS <= 0 || x.Run.Device.ID != info.ID ||
			x.Variant.Family == record.Stream || source(x.Variant.Family) != x.Source {
			continue
		}
		if time := x.Median / x.StreamUS; best[x.Problem] == 0 || time < best[x.Problem] {
			best[x.Problem] = time
			h.Found(x.Problem, x.Variant)
		}
	}
	return h
}

// Describe completes the table with what stands in no single entry. Notes are what a person should
// know of it.
func (t *Table) Describe() (notes []string) {
	var noise []float64
	unstable := 0
	for i := range t.Entries {
		x := &t.Entries[i]
		if x.Unstable {
			unstable++
		}
		if x.Noise > 0 {
			noise = append(noise, x.Noise)
		}
	}
	if len(noise) > 0 {
		t.Noise = math.Round(stats.Median(noise)*1e4) / 1e4
	}
	if unstable > 0 {
		notes = append(notes, fmt.Sprintf("%s give other bits from run to run; see \"unstable\" in %s",
			console.Count(unstable, "winner"), FileName))
	}
	return notes
}
