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

// A File is a records file in memory, with an Outcome of each record.
type File struct {
	Path  string // of the file itself, also where a folder was asked for
	Runs  []*Run // in file order
	Notes Notes

	outcomes []*Outcome     // in file order
	last     map[string]int // index of the last outcome of each key
}

// An Outcome summarizes one record for tables and comparisons.
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

// Is says whether the outcome was measured with this code.
func (e *Outcome) Is(code CodeHash) bool { return code == CodeHash{e.Source, e.launch} }

// A Final holds the fields that only records of a search's finals have.
type Final struct {
	SearchUS  float64   // what the search had seen before the finals
	Chosen    string    // why it is its problem's winner; empty on all others
	Place     int       // in the file: of two finals of a problem the later counts
	Entry     bool      // the tuned table held it when the search began
	Rounds    []float64 // medians of the finals' rounds, microseconds
	BaseAgain []float64 // of a second copy of the base in the same rounds
	Of        int       // finals of its problem; 0 in records of before they were counted
}

// Finals returns the outcome's Final, a zero one where the record is not of finals.
func (e *Outcome) Finals() Final {
	if e.Final == nil {
		return Final{}
	}
	return *e.Final
}

// Summarize makes the outcome of a record of run, as Load does for each.
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

// add adds a run, or the outcome of a record. Of two records with one key it keeps the later, as the
// later measurement counts.
func (f *File) add(it *item) error {
	r := it.record
	if r == nil {
		f.Runs = append(f.Runs, it.run)
		return nil
	}
	if f.last == nil {
		f.last = map[string]int{}
	}
	e := Summarize(r, it.run)
	if e.Final != nil {
		e.Final.Place = len(f.outcomes)
	}
	if old, ok := f.last[r.Key]; ok {
		f.outcomes[old] = nil
	}
	f.last[r.Key] = len(f.outcomes)
	f.outcomes = append(f.outcomes, &e)
	return nil
}

// Status returns the status of the last record with a key. ok is false where there is none, and for a
// crash or a timeout without evidence, as the device may have caused that. A nil file has no records.
func (f *File) Status(key string) (kernels.Status, bool) {
	if f == nil {
		return "", false
	}
	i, ok := f.last[key]
	if !ok {
		return "", false
	}
	e := f.outcomes[i]
	dead := e.Status == kernels.StatusCrash || e.Status == kernels.StatusTimeout
	return e.Status, !dead || strings.Contains(e.Reason, Evidence)
}

// Outcomes are some outcomes of a file, in its order, each of another problem or variant. They belong to
// the file and must not be changed.
type Outcomes []*Outcome

// A baseGroup names outcomes that were measured against one base: all of a problem, or those of a
// problem and a family that was measured against its own default.
type baseGroup struct {
	kernels.Problem
	baseOf string
}

// baseGroup returns the group in which the outcome is compared.
func (e *Outcome) baseGroup() baseGroup { return baseGroup{e.Problem, e.BaseOf} }

// Rivals says whether the outcome's variant may win its problem; see sweep.Task.Rivals.
func (e *Outcome) Rivals() bool { return e.BaseOf == "" || e.Variant.Family == e.BaseOf }

// Against keeps the outcomes that were measured against the default of a family, or with "" against
// normbench's.
func (es Outcomes) Against(family string) Outcomes {
	return slices.DeleteFunc(slices.Clone(es), func(e *Outcome) bool { return e.BaseOf != family })
}

// ByProblem goes through the outcomes of each problem, as copies, in the order in which the problems
// come first. A family that was measured against its own default has a group of its own.
func (es Outcomes) ByProblem() iter.Seq[[]Outcome] {
	at := map[baseGroup]int{}
	var groups [][]Outcome
	for _, e := range es {
		i, ok := at[e.baseGroup()]
		if !ok {
			i, groups = len(groups), append(groups, nil)
			at[e.baseGroup()] = i
		}
		groups[i] = append(groups[i], *e)
	}
	return slices.Values(groups)
}

// LatestOutcomes returns the last outcome of each problem and variant, in the place of the first. It
// leaves out measurements with an older source, driver or protocol, warm times where there are cold
// ones, and the times that a search took before its finals (see SearchOutcomes). Where several variants
// of a problem were recorded as its base, because the map has changed between runs, only the last counts
// as the base. Outcomes of a family against its own default count apart: the same variant may be among
// them and among the others.
//
// With among, it looks only at the outcomes for which all its functions hold.
func (f *File) LatestOutcomes(among ...func(*Outcome) bool) Outcomes {
	return f.latestOutcomes(false, among)
}

// SearchOutcomes is LatestOutcomes of the times that searches took before their finals.
func (f *File) SearchOutcomes(among ...func(*Outcome) bool) Outcomes {
	return f.latestOutcomes(true, among)
}

// latestOutcomes is LatestOutcomes, or with searched SearchOutcomes.
func (f *File) latestOutcomes(searched bool, among []func(*Outcome) bool) (es Outcomes) {
	type slot struct {
		baseGroup
		kernels.Variant
	}
	at := map[slot]int{}        // in es
	base := map[baseGroup]int{} // likewise, of the last one
	for _, e := range f.outcomes {
		if e == nil || (e.Run.Protocol.Phase == PhaseSearch) != searched ||
			slices.ContainsFunc(among, func(holds func(*Outcome) bool) bool { return !holds(e) }) {
			continue
		}
		i, ok := at[slot{e.baseGroup(), e.Variant}]
		switch {
		case !ok:
			i, es = len(es), append(es, e)
			at[slot{e.baseGroup(), e.Variant}] = i
		case es[i].Run.Protocol.Cold && !e.Run.Protocol.Cold:
			continue
		default:
			es[i] = e
		}
		if e.Base {
			base[e.baseGroup()] = i
		}
	}
	for i, e := range es {
		if e.Base && base[e.baseGroup()] != i {
			c := *e
			c.Base, es[i] = false, &c
		}
	}
	return es
}
