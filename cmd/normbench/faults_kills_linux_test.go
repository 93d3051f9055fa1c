package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"normbench/internal/durable"
	"normbench/kernels"
	"normbench/kernels/cpu"
	"normbench/kernels/devicetest"
	"normbench/sweep/ab"
	"normbench/sweep/record"
	"normbench/sweep/search"
	"normbench/sweep/stats"
	"normbench/tune"
)

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

// mapped judges a tuned table into which a map is written: it is whole, with the entries that a
// sweep had left in it, and with a map that has cells once there is one. It says whether there is.
func mapped(v *toll, path string, entries int) bool {
	t, err := tune.Read(path)
	switch {
	case err != nil:
		v.wrongf("%v", err)
		return false
	case len(t.Entries) != entries:
		v.wrongf("%d entries of %d", len(t.Entries), entries)
	case t.Map != nil && len(t.Map.Rasters) == 0:
		v.wrongf("a map without a raster")
	}
	return t.Map != nil
}

// killedMap sends a signal to a command that merges a map into a swept table, within so much time,
// and then runs it to its end.
func (h *harness) killedMap(r *rand.Rand, sig syscall.Signal, within time.Duration,
	command func(out string) []string) (v toll) {
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
	p := h.start(command(out))
	time.Sleep(time.Duration(r.Float64() * float64(within)))
	p.cmd.Process.Signal(sig)
	p.ended(&v, 0, -1, exitSignal)
	mapped(&v, path, len(swept.Entries))
	p = h.start(command(out))
	p.ended(&v, 0)
	if !mapped(&v, path, len(swept.Entries)) {
		v.lost = append(v.lost, "the map")
	}
	return v
}

func (h *harness) killedLearn(r *rand.Rand, sig syscall.Signal) toll {
	return h.killedMap(r, sig, 4500*time.Millisecond, func(out string) []string {
		return []string{"learn", "--worker", "normbench-faulty", "--domain", "M=1:16,N=64:128", "--op",
			"rmsnorm", "--pass", "fwd",
			"--prior", "none", "--budget", "4s", "--out", out}
	})
}

func (h *harness) killedTune(r *rand.Rand) toll {
	return h.killedMap(r, syscall.SIGKILL, 200*time.Millisecond, func(out string) []string {
		folder := filepath.Join(out, devicetest.CPU().ID)
		return []string{"tune", filepath.Join(folder, record.FileName), "--out",
			filepath.Join(folder, tune.FileName)}
	})
}

// killedCompare kills a live compare at a random moment. What it had written is a whole file, with
// which it goes on: no cell is lost or measured again.
func (h *harness) killedCompare(r *rand.Rand) (v toll) {
	dir := h.folder()
	defer os.RemoveAll(dir)
	args := []string{"compare", "base", "rms_fwd/cta_reg@br4.w2", "--shapes",
		"4096x1024,2048x1024,1024x1024,512x1024", "--op", "rmsnorm",
		"--pass", "fwd", "--worker", "normbench-fake ab"}
	p := h.start(append(slices.Clone(args), "--out", dir))
	time.Sleep(time.Duration(r.Float64() * float64(time.Second)))
	p.cmd.Process.Kill()
	p.ended(&v, 0, -1)
	match := func(path string) *ab.Match {
		text, err := os.ReadFile(path)
		if err != nil {
			v.wrongf("%v", err)
			return &ab.Match{}
		}
		m, err := ab.Parse(text)
		if err != nil || durable.Verify(text) != nil {
			v.wrongf("%v, %v", err, durable.Verify(text))
			return &ab.Match{}
		}
		return m
	}
	before := &ab.Match{}
	if files, _ := filepath.Glob(filepath.Join(dir, "*", "compare-*.json")); len(files) > 0 {
		before = match(files[0])
		args = append(args, "--resume", files[0])
	} else {
		args = append(args, "--out", dir)
	}
	p = h.start(args)
	p.ended(&v, 0)
	files, _ := filepath.Glob(filepath.Join(dir, "*", "compare-*.json"))
	if len(files) != 1 {
		v.wrongf("%d files", len(files))
		return v
	}
	after := match(files[0])
	if len(after.Duels) != 4 {
		v.lost = append(v.lost, fmt.Sprintf("%d of 4 cells are there", len(after.Duels)))
	}
	for _, d := range before.Duels {
		if !slices.ContainsFunc(after.Duels, func(x *ab.Result) bool { return reflect.DeepEqual(x, d) }) {
			v.lost = append(v.lost, "the cell of "+d.Problem.String())
		}
	}
	return v
}

// lies sweeps on a GPU that answers some times shorter than an empty launch, or says that its
// memory moves what no card's does. No such time is a result.
func (h *harness) lies(r *rand.Rand) (v toll) {
	dir := h.folder()
	defer os.RemoveAll(dir)
	worker, floor := fmt.Sprintf("normbench-fake lie %g %g", 1.8*math.Exp(-5*r.Float64()),
		[]float64{0.5, 1}[r.IntN(2)]), 1.9
	if r.IntN(3) == 0 {
		worker, floor = fmt.Sprintf("normbench-fake peak %.0f", math.Exp(30+13*r.Float64())), math.Inf(1)
	}
	args := []string{"sweep", "--shapes", "4096x1024,512x1024", "--op", "rmsnorm", "--pass", "fwd",
		"--family", "rms_fwd/two_pass", "--samples", "5",
		"--strategy", []string{search.Grid,
			search.Auto}[r.IntN(2)], "--worker", worker, "--out", filepath.Join(dir, "out")}
	p := h.start(args)
	p.ended(&v, 0, exitTrouble, exitUnfit)
	path := filepath.Join(dir, "out", devicetest.H200().ID, record.FileName)
	if _, err := os.Stat(path); err != nil {
		return v
	}
	_, err := record.Read(path, func(rec *record.Record, _ *record.Run) error {
		if us := stats.Median(rec.SamplesUS); rec.Status == kernels.StatusOK && us < floor {
			v.wrongf("%s: %s of %s takes %g us", worker, rec.Variant(), rec.Problem, us)
		}
		return nil
	})
	if err != nil && !strings.Contains(err.Error(), " is empty") {
		v.wrongf("%v", err)
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
			p.cmd.Env = append(os.Environ(), cpu.CacheVariable+"="+smallCache)
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
	if err := syscall.Mount("none", dir, "tmpfs", 0,
		fmt.Sprintf("size=%dk", 4+4*r.IntN(int(j.size)/4096+3))); err != nil {
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
		{"bench", "base", "--worker", "normbench-faulty", "--shapes", "4096x1024", "--op", "rmsnorm",
			"--pass", "fwd", "--out", filepath.Join(dir, "out")},
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
	p := h.startCommand("sh", append([]string{"-c", fmt.Sprintf(`ulimit %s %d; exec normbench "$@"`, what,
		n), "sh"}, j.with(dir)...)...)
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
	workers := []string{fmt.Sprintf("normbench-faulty '%s' %s %d%s",
		strings.ReplaceAll(fault, "'", `'"'"'`), step, n, mark)}
	if beside {
		workers = append(workers, "normbench-faulty")
	}
	args := append(j.with(dir, workers...), "--timeout", "3s")
	p := h.start(args)
	code := p.ended(&v, 0, exitTrouble, exitUnfit)
	// One death is nobody's result. A launch that is said to fail is one, and in a search again in
	// its finals.
	mayFail := 0
	switch {
	case !strings.HasSuffix(fault, "reason"):
	case once:
		mayFail = 2
	default: // of each variant, as far as anybody can see
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

// flaky runs a sweep with a worker that does the fault at random, or in every n-th answer. It
// blames no variant, says what is unmeasured, and ends whole where it need not.
func (h *harness) flaky(j job, fault, step, when string, whole bool) (v toll) {
	dir := h.folder()
	defer os.RemoveAll(dir)
	p := h.start(append(j.with(dir, fmt.Sprintf("normbench-faulty %s %s %s", fault, step, when)),
		"--timeout", "3s"))
	code := p.ended(&v, 0, exitUnfit)
	s, w := h.state(dir, 0)
	v.add(w)
	switch text := p.stderr(); {
	case code == exitUnfit && (whole || !strings.Contains(text, "unmeasured") ||
		!strings.Contains(text, "same command goes on")):
		v.wrongf("%s %s %s: %s", fault, step, when, text)
	case code == 0:
		v.add(h.whole(j, s))
	}
	v.add(h.resumed(j, dir, s, 0))
	return v
}

// torn makes holes of sectors or pages in the last append of a job that was done, and goes on.
func (h *harness) torn(i int, r *rand.Rand) (v toll) {
	dir := h.folder()
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "out", devicetest.CPU().ID)
	if err := os.CopyFS(out, os.DirFS(h.done[i])); err != nil {
		h.t.Fatal(err)
	}
	path := filepath.Join(out, record.FileName)
	text, err := os.ReadFile(path)
	if err != nil {
		h.t.Fatal(err)
	}
	write := func(b []byte) {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			h.t.Fatal(err)
		}
	}
	start := bytes.LastIndexByte(text[:len(text)-1], '\n') + 1
	for start > 0 { // as long as the line before is of the same append
		before := bytes.LastIndexByte(text[:start-1], '\n') + 1
		if !bytes.Contains(text[before:min(before+60, start)], []byte(`"more":`)) {
			break
		}
		start = before
	}
	write(text[:start])
	s, w := h.state(dir, 0)
	v.add(w)
	for unit := []int{512, 4096}[r.IntN(2)]; bytes.IndexByte(text[start:], 0) < 0; {
		for at := start / unit * unit; at < len(text); at += unit {
			if r.IntN(3) == 0 {
				clear(text[max(at, start):min(at+unit, len(text))])
			}
		}
	}
	write(text)
	v.add(h.resumed(h.jobs[i], dir, s, 0))
	return v
}

// bomb packs a file that unpacks to a thousand times its size.
func (h *harness) bomb(r *rand.Rand) (v toll) {
	dir := h.folder()
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "out", devicetest.CPU().ID)
	if err := os.MkdirAll(out, 0o755); err != nil {
		h.t.Fatal(err)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for range 100 + r.IntN(300) {
		z.Write(bytes.Repeat([]byte{"\x00\n "[r.IntN(3)]}, 1<<20))
	}
	z.Close()
	path := filepath.Join(out, record.FileName+".gz")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		h.t.Fatal(err)
	}
	p := h.start([][]string{h.jobs[0].with(dir), {"report", path}, {"tune", path}}[r.IntN(3)])
	p.ended(&v, exitTrouble)
	if _, err := os.Stat(strings.TrimSuffix(path, ".gz")); err == nil {
		v.wrongf("it is unpacked")
	}
	return v
}

// clock writes the records of two sweeps with a clock that jumps between and within them.
// What is read off them is what it was.
func (h *harness) clock(r *rand.Rand) (v toll) {
	dir := h.folder()
	defer os.RemoveAll(dir)
	jump := func() time.Duration { return time.Duration(r.Int64N(int64(40*365*24*time.Hour))) - 20*365*24*time.Hour }
	by := map[string]time.Duration{}
	path := h.copyRecords(h.twice, dir, 1, func(run *record.Run, _ int) {
		by[run.ID] = jump()
		run.Time = run.Time.Add(by[run.ID])
	}, func(rec *record.Record, _ int) {
		if r.IntN(20) == 0 {
			by[rec.Run] = jump()
		}
		rec.Time = rec.Time.Add(by[rec.Run])
	})
	for i, args := range h.ofTwice(path) {
		if got := h.inside(args); got.code != h.wanted[i].code || got.stdout != h.wanted[i].stdout {
			v.wrongf("%s: exit code %d, %s%s, want %s", args[0], got.code, got.stdout, got.stderr,
				h.wanted[i].stdout)
		}
	}
	return v
}
