// Package export writes records in the formats of other tools: kernel_tuner's
// cache, and Go's benchmark format, which benchstat reads.
package export

import (
	"bytes"
	"fmt"
	"iter"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

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

// CheckFormat says what is wrong with the name of a format, or nil.
func CheckFormat(f string) error {
	if f != KTCache && f != Benchfmt {
		return hint.Errorf("use kt-cache or benchfmt", "unknown export format %q", f)
	}
	return nil
}

// A Problem is all that is known of one problem on one device.
type Problem struct {
	Problem kernels.Problem
	Run     *record.Run // of its first record
	Stream  []float64   // samples, microseconds
	Records []*record.Record

	at       []record.Place // of Records, until they are read
	families []string       // of Records, in their order
	values   [][]int        // of each of Records, by kernels.Knobs
	tails    [][]byte       // of each of Records, its entry of kt behind the parameters
}

// A Set is an open records file, problem by problem: the records of one are read when it is its turn.
type Set struct {
	problems []*Problem
	lines    *record.Lines
}

// Close closes the file.
func (s *Set) Close() error { return s.lines.Close() }

// Problems goes through the problems with their records, in the order of all tables. An error ends it.
func (s *Set) Problems() iter.Seq2[*Problem, error] {
	return func(yield func(*Problem, error) bool) {
		for _, p := range s.problems {
			if p, err := s.whole(p); !yield(p, err) || err != nil {
				return
			}
		}
	}
}

// whole is a problem with its records. Of a stage, all formats have the median.
func (s *Set) whole(p *Problem) (*Problem, error) {
	rs, err := s.lines.Records(p.at)
	for _, r := range rs {
		if r.Check != nil {
			r.Check.Resources = nil // a replay has none either
		}
		for i := range r.Stages {
			r.Stages[i].SamplesUS = []float64{stats.Median(r.Stages[i].SamplesUS)}
		}
	}
	q := &Problem{Problem: p.Problem, Run: p.Run, Stream: p.Stream, Records: rs, values: make([][]int, len(rs))}
	for i, r := range rs {
		if err != nil {
			break
		}
		vs := slices.Repeat([]int{noKnob}, len(allKnobs))
		for _, s := range r.Config.Settings() {
			vs[place[s.Knob]] = s.Value
		}
		q.values[i] = vs
	}
	return q, err
}

// Load reads records for export: of each variant the last record, that of the
// finals before that of a grid before what a search saw on its way. Records of
// several devices or of several versions of a family do not mix in one file of
// those tools, so they are an error. The caller closes the Set.
func Load(path string) (*Set, record.Notes, error) {
	s := &Set{}
	at := map[kernels.Problem]*Problem{}
	type key struct {
		p *Problem
		v int
	}
	type seen struct{ place, phase int }
	type lean struct {
		problem kernels.Problem
		variant kernels.Variant
		source  string
		stream  []float64
	}
	variants := map[kernels.Variant]int{}
	places := map[key]seen{}
	sources := map[string]string{}
	device := ""
	lines, notes, err := record.Index(path, func(r *record.Record) lean {
		l := lean{problem: r.Problem, variant: r.Variant(), source: r.Source}
		if r.Family == record.Stream {
			l.stream = slices.Clone(r.SamplesUS)
		}
		return l
	}, func(r lean, place record.Place) error {
		run, family := place.Run, r.variant.Family
		if device == "" {
			device = run.Device.ID
		}
		if run.Device.ID != device {
			return hint.Errorf("export the records of each device by themselves", "records of %s among those of %s", run.Device.ID, device)
		}
		if s, ok := sources[family]; ok && s != r.source && family != record.Stream {
			return hint.Errorf("sweep into a new folder, and export that", "records of two versions of %s, %s and %s", family, s, r.source)
		}
		sources[family] = r.source
		p := at[r.problem]
		if p == nil {
			p = &Problem{Problem: r.problem, Run: run}
			at[r.problem] = p
			s.problems = append(s.problems, p)
		}
		if family == record.Stream {
			p.Stream = r.stream
			return nil
		}
		v, ok := variants[r.variant]
		if !ok {
			v = len(variants)
			variants[r.variant] = v
		}
		k := key{p, v}
		rank := map[string]int{record.PhaseSearch: 0, "": 1, record.PhaseFinal: 2}[run.Protocol.Phase]
		old, ok := places[k]
		switch {
		case !ok:
			places[k] = seen{len(p.at), rank}
			p.families = add(p.families, family)
			p.at = append(p.at, place)
		case rank >= old.phase:
			places[k] = seen{old.place, rank}
			p.at[old.place] = place
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	s.lines = lines
	s.problems = slices.DeleteFunc(s.problems, func(p *Problem) bool { return len(p.at) == 0 })
	slices.SortFunc(s.problems, func(a, b *Problem) int { return record.CompareProblems(a.Problem, b.Problem) })
	return s, notes, nil
}

var (
	allKnobs = kernels.Knobs()
	place    = map[*kernels.Knob]int{} // in allKnobs
)

func init() {
	for i, k := range allKnobs {
		place[k] = i
	}
}

// knobs are the places of those that any of the problem's configs sets, in label order.
func (p *Problem) knobs() (ks []int) {
	for k := range allKnobs {
		if slices.ContainsFunc(p.values, func(vs []int) bool { return vs[k] != noKnob }) {
			ks = append(ks, k)
		}
	}
	return ks
}

// Folder names a problem's folder in lower case, as the tools around kernel_tuner look for it:
// rmsnorm_bwd_bf16_4096x8192.
func Folder(p kernels.Problem) string {
	parts := strings.SplitN(p.String(), "/", 4)
	return strings.ToLower(fmt.Sprintf("%s_%s_%s_%s", parts[0], parts[1], parts[3], parts[2]))
}

// WriteFiles writes caches of kernel_tuner: one file per problem, as OUT/problem/device.json, and one per family
// of a problem that has several, as OUT/problem_family/device.json, each whole or not at
// all, and returns how many.
func WriteFiles(out string, set *Set) (int, error) {
	for _, p := range set.problems { // before the first file is written
		for _, f := range p.families {
			if err := kernels.CheckName(fileName(f)); err != nil && len(p.families) > 1 {
				return 0, hint.Errorf("rename it in the manifest, and measure again: its files are named after it", "family %.120q %w", f, err)
			}
		}
	}
	var n atomic.Int64
	one := func(p *Problem, dir string) error {
		data, name := kt(p), p.Run.Device.ID+".json"
		err := durable.MakeFolder(out, dir) // of names that come from a file
		if err == nil {
			err = durable.Place{Root: out, Name: filepath.Join(dir, name), Unsynced: true}.WriteFrom(bytes.NewReader(data))
		}
		if err != nil {
			return hint.Errorf(durable.Help(err), "export to %s: %w", filepath.Join(out, dir), durable.Cause(err))
		}
		n.Add(1)
		return nil
	}
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, p := range set.problems {
		g.Go(func() error {
			p, err := set.whole(p)
			if err == nil {
				err = one(p, Folder(p.Problem))
			}
			if err != nil {
				return err
			}
			if families := p.byFamily(); len(families) > 1 {
				for _, f := range families {
					if err == nil {
						err = one(f, Folder(p.Problem)+"_"+fileName(f.Records[0].Family))
					}
				}
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	return int(n.Load()), nil
}

// fileName names the files of a family.
func fileName(family string) string { return strings.ToLower(strings.ReplaceAll(family, "/", "_")) }
