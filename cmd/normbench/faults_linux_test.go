package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
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
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/cpu"
	"normbench/kernels/devicetest"
	"normbench/sweep/record"
	"normbench/sweep/search"
	"normbench/tune"
)

// faultsEnv is how many faults TestFaultHarness injects: `make faults`. faultSeedEnv draws others,
// faultClassEnv is one class of them.
const (
	faultsEnv     = "NORMBENCH_FAULTS"
	faultSeedEnv  = "NORMBENCH_FAULT_SEED"
	faultClassEnv = "NORMBENCH_FAULT_CLASS"
)

// TestFaultHarness injects faults into the whole program and prints for each class how many
// were survived, and how many lost a record, recorded one twice or led to a wrong number. It
// runs where NORMBENCH_FAULTS says how many; docs/reliability.md has its table.
func TestFaultHarness(t *testing.T) {
	n, err := strconv.Atoi(cmp.Or(os.Getenv(faultsEnv), "0"))
	assert.NoError(t, err)
	if n == 0 {
		t.Skip("make faults")
	}
	seed, _ := strconv.ParseUint(cmp.Or(os.Getenv(faultSeedEnv), "1"), 10, 64)
	t.Setenv("COLUMNS", "400")
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	h := &harness{t: t, dir: t.TempDir(), seed: seed, scale: float64(n) / 1000,
		only: os.Getenv(faultClassEnv)}
	h.prepare()

	both := func(i int) job { return h.jobs[i%2] }
	h.class("kill -9, grid", 100, 2*runtime.NumCPU(),
		func(i int, r *rand.Rand) toll { return h.killed(h.jobs[0], r, syscall.SIGKILL) })
	h.class("kill -9, search", 100, 2*runtime.NumCPU(),
		func(i int, r *rand.Rand) toll { return h.killed(h.jobs[1], r, syscall.SIGKILL) })
	stops := []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT}
	h.class("TERM, HUP, INT", 45, 2*runtime.NumCPU(),
		func(i int, r *rand.Rand) toll { return h.killed(both(i/3), r, stops[i%3]) })
	h.class("closed pipe", 30, 2*runtime.NumCPU(),
		func(i int, r *rand.Rand) toll { return h.killed(both(i), r, syscall.SIGPIPE) })
	if h.mounts() {
		h.class("full disk", 40, 1,
			func(i int, r *rand.Rand) toll { return h.fullDisk(both(i), r) })
		h.class("read-only disk", 12, 1, func(i int, r *rand.Rand) toll { return h.readOnly(i) })
	} else {
		fmt.Println("no tmpfs may be mounted here: neither full nor read-only disks")
	}
	h.class("file size limit", 30, 2*runtime.NumCPU(),
		func(i int, r *rand.Rand) toll { return h.limited(both(i), "-f", 1+r.IntN(40)) })
	h.class("few file descriptors", 40, 2*runtime.NumCPU(),
		func(i int, r *rand.Rand) toll { return h.limited(both(i), "-n", 3+r.IntN(24)) })
	h.class("files changed under it", 70, 2*runtime.NumCPU(),
		func(i int, r *rand.Rand) toll { return h.changed(both(i), i/2, r) })
	h.class("two writers", 30, runtime.NumCPU(),
		func(i int, r *rand.Rand) toll { return h.twoWriters(both(i), r) })
	for _, f := range h.readers {
		h.class(f.name, f.share, runtime.NumCPU(),
			func(i int, r *rand.Rand) toll { return h.damaged(f, r) })
	}
	h.workerFaults()
	for _, p := range []string{"p0.01", "p0.03", "p0.1"} {
		h.class("dies at random, "+p, 60, 4,
			func(i int, r *rand.Rand) toll { return h.flaky(both(i), "dies", "any", p, p != "p0.1") })
	}
	h.class("every n-th answer is junk", 40, 4, func(i int, r *rand.Rand) toll {
		step := []string{"sense", "check", "time", "open"}[i/2%4]
		return h.flaky(both(i), "garbage", step, "/"+strings.Repeat("n", 3+r.IntN(6)), false)
	})
	h.print()
	assert.That(t, len(h.table) != 0, "no class of faults is called %q", h.only)
}

// A toll is what came of a fault: nothing where it was survived.
type toll struct{ lost, duplicated, wrong []string }

func (v *toll) wrongf(format string, args ...any) {
	v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
}

func (v *toll) add(w toll) {
	v.lost, v.duplicated, v.wrong = append(v.lost, w.lost...), append(v.duplicated,
		w.duplicated...),
		append(v.wrong, w.wrong...)
}

type harness struct {
	t       *testing.T
	dir     string
	seed    uint64
	scale   float64
	jobs    [2]job // a grid, a search
	readers []reader
	done    [2]string // folders of their results

	made  atomic.Int64 // folders
	only  string       // the class to inject; all where it is empty
	tried uint64       // classes
	table []tally
}

type tally struct {
	name                                        string
	injected, survived, lost, duplicated, wrong int
}

// class injects a share of 1000 faults, so many at a time.
func (h *harness) class(name string, share, parallel int, inject func(i int, r *rand.Rand) toll) {
	h.tried++
	if h.only != "" && h.only != name {
		return
	}
	n, class := int(math.Ceil(float64(share)*h.scale)), h.tried-1
	y := tally{name: name, injected: n}
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan bool, parallel)
	start := time.Now()
	for i := range n {
		slots <- true
		wg.Go(func() {
			defer func() { <-slots }()
			r := rand.New(rand.NewPCG(h.seed, class<<32|uint64(i)))
			v := inject(i, r)
			mu.Lock()
			defer mu.Unlock()
			if len(v.lost)+len(v.duplicated)+len(v.wrong) == 0 {
				y.survived++
				return
			}
			h.t.Errorf("%s, fault %d: lost %s, duplicated %s, wrong %s", name, i, some(v.lost),
				some(v.duplicated), some(v.wrong))
			y.lost += min(len(v.lost), 1)
			y.duplicated += min(len(v.duplicated), 1)
			y.wrong += min(len(v.wrong), 1)
		})
	}
	wg.Wait()
	h.t.Logf("%s: %d in %.1f s", name, n, time.Since(start).Seconds())
	h.table = append(h.table, y)
}

// some are the first lines of a list.
func some(list []string) string {
	if len(list) > 2 {
		list = append(slices.Clone(list[:2]), fmt.Sprintf("and %d more", len(list)-2))
	}
	return fmt.Sprintf("%.900q", list)
}

// print is the table of docs/reliability.md.
func (h *harness) print() {
	sum := tally{name: "all"}
	fmt.Printf("\nseed %d\n\n| class | injected | survived | lost | duplicated | wrong "+
		"|\n|---|---|---|---|---|---|\n", h.seed)
	for _, y := range append(h.table, tally{}) {
		if y.name == "" {
			y = sum
		}
		fmt.Printf("| %s | %d | %d | %d | %d | %d |\n", y.name, y.injected, y.survived, y.lost,
			y.duplicated, y.wrong)
		sum.injected, sum.survived, sum.lost = sum.injected+y.injected, sum.survived+y.survived,
			sum.lost+y.lost
		sum.duplicated, sum.wrong = sum.duplicated+y.duplicated, sum.wrong+y.wrong
	}
}

func (h *harness) folder() string {
	dir := filepath.Join(h.dir, fmt.Sprint("f", h.made.Add(1)))
	assert.NoError(h.t, os.Mkdir(dir, 0o755))
	return dir
}

// A job is a sweep and what it comes to when nothing disturbs it.
type job struct {
	args []string // without --out and --worker
	keys map[string]bool
	size int64         // of the records file
	took time.Duration // the whole program
}

func (j job) search() bool { return slices.Contains(j.args, search.Auto) }

// prepare measures what the faults are to disturb.
func (h *harness) prepare() {
	shapes := "4096x1024,2048x1024,1024x1024,512x1024,4096x512,2048x512"
	h.jobs[0].args = []string{"sweep", "--shapes", shapes, "--op", "rmsnorm", "--pass", "fwd",
		"--family", "rms_fwd/cta_reg,rms_fwd/two_pass", "--samples", "7", "--strategy", "grid"}
	h.jobs[1].args = []string{"sweep", "--shapes", shapes, "--op", "rmsnorm", "--pass", "fwd",
		"--samples", "5", "--strategy", search.Auto, "--seed", "1", "--budget", "60", "--finals",
		"4", "--rounds", "6"}
	for i := range h.jobs {
		j := &h.jobs[i]
		dir := h.folder()
		start := time.Now()
		p := h.start(j.with(dir))
		assert.Must(h.t, p.wait() == 0, "without a fault: %s", p.stderr())
		j.took = time.Since(start)
		s, v := h.state(dir, 0)
		v.add(h.tuned(dir, s, none))
		assert.Must(h.t, v.wrong == nil && v.duplicated == nil, "without a fault: %+v", v)
		h.done[i] = filepath.Join(dir, "out", devicetest.CPU().ID)
		j.keys, j.size = map[string]bool{}, s.size
		for k := range s.keys {
			j.keys[k] = true
		}
		h.t.Logf("%s: %d records, %d bytes, %s", j.args[11:], len(s.keys), j.size, j.took)
	}
	h.prepareReaders()
}

func (j job) with(dir string, workers ...string) []string {
	args := append(slices.Clone(j.args), "--out", filepath.Join(dir, "out"))
	if len(workers) == 0 {
		workers = []string{"normbench-faulty"}
	}
	for _, w := range workers {
		args = append(args, "--worker", w)
	}
	return args
}

// A proc is a program that runs.
type proc struct {
	h    *harness
	cmd  *exec.Cmd
	err  string // file of standard error
	done chan struct{}
	hung bool
}

func (h *harness) start(args []string) *proc { return h.startCommand("normbench", args...) }

func (h *harness) startCommand(name string, args ...string) *proc {
	return h.command(name, args...).begin()
}

func (h *harness) command(name string, args ...string) *proc {
	p := &proc{h: h, cmd: exec.Command(name, args...), err: filepath.Join(h.folder(), "stderr"),
		done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), cpu.CacheVariable+"="+smallCache)
	f, err := os.Create(p.err)
	assert.NoError(h.t, err)
	p.cmd.Stderr = f
	return p
}

func (p *proc) begin() *proc {
	if err := p.cmd.Start(); err != nil {
		p.h.t.Error(err)
	}
	p.cmd.Stderr.(*os.File).Close()
	go func() {
		p.cmd.Wait()
		close(p.done)
	}()
	return p
}

// wait is the exit code, -1 where a signal ended the program. A minute is too long.
func (p *proc) wait() int {
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		p.hung = true
		p.cmd.Process.Kill()
		<-p.done
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *proc) stderr() string {
	b, _ := os.ReadFile(p.err)
	return string(b)
}

// ended holds a program to one of some exit codes, to ending at all, and to saying why in one
// line with a hint.
func (p *proc) ended(v *toll, codes ...int) int {
	code := p.wait()
	text := p.stderr()
	switch {
	case p.hung:
		v.wrongf("it does not end: %s", text)
	case !slices.Contains(codes, code):
		v.wrongf("exit code %d: %s", code, text)
	case strings.Contains(text, "panic:") || strings.Contains(text, "goroutine "):
		v.wrongf("it panics: %s", text)
	case code == exitTrouble && (strings.Count(text, "normbench: error: ") != 1 ||
		strings.Count(text, "normbench: hint: ") != 1):
		v.wrongf("not one error and one hint: %s", text)
	}
	return code
}

// A state is what a results folder holds.
type state struct {
	keys   map[string]int // finals and, of a grid, all
	failed int            // records that are not ok
	won    map[kernels.Problem]kernels.Variant
	last   kernels.Problem // that was won last
	size   int64
	notes  record.Notes
}

// state reads a folder and judges what stands in it: each time is the device's, none stands
// twice, and no more failed than may.
func (h *harness) state(dir string, mayFail int) (s state, v toll) {
	s.keys, s.won = map[string]int{}, map[kernels.Problem]kernels.Variant{}
	path := filepath.Join(dir, "out", devicetest.CPU().ID, record.FileName)
	st, err := os.Stat(path)
	if err != nil || st.Size() == 0 {
		return s, v // nothing was measured yet
	}
	s.size = st.Size()
	best := map[kernels.Problem]float64{}
	all := map[string]int{}
	s.notes, err = record.Read(path, func(r *record.Record, run *record.Run) error {
		us := record.Micros([]float64{evenSeconds(r.Problem, r.Variant())})[0]
		for _, got := range slices.Concat(r.SamplesUS, r.BaseAgainUS) {
			// which is recorded under another name than it is launched
			if r.Family == record.Stream {
				break
			}
			if math.Abs(got-us) > 2e-3*us {
				v.wrongf("%s of %s: %g us, the device takes %g", r.Variant(), r.Problem, got, us)
				break
			}
		}
		if r.Family == record.Stream {
			return nil
		}
		if r.Status != kernels.StatusOK &&
			r.Status != kernels.StatusRefused {
			s.failed++
		}
		if all[r.Key]++; all[r.Key] == 2 {
			v.duplicated = append(v.duplicated, r.Variant().String()+" of "+r.Problem.String())
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
		v.wrongf("%v", err)
	case s.failed > mayFail:
		v.wrongf("%d variants are recorded as failed", s.failed)
	}
	return s, v
}

// tuned judges the tuned table of a folder: it can be read, has the variant that won each
// problem with its time, and lacks no problem but those that may.
func (h *harness) tuned(dir string, s state, mayLack func(kernels.Problem) bool) (v toll) {
	path := filepath.Join(dir, "out", devicetest.CPU().ID, tune.FileName)
	table, err := tune.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		table, err = &tune.Table{}, nil
	}
	if err != nil {
		v.wrongf("%v", err)
		return v
	}
	have := map[kernels.Problem]bool{}
	for _, e := range table.Entries {
		have[e.Problem] = true
		won, ok := s.won[e.Problem]
		us := evenSeconds(e.Problem, e.Variant()) * 1e6
		switch {
		case !ok:
			v.wrongf("%s has an entry and no record", e.Problem)
		case math.Abs(e.MedianUS-us) > 2e-3*us:
			v.wrongf("%s of %s takes %g us in the table", e.Variant(), e.Problem, e.MedianUS)
		case e.Variant() != won && evenSeconds(e.Problem, won) < 0.98*evenSeconds(e.Problem,
			e.Variant()):
			v.wrongf("%s is in the table for %s, %s won", e.Variant(), e.Problem, won)
		case !e.Proven():
			v.wrongf("%s is in the table for %s, not proven faster than the base", e.Variant(),
				e.Problem)
		}
	}
	for p := range s.won {
		if !have[p] && !mayLack(p) {
			v.lost = append(v.lost, "the entry of "+p.String())
		}
	}
	return v
}

func none(kernels.Problem) bool  { return false }
func every(kernels.Problem) bool { return true }

// resumed runs a job again, which is to go on and to end whole: all that was there before
// is, and all that there is to measure.
func (h *harness) resumed(j job, dir string, before state, mayFail int) (v toll) {
	p := h.start(j.with(dir))
	if p.ended(&v, 0); v.wrong != nil {
		return v
	}
	after, w := h.state(dir, mayFail)
	v.add(w)
	v.add(h.whole(j, after))
	for k := range before.keys {
		if after.keys[k] == 0 {
			v.lost = append(v.lost, "what was kept: "+k)
		}
	}
	v.add(h.tuned(dir, after, none))
	return v
}

func (h *harness) whole(j job, s state) (v toll) {
	if j.search() {
		if len(s.won) != 6 {
			v.lost = append(v.lost, fmt.Sprintf("%d of 6 problems have a winner", len(s.won)))
		}
		return v
	}
	for k := range j.keys {
		if s.keys[k] == 0 {
			v.lost = append(v.lost, k)
		}
	}
	return v
}
