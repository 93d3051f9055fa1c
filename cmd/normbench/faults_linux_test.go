package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/cpu"
	"normbench/kernels/devices/devicetest"
	"normbench/sweep/record"
	"normbench/sweep/search"
	"normbench/tune"
)

// TestInjectedFaultsAreSurvived injects faults into the whole program and prints for each class how many
// were survived, and how many lost a record, recorded one twice or led to a wrong number. It
// runs where NORMBENCH_FAULTS says how many (`make faults`); NORMBENCH_FAULT_SEED draws others, and
// NORMBENCH_FAULT_CLASS is one class of them. lab/notes/reliability.md has its table.
func TestInjectedFaultsAreSurvived(t *testing.T) {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("NORMBENCH_FAULTS"), "0"))
	assert.NoError(t, err)
	if n == 0 {
		t.Skip("make faults")
	}
	seed, _ := strconv.ParseUint(cmp.Or(os.Getenv("NORMBENCH_FAULT_SEED"), "1"), 10, 64)
	t.Setenv("COLUMNS", "400")
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	h := &harness{t: t, dir: t.TempDir(), seed: seed, scale: float64(n) / 1000,
		only: os.Getenv("NORMBENCH_FAULT_CLASS"), sum: map[string]int{}}
	h.prepare()
	many, disk := 2*runtime.NumCPU(), 0
	if h.mounts() {
		disk = 1
	} else {
		fmt.Println("no tmpfs may be mounted here: neither full nor read-only disks")
	}
	stops := []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT}
	pairs := faultPairs(seed)
	for _, c := range []faultClass{
		{"kill -9, grid", 100, many, func(x *faultTrial, i int) {
			x.job = h.jobs[0]
			x.kill(syscall.SIGKILL)
		}},
		{"kill -9, search", 100, many, func(x *faultTrial, i int) {
			x.job = h.jobs[1]
			x.kill(syscall.SIGKILL)
		}},
		{"TERM, HUP, INT", 45, many, func(x *faultTrial, i int) { x.kill(stops[i%3]) }},
		{"closed pipe", 30, many, func(x *faultTrial, i int) { x.kill(syscall.SIGPIPE) }},
		{"full disk", 40 * disk, 1, func(x *faultTrial, i int) { x.fillDisk() }},
		{"read-only disk", 12 * disk, 1, (*faultTrial).forbidDisk},
		{"file size limit", 30, many, func(x *faultTrial, i int) { x.limit("-f", 1+x.r.IntN(40)) }},
		{"few file descriptors", 40, many, func(x *faultTrial, i int) { x.limit("-n", 3+x.r.IntN(24)) }},
		{"files changed under it", 70, many, func(x *faultTrial, i int) { x.change(i / 2) }},
		{"two writers", 30, many / 2, func(x *faultTrial, i int) { x.writeTwice() }},
		{"worker", len(pairs), 8, func(x *faultTrial, i int) {
			x.job = h.jobs[x.r.IntN(2)]
			x.misbehave(pairs[i%len(pairs)])
		}},
		{"dies at random, p0.01", 60, 4, func(x *faultTrial, _ int) { x.flake("dies any p0.01", true) }},
		{"dies at random, p0.03", 60, 4, func(x *faultTrial, _ int) { x.flake("dies any p0.03", true) }},
		{"dies at random, p0.1", 60, 4, func(x *faultTrial, _ int) { x.flake("dies any p0.1", false) }},
		{"every n-th answer is junk", 40, 4, func(x *faultTrial, i int) {
			step := []string{"sense", "check", "time", "open"}[i/2%4]
			x.flake("garbage "+step+" /"+strings.Repeat("n", 3+x.r.IntN(6)), false)
		}},
	} {
		h.inject(c)
	}
	for _, f := range h.prepareReaders() {
		h.inject(faultClass{f.name, f.share, runtime.NumCPU(), func(x *faultTrial, i int) { x.damage(f) }})
	}
	assert.That(t, len(h.rows) != 0, "no class of faults is called %q", h.only)
	h.addRow("all", maps.Clone(h.sum))
	fmt.Printf("\nseed %d\n\n| class | %s |\n|---|---|---|---|---|---|\n%s\n", h.seed,
		strings.Join(columns, " | "), strings.Join(h.rows, "\n"))
}

// A faultClass is a kind of faults: its share of 1000, how many at a time, and the i-th of them.
type faultClass struct {
	name            string
	share, parallel int
	inject          func(x *faultTrial, i int)
}

type harness struct {
	t     *testing.T
	dir   string
	seed  uint64
	scale float64
	jobs  [2]job   // a grid, a search
	only  string   // the class to inject; all where it is empty
	tried uint64   // classes
	rows  []string // of the table of lab/notes/reliability.md
	sum   map[string]int
}

var columns = []string{"injected", "survived", "lost", "duplicated", "wrong"}

// addRow adds what came of a class, by the names of the columns.
func (h *harness) addRow(class string, count map[string]int) {
	row := "| " + class + " |"
	for _, name := range columns {
		row += fmt.Sprintf(" %d |", count[name])
		h.sum[name] += count[name]
	}
	h.rows = append(h.rows, row)
}

// A faultTrial is one fault: a sweep or another command in a folder of its own, and what was found to
// be lost, duplicated or wrong. Nothing is where it was survived.
type faultTrial struct {
	*harness
	job
	r     *rand.Rand
	dir   string
	what  string // the fault in words
	last  *proc  // that was started
	found map[string][]string
}

func (h *harness) newTrial(j job, r *rand.Rand) *faultTrial {
	dir, err := os.MkdirTemp(h.dir, "f")
	assert.NoError(h.t, err)
	return &faultTrial{harness: h, job: j, r: r, dir: dir, found: map[string][]string{}}
}

func (x *faultTrial) note(column, format string, args ...any) {
	x.found[column] = append(x.found[column], fmt.Sprintf(format, args...))
}

func (x *faultTrial) wrongf(format string, args ...any) { x.note("wrong", format, args...) }

// inject injects the faults of a class.
func (h *harness) inject(c faultClass) {
	h.tried++
	if h.only != "" && h.only != c.name || c.share == 0 {
		return
	}
	n, stream := int(math.Ceil(float64(c.share)*h.scale)), (h.tried-1)<<32
	count := map[string]int{"injected": n}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(c.parallel)
	start := time.Now()
	for i := range n {
		group.Go(func() error {
			x := h.newTrial(h.jobs[i%2], rand.New(rand.NewPCG(h.seed, stream|uint64(i))))
			defer os.RemoveAll(x.dir)
			c.inject(x, i)
			mu.Lock()
			defer mu.Unlock()
			if len(x.found) == 0 {
				count["survived"]++
				return nil
			}
			text := ""
			for _, name := range columns {
				if list := x.found[name]; list != nil {
					count[name]++
					text += fmt.Sprintf("; %d %s, %.900q", len(list), name, list[:min(2, len(list))])
				}
			}
			h.t.Errorf("%s, fault %d %s%s\n%s", c.name, i, x.what, text, x.last.stderr())
			return nil
		})
	}
	group.Wait() //nolint:errcheck // each has said its own
	h.t.Logf("%s: %d in %.1f s", c.name, n, time.Since(start).Seconds())
	h.addRow(c.name, count)
}

// A job is a sweep and what it comes to when nothing disturbs it.
type job struct {
	args []string // without --out and --worker
	done string   // the folder of its results
	keys map[string]int
	size int64         // of the records file
	took time.Duration // the whole program
}

func (j job) search() bool { return slices.Contains(j.args, search.Auto) }

// prepare measures what the faults are to disturb.
func (h *harness) prepare() {
	shapes := "4096x1024,2048x1024,1024x1024,512x1024,4096x512,2048x512"
	h.jobs[0].args = []string{"sweep", "--shapes", shapes, "--op", "rmsnorm", "--pass", "fwd", "--samples", "7", "--strategy", "grid"}
	h.jobs[1].args = []string{"sweep", "--shapes", shapes, "--op", "rmsnorm", "--pass", "fwd",
		"--samples", "5", "--strategy", search.Auto, "--seed", "1", "--budget", "60configs", "--finals",
		"4", "--rounds", "6"}
	for i := range h.jobs {
		x, start := h.newTrial(h.jobs[i], nil), time.Now()
		p := x.start()
		assert.Must(h.t, p.wait() == 0, "without a fault: %s", p.stderr())
		j := &h.jobs[i]
		j.took = time.Since(start)
		s := x.state(0)
		x.checkTable(s, none)
		assert.Must(h.t, len(x.found) == 0, "without a fault: %v", x.found)
		j.done, j.keys, j.size = x.out(), s.keys, s.size
		h.t.Logf("%s: %d records, %d bytes, %s", j.args[11:], len(s.keys), j.size, j.took)
	}
}

// out is the folder of the trial's results.
func (x *faultTrial) out() string { return filepath.Join(x.dir, "out", devicetest.CPU().ID) }

// with are the arguments of the trial's job with some workers, else one that does nothing wrong.
func (x *faultTrial) with(workers ...string) []string {
	args := append(slices.Clone(x.args), "--out", filepath.Join(x.dir, "out"))
	if len(workers) == 0 {
		workers = []string{"normbench-faulty"}
	}
	for _, w := range workers {
		args = append(args, "--worker", w)
	}
	return args
}

// start starts the trial's job.
func (x *faultTrial) start() *proc { return x.begin("normbench", x.with()...) }

// begin starts a program.
func (x *faultTrial) begin(name string, args ...string) *proc {
	p := x.command(name, args...)
	assert.NoError(x.t, p.begin())
	return p
}

func (x *faultTrial) command(name string, args ...string) *proc {
	f, err := os.CreateTemp(x.harness.dir, "stderr")
	assert.NoError(x.t, err)
	x.last = &proc{cmd: exec.Command(name, args...), err: f.Name()}
	x.last.cmd.Env = append(os.Environ(), cpu.CacheVariable+"="+smallCache)
	x.last.cmd.Stderr = f
	return x.last
}

// ended holds a program to one of some exit codes, to ending at all, and to saying why in one
// line with a hint.
func (x *faultTrial) ended(p *proc, codes ...int) int {
	code := p.wait()
	text := p.stderr()
	switch {
	case p.hung:
		x.wrongf("it does not end: %s", text)
	case !slices.Contains(codes, code):
		x.wrongf("exit code %d: %s", code, text)
	case strings.Contains(text, "panic:") || strings.Contains(text, "goroutine "):
		x.wrongf("it panics: %s", text)
	case code == exitTrouble && (strings.Count(text, "normbench: error: ") != 1 ||
		strings.Count(text, "normbench: hint: ") != 1):
		x.wrongf("not one error and one hint: %s", text)
	}
	return code
}

// A state is what a results folder holds.
type state struct {
	keys map[string]int // finals and, of a grid, all
	won  map[kernels.Problem]kernels.Variant
	last kernels.Problem // that was won last
	size int64
}

// state reads the results and judges what stands in them: each time is the device's, none stands
// twice, and no more failed than may.
func (x *faultTrial) state(mayFail int) state {
	s := state{keys: map[string]int{}, won: map[kernels.Problem]kernels.Variant{}}
	path := filepath.Join(x.out(), record.FileName)
	st, err := os.Stat(path)
	if err != nil || st.Size() == 0 {
		return s // nothing was measured yet
	}
	s.size = st.Size()
	best, all, failed := map[kernels.Problem]float64{}, map[string]int{}, 0
	_, err = record.Read(path, func(r *record.Record, run *record.Run) error {
		if r.Family == record.Stream { // it is recorded under another name than it is launched
			return nil
		}
		us := record.Micros([]float64{evenSeconds(r.Problem, r.Variant())})[0]
		for _, got := range slices.Concat(r.SamplesUS, r.BaseAgainUS) {
			if math.Abs(got-us) > 2e-3*us {
				x.wrongf("%s of %s: %g us, the device takes %g", r.Variant(), r.Problem, got, us)
				break
			}
		}
		if r.Status != kernels.StatusOK && r.Status != kernels.StatusRefused {
			failed++
		}
		if all[r.Key]++; all[r.Key] == 2 {
			x.note("duplicated", "%s of %s", r.Variant(), r.Problem)
		}
		switch run.Protocol.Phase {
		case record.PhaseSearch:
			return nil
		case record.PhaseFinal:
			if r.Chosen != "" {
				s.won[r.Problem], s.last = r.Variant(), r.Problem
			}
		default:
			if r.Status == kernels.StatusOK && (best[r.Problem] == 0 || us < best[r.Problem]) {
				best[r.Problem], s.won[r.Problem] = us, r.Variant()
			}
		}
		s.keys[r.Key]++
		return nil
	})
	switch {
	case err != nil && !strings.Contains(err.Error(), "is not a records file") &&
		!strings.Contains(err.Error(), " is empty"):
		x.wrongf("%v", err)
	case failed > mayFail:
		x.wrongf("%d variants are recorded as failed", failed)
	}
	return s
}

// checkTable judges the tuned table: it can be read, has the variant that won each problem with its
// time, and lacks no problem but those that may.
func (x *faultTrial) checkTable(s state, mayLack func(kernels.Problem) bool) {
	table, err := tune.Read(filepath.Join(x.out(), tune.FileName))
	if errors.Is(err, fs.ErrNotExist) {
		table, err = &tune.TunedTable{}, nil
	}
	if err != nil {
		x.wrongf("%v", err)
		return
	}
	have := map[kernels.Problem]bool{}
	for _, e := range table.Entries {
		have[e.Problem] = true
		won, ok := s.won[e.Problem]
		us := evenSeconds(e.Problem, e.Variant()) * 1e6
		switch {
		case !ok:
			x.wrongf("%s has an entry and no record", e.Problem)
		case math.Abs(e.MedianUS-us) > 2e-3*us:
			x.wrongf("%s of %s takes %g us in the table", e.Variant(), e.Problem, e.MedianUS)
		case e.Variant() != won && evenSeconds(e.Problem, won)*1e6 < 0.98*us:
			x.wrongf("%s is in the table for %s, %s won", e.Variant(), e.Problem, won)
		case !e.IsProven():
			x.wrongf("%s is in the table for %s, not proven faster than the base", e.Variant(),
				e.Problem)
		}
	}
	for p := range s.won {
		if !have[p] && !mayLack(p) {
			x.note("lost", "the entry of %s", p)
		}
	}
}

func none(kernels.Problem) bool  { return false }
func every(kernels.Problem) bool { return true }

// left judges what a job left that ended with a code, 0 for whole.
func (x *faultTrial) left(code int) state {
	s := x.state(0)
	x.checkTable(s, every)
	if code == 0 {
		x.checkWhole(s)
	}
	return s
}

// resume runs the job again, which is to go on and to end whole: all that was there before
// is, and all that there is to measure.
func (x *faultTrial) resume(before state, mayFail int) {
	if x.ended(x.start(), 0) != 0 {
		return
	}
	after := x.state(mayFail)
	x.checkWhole(after)
	for k := range before.keys {
		if after.keys[k] == 0 {
			x.note("lost", "what was kept: %s", k)
		}
	}
	x.checkTable(after, none)
}

// checkWhole wants all that there is to measure.
func (x *faultTrial) checkWhole(s state) {
	if x.search() {
		if len(s.won) != 6 {
			x.note("lost", "%d of 6 problems have a winner", len(s.won))
		}
		return
	}
	for k := range x.keys {
		if s.keys[k] == 0 {
			x.note("lost", "%s", k)
		}
	}
}
