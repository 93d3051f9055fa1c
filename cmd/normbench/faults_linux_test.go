package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
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
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"normbench/internal/durable"
	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
	"normbench/sweep/record"
	"normbench/sweep/search"
	"normbench/tune"
)

// faultsEnv is how many faults TestFaultHarness injects: `make faults`. faultSeedEnv draws others.
const (
	faultsEnv    = "NORMBENCH_FAULTS"
	faultSeedEnv = "NORMBENCH_FAULT_SEED"
)

// TestFaultHarness injects faults into the whole program and prints for each class how many
// were survived, and how many lost a record, recorded one twice or led to a wrong number. It
// runs where NORMBENCH_FAULTS says how many; docs/reliability.md has its table.
func TestFaultHarness(t *testing.T) {
	n, err := strconv.Atoi(cmp.Or(os.Getenv(faultsEnv), "0"))
	if err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		t.Skip("make faults")
	}
	seed, _ := strconv.ParseUint(cmp.Or(os.Getenv(faultSeedEnv), "1"), 10, 64)
	t.Setenv("COLUMNS", "400")
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	h := &harness{t: t, dir: t.TempDir(), seed: seed, scale: float64(n) / 1000}
	h.prepare()

	both := func(i int) job { return h.jobs[i%2] }
	h.class("kill -9, grid", 100, 2*runtime.NumCPU(), func(i int, r *rand.Rand) toll { return h.killed(h.jobs[0], r, syscall.SIGKILL) })
	h.class("kill -9, search", 100, 2*runtime.NumCPU(), func(i int, r *rand.Rand) toll { return h.killed(h.jobs[1], r, syscall.SIGKILL) })
	h.class("kill -9 and INT, learn", 40, 2, func(i int, r *rand.Rand) toll {
		return h.killedLearn(r, []syscall.Signal{syscall.SIGKILL, syscall.SIGINT}[i%2])
	})
	stops := []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT}
	h.class("TERM, HUP, INT", 45, 2*runtime.NumCPU(), func(i int, r *rand.Rand) toll { return h.killed(both(i/3), r, stops[i%3]) })
	h.class("closed pipe", 30, 2*runtime.NumCPU(), func(i int, r *rand.Rand) toll { return h.killed(both(i), r, syscall.SIGPIPE) })
	if h.mounts() {
		h.class("full disk", 40, 1, func(i int, r *rand.Rand) toll { return h.fullDisk(both(i), r) })
		h.class("read-only disk", 12, 1, func(i int, r *rand.Rand) toll { return h.readOnly(i) })
	} else {
		fmt.Println("no tmpfs may be mounted here: neither full nor read-only disks")
	}
	h.class("file size limit", 30, 2*runtime.NumCPU(), func(i int, r *rand.Rand) toll { return h.limited(both(i), "-f", 1+r.IntN(40)) })
	h.class("few file descriptors", 40, 2*runtime.NumCPU(), func(i int, r *rand.Rand) toll { return h.limited(both(i), "-n", 3+r.IntN(24)) })
	h.class("files changed under it", 70, 2*runtime.NumCPU(), func(i int, r *rand.Rand) toll { return h.changed(both(i), i/2, r) })
	h.class("two writers", 30, runtime.NumCPU(), func(i int, r *rand.Rand) toll { return h.twoWriters(both(i), r) })
	h.class("clock jumps", 30, runtime.NumCPU(), func(i int, r *rand.Rand) toll { return h.clock(r) })
	for _, f := range h.readers {
		h.class(f.name, f.share, runtime.NumCPU(), func(i int, r *rand.Rand) toll { return h.damaged(f, r) })
	}
	h.class("large YAML", 30, runtime.NumCPU(), func(i int, r *rand.Rand) toll { return h.large(r) })
	h.workerFaults()
	h.print()
}

// A toll is what came of a fault: nothing where it was survived.
type toll struct{ lost, duplicated, wrong []string }

func (v *toll) wrongf(format string, args ...any) {
	v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
}

func (v *toll) add(w toll) {
	v.lost, v.duplicated, v.wrong = append(v.lost, w.lost...), append(v.duplicated, w.duplicated...), append(v.wrong, w.wrong...)
}

type harness struct {
	t       *testing.T
	dir     string
	seed    uint64
	scale   float64
	jobs    [2]job // a grid, a search
	readers []reader
	done    [2]string // folders of their results
	twice   string    // records of two searches, the first with other times
	wanted  []outcome // of ofTwice

	made  atomic.Int64 // folders
	table []tally
}

type tally struct {
	name                                        string
	injected, survived, lost, duplicated, wrong int
}

// class injects a share of 1000 faults, so many at a time.
func (h *harness) class(name string, share, parallel int, inject func(i int, r *rand.Rand) toll) {
	n := int(math.Ceil(float64(share) * h.scale))
	y := tally{name: name, injected: n}
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan bool, parallel)
	start := time.Now()
	for i := range n {
		slots <- true
		wg.Go(func() {
			defer func() { <-slots }()
			r := rand.New(rand.NewPCG(h.seed, uint64(len(h.table))<<32|uint64(i)))
			v := inject(i, r)
			mu.Lock()
			defer mu.Unlock()
			if len(v.lost)+len(v.duplicated)+len(v.wrong) == 0 {
				y.survived++
				return
			}
			h.t.Errorf("%s, fault %d: lost %s, duplicated %s, wrong %s", name, i, some(v.lost), some(v.duplicated), some(v.wrong))
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
	fmt.Printf("\nseed %d\n\n| class | injected | survived | lost | duplicated | wrong |\n|---|---|---|---|---|---|\n", h.seed)
	for _, y := range append(h.table, tally{}) {
		if y.name == "" {
			y = sum
		}
		fmt.Printf("| %s | %d | %d | %d | %d | %d |\n", y.name, y.injected, y.survived, y.lost, y.duplicated, y.wrong)
		sum.injected, sum.survived, sum.lost = sum.injected+y.injected, sum.survived+y.survived, sum.lost+y.lost
		sum.duplicated, sum.wrong = sum.duplicated+y.duplicated, sum.wrong+y.wrong
	}
}

func (h *harness) folder() string {
	dir := filepath.Join(h.dir, fmt.Sprint("f", h.made.Add(1)))
	if err := os.Mkdir(dir, 0o755); err != nil {
		h.t.Fatal(err)
	}
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
	h.jobs[0].args = []string{"sweep", "--shapes", shapes, "--op", "rmsnorm", "--pass", "fwd", "--family", "rms_fwd/cta_reg,rms_fwd/two_pass", "--samples", "7", "--strategy", "grid"}
	h.jobs[1].args = []string{"sweep", "--shapes", shapes, "--op", "rmsnorm", "--pass", "fwd", "--samples", "5", "--strategy", search.Auto, "--seed", "1", "--budget", "60", "--finals", "4", "--rounds", "6"}
	for i := range h.jobs {
		j := &h.jobs[i]
		dir := h.folder()
		start := time.Now()
		if p := h.start(j.with(dir)); p.wait() != 0 {
			h.t.Fatalf("without a fault: %s", p.stderr())
		}
		j.took = time.Since(start)
		s, v := h.state(dir, 0)
		v.add(h.tuned(dir, s, none))
		if v.wrong != nil || v.duplicated != nil {
			h.t.Fatalf("without a fault: %+v", v)
		}
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
	dir := h.folder()
	p := &proc{h: h, cmd: exec.Command(name, args...), err: filepath.Join(dir, "stderr"), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), cacheVariable+"="+smallCache)
	f, err := os.Create(p.err)
	if err != nil {
		h.t.Fatal(err)
	}
	defer f.Close()
	p.cmd.Stderr = f
	return p.begin()
}

func (p *proc) begin() *proc {
	if err := p.cmd.Start(); err != nil {
		p.h.t.Error(err)
	}
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
	case code == exitTrouble && (strings.Count(text, "normbench: error: ") != 1 || strings.Count(text, "normbench: hint: ") != 1):
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
			if r.Family == record.Stream { // which is recorded under another name than it is launched
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
		if r.Status != kernels.StatusOK && r.Status != record.StatusPruned && r.Status != kernels.StatusRefused {
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
	case err != nil && !strings.Contains(err.Error(), "is not a records file") && !strings.Contains(err.Error(), " is empty"):
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
		case e.Variant() != won && evenSeconds(e.Problem, won) < 0.98*evenSeconds(e.Problem, e.Variant()):
			v.wrongf("%s is in the table for %s, %s won", e.Variant(), e.Problem, won)
		case !e.Proven():
			v.wrongf("%s is in the table for %s, not proven faster than the base", e.Variant(), e.Problem)
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

// moment waits for a random point of a job: so much time, or so much in the records file, which
// is when they are appended. It returns early when the program ends.
func (h *harness) moment(j job, r *rand.Rand, dir string, p *proc) {
	path := filepath.Join(dir, "out", devicetest.CPU().ID, record.FileName)
	after := time.Duration(float64(j.took) * r.Float64())
	size := int64(math.MaxInt64)
	if r.IntN(3) > 0 {
		after, size = time.Minute, r.Int64N(j.size)
	}
	for start := time.Now(); time.Since(start) < after; time.Sleep(200 * time.Microsecond) {
		if st, err := os.Stat(path); err == nil && st.Size() > size {
			time.Sleep(time.Duration(r.IntN(2000)) * time.Microsecond)
			return
		}
		select {
		case <-p.done:
			return
		default:
		}
	}
}

// killedLearn sends a signal to learn at a random moment, and then runs it to its end. Whatever table is there is whole, with a
// map that has cells once there is one, and the entry that a sweep had written stays.
func (h *harness) killedLearn(r *rand.Rand, sig syscall.Signal) (v toll) {
	dir := h.folder()
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "out")
	if err := os.CopyFS(filepath.Join(out, devicetest.CPU().ID), os.DirFS(h.done[1])); err != nil {
		h.t.Fatal(err)
	}
	path := filepath.Join(out, devicetest.CPU().ID, tune.FileName)
	swept, err := tune.Read(path)
	if err != nil {
		h.t.Fatal(err)
	}
	args := []string{"learn", "--worker", "normbench-faulty", "--domain", "M=1:16,N=64:128", "--op", "rmsnorm", "--pass", "fwd",
		"--prior", "none", "--budget", "4s", "--out", out}
	look := func() {
		t, err := tune.Read(path)
		switch {
		case err != nil:
			v.wrongf("%v", err)
		case len(t.Entries) != len(swept.Entries):
			v.wrongf("%d entries of %d", len(t.Entries), len(swept.Entries))
		case t.Map != nil && len(t.Map.Rasters) == 0:
			v.wrongf("a map without a raster")
		}
	}
	p := h.start(args)
	time.Sleep(time.Duration(r.Float64() * 4.5 * float64(time.Second)))
	p.cmd.Process.Signal(sig)
	p.ended(&v, 0, -1, exitSignal)
	look()
	p = h.start(args)
	p.ended(&v, 0)
	look()
	if t, err := tune.Read(path); err == nil && t.Map == nil {
		v.lost = append(v.lost, "the map")
	}
	return v
}

// killed sends a signal at a random moment, up to three times in a row, and goes on.
func (h *harness) killed(j job, r *rand.Rand, sig syscall.Signal) (v toll) {
	dir := h.folder()
	defer os.RemoveAll(dir)
	for range 1 + r.IntN(3) {
		var p *proc
		var reading *os.File
		if sig == syscall.SIGPIPE {
			var writing *os.File
			var err error
			if reading, writing, err = os.Pipe(); err != nil {
				h.t.Fatal(err)
			}
			p = &proc{h: h, cmd: exec.Command("normbench", j.with(dir)...), done: make(chan struct{})}
			p.cmd.Env = append(os.Environ(), cacheVariable+"="+smallCache)
			if p.cmd.Stderr = writing; r.IntN(2) == 0 {
				p.cmd.Stdout = writing
			}
			p.begin()
			writing.Close()
			go io.Copy(io.Discard, reading)
		} else {
			p = h.start(j.with(dir))
		}
		h.moment(j, r, dir, p)
		switch sig {
		case syscall.SIGPIPE:
			reading.Close()
			p.ended(&v, -1, 0, exitTrouble)
		case syscall.SIGKILL:
			p.cmd.Process.Signal(sig)
			p.ended(&v, -1, 0)
		default:
			p.cmd.Process.Signal(sig)
			p.ended(&v, 0, exitSignal, -1) // -1: before main had a say
		}
		s, w := h.state(dir, 0)
		v.add(w)
		whole := every // of a grid the table is written at the end
		switch {
		case !j.search():
		case sig == syscall.SIGKILL || sig == syscall.SIGPIPE:
			whole = func(p kernels.Problem) bool { return p == s.last } // its table was about to be written
		default:
			whole = none
		}
		if w := h.tuned(dir, s, whole); j.search() || w.wrong != nil {
			v.add(w)
		}
		if len(v.wrong) > 0 {
			return v
		}
	}
	s, _ := h.state(dir, 0)
	v.add(h.resumed(j, dir, s, 0))
	return v
}

// mounts says whether a tmpfs may be mounted here.
func (h *harness) mounts() bool {
	dir := h.folder()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		return false
	}
	return syscall.Unmount(dir, 0) == nil
}

func (h *harness) fullDisk(j job, r *rand.Rand) (v toll) {
	dir := h.folder()
	if err := syscall.Mount("none", dir, "tmpfs", 0, fmt.Sprintf("size=%dk", 4+4*r.IntN(int(j.size)/4096+3))); err != nil {
		h.t.Fatal(err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	p := h.start(j.with(dir))
	code := p.ended(&v, 0, exitTrouble)
	if code == exitTrouble && !strings.Contains(p.stderr(), "the disk is full") {
		v.wrongf("the hint is not about the disk: %s", p.stderr())
	}
	s, w := h.state(dir, 0)
	v.add(w)
	v.add(h.tuned(dir, s, every))
	if code == 0 {
		v.add(h.whole(j, s))
	}
	if err := syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT, "size=16m"); err != nil {
		h.t.Fatal(err)
	}
	v.add(h.resumed(j, dir, s, 0))
	return v
}

// readOnly has every command that writes do so where nothing can be written.
func (h *harness) readOnly(i int) (v toll) {
	dir := h.folder()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=1m"); err != nil {
		h.t.Fatal(err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	j := h.jobs[i%2]
	from := filepath.Join(h.done[0], record.FileName)
	commands := [][]string{
		j.with(dir),
		{"tune", from, "--out", filepath.Join(dir, "tuned.json")},
		{"tune", from, "--plot", filepath.Join(dir, "rules.svg")},
		{"report", from, "--html", filepath.Join(dir, "page.html")},
		{"export", from, "--format", "kt-cache", "--out", filepath.Join(dir, "caches")},
		{"bench", "base", "--worker", "normbench-faulty", "--shapes", "4096x1024", "--op", "rmsnorm", "--pass", "fwd", "--out", filepath.Join(dir, "out")},
	}
	if i%2 == 1 { // with something in it that must stay
		if err := os.CopyFS(filepath.Join(dir, "out", devicetest.CPU().ID), os.DirFS(h.done[1])); err != nil {
			h.t.Fatal(err)
		}
	}
	if err := syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		h.t.Fatal(err)
	}
	p := h.start(commands[i/2%len(commands)])
	p.ended(&v, exitTrouble)
	return v
}

// limited runs a job under a limit of the shell: -f, the size of files in KiB, or -n, how many
// may be open.
func (h *harness) limited(j job, what string, n int) (v toll) {
	dir := h.folder()
	defer os.RemoveAll(dir)
	p := h.startCommand("sh", append([]string{"-c", fmt.Sprintf(`ulimit %s %d; exec normbench "$@"`, what, n), "sh"}, j.with(dir)...)...)
	codes := []int{0, exitTrouble}
	if what == "-n" && n < 12 {
		codes = append(codes, 127, 2, -1, 1) // neither sh nor Go's runtime can start
	}
	code := p.ended(&v, codes...)
	if what == "-n" && n < 12 && strings.Contains(p.stderr(), "runtime") {
		v = toll{}
	}
	s, w := h.state(dir, 0)
	v.add(w)
	v.add(h.tuned(dir, s, every))
	if code == 0 {
		v.add(h.whole(j, s))
	}
	v.add(h.resumed(j, dir, s, 0))
	return v
}

// changed has somebody else change the files of a sweep on its way.
func (h *harness) changed(j job, what int, r *rand.Rand) (v toll) {
	dir := h.folder()
	defer os.RemoveAll(dir)
	p := h.start(j.with(dir))
	h.moment(j, r, dir, p)
	out := filepath.Join(dir, "out", devicetest.CPU().ID)
	file, table := filepath.Join(out, record.FileName), filepath.Join(out, tune.FileName)
	if strings.Contains(p.stderr(), "measured") || p.cmd.ProcessState != nil {
		p.wait() // too late to be noticed
		return v
	}
	old, err := os.ReadFile(file)
	if err != nil || len(old) == 0 { // not begun: nothing to change
		p.ended(&v, 0)
		s, _ := h.state(dir, 0)
		v.add(h.whole(j, s))
		return v
	}
	late := func() bool { return strings.Contains(p.stderr(), "measured") }
	mends := func() {} // what the somebody does after it
	content := true    // the records are touched
	switch what % 8 {
	case 0:
		os.Rename(file, file+".moved")
		mends = func() { os.Rename(file+".moved", file) }
	case 1:
		os.Remove(file)
	case 2:
		os.Truncate(file, int64(r.IntN(len(old))))
	case 3:
		f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			f.Write(old[:bytes.IndexByte(old, '\n')+1]) // at once: half a line would be damage of its own
			f.Close()
		}
	case 4:
		os.Rename(out, out+".moved")
		mends = func() { os.RemoveAll(out); os.Rename(out+".moved", out) }
	case 5:
		os.RemoveAll(out)
	case 6: // somebody checks out an older one
		os.WriteFile(file+".new", old[:bytes.IndexByte(old, '\n')+1], 0o644)
		os.Rename(file+".new", file)
	case 7:
		os.WriteFile(table, []byte("{"), 0o644)
		content = false
	}
	wasLate := late()
	code := p.ended(&v, 0, exitTrouble)
	if code == 0 && content && !wasLate {
		if s, _ := h.state(dir, 0); len(h.whole(j, s).lost) > 0 {
			v.wrongf("a change (%d) went unnoticed: %s", what%8, p.stderr())
		}
	}
	mends()
	if what%8 == 7 {
		if _, err := tune.Read(table); err != nil {
			os.Remove(table) // as the error said
		}
	}
	s, w := h.state(dir, 0)
	v.add(w)
	v.add(h.resumed(j, dir, s, 0))
	return v
}

// twoWriters starts a second sweep into the folder of the first at a random moment.
func (h *harness) twoWriters(j job, r *rand.Rand) (v toll) {
	dir := h.folder()
	defer os.RemoveAll(dir)
	first := h.start(j.with(dir))
	h.moment(j, r, dir, first)
	second := h.start(j.with(dir))
	a, b := first.ended(&v, 0, exitTrouble), second.ended(&v, 0, exitTrouble)
	if a != 0 && b != 0 {
		v.wrongf("both are refused: %s %s", first.stderr(), second.stderr())
	}
	for _, p := range []*proc{first, second} {
		if p.cmd.ProcessState.ExitCode() != 0 && !strings.Contains(p.stderr(), "another sweep is writing") {
			v.wrongf("%s", p.stderr())
		}
	}
	s, w := h.state(dir, 0)
	v.add(w)
	v.add(h.whole(j, s))
	v.add(h.tuned(dir, s, none))
	v.add(h.resumed(j, dir, s, 0))
	return v
}

// workerFaults runs sweeps with workers that misbehave: every fault at every step, in one
// request or in all from it on, alone or beside one that does not.
func (h *harness) workerFaults() {
	faults := slices.Sorted(maps.Keys(devicetest.Faults))
	pairs := make([][2]string, 0, len(faults)*len(devicetest.Steps))
	for _, f := range faults {
		for _, s := range devicetest.Steps {
			pairs = append(pairs, [2]string{f, s})
		}
	}
	r := rand.New(rand.NewPCG(h.seed, 7))
	r.Shuffle(len(pairs), func(i, k int) { pairs[i], pairs[k] = pairs[k], pairs[i] })
	h.class("worker", len(pairs), 8, func(i int, r *rand.Rand) toll {
		return h.misbehaving(h.jobs[r.IntN(2)], pairs[i%len(pairs)][0], pairs[i%len(pairs)][1], r)
	})
}

func (h *harness) misbehaving(j job, fault, step string, r *rand.Rand) (v toll) {
	dir := h.folder()
	defer os.RemoveAll(dir)
	once, beside := r.IntN(4) > 0, r.IntN(2) == 0
	n, mark := 1, ""
	if once {
		n, mark = 1+r.IntN(8), " "+filepath.Join(dir, "mark")
	}
	workers := []string{fmt.Sprintf("normbench-faulty '%s' %s %d%s", strings.ReplaceAll(fault, "'", `'"'"'`), step, n, mark)}
	if beside {
		workers = append(workers, "normbench-faulty")
	}
	args := append(j.with(dir, workers...), "--timeout", "3s")
	p := h.start(args)
	code := p.ended(&v, 0, exitTrouble)
	// A variant that takes its worker down is a result; a search that measured it measures it in
	// its finals too, where it is the base. Nonsense behind an answer shows in the next one.
	mayFail := 0
	late := fault == "two answers" || fault == "endless lines"
	if once && (step == "prepare" || step == "check" || step == "time" || late) {
		mayFail = 2
	}
	if !once && strings.HasSuffix(fault, "reason") { // of each variant, as far as anybody can see
		mayFail = len(j.keys) + 100
	}
	s, w := h.state(dir, mayFail)
	v.add(w)
	if !once && strings.HasSuffix(fault, "reason") {
		return v
	}
	if code == 0 && once || code == 0 && beside {
		v.add(h.whole(j, s))
	}
	if len(v.wrong) > 0 {
		v.wrongf("%s at %s %d once=%v beside=%v: %s", fault, step, n, once, beside, p.stderr())
		return v
	}
	v.add(h.resumed(j, dir, s, mayFail))
	if len(v.wrong)+len(v.lost) > 0 {
		v.wrongf("%s at %s %d once=%v beside=%v: %s", fault, step, n, once, beside, p.stderr())
	}
	return v
}

// clock writes the records of two sweeps with a clock that jumps between and within them.
// What is read off them is what it was.
func (h *harness) clock(r *rand.Rand) (v toll) {
	dir := h.folder()
	defer os.RemoveAll(dir)
	jump := func() time.Duration { return time.Duration(r.Int64N(int64(40*365*24*time.Hour))) - 20*365*24*time.Hour }
	w, _, err := record.OpenWriter(dir)
	if err != nil {
		h.t.Fatal(err)
	}
	runs, by := map[string]bool{}, map[string]time.Duration{}
	var group []interface{ CheckValid() error }
	flush := func() {
		if len(group) > 0 {
			if err := w.AppendAll(group...); err != nil {
				v.wrongf("%v", err)
			}
		}
		group = nil
	}
	_, err = record.Read(h.twice, func(rec *record.Record, run *record.Run) error {
		if !runs[run.ID] {
			flush()
			runs[run.ID], by[run.ID] = true, jump()
			c := *run
			c.Time = c.Time.Add(by[run.ID])
			if err := w.Append(&c); err != nil {
				return err
			}
		}
		if r.IntN(20) == 0 {
			by[run.ID] = jump()
		}
		rec.Time = rec.Time.Add(by[run.ID])
		if rec.Finals == 0 {
			flush()
		}
		group = append(group, rec)
		if rec.Finals == len(group) || rec.Finals == 0 {
			flush()
		}
		return nil
	})
	flush()
	if err != nil {
		v.wrongf("%v", err)
	}
	w.Close()
	for i, args := range h.ofTwice(filepath.Join(dir, record.FileName)) {
		if got := h.inside(args); got.code != h.wanted[i].code || got.stdout != h.wanted[i].stdout {
			v.wrongf("%s: exit code %d, %s%s, want %s", args[0], got.code, got.stdout, got.stderr, h.wanted[i].stdout)
		}
	}
	return v
}

// A reader is a file that the program reads, with commands whose output is a function of it.
type reader struct {
	name     string
	share    int
	path     string
	data     []byte
	sealed   bool // it has a checksum: no other content may pass for its own
	lines    bool // its end may be torn off
	commands func(path string) [][]string
	want     []outcome
}

type outcome struct {
	code           int
	stdout, stderr string
}

// inside runs a command in this process.
func (h *harness) inside(args []string) (o outcome) {
	defer func() {
		if p := recover(); p != nil {
			o.code, o.stderr = -2, fmt.Sprint("panic: ", p)
		}
	}()
	var stdout, stderr bytes.Buffer
	o.code = run(append([]string{"normbench"}, args...), strings.NewReader(""), &stdout, &stderr, families.New())
	o.stdout, o.stderr = stdout.String(), stderr.String()
	for _, a := range args {
		if path, _, _ := strings.Cut(strings.TrimPrefix(a, "tuned:"), "#"); strings.HasPrefix(path, h.dir) {
			o.stdout = strings.ReplaceAll(o.stdout, path, "FILE")
		}
	}
	return o
}

// damage flips, changes, inserts, drops or repeats bytes of data, or tears off its end.
func damage(data []byte, r *rand.Rand) []byte {
	b := slices.Clone(data)
	i := r.IntN(len(b))
	n := min(1+r.IntN(40), len(b)-i)
	switch r.IntN(8) {
	case 0:
		b[i] ^= 1 << r.IntN(8)
	case 1, 2: // another digit
		for k := range b {
			if c := &b[(i+k)%len(b)]; *c >= '0' && *c <= '9' {
				*c = '0' + (*c-'0'+byte(1+r.IntN(9)))%10
				break
			}
		}
	case 3:
		b = b[:i]
	case 4:
		b = slices.Delete(b, i, i+n)
	case 5:
		b = slices.Insert(b, i, b[i:i+n]...)
	case 6: // as a file system leaves behind
		clear(b[i : i+n])
	case 7:
		for k := range b[i : i+n] {
			b[i+k] = byte(r.IntN(256))
		}
	}
	return b
}

func (h *harness) damaged(f reader, r *rand.Rand) (v toll) {
	dir := h.folder()
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, filepath.Base(f.path))
	for k := 1; ; k++ {
		b := damage(f.data, r)
		if k += r.IntN(3); k < 3 {
			b = damage(append(b, ' '), r)
		}
		if bytes.Equal(bytes.TrimSpace(b), bytes.TrimSpace(f.data)) {
			continue
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			h.t.Fatal(err)
		}
		break
	}
	b, _ := os.ReadFile(path)
	commands := f.commands(path)
	i := r.IntN(len(commands))
	start := time.Now()
	got := h.inside(commands[i])
	said := strings.Count(got.stderr, "normbench: error: ") == 1 && strings.Count(got.stderr, "normbench: hint: ") == 1
	switch d := time.Since(start); {
	case got.code < 0:
		v.wrongf("%s: %s", commands[i], got.stderr)
	case d > 20*time.Second:
		v.wrongf("%s: it took %s", commands[i], d)
	case got.code == exitTrouble && !said:
		v.wrongf("%s: not one error and one hint: %s", commands[i], got.stderr)
	case got.code == exitTrouble || !f.sealed:
	case got.code == f.want[i].code && got.stdout == f.want[i].stdout:
	case f.lines && strings.Contains(got.stderr, "dropped the last") || strings.Contains(got.stderr, "left out"):
		// As it is without all from the first damaged line on.
		at := 0
		for at < min(len(b), len(f.data)) && b[at] == f.data[at] {
			at++
		}
		if err := os.WriteFile(path, f.data[:bytes.LastIndexByte(f.data[:at], '\n')+1], 0o644); err != nil {
			h.t.Fatal(err)
		}
		if want := h.inside(commands[i]); got.code != want.code || got.stdout != want.stdout {
			v.wrongf("%s: %s%s, want %s", commands[i], got.stdout, got.stderr, want.stdout)
		}
	default:
		at := 0
		for at < min(len(b), len(f.data)) && b[at] == f.data[at] {
			at++
		}
		v.wrongf("%s: %s%s, want %s; %q became %q", commands[i], got.stdout, got.stderr, f.want[i].stdout, around(f.data, at), around(b, at))
	}
	return v
}

// large is a file of shapes, of rules or of a family beyond what honest ones have, of parts of one kind.
func (h *harness) large(r *rand.Rand) (v toll) {
	dir := h.folder()
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "large.yaml")
	each := []string{"a%d: [[1, 1]]\n", "a%d:\n", "a%d", "{a%d: ", "- ", "[%d, 1], ", "# %d\n", "'%d' "}[r.IntN(8)]
	b := []byte([]string{"", "a: [", "kind: rules\nclasses: ", "name: a\nop: rmsnorm\npass: fwd\nbase: "}[r.IntN(4)])
	for size := 280<<10 + r.IntN(3<<20); len(b) < size; {
		b = append(b, strings.ReplaceAll(each, "%d", strconv.Itoa(len(b)))...)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		h.t.Fatal(err)
	}
	args := [][]string{{"list", "shapes", "--shapes", path}, {"lint", path}, {"list", "kernels", "--kernels", dir}}[r.IntN(3)]
	start := time.Now()
	got := h.inside(args)
	if d := time.Since(start); d > 20*time.Second || got.code != exitTrouble || strings.Count(got.stderr, "normbench: error: ") != 1 || strings.Count(got.stderr, "normbench: hint: ") != 1 {
		v.wrongf("%s of %.60q...: exit code %d in %s, %s", args, b, got.code, d, got.stderr)
	}
	return v
}

func around(b []byte, at int) []byte { return b[max(at-20, 0):min(at+30, len(b))] }

// ofTwice are commands whose output hangs on which of several records of a variant counts.
func (h *harness) ofTwice(path string) [][]string {
	return [][]string{
		{"report", path},
		{"compare", path + "#base", path, "--format", "csv"},
		{"tune", path},
		{"export", path, "--format", "benchfmt"},
	}
}

// prepareReaders makes one of each file that is read, and what the commands say of it.
func (h *harness) prepareReaders() {
	must := func(o outcome) {
		if o.code != 0 {
			h.t.Fatalf("%s", o.stderr)
		}
	}
	made := h.folder()
	in := func(name string) string { return filepath.Join(made, name) }
	read := func(path string) []byte {
		b, err := os.ReadFile(path)
		if err != nil {
			h.t.Fatal(err)
		}
		return b
	}
	records, search := filepath.Join(h.done[0], record.FileName), filepath.Join(h.done[1], record.FileName)
	pack := func(text []byte) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write(text)
		z.Close()
		return b.Bytes()
	}
	must(h.inside([]string{"compare", "base", "rms_fwd/cta_reg@br4.w2", "--shapes", "4096x1024,2048x1024", "--op", "rmsnorm", "--pass", "fwd", "--seed", "1", "--worker", "normbench-fake ab", "--out", in("live")}))
	live, _ := filepath.Glob(in("live/*/compare-*.json"))
	ofRecords := func(path string) [][]string {
		return [][]string{{"report", path}, {"compare", path + "#base", path}, {"tune", path}, {"export", path, "--format", "benchfmt"}}
	}
	ofTable := func(path string) [][]string {
		return [][]string{{"explain", "4096x1024", "--tuned", path}, {"lint", path}, {"explain", "700x1024", "--tuned", path}}
	}
	// A map of a GPU, as `explain` takes none of another cpu. lint has findings, so it prints what the file says.
	ofMap := func(path string) [][]string {
		return [][]string{{"explain", "2000x5000", "--tuned", path}, {"lint", path}}
	}
	mapped := func() []byte {
		_, text, _ := strings.Cut(string(read(filepath.Join("testdata", "script", "rule.txtar"))), "-- map.json --\n")
		text, _, ok := strings.Cut(text, "\n-- ")
		if !ok {
			h.t.Fatal("rule.txtar has no map.json")
		}
		return durable.SealText([]byte(text))
	}
	examples, err := filepath.Abs(filepath.Join("..", "..", "examples", "kernels"))
	if err != nil {
		h.t.Fatal(err)
	}
	manifest, source := filepath.Join(examples, "rms_warp.yaml"), filepath.Join(examples, "rms_warp.cu")
	ofKernels := func(path string) [][]string {
		for _, name := range []string{manifest, source} {
			if filepath.Base(name) != filepath.Base(path) {
				if err := os.WriteFile(filepath.Join(filepath.Dir(path), filepath.Base(name)), read(name), 0o644); err != nil {
					h.t.Error(err)
				}
			}
		}
		return [][]string{
			{"list", "configs", "--kernels", filepath.Dir(path), "--family", "rms_warp", "--problem", "rmsnorm/fwd/4096x4096/bf16", "--device", "h200", "--plans"},
			{"verify", "--host-only", "--kernels", filepath.Dir(path), "--device", "cpu", "--shapes", "8x64", "--op", "rmsnorm", "--pass", "fwd"},
		}
	}
	shapes, err := filepath.Abs(filepath.Join("..", "..", "shapes.yaml"))
	if err != nil {
		h.t.Fatal(err)
	}
	rounds := []byte("round,a,b,twin\n")
	for i := range 12 {
		rounds = fmt.Appendf(rounds, "%d,%g,%g,%g\n", i, 10+0.01*float64(i%3), 9.5+0.01*float64(i%4), 10+0.01*float64(i%5))
	}
	published := []byte("op,pass,M,N,stream_us,x_us,y_us\n")
	for i := range 12 {
		published = fmt.Appendf(published, "layer,bwd,%d,1024,%g,%g,%g\n", 64<<i, 2+float64(i), 4.5+float64(i), 4.4+float64(i))
	}
	h.readers = []reader{
		{name: "records, a grid", share: 120, path: "records.jsonl", data: read(records), sealed: true, lines: true, commands: ofRecords},
		{name: "records, a search", share: 120, path: "records.jsonl", data: read(search), sealed: true, lines: true, commands: ofRecords},
		{name: "records, packed", share: 40, path: "records.jsonl.gz", data: pack(read(search)), sealed: true, commands: ofRecords},
		{name: "tuned.json", share: 60, path: "tuned.json", data: read(filepath.Join(h.done[1], tune.FileName)), sealed: true, commands: ofTable},
		{name: "map", share: 60, path: "tuned.json", data: mapped(), sealed: true, commands: ofMap},
		{name: "live compare, packed", share: 30, path: "live.json.gz", data: pack(read(live[0])), sealed: true, commands: func(path string) [][]string {
			return [][]string{{"report", path}, {"compare", path + "#A", path + "#B"}}
		}},
		{name: "live compare", share: 60, path: "live.json", data: read(live[0]), sealed: true, commands: func(path string) [][]string {
			return [][]string{{"report", path}, {"compare", path + "#A", path + "#B"}}
		}},
		{name: "shapes", share: 30, path: "shapes.yaml", data: read(shapes), commands: func(path string) [][]string { return [][]string{{"list", "shapes", "--shapes", path}} }},
		{name: "manifest", share: 30, path: filepath.Base(manifest), data: read(manifest), commands: ofKernels},
		{name: "user's kernel", share: 10, path: filepath.Base(source), data: read(source), commands: ofKernels},
		{name: "user's kernel with a BOM", share: 10, path: filepath.Base(source), data: append([]byte("\xef\xbb\xbf"), read(source)...), commands: ofKernels},
		{name: "published times", share: 20, path: "published.csv", data: published, commands: func(path string) [][]string {
			return [][]string{{"compare", path + "#x_us", path + "#y_us"}}
		}},
		{name: "rounds to judge", share: 20, path: "rounds.csv", data: rounds, commands: func(path string) [][]string { return [][]string{{"judge", path}} }},
	}
	for i := range h.readers {
		f := &h.readers[i]
		path := filepath.Join(h.folder(), f.path)
		if err := os.WriteFile(path, f.data, 0o644); err != nil {
			h.t.Fatal(err)
		}
		for _, args := range f.commands(path) {
			start := time.Now()
			o := h.inside(args)
			if d := time.Since(start); d > time.Second/2 {
				h.t.Logf("%s takes %s", args[0], d)
			}
			if o.code == exitTrouble {
				h.t.Fatalf("%s: %s", args, o.stderr)
			}
			f.want = append(f.want, o)
		}
	}

	h.twice = in("twice.jsonl")
	h.writeTwice(search)
	for _, args := range h.ofTwice(h.twice) {
		o := h.inside(args)
		must(o)
		h.wanted = append(h.wanted, o)
	}
}

// writeTwice writes a file in which other times of the same variants stand before those of
// a records file.
func (h *harness) writeTwice(from string) {
	w, _, err := record.OpenWriter(h.folder())
	if err != nil {
		h.t.Fatal(err)
	}
	for generation := range 2 {
		runs := map[string]bool{}
		var group []interface{ CheckValid() error }
		_, err := record.Read(from, func(rec *record.Record, run *record.Run) error {
			id := fmt.Sprint(run.ID, "-", generation)
			if !runs[run.ID] {
				runs[run.ID] = true
				c := *run
				c.ID = id
				if err := w.Append(&c); err != nil {
					return err
				}
			}
			if rec.Run = id; generation == 0 { // other times, and another order
				f := 1 + float64(len(rec.Variant().String())%7)/7
				for i := range rec.SamplesUS {
					rec.SamplesUS[i] *= f
				}
			}
			if rec.Finals == 0 {
				return w.Append(rec)
			}
			if group = append(group, rec); len(group) < rec.Finals {
				return nil
			}
			g := group
			group = nil
			return w.AppendAll(g...)
		})
		if err != nil {
			h.t.Fatal(err)
		}
	}
	w.Close()
	if err := os.Rename(w.Path(), h.twice); err != nil {
		h.t.Fatal(err)
	}
}
