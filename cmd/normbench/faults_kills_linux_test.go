package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/sweep/record"
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

// killed sends a signal at a random moment, up to three times in a row, and goes on.
func (h *harness) killed(j job, r *rand.Rand, sig syscall.Signal) (v toll) {
	dir := h.folder()
	defer os.RemoveAll(dir)
	for range 1 + r.IntN(3) {
		p := h.command("normbench", j.with(dir)...)
		var reading *os.File
		if sig == syscall.SIGPIPE {
			var writing *os.File
			var err error
			reading, writing, err = os.Pipe()
			assert.NoError(h.t, err)
			if p.cmd.Stderr = writing; r.IntN(2) == 0 {
				p.cmd.Stdout = writing
			}
			go io.Copy(io.Discard, reading)
		}
		p.begin()
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
			// its table was about to be written
			whole = func(p kernels.Problem) bool { return p == s.last }
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
	assert.NoError(h.t,
		syscall.Mount("none", dir, "tmpfs", 0, fmt.Sprintf("size=%dk", 4+4*r.IntN(int(j.size)/4096+
			3))))
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	p := h.start(j.with(dir))
	code := p.ended(&v, 0, exitTrouble)
	if code == exitTrouble && !strings.Contains(p.stderr(), "the disk is full") {
		v.wrongf("the hint is not about the disk: %s", p.stderr())
	}
	s := h.left(j, dir, code, &v)
	assert.NoError(h.t, syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT, "size=16m"))
	v.add(h.resumed(j, dir, s, 0))
	return v
}

// left judges what a job left, whole where it ended well.
func (h *harness) left(j job, dir string, code int, v *toll) state {
	s, w := h.state(dir, 0)
	v.add(w)
	v.add(h.tuned(dir, s, every))
	if code == 0 {
		v.add(h.whole(j, s))
	}
	return s
}

// readOnly has every command that writes do so where nothing can be written.
func (h *harness) readOnly(i int) (v toll) {
	dir := h.folder()
	assert.NoError(h.t, syscall.Mount("none", dir, "tmpfs", 0, "size=1m"))
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	j := h.jobs[i%2]
	from := filepath.Join(h.done[0], record.FileName)
	commands := [][]string{
		j.with(dir),
		{"tune", from, "--out", filepath.Join(dir, "tuned.json")},
		{"tune", from, "--plot", filepath.Join(dir, "rules.svg")},
		{"report", from, "--html", filepath.Join(dir, "page.html")},
		{"export", from, "--format", "kt-cache", "--out", filepath.Join(dir, "caches")},
		{"bench", "base", "--worker", "normbench-faulty", "--shapes", "4096x1024", "--op",
			"rmsnorm", "--pass", "fwd", "--out", filepath.Join(dir, "out")},
	}
	if i%2 == 1 { // with something in it that must stay
		assert.NoError(h.t,
			os.CopyFS(filepath.Join(dir, "out", devicetest.CPU().ID), os.DirFS(h.done[1])))
	}
	assert.NoError(h.t,
		syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	p := h.start(commands[i/2%len(commands)])
	p.ended(&v, exitTrouble)
	return v
}

// limited runs a job under a limit of the shell: -f, the size of files in KiB, or -n, how many
// may be open.
func (h *harness) limited(j job, what string, n int) (v toll) {
	dir := h.folder()
	defer os.RemoveAll(dir)
	script := fmt.Sprintf(`ulimit %s %d; exec normbench "$@"`, what, n)
	p := h.startCommand("sh", append([]string{"-c", script, "sh"}, j.with(dir)...)...)
	codes := []int{0, exitTrouble}
	if what == "-n" && n < 12 {
		codes = append(codes, 127, 2, -1, 1) // neither sh nor Go's runtime can start
	}
	code := p.ended(&v, codes...)
	if what == "-n" && n < 12 && strings.Contains(p.stderr(), "runtime") {
		v = toll{}
	}
	s := h.left(j, dir, code, &v)
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
			// at once: half a line would be damage of its own
			f.Write(old[:bytes.IndexByte(old, '\n')+1])
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
		if p.cmd.ProcessState.ExitCode() != 0 && !strings.Contains(p.stderr(),
			"another sweep is writing") {
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
