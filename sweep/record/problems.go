package record

import (
	"cmp"
	"maps"
	"slices"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/sweep/stats"
)

// ProblemRecords has the records of one problem on one device.
type ProblemRecords struct {
	Problem kernels.Problem
	Run     *Run      // of its first record
	Stream  []float64 // samples, microseconds
	Records []*Record
}

// ReadProblems reads records for an export or a replay, problem by problem in the order of all tables: of each
// variant the last record, that of the finals before that of a grid before what a search saw on its way. Of a
// stage they have the median, which is all that is exported. Records of several devices or of several versions
// of a family do not mix in one file of other tools, so they are an error.
func ReadProblems(path string) ([]*ProblemRecords, Notes, error) {
	l := problemReader{at: map[kernels.Problem]*ProblemRecords{}, places: map[slot]recordRank{}, sources: map[string]string{}}
	notes, err := Read(path, l.add)
	if err != nil {
		return nil, nil, err
	}
	ps := slices.SortedFunc(maps.Values(l.at),
		func(a, b *ProblemRecords) int { return CompareProblems(a.Problem, b.Problem) })
	ps = slices.DeleteFunc(ps, func(p *ProblemRecords) bool { return len(p.Records) == 0 })
	return ps, notes, nil
}

// A problemReader collects records.
type problemReader struct {
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

func (l *problemReader) add(r *Record, run *Run) error {
	l.device = cmp.Or(l.device, run.Device.ID)
	if run.Device.ID != l.device {
		return hint.Errorf("export the records of each device by themselves",
			"records of %s among those of %s", run.Device.ID, l.device)
	}
	if s, ok := l.sources[r.Family]; ok && s != r.Source && r.Family != Stream {
		return hint.Errorf("sweep into a new folder, and export that",
			"records of two versions of %s, %s and %s", r.Family, s, r.Source)
	}
	l.sources[r.Family] = r.Source
	p := l.at[r.Problem]
	if p == nil {
		p = &ProblemRecords{Problem: r.Problem, Run: run}
		l.at[r.Problem] = p
	}
	if r.Family == Stream {
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
	rank := map[string]int{PhaseSearch: 0, "": 1, PhaseFinal: 2}[run.Protocol.Phase]
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
