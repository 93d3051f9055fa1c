package record

import (
	"encoding/hex"
	"iter"
	"runtime"
	"runtime/debug"
	"slices"

	"golang.org/x/sync/errgroup"

	"normbench/kernels"
	"normbench/sweep/stats"
)

// A File is a records file, a summary of each record: some 300 bytes of it, without pointers to follow, so that
// a million fit into the memory of any machine.
type File struct {
	Path  string // of the file itself, also where a folder was asked for
	Runs  []*Run // in file order
	Notes Notes

	rows     [][]row // in blocks of blockLen
	at       map[[keyLen / 2]byte]uint32
	problems numbered[kernels.Problem]
	variants numbered[kernels.Variant]
	words    numbered[string]
	runs     numbered[*Run]
	samples  arena[float32]
	stages   arena[StageUS]
	finals   []*Final
	keyers   []*keyer // of runs

	all *Entries // Latest of all, made when first asked for
}

// A row is an Entry with numbers in place of what many have.
type row struct {
	stats.Summary
	stream                                        float64
	bytes, differing                              int64
	key                                           [keyLen / 2]byte
	problem, variant, run, status, reason, source uint32
	samples, stages, nStages                      uint32
	final                                         uint32 // from 1
	base, unordered                               bool
	replaced                                      bool // by a later one of its key
}

// blockLen is how many values are allocated at once: to double a slice of a million would hold it twice.
const blockLen = 1 << blockBits

const blockBits = 12

// many is from how many rows on they are most of the heap, which would double before they were looked over. They
// have no pointers, so that this takes no time.
const many = 1 << 16

// An arena keeps slices in blocks.
type arena[T any] struct{ blocks [][]T }

// keep copies v and says where it is.
func (a *arena[T]) keep(v []T) uint32 {
	if len(v) == 0 {
		return 0
	}
	n := len(a.blocks) - 1
	if n < 0 || cap(a.blocks[n])-len(a.blocks[n]) < len(v) {
		a.blocks = append(a.blocks, make([]T, 0, max(blockLen, len(v))))
		n++
	}
	at := len(a.blocks[n])
	a.blocks[n] = append(a.blocks[n], v...)
	return uint32(n<<blockBits | at)
}

// get is what was kept, nil of none.
func (a *arena[T]) get(at uint32, n int) []T {
	if n == 0 {
		return nil
	}
	i := int(at % blockLen)
	return a.blocks[at>>blockBits][i : i+n : i+n]
}

// numbered gives each value the next number.
type numbered[K comparable] struct {
	of  map[K]uint32
	all []K
}

func (n *numbered[K]) number(k K) uint32 {
	i, ok := n.of[k]
	if !ok {
		if n.of == nil {
			n.of = map[K]uint32{}
		}
		i = uint32(len(n.all))
		n.of[k] = i
		n.all = append(n.all, k)
	}
	return i
}

func (f *File) row(i uint32) *row { return &f.rows[i>>blockBits][i%blockLen] }

// add appends e, in place of another with its key: the last of a variant is what was measured last.
func (f *File) add(e *Entry) {
	last := len(f.rows) - 1
	if last < 0 || len(f.rows[last]) == blockLen {
		f.rows = append(f.rows, make([]row, 0, blockLen))
		last++
	}
	i := uint32(last<<blockBits | len(f.rows[last]))
	r := row{Summary: e.Summary, stream: e.StreamUS, bytes: e.Bytes, differing: e.Differing, base: e.Base, unordered: e.Unordered,
		problem: f.problems.number(e.Problem), variant: f.variants.number(e.Variant), run: f.runs.number(e.Run),
		status: f.words.number(string(e.Status)), reason: f.words.number(e.Reason), source: f.words.number(e.Source),
		samples: f.samples.keep(e.SamplesUS), stages: f.stages.keep(e.Stages), nStages: uint32(len(e.Stages))}
	if n := len(f.keyers); n < len(f.runs.all) {
		f.keyers = append(f.keyers, newKeyer(e.Run.Device, e.Run.Protocol))
	}
	hex.Decode(r.key[:], []byte(e.key)) // which CheckValid has seen
	if e.Final != nil {
		e.Final.Place = int(i)
		f.finals = append(f.finals, e.Final)
		r.final = uint32(len(f.finals))
	}
	if f.at == nil {
		f.at = map[[keyLen / 2]byte]uint32{}
	}
	if old, ok := f.at[r.key]; ok {
		f.row(old).replaced = true
	}
	f.at[r.key], f.all = i, nil
	if i == many {
		debug.SetGCPercent(25)
	}
	f.rows[last] = append(f.rows[last], r)
}

// fill makes e the entry of a row.
func (f *File) fill(e *Entry, i uint32) {
	r := f.row(i)
	*e = Entry{file: f, row: i, Run: f.runs.all[r.run], Problem: f.problems.all[r.problem], Variant: f.variants.all[r.variant], Base: r.base,
		Status: kernels.Status(f.words.all[r.status]), Reason: f.words.all[r.reason], Source: f.words.all[r.source], Bytes: r.bytes,
		Summary: r.Summary, Stages: f.stages.get(r.stages, int(r.nStages)), StreamUS: r.stream, Differing: r.differing, Unordered: r.unordered,
		SamplesUS: f.samples.get(r.samples, r.N)}
	if r.final > 0 {
		e.Final = f.finals[r.final-1]
	}
}

// Status is that of the last record with a key, if there is one. A file that is nil has none.
func (f *File) Status(key string) (kernels.Status, bool) {
	var k [keyLen / 2]byte
	if f == nil || !isKey(key) {
		return "", false
	}
	hex.Decode(k[:], []byte(key))
	i, ok := f.at[k]
	if !ok {
		return "", false
	}
	return kernels.Status(f.words.all[f.row(i).status]), true
}

// Entries are some of a file's, each of another problem or variant.
type Entries struct {
	file *File
	rows []uint32          // in the order of the file
	base map[uint32]uint32 // the row of each problem's last base
}

// fill is the file's. Of a problem's bases the last is still one: a launch rule has changed since.
func (s *Entries) fill(e *Entry, i uint32) {
	s.file.fill(e, i)
	e.Base = e.Base && s.base[s.file.row(i).problem] == i
}

// All goes through the entries in the order of the file. Each is lent until the next.
func (s *Entries) All() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		var e Entry
		for _, i := range s.rows {
			if s.fill(&e, i); !yield(&e) {
				return
			}
		}
	}
}

// ByProblem goes through the problems, in the order of their first records, with the entries of each in the order
// of the file. They are lent until the next problem.
func (s *Entries) ByProblem() iter.Seq[[]Entry] {
	return func(yield func([]Entry) bool) {
		problem := func(i uint32) uint32 { return s.file.row(i).problem }
		rows := slices.Clone(s.rows)
		slices.SortStableFunc(rows, func(a, b uint32) int { return int(problem(a)) - int(problem(b)) })
		var es []Entry
		for len(rows) > 0 {
			n := 1
			for n < len(rows) && problem(rows[n]) == problem(rows[0]) {
				n++
			}
			es = slices.Grow(es[:0], n)[:n]
			for k, i := range rows[:n] {
				s.fill(&es[k], i)
			}
			if !yield(es) {
				return
			}
			rows = rows[n:]
		}
	}
}

// Latest returns the last entry of each problem and variant, in the place of the first: what was measured
// with an older source, driver or protocol is left out, and warm times where there are cold ones. Of a problem's
// bases the last is still one. What a search saw on its way is no result, and is Searched. With among it is of
// those entries, and is called by several goroutines at once.
func (f *File) Latest(among ...func(*Entry) bool) *Entries {
	if among != nil {
		return f.latest(false, among)
	}
	if f.all == nil {
		f.all = f.latest(false, nil)
	}
	return f.all
}

// Searched is Latest of what searches saw before their finals.
func (f *File) Searched(among ...func(*Entry) bool) *Entries { return f.latest(true, among) }

func (f *File) latest(searched bool, among []func(*Entry) bool) *Entries {
	s := &Entries{file: f, base: map[uint32]uint32{}}
	at := map[[2]uint32]int{} // in s.rows
	counts := func(b int) (in []uint32) {
		var e Entry
		for n := range f.rows[b] {
			r, i := &f.rows[b][n], uint32(b<<blockBits|n)
			if r.replaced || (f.runs.all[r.run].Protocol.Phase == PhaseSearch) != searched {
				continue
			}
			f.fill(&e, i)
			if !slices.ContainsFunc(among, func(holds func(*Entry) bool) bool { return !holds(&e) }) {
				in = append(in, i)
			}
		}
		return in
	}
	of := make([][]uint32, len(f.rows)) // the rows of each block that count
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for b := range of {
		g.Go(func() error {
			of[b] = counts(b)
			return nil
		})
	}
	g.Wait()
	for _, in := range of {
		for _, i := range in {
			r := f.row(i)
			run := f.runs.all[r.run]
			k := [2]uint32{r.problem, r.variant}
			j, ok := at[k]
			switch {
			case !ok:
				at[k] = len(s.rows)
				s.rows = append(s.rows, i)
			case f.runs.all[f.row(s.rows[j]).run].Protocol.Cold && !run.Protocol.Cold:
				continue
			default:
				s.rows[j] = i
			}
			if r.base {
				s.base[r.problem] = i
			}
		}
	}
	return s
}
