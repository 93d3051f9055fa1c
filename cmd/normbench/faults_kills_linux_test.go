package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/sweep/record"
	"normbench/tune"
)

// moment waits for a random point of the job: so much time, or so much in the records file, which
// is when they are appended. It returns early when the program ends.
func (x *faultTrial) moment(p *proc) {
	path := filepath.Join(x.out(), record.FileName)
	after := time.Duration(float64(x.took) * x.r.Float64())
	size := int64(math.MaxInt64)
	if x.r.IntN(3) > 0 {
		after, size = time.Minute, x.r.Int64N(x.size)
	}
	for start := time.Now(); time.Since(start) < after; time.Sleep(200 * time.Microsecond) {
		if st, err := os.Stat(path); err == nil && st.Size() > size {
			time.Sleep(time.Duration(x.r.IntN(2000)) * time.Microsecond)
			return
		}
		select {
		case <-p.done:
			return
		default:
		}
	}
}

// kill sends a signal at a random moment, up to three times in a row, and goes on.
func (x *faultTrial) kill(sig syscall.Signal) {
	for range 1 + x.r.IntN(3) {
		p := x.command("normbench", x.with()...)
		var reading *os.File
		if sig == syscall.SIGPIPE {
			var writing *os.File
			var err error
			reading, writing, err = os.Pipe()
			assert.NoError(x.t, err)
			if p.cmd.Stderr = writing; x.r.IntN(2) == 0 {
				p.cmd.Stdout = writing
			}
			go io.Copy(io.Discard, reading)
		}
		assert.NoError(x.t, p.begin())
		x.moment(p)
		switch sig {
		case syscall.SIGPIPE:
			reading.Close()
			x.ended(p, -1, 0, exitTrouble)
		case syscall.SIGKILL:
			p.cmd.Process.Signal(sig)
			x.ended(p, -1, 0)
		default:
			p.cmd.Process.Signal(sig)
			x.ended(p, 0, exitSignal, -1) // -1: before main had a say
		}
		s := x.state(0)
		mayLack := every // of a grid the table is written at the end
		switch {
		case !x.search():
		case sig == syscall.SIGKILL || sig == syscall.SIGPIPE:
			// its table was about to be written
			mayLack = func(p kernels.Problem) bool { return p == s.last }
		default:
			mayLack = none
		}
		if x.checkTable(s, mayLack); len(x.found["wrong"]) > 0 {
			return
		}
	}
	x.resume(x.state(0), 0)
}

// mounts says whether a tmpfs may be mounted here.
func (h *harness) mounts() bool {
	dir := h.t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		return false
	}
	return syscall.Unmount(dir, 0) == nil
}

// mount mounts a tmpfs over the trial's folder, or mounts that again.
func (x *faultTrial) mount(flags uintptr, data string) {
	assert.NoError(x.t, syscall.Mount("none", x.dir, "tmpfs", flags, data))
}

func (x *faultTrial) fillDisk() {
	x.mount(0, fmt.Sprintf("size=%dk", 4+4*x.r.IntN(int(x.size)/4096+3)))
	defer syscall.Unmount(x.dir, syscall.MNT_DETACH)
	p := x.start()
	code := x.ended(p, 0, exitTrouble)
	if code == exitTrouble && !strings.Contains(p.stderr(), "the disk is full") {
		x.wrongf("the hint is not about the disk")
	}
	s := x.left(code)
	x.mount(syscall.MS_REMOUNT, "size=16m")
	x.resume(s, 0)
}

// forbidDisk has every command that writes do so where nothing can be written.
func (x *faultTrial) forbidDisk(i int) {
	x.mount(0, "size=1m")
	defer syscall.Unmount(x.dir, syscall.MNT_DETACH)
	from := filepath.Join(x.jobs[0].done, record.FileName)
	in := func(name string) string { return filepath.Join(x.dir, name) }
	commands := [][]string{
		x.with(),
		{"map", "fill", from, "--out", in("tuned.json")},
		{"map", "fill", from, "--plot", in("rules.svg")},
		{"report", from, "--html", in("page.html")},
		{"export", from, "--format", "kt-cache", "--out", in("caches")},
		{"bench", "base", "--worker", "normbench-faulty", "--shapes", "4096x1024", "--op",
			"rmsnorm", "--pass", "fwd", "--out", in("out")},
	}
	if i%2 == 1 { // with something in it that must stay
		assert.NoError(x.t, os.CopyFS(x.out(), os.DirFS(x.jobs[1].done)))
	}
	x.mount(syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
	x.ended(x.begin("normbench", commands[i/2%len(commands)]...), exitTrouble)
}

// limit runs a job under a limit of the shell: -f, the size of files in KiB, or -n, how many
// may be open.
func (x *faultTrial) limit(what string, n int) {
	script := fmt.Sprintf(`ulimit %s %d; exec normbench "$@"`, what, n)
	p := x.begin("sh", append([]string{"-c", script, "sh"}, x.with()...)...)
	code, codes := p.wait(), []int{0, exitTrouble}
	if what == "-n" && n < 12 {
		codes = append(codes, 127, 2, -1, 1) // neither sh nor Go's runtime can start
	}
	if what != "-n" || n >= 12 || !strings.Contains(p.stderr(), "runtime") {
		x.ended(p, codes...)
	}
	x.resume(x.left(code), 0)
}

// changes are what somebody else may do to the records $F, the table $T or their folder $D, and what
// they do after it.
var changes = []struct{ name, do, mend string }{
	{"mv", `mv $F $F.moved`, `mv $F.moved $F`},
	{"rm", `rm $F`, ``},
	{"truncate", `truncate -s $N $F`, ``},
	{"append", `head -n 1 $F >$D/first; cat $D/first >>$F`, ``},
	{"mv of the folder", `mv $D $D.moved`, `rm -rf $D; mv $D.moved $D`},
	{"rm of the folder", `rm -r $D`, ``},
	{"an older one", `head -n 1 $F >$F.new; mv $F.new $F`, ``},
	{"another table", `echo { >$T`, ``},
}

// change has somebody else change the files of a sweep on its way.
func (x *faultTrial) change(what int) {
	p := x.start()
	x.moment(p)
	file, table := filepath.Join(x.out(), record.FileName), filepath.Join(x.out(), tune.FileName)
	late := func() bool { return strings.Contains(p.stderr(), "measured") }
	if late() || p.cmd.ProcessState != nil {
		p.wait() // too late to be noticed
		return
	}
	st, err := os.Stat(file)
	if err != nil || st.Size() == 0 { // not begun: nothing to change
		x.ended(p, 0)
		x.checkWhole(x.state(0))
		return
	}
	c := changes[what%len(changes)]
	x.what = c.name
	shell := func(text string) {
		cmd := exec.Command("sh", "-c", text)
		cmd.Env = append(os.Environ(), "F="+file, "T="+table, "D="+x.out(),
			fmt.Sprint("N=", x.r.Int64N(st.Size())))
		cmd.Run() //nolint:errcheck // it may be too late for it
	}
	shell(c.do)
	noticed := late() || c.name == "another table" // no record is touched
	if code := x.ended(p, 0, exitTrouble); code == 0 && !noticed {
		y := x.newTrial(x.job, x.r)
		y.dir = x.dir
		if y.checkWhole(y.state(0)); len(y.found["lost"]) > 0 {
			x.wrongf("it went unnoticed")
		}
	}
	shell(c.mend)
	if _, err := tune.Read(table); err != nil && c.name == "another table" {
		os.Remove(table) // as the error said
	}
	x.resume(x.state(0), 0)
}

// writeTwice starts a second sweep into the folder of the first at a random moment.
func (x *faultTrial) writeTwice() {
	first := x.start()
	x.moment(first)
	second := x.start()
	a, b := x.ended(first, 0, exitTrouble), x.ended(second, 0, exitTrouble)
	if a != 0 && b != 0 {
		x.wrongf("both are refused: %s %s", first.stderr(), second.stderr())
	}
	for p, code := range map[*proc]int{first: a, second: b} {
		if code != 0 && !strings.Contains(p.stderr(), "another sweep is writing") {
			x.wrongf("%s", p.stderr())
		}
	}
	s := x.state(0)
	x.checkWhole(s)
	x.checkTable(s, none)
	x.resume(s, 0)
}

// faultPairs are every fault at every step, in random order.
func faultPairs(seed uint64) (pairs [][2]string) {
	for _, f := range slices.Sorted(maps.Keys(devicetest.Faults)) {
		for _, s := range devicetest.Steps {
			pairs = append(pairs, [2]string{f, s})
		}
	}
	r := rand.New(rand.NewPCG(seed, 7))
	r.Shuffle(len(pairs), func(i, k int) { pairs[i], pairs[k] = pairs[k], pairs[i] })
	return pairs
}

// misbehave runs a sweep with a worker that does a fault at a step, in one request or in all from
// it on, alone or beside one that does not.
func (x *faultTrial) misbehave(pair [2]string) {
	fault, step := pair[0], pair[1]
	once, beside := x.r.IntN(4) > 0, x.r.IntN(2) == 0
	n, mark := 1, ""
	if once {
		n, mark = 1+x.r.IntN(8), " "+filepath.Join(x.dir, "mark")
	}
	x.what = fmt.Sprintf("%s at %s %d once=%v beside=%v", fault, step, n, once, beside)
	workers := []string{fmt.Sprintf("normbench-faulty '%s' %s %d%s",
		strings.ReplaceAll(fault, "'", `'"'"'`), step, n, mark)}
	if beside {
		workers = append(workers, "normbench-faulty")
	}
	p := x.begin("normbench", append(x.with(workers...), "--timeout", "3s")...)
	code := x.ended(p, 0, exitTrouble, exitUnfit)
	// One death is nobody's result. A launch that is said to fail is one, and in a search again in
	// its finals.
	mayFail := 0
	switch {
	case !strings.HasSuffix(fault, "reason"):
	case once:
		mayFail = 2
	default: // of each variant, as far as anybody can see
		mayFail = len(x.keys) + 100
	}
	s := x.state(mayFail)
	if !once && strings.HasSuffix(fault, "reason") {
		return
	}
	if code == 0 && (once || beside) {
		x.checkWhole(s)
	}
	if len(x.found["wrong"]) == 0 {
		x.resume(s, mayFail)
	}
}

// flake runs a sweep with a worker that does a fault at random, or in every n-th answer. It
// blames no variant, says what is unmeasured, and ends whole where it need not.
func (x *faultTrial) flake(fault string, whole bool) {
	x.what = fault
	args := append(x.with("normbench-faulty "+fault), "--timeout", "3s")
	p := x.begin("normbench", args...)
	code, text := x.ended(p, 0, exitUnfit), p.stderr()
	s := x.state(0)
	if code == 0 {
		x.checkWhole(s)
	} else if code == exitUnfit && (whole || !strings.Contains(text, "unmeasured") ||
		!strings.Contains(text, "same command goes on")) {
		x.wrongf("it does not say what is unmeasured, or need not be: %s", text)
	}
	x.resume(s, 0)
}
