// Package export writes records in the formats of other tools: kernel_tuner's
// cache, and Go's benchmark format, which benchstat reads.
package export

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/sweep/record"
	"normbench/sweep/stats"
)

// The formats.
const (
	KTCache  = "kt-cache"
	Benchfmt = "benchfmt"
)

// ProblemRecords has the records of one problem on one device.
type ProblemRecords struct {
	Problem kernels.Problem
	Run     *record.Run // of its first record
	Stream  []float64   // samples, microseconds
	Records []*record.Record
}

// Load reads records for export, problem by problem in the order of all tables: of each variant
// the last record, that of the finals before that of a grid before what a search saw on its way.
// Of a stage they have the median, which is all that is exported. Records of several devices or
// of several versions of a family do not mix in one file of those tools, so they are an error.
func Load(path string) ([]*ProblemRecords, record.Notes, error) {
	l := loader{at: map[kernels.Problem]*ProblemRecords{}, places: map[slot]recordRank{}, sources: map[string]string{}}
	notes, err := record.Read(path, l.add)
	if err != nil {
		return nil, nil, err
	}
	ps := slices.SortedFunc(maps.Values(l.at),
		func(a, b *ProblemRecords) int { return record.CompareProblems(a.Problem, b.Problem) })
	ps = slices.DeleteFunc(ps, func(p *ProblemRecords) bool { return len(p.Records) == 0 })
	return ps, notes, nil
}

// A loader collects records.
type loader struct {
	device  string
	at      map[kernels.Problem]*ProblemRecords
	places  map[slot]recordRank
	sources map[string]string // by family
}

type slot struct {
	kernels.Problem
	kernels.Variant
}

// A recordRank is where the record of a variant stands among its problem's, and its phase's rank.
type recordRank struct{ index, rank int }

func (l *loader) add(r *record.Record, run *record.Run) error {
	l.device = cmp.Or(l.device, run.Device.ID)
	if run.Device.ID != l.device {
		return hint.Errorf("export the records of each device by themselves",
			"records of %s among those of %s", run.Device.ID, l.device)
	}
	if s, ok := l.sources[r.Family]; ok && s != r.Source && r.Family != record.Stream {
		return hint.Errorf("sweep into a new folder, and export that",
			"records of two versions of %s, %s and %s", r.Family, s, r.Source)
	}
	l.sources[r.Family] = r.Source
	p := l.at[r.Problem]
	if p == nil {
		p = &ProblemRecords{Problem: r.Problem, Run: run}
		l.at[r.Problem] = p
	}
	if r.Family == record.Stream {
		p.Stream = r.SamplesUS
		return nil
	}
	for i, s := range r.Stages {
		r.Stages[i].SamplesUS = []float64{stats.Median(s.SamplesUS)}
	}
	if r.Check != nil {
		r.Check.Resources = nil // a replay has none either
	}
	k := slot{r.Problem, r.Variant()}
	rank := map[string]int{record.PhaseSearch: 0, "": 1, record.PhaseFinal: 2}[run.Protocol.Phase]
	old, ok := l.places[k]
	switch {
	case !ok:
		l.places[k] = recordRank{len(p.Records), rank}
		p.Records = append(p.Records, r)
	case rank >= old.rank:
		l.places[k] = recordRank{old.index, rank}
		p.Records[old.index] = r
	}
	return nil
}

// knobs are those that any of the problem's configs sets, in label order.
func (p *ProblemRecords) knobs() (ks []*kernels.Knob) {
	for _, k := range kernels.Knobs() {
		has := func(r *record.Record) bool { _, ok := r.Config.Lookup(k); return ok }
		if slices.ContainsFunc(p.Records, has) {
			ks = append(ks, k)
		}
	}
	return ks
}

// value is that of a knob in a record, or noKnob.
func (p *ProblemRecords) value(i int, k *kernels.Knob) int {
	if v, ok := p.Records[i].Config.Lookup(k); ok {
		return v
	}
	return noKnob
}

// Folder names a problem's folder in lower case, as the tools around kernel_tuner look for it:
// rmsnorm_bwd_bf16_4096x8192.
func Folder(p kernels.Problem) string {
	parts := strings.SplitN(p.String(), "/", 4)
	return strings.ToLower(fmt.Sprintf("%s_%s_%s_%s", parts[0], parts[1], parts[3], parts[2]))
}

// WriteFiles writes caches of kernel_tuner: one file per problem, as OUT/problem/device.json, each
// whole or not at all, and returns how many.
func WriteFiles(out string, ps []*ProblemRecords) (int, error) {
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, p := range ps {
		g.Go(func() error {
			dir := Folder(p.Problem)
			err := durable.MakeFolder(out, dir) // of names that come from a file
			if err == nil {
				at := durable.Place{Root: out, Name: filepath.Join(dir, p.Run.Device.ID+".json"),
					Unsynced: true}
				err = at.WriteFrom(bytes.NewReader(kt(p)))
			}
			if err != nil {
				return hint.Errorf(durable.Help(err), "export to %s: %w", filepath.Join(out, dir),
					durable.Cause(err))
			}
			return nil
		})
	}
	return len(ps), g.Wait()
}
