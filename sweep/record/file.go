package record

import (
	"iter"
	"slices"
	"strings"
	"time"

	"normbench/kernels"
	"normbench/sweep/stats"
)

// OperandHelp is the grammar of recorded operands in words, for hints.
const OperandHelp = "an operand is a records file or results folder, with #base, #peers, " +
	"#FAMILY, #FAMILY@LABEL or #peer:NAME behind it if need be, or tuned:FILE"

// A File is a records file, a summary of each record.
type File struct {
	Path  string // of the file itself, also where a folder was asked for
	Runs  []*Run // in file order
	Notes Notes

	entries []*Outcome     // in file order
	at      map[string]int // the last entry of each key
}

// An Outcome summarizes one record.
type Outcome struct {
	Run           *Run
	Time          time.Time
	Problem       kernels.Problem
	Variant       kernels.Variant
	Base          bool   // the variant that runs before any tuning
	BaseOf        string // the family whose own default the base is; "" where it is normbench's
	Default       bool   // normbench's default beside such a family
	Status        kernels.Status
	Reason        string    // why the status is not ok
	Source        string    // hash of the family's source
	Bytes         int64     // compulsory traffic
	stats.Summary           // of the samples, in microseconds
	SamplesUS     []float64 // in the order taken, for tests of rank; nil where it is not ok
	StreamUS      float64   // median time of the stream in the same run, 0 where it is not known
	Differing     int64     // elements whose bits changed between runs
	Unordered     bool      // the family states that they may
	Final         *Final    // nil but for a finalist of a search; see Finals

	launch string // hash of the launches, Record.Launch
}

// Is says whether an entry is of a code.
func (e *Outcome) Is(code CodeHash) bool { return code == CodeHash{e.Source, e.launch} }

// A Final is what the record of a finalist has beside an Outcome.
type Final struct {
	SearchUS  float64   // what the search had seen before the finals
	Chosen    string    // why it is its problem's winner; empty on all others
	Place     int       // in the file: of two finals of a problem the later counts
	Entry     bool      // the tuned table held it when the search began
	Rounds    []float64 // medians of the finals' rounds, microseconds
	BaseAgain []float64 // of a second copy of the base in the same rounds
	Of        int       // finals of its problem; 0 in records of before they were counted
}

// Finals is what e has of the finals; zero where it is of none.
func (e *Outcome) Finals() Final {
	if e.Final == nil {
		return Final{}
	}
	return *e.Final
}

// Summarize is the entry of a record of run, as Load makes it.
func Summarize(r *Record, run *Run) Outcome {
	e := Outcome{
		Run: run, Time: r.Time, Problem: r.Problem, Variant: r.Variant(), Base: r.Base, BaseOf: r.BaseOf, Default: r.Default, Status: r.Status,
		Reason: r.Reason, Source: r.Source, launch: r.Launch, Bytes: r.Bytes,
		Summary: stats.Summarize(r.SamplesUS), SamplesUS: r.SamplesUS, StreamUS: r.StreamUS,
	}
	if r.SearchUS > 0 || r.Chosen != "" {
		e.Final = &Final{SearchUS: r.SearchUS, Chosen: r.Chosen, Entry: r.Entry,
			BaseAgain: r.BaseAgainUS, Of: r.Finals,
			Rounds: r.Rounds()}
	}
	if r.Check != nil {
		e.Differing, e.Unordered = r.Check.Differing, r.Check.Unordered
	}
	return e
}

// add appends what a line says, a run or a record of one. Of two records with one key the later
// counts: the last of a variant is what was measured last.
func (f *File) add(it *item) error {
	r := it.record
	if r == nil {
		f.Runs = append(f.Runs, it.run)
		return nil
	}
	if f.at == nil {
		f.at = map[string]int{}
	}
	e := Summarize(r, it.run)
	if e.Final != nil {
		e.Final.Place = len(f.entries)
	}
	if old, ok := f.at[r.Key]; ok {
		f.entries[old] = nil
	}
	f.at[r.Key] = len(f.entries)
	f.entries = append(f.entries, &e)
	return nil
}

// Status is that of the last record with a key, if there is one. A file that is nil has none. A
// crash or a timeout without evidence does not count: it may have been the device.
func (f *File) Status(key string) (kernels.Status, bool) {
	if f == nil {
		return "", false
	}
	i, ok := f.at[key]
	if !ok {
		return "", false
	}
	e := f.entries[i]
	dead := e.Status == kernels.StatusCrash || e.Status == kernels.StatusTimeout
	return e.Status, !dead || strings.Contains(e.Reason, Evidence)
}

// Outcomes are some outcomes of a file, in its order, each of another problem or variant. They are the
// file's, and not to be changed.
type Outcomes []*Outcome

// A contest names entries that were measured against one base: those of a problem, or of a problem
// and a family against itself.
type contest struct {
	kernels.Problem
	baseOf string
}

func (e *Outcome) contest() contest { return contest{e.Problem, e.BaseOf} }

// Rivals says whether the entry's variant may win: see sweep.Task.Rivals.
func (e *Outcome) Rivals() bool { return e.BaseOf == "" || e.Variant.Family == e.BaseOf }

// Against keeps the entries that were measured against the default of a family, or with "" against
// normbench's.
func (es Outcomes) Against(family string) Outcomes {
	return slices.DeleteFunc(slices.Clone(es), func(e *Outcome) bool { return e.BaseOf != family })
}

// ByProblem goes through copies of the entries of each problem, in the order of the problems' first
// ones. Those of a family against itself come by themselves.
func (es Outcomes) ByProblem() iter.Seq[[]Outcome] {
	at := map[contest]int{}
	var groups [][]Outcome
	for _, e := range es {
		i, ok := at[e.contest()]
		if !ok {
			i, groups = len(groups), append(groups, nil)
			at[e.contest()] = i
		}
		groups[i] = append(groups[i], *e)
	}
	return slices.Values(groups)
}

// LatestOutcomes returns the last outcome of each problem and variant, in the place of the first. It leaves out what
// was measured with an older source, driver or protocol, warm times where there are cold ones, and what
// a search saw before its finals (see SearchOutcomes). Where several variants of a problem were recorded
// as its base, because the map has changed between runs, only the last counts as the base. Entries of a
// family against itself count by themselves: the same variant may stand among them and among the others.
// With among, it looks at the entries for which among holds.
func (f *File) LatestOutcomes(among ...func(*Outcome) bool) Outcomes {
	return f.latestOutcomes(false, among)
}

// SearchOutcomes returns LatestOutcomes of what searches saw before their finals.
func (f *File) SearchOutcomes(among ...func(*Outcome) bool) Outcomes {
	return f.latestOutcomes(true, among)
}

func (f *File) latestOutcomes(searched bool, among []func(*Outcome) bool) (es Outcomes) {
	type slot struct {
		contest
		kernels.Variant
	}
	at := map[slot]int{}      // in es
	base := map[contest]int{} // likewise, of the last one
	for _, e := range f.entries {
		if e == nil || (e.Run.Protocol.Phase == PhaseSearch) != searched ||
			slices.ContainsFunc(among, func(holds func(*Outcome) bool) bool { return !holds(e) }) {
			continue
		}
		i, ok := at[slot{e.contest(), e.Variant}]
		switch {
		case !ok:
			i, es = len(es), append(es, e)
			at[slot{e.contest(), e.Variant}] = i
		case es[i].Run.Protocol.Cold && !e.Run.Protocol.Cold:
			continue
		default:
			es[i] = e
		}
		if e.Base {
			base[e.contest()] = i
		}
	}
	for i, e := range es {
		if e.Base && base[e.contest()] != i {
			c := *e
			c.Base, es[i] = false, &c
		}
	}
	return es
}
