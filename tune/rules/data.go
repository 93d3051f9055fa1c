package rules

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/sweep/record"
	"normbench/sweep/stats"
)

// Data is what rules are fitted to: the medians of a sweep.
type Data struct {
	Device   kernels.DeviceInfo
	Protocol record.Protocol
	Tool     string            // the normbench that measured
	Date     time.Time         // of the last record
	Sources  map[string]string // hash of each family's sources
	Shapes   []Shape           // in the order of record.CompareProblems
	Notes    []string          // what a reader should know, one line each
	Runs     []*record.Run     // that measured, in the order of the records
}

// A Shape is one problem with the time of each variant that is right on it.
type Shape struct {
	Problem kernels.Problem
	Base    kernels.Variant // what runs before any tuning
	BaseUS  float64         // its median time
	BestUS  float64         // the least median time of all
	Best    kernels.Variant
	US      map[kernels.Variant]float64 // median times
	Failed  map[kernels.Variant]bool    // tried, without a right answer; nil where there is none
	Stream  float64                     // median time of the stream; 0 where none was measured
	Fresh   bool                        // learn drew it at random: nothing that was known chose it
	Asked   kernels.Variant             // what the rules of that time answered, where learn measured it
	When    time.Time                   // of its latest record
}

// ErrNoDefault says that records have nothing to compare with.
var ErrNoDefault = errors.New("no problem with a time of its default")

// Collect reads records files and keeps one median per problem and variant, the
// last where there are several. Several devices, or several sources of one
// family, are an error: their times do not compare.
//
// It holds some 60 bytes per variant and problem, whatever the samples are.
func Collect(paths []string) (*Data, error) {
	return CollectIf(paths, func(*record.Record) bool { return true })
}

// The strategies under which learn's records stand: what it chose to measure, and what it drew at random.
const (
	Learned      = "learn"
	LearnedFresh = "learn fresh"
)

// CollectIf is Collect of the records that keep wants.
func CollectIf(paths []string, keep func(*record.Record) bool) (*Data, error) {
	c := collector{
		at:       map[cell]int32{},
		problems: map[kernels.Problem]uint32{}, variants: map[kernels.Variant]uint32{}, sources: map[string]uint32{}, told: map[uint32]told{},
	}
	for _, path := range paths {
		notes, err := record.Read(path, func(r *record.Record, run *record.Run) error {
			if r.Family != record.Stream && !keep(r) {
				return nil
			}
			return c.add(path, r, run)
		})
		if err != nil {
			return nil, err
		}
		c.data.Notes = append(c.data.Notes, notes...)
	}
	return c.finish(paths)
}

// A cell names a measurement by the numbers of its problem and its variant.
type cell struct{ problem, variant uint32 }

type measurement struct {
	cell
	us     float64 // 0 where it failed
	tried  bool
	source uint32
	base   bool
	warm   bool
}

// A told is what records say of a problem beside its variants' times.
type told struct {
	stream float64
	fresh  bool
	asked  kernels.Variant
	when   time.Time
}

type collector struct {
	data     Data
	first    string // path that the device is of
	at       map[cell]int32
	all      []measurement
	problems map[kernels.Problem]uint32
	variants map[kernels.Variant]uint32
	sources  map[string]uint32
	told     map[uint32]told // by the number of the problem
	compiled map[string]bool // driver and compiler
}

// number gives each distinct key the next number.
func number[K comparable](m map[K]uint32, k K) uint32 {
	n, ok := m[k]
	if !ok {
		n = uint32(len(m))
		m[k] = n
	}
	return n
}

func (c *collector) add(path string, r *record.Record, run *record.Run) error {
	d := run.Device
	if n := len(c.data.Runs); (n == 0 || c.data.Runs[n-1] != run) && !slices.ContainsFunc(c.data.Runs, func(x *record.Run) bool { return x.ID == run.ID }) {
		c.data.Runs = append(c.data.Runs, run)
	}
	switch have := c.data.Device; {
	case c.first == "":
		c.first, c.data.Device = path, d
		c.compiled = map[string]bool{}
	case have.ID != d.ID || have.Arch != d.Arch || have.SMs != d.SMs:
		return hint.Errorf("fit the rules of one device at a time", "records of %s and of %s, which do not compare", describe(have), describe(d))
	}
	// The last in the file, whatever the clock said.
	c.data.Date, c.data.Tool, c.data.Protocol, c.data.Device = r.Time, run.Tool, run.Protocol, d
	if r.Family == record.Stream {
		return nil
	}
	if _, peer := kernels.PeerName(r.Family); peer {
		return nil // measured beside ours; no rule of ours can launch it
	}
	c.compiled[d.Driver+", "+d.Compiler] = true
	k := cell{number(c.problems, r.Problem), number(c.variants, r.Variant())}
	// A search prunes what it did not try, and a refusal is the space's.
	m := measurement{cell: k, source: number(c.sources, families.Translate(r.Source)), base: r.Base, tried: r.Status != record.StatusPruned && r.Status != kernels.StatusUnfit}
	if r.Status == kernels.StatusOK {
		m.us = stats.Median(r.SamplesUS)
	}
	m.warm = !run.Protocol.Cold
	at := c.told[k.problem]
	if r.Time.After(at.when) {
		at.when = r.Time
	}
	if !m.warm {
		if r.StreamUS > 0 {
			at.stream = r.StreamUS
		}
		if learned := strings.HasPrefix(run.Protocol.Search, Learned); learned && r.Base && at.asked.Family == "" {
			at.fresh, at.asked = run.Protocol.Search == LearnedFresh, r.Variant()
		}
	}
	c.told[k.problem] = at
	if i, ok := c.at[k]; ok {
		if !m.warm || c.all[i].warm { // warm times are for comparison only
			c.all[i] = m
		}
		return nil
	}
	c.at[k] = int32(len(c.all))
	c.all = append(c.all, m)
	return nil
}

func describe(d kernels.DeviceInfo) string {
	return fmt.Sprintf("%s (%s, %d SMs)", d.ID, d.Arch, d.SMs)
}

// finish sorts what was read, so that the order of the records does not matter.
func (c *collector) finish(paths []string) (*Data, error) {
	c.at = nil
	d := &c.data
	problems, variants, sources := byNumber(c.problems), byNumber(c.variants), byNumber(c.sources)
	d.Sources = map[string]string{}
	shapes := make([]Shape, len(problems))
	for i, p := range problems {
		at := c.told[uint32(i)]
		shapes[i] = Shape{Problem: p, US: map[kernels.Variant]float64{}, Stream: at.stream, Fresh: at.fresh, Asked: at.asked, When: at.when}
	}
	for _, m := range c.all {
		v, s := variants[m.variant], &shapes[m.problem]
		if old, ok := d.Sources[v.Family]; ok && old != sources[m.source] {
			pair := []string{old, sources[m.source]}
			slices.Sort(pair)
			return nil, hint.Errorf("sweep again into the same folder, which measures what has changed, or give records of one version of the kernels",
				"%s was measured with the sources %s and %s, which do not compare", v.Family, pair[0], pair[1])
		}
		d.Sources[v.Family] = sources[m.source]
		if m.us == 0 {
			if m.tried {
				if s.Failed == nil {
					s.Failed = map[kernels.Variant]bool{}
				}
				s.Failed[v] = true
			}
			continue
		}
		s.US[v] = m.us
		if m.base {
			s.Base, s.BaseUS = v, m.us
		}
		if s.BestUS == 0 || cmp.Or(cmp.Compare(m.us, s.BestUS), compareVariants(v, s.Best)) < 0 {
			s.Best, s.BestUS = v, m.us
		}
	}
	c.all = nil
	slices.SortFunc(shapes, func(a, b Shape) int { return record.CompareProblems(a.Problem, b.Problem) })
	var baseless []string
	for _, s := range shapes {
		switch {
		case s.BaseUS > 0:
			d.Shapes = append(d.Shapes, s)
		case s.BestUS > 0:
			baseless = append(baseless, s.Problem.String())
		}
	}
	if len(baseless) > 0 {
		d.Notes = append(d.Notes, fmt.Sprintf("left out, as the default was not measured or failed: %s", abridge(baseless)))
	}
	if len(d.Shapes) == 0 {
		return nil, hint.Errorf("`normbench sweep` measures the default and what may beat it", "%s: %w", strings.Join(paths, ", "), ErrNoDefault)
	}
	if len(c.compiled) > 1 {
		d.Notes = append(d.Notes, "records of several compilers or drivers: "+abridge(sortedKeys(c.compiled)))
	}
	return d, nil
}

func byNumber[K comparable](m map[K]uint32) []K {
	out := make([]K, len(m))
	for k, i := range m {
		out[i] = k
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// abridge lists a few of many.
func abridge(list []string) string {
	if len(list) > 4 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:3], ", "), len(list)-3)
	}
	return strings.Join(list, ", ")
}

// compareVariants orders variants by name, so that ties do not depend on the
// order of maps or records.
func compareVariants(a, b kernels.Variant) int {
	return cmp.Or(cmp.Compare(a.Family, b.Family), cmp.Compare(a.Config.String(), b.Config.String()))
}
