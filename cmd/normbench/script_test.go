package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"normbench/internal/assert"
	"normbench/internal/durable"
	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
	"normbench/kernels/compile/triton"
	"normbench/kernels/devices/cpu"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/devices/local"
	"normbench/kernels/families"
	"normbench/lab"
	"normbench/sweep/record"
	"normbench/sweep/shard"
)

// TestMain makes this binary also the programs of the scripts: normbench; normbench-test, which has
// the families that misbehave; normbench-fake, a worker with a scripted H200; normbench-faulty, one
// that misbehaves; fake-python, which runs scripted peers in place of peers.py; and kept-g++.
func TestMain(m *testing.M) {
	// Half of the scripts' time is waiting for workers that hang or do not come back.
	//nolint:errcheck // -parallel comes after it
	flag.Set("test.parallel", strconv.Itoa(3*runtime.GOMAXPROCS(0)))
	if strings.HasSuffix(os.Args[0], ".test") { // a job of CI that runs the tests may be one of several
		for _, name := range shard.Variables() {
			os.Unsetenv(name)
		}
	}
	debug.SetGCPercent(400) // most programs are done before it pays
	program := func(r func() *kernels.Registry) func() {
		return func() { os.Exit(run(os.Args, os.Stdin, os.Stdout, os.Stderr, r())) }
	}
	// A worker of a program with CUDA starts by os.Executable, which may be this file, and so does what compiles.
	if strings.HasSuffix(os.Args[0], ".test") && len(os.Args) > 1 &&
		slices.Contains([]string{"worker", lab.HelperCommand}, os.Args[1]) {
		program(families.New)()
	}
	testscript.Main(m, map[string]func(){
		"normbench": program(families.New),
		"normbench-test": program(func() *kernels.Registry {
			return devicetest.Registry(families.New())
		}),
		"normbench-fake":   fakeWorker,
		"normbench-faulty": faultyWorker,
		"fake-python":      fakePython,
		"kept-g++":         keptCompiler,
	})
}

// compiler is the file of kept-g++, "" where there is no C++ compiler.
func compiler(t testing.TB) string {
	if _, err := exec.LookPath("g++"); err != nil {
		assert.Must(t, os.Getenv("NORMBENCH_REQUIRE_CXX") == "", "%v", err)
		return ""
	}
	path, err := exec.LookPath("kept-g++")
	assert.NoError(t, err)
	return path
}

// keptCompiler is g++. It keeps beside $CXX, which is itself, what it has made: a third of the
// suite's time was compiling the emulator anew for each verify.
func keptCompiler() {
	args := os.Args[1:]
	made := slices.Index(args, "-o") + 1
	h := sha256.New()
	for i, a := range args {
		switch text, err := os.ReadFile(a); {
		case i == made || errors.Is(err, syscall.EISDIR):
		case err == nil:
			h.Write(text)
		default:
			fmt.Fprintln(h, a)
		}
	}
	kept := filepath.Join(filepath.Dir(os.Getenv("CXX")), fmt.Sprintf("%x", h.Sum(nil)))
	if os.Link(kept, args[made]) == nil {
		return
	}
	c := exec.Command("g++", args...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		os.Exit(1)
	}
	os.Link(args[made], kept) //nolint:errcheck // another may have been faster
}

// raceEnabled says whether this binary was built with -race.
func raceEnabled() bool {
	info, _ := debug.ReadBuildInfo()
	return info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race",
		Value: "true"})
}

// smallCache makes a flush short: half of the suite's time was writing through twice the L3 of a
// large host.
const smallCache = "1M"

// TestScripts runs testdata/script/*.txtar. Beside the commands of testscript they use those of
// scriptCommands, the conditions [root], [cuda], [race] and [all], and $DEV, the name of the cpu's results
// folder, and $EXAMPLES and $FAMILIES, the repository's. -update writes the files that they compare
// with.
func TestScripts(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) { // under nohup: what a script starts would ignore it too
		hup := make(chan os.Signal, 1)
		signal.Notify(hup, syscall.SIGHUP)
		t.Cleanup(func() { signal.Stop(hup) }) // the scripts run in parallel, behind this function
	}
	here, err := filepath.Abs(".") // scripts change this process's folder
	assert.NoError(t, err)
	cubins := t.TempDir() // of all scripts
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join(here, "testdata", "script"),
		Setup: func(e *testscript.Env) error {
			e.Setenv("DEV", cpu.New(families.New()).Info().ID)
			e.Setenv(cpu.CacheVariable, smallCache)
			e.Setenv("COLUMNS", "400") // tables.txtar is about narrower ones
			e.Setenv("EXAMPLES", filepath.Join(here, "..", "..", "examples"))
			e.Setenv("FAMILIES", filepath.Join(here, "..", "..", "kernels", "families"))
			e.Setenv("RESULTS", filepath.Join(here, "..", "..", "results"))
			e.Setenv("ESC", "\x1b[2J")
			e.Setenv("CXX", compiler(t))
			e.Setenv("KEPT", compiler(t))
			e.Setenv("NORMBENCH_CACHE", cubins)
			e.Setenv("CUBINS", cubins)
			// of the script crash: two seconds a sweep, of which little passes before it is
			// stopped
			samples, budget := "1500", "2s"
			if raceEnabled() {
				samples, budget = "5", "12s"
			}
			e.Setenv("SAMPLES", samples)
			e.Setenv("BUDGET", budget) // of the script learn
			// Else every program under the race detector takes a second to leave.
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			return nil
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "root": // may write anywhere
				return os.Geteuid() == 0, nil
			case "cuda":
				return local.HaveCUDA, nil
			case "race":
				return raceEnabled(), nil
			case "all":
				return assert.All, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds:                scriptCommands,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *assert.Update,
	})
}

var scriptCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"run":     runs,
	"bad":     bad,
	"code":    code,
	"stopat":  stopat,
	"records": records,
	"lock":    lock,
	"isjson":  isjson,
	"jobs":    jobs,

	"action":    action,
	"component": component,

	"replaceall": replaceall,
}

func usage(ts *testscript.TestScript, ok bool, text string) {
	if !ok {
		ts.Fatalf("usage: %s", text)
	}
}

// process is held by who changes or copies this process's folder and environment.
var process sync.Mutex

// variables are those of a script that programs read.
var variables = append(shard.Variables(), "COLUMNS", "CXX", "DEV", "HOME", "NORMBENCH_CACHE",
	"NORMBENCH_COMPILERS", cpu.CacheVariable,
	nvrtc.IncludeVariable, "NORMBENCH_NVRTC", "NORMBENCH_TEST_PEERS", "PATH", "PYTHONPATH",
	"CI_API_V4_URL", "CI_MERGE_REQUEST_IID", "CI_MERGE_REQUEST_PROJECT_ID", "CI_MERGE_REQUEST_SOURCE_PROJECT_ID",
	"CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "GH_TOKEN", "GITHUB_ACTIONS", "GITHUB_EVENT_NAME", "GITHUB_EVENT_PATH",
	"GITHUB_OUTPUT", "GITHUB_SERVER_URL", "GITHUB_STEP_SUMMARY", "GITLAB_CI", "NORMBENCH_TOKEN",
	triton.PythonVariable, "TMPDIR", "WORK")

// runHere runs normbench in this process: to start another takes longer than what most commands do.
// Scripts take turns, so what waits is run by exec.
func runHere(ts *testscript.TestScript, args []string) (code int, stdout, stderr string) {
	process.Lock()
	defer process.Unlock()
	before, err := os.Getwd()
	ts.Check(err)
	ts.Check(os.Chdir(ts.MkAbs(".")))
	defer os.Chdir(before) //nolint:errcheck // it was there
	for _, name := range variables {
		was, set := os.LookupEnv(name)
		ts.Check(os.Setenv(name, ts.Getenv(name)))
		if set {
			defer os.Setenv(name, was)
		} else {
			defer os.Unsetenv(name)
		}
	}
	return normbench(args)
}

// runs wants a program to succeed, or with ! to fail, as exec does.
func runs(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) > 0, "[!] run program argument...")
	if code, stdout, stderr := start(ts, args); (code == 0) == neg {
		ts.Fatalf("exit code %d\n[stdout]\n%s[stderr]\n%s", code, stdout, stderr)
	}
}

// start runs a program, normbench in this process, and returns its exit code; -1 where a signal
// ended it.
func start(ts *testscript.TestScript, args []string) (code int, stdout, stderr string) {
	if args[0] == "normbench" && len(args) > 1 && args[1] != "worker" {
		code, stdout, stderr = runHere(ts, args[1:])
		io.WriteString(ts.Stdout(), stdout)
		io.WriteString(ts.Stderr(), stderr)
		return code, stdout, stderr
	}
	err := ts.Exec(args[0], args[1:]...)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		ts.Fatalf("%s: %v", args[0], err)
	}
	if exit != nil {
		code = exit.ExitCode()
	}
	return code, ts.ReadFile("stdout"), ts.ReadFile("stderr")
}

// code wants a program to end with a code, or one of several: code N|N program argument...
func code(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 2, "code N|N program argument...")
	got, stdout, stderr := start(ts, args[1:])
	if !slices.Contains(strings.Split(args[0], "|"), strconv.Itoa(got)) {
		ts.Fatalf("exit code %d, want %s\n[stdout]\n%s[stderr]\n%s", got, args[0], stdout, stderr)
	}
}

// refusal is what a program says that refuses: notes, one line of error in lower case without a
// period, and one with a hint.
var refusal = regexp.MustCompile(
	`^(?:normbench: .*\n)*normbench: error: ([^E\n].*[^.\n])\nnormbench: hint: *[^ \n].*\n$`)

// bad wants a program to refuse: exit code 2, nothing on standard output, a refusal at the end of
// standard error whose line of error matches, and no file made, changed or removed.
//
//	bad REGEXP program argument...
func bad(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 2, "bad REGEXP program argument...")
	re, err := regexp.Compile(args[0])
	ts.Check(err)
	before := snapshot(ts)
	got, stdout, stderr := start(ts, args[1:])
	said := refusal.FindStringSubmatch(stderr)
	diff := cmp.Diff(before, snapshot(ts))
	if got != exitTrouble || stdout != "" || said == nil || !re.MatchString(said[1]) || diff != "" ||
		strings.Count(stderr, "error:") != 1 || strings.Count(stderr, "hint:") != 1 {
		ts.Fatalf("%s: exit code %d, want %d, no output, one error that matches %s with its hint, and "+
			"the files as they were\n[stdout]\n%s[stderr]\n%s%s", strings.Join(args[1:], " "), got,
			exitTrouble, re, stdout, stderr, diff)
	}
}

// snapshot is what the files of a script hold, but for lock files.
func snapshot(ts *testscript.TestScript) map[string]string {
	files := map[string]string{}
	root := ts.Getenv("WORK")
	ts.Check(filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == record.LockName {
			return err
		}
		b, err := os.ReadFile(name)
		// a link to nowhere, or to a folder
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EISDIR) {
			err = nil
		}
		files[strings.TrimPrefix(name, root+"/")] = string(b)
		return err
	}))
	return files
}

// readyAt says when a program is ready. That is when its standard error matches. With +N:FILE it has
// added N records of variants to a file. With <FIFO it reads that, which has no end.
func readyAt(ts *testscript.TestScript, when string) func(stderr string) bool {
	text := when[1:]
	switch when[0] {
	case '+':
		number, name, _ := strings.Cut(text, ":")
		n, err := strconv.Atoi(number)
		ts.Check(err)
		count := func() int {
			b, _ := os.ReadFile(ts.MkAbs(name))
			return bytes.Count(b, []byte(`"kind":"record"`)) - bytes.Count(b,
				[]byte(`"family":"stream"`))
		}
		n += count()
		return func(string) bool { return count() >= n }
	case '<':
		name := ts.MkAbs(text)
		ts.Check(syscall.Mkfifo(name, 0o600))
		return func(string) bool {
			fifo, err := os.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK, 0)
			if err != nil { // there is no opening it before it has a reader
				return false
			}
			ts.Defer(func() { fifo.Close() })
			ts.Check(os.Remove(name))
			return true
		}
	}
	re, err := regexp.Compile(when)
	ts.Check(err)
	return re.MatchString
}

// stopat starts a program, sends it a signal when readyAt says so, and wants it to end with a code,
// -1 for by the signal. Its standard error is in the file stopped, its standard output in printed.
//
//	stopat WHEN KILL|INT|TERM|HUP CODE program argument...
func stopat(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 4, "stopat WHEN KILL|INT|TERM|HUP CODE program argument...")
	ready := readyAt(ts, args[0])
	signal, ok := map[string]os.Signal{"KILL": syscall.SIGKILL, "INT": syscall.SIGINT,
		"TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP}[args[1]]
	usage(ts, ok, "stopat WHEN KILL|INT|TERM|HUP CODE program argument...")
	args = args[2:]
	program, err := exec.LookPath(args[1])
	ts.Check(err)
	cmd := exec.Command(program, args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	process.Lock()
	cmd.Env = os.Environ()
	process.Unlock()
	cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=0", "PWD="+cmd.Dir, "COLUMNS=400",
		cpu.CacheVariable+"="+smallCache)
	printed, err := os.Create(ts.MkAbs("printed"))
	ts.Check(err)
	defer printed.Close()
	cmd.Stdout = printed
	p := &proc{cmd: cmd, err: ts.MkAbs("stopped")}
	ts.Check(p.begin())
	for deadline := time.Now().Add(2 * time.Minute); !ready(p.stderr()); time.Sleep(
		time.Millisecond) {
		select {
		case <-p.done:
			ts.Fatalf("%s ended before it was to be stopped: %s\n%s", args[1], cmd.ProcessState,
				p.stderr())
		default:
		}
		if time.Now().After(deadline) {
			cmd.Process.Kill()
			ts.Fatalf("%s is not ready to be stopped after 2 min\n%s", args[1], p.stderr())
		}
	}
	ts.Check(cmd.Process.Signal(signal))
	if code := strconv.Itoa(p.wait()); p.hung || code != args[0] {
		ts.Fatalf("after the signal: %s, want code %s\n%s", cmd.ProcessState, args[0], p.stderr())
	}
}

// A proc is a program that runs.
type proc struct {
	cmd  *exec.Cmd
	err  string // file of standard error
	done chan struct{}
	hung bool
}

func (p *proc) begin() error {
	if p.cmd.Stderr == nil {
		f, err := os.Create(p.err)
		if err != nil {
			return err
		}
		p.cmd.Stderr = f
	}
	defer p.cmd.Stderr.(*os.File).Close()
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.done = make(chan struct{})
	go func() {
		p.cmd.Wait() //nolint:errcheck // its state says as much
		close(p.done)
	}()
	return nil
}

// wait is the exit code, -1 where a signal ended the program. A minute is too long.
func (p *proc) wait() int {
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		p.hung = true
		p.cmd.Process.Signal(syscall.SIGQUIT) // it says where it hangs
		time.Sleep(3 * time.Second)
		p.cmd.Process.Kill()
		<-p.done
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *proc) stderr() string {
	if p == nil {
		return ""
	}
	b, _ := os.ReadFile(p.err)
	return string(b)
}

// records wants a records file to hold N variants, none twice, and as many of a
// status as given.
//
//	records FILE N [STATUS=N]...
func records(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 2, "records FILE N [STATUS=N]...")
	variants := map[string]bool{}
	statuses := map[string]int{}
	for i, l := range strings.Split(strings.TrimSuffix(ts.ReadFile(args[0]), "\n"), "\n") {
		var r struct{ Kind, Key, Problem, Family, Config, Status string }
		if err := json.Unmarshal([]byte(l), &r); err != nil {
			ts.Fatalf("%s:%d: %v", args[0], i+1, err)
		}
		if r.Kind != "record" || r.Family == record.Stream {
			continue
		}
		for _, id := range []string{r.Key, r.Problem + " " + r.Family + "@" + r.Config} {
			if variants[id] {
				ts.Fatalf("%s:%d: %s stands twice", args[0], i+1, id)
			}
			variants[id] = true
		}
		statuses[r.Status]++
	}
	if got := strconv.Itoa(len(variants) / 2); got != args[1] {
		ts.Fatalf("%s has %s variants, want %s", args[0], got, args[1])
	}
	for _, a := range args[2:] {
		s, n, _ := strings.Cut(a, "=")
		if got := strconv.Itoa(statuses[s]); got != n {
			ts.Fatalf("%s has %s variants with status %s, want %s: %v", args[0], got, s, n,
				statuses)
		}
	}
}

// lock holds a results folder until the script ends, as a sweep would.
func lock(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 1, "lock FOLDER")
	w, _, err := record.OpenWriter(ts.MkAbs(args[0]), ".")
	ts.Check(err)
	ts.Defer(func() { w.Close() })
}

// isjson wants files, stdout among them, to hold one JSON value each.
func isjson(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) > 0, "isjson FILE...")
	for _, name := range args {
		if !json.Valid([]byte(ts.ReadFile(name))) {
			ts.Fatalf("%s is not JSON", name)
		}
	}
}

// replaceall edits a file as a person might, who deletes the checksums that do not
// match any more: replaceall REGEXP TEXT FILE. Lines of records get the key and the
// checksum of what they say now.
func replaceall(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 3, "replaceall REGEXP TEXT FILE")
	re, err := regexp.Compile(args[0])
	ts.Check(err)
	text := re.ReplaceAllString(ts.ReadFile(args[2]), args[1])
	text = regexp.MustCompile(`,\s*"crc": ?"[0-9a-f]*"`).ReplaceAllString(text, "")
	var run record.Run
	var b strings.Builder
	for line := range strings.Lines(text) {
		line, ours := strings.TrimSuffix(line, "\n"), strings.HasPrefix(line, `{"schema":2,"kind":`)
		if strings.HasPrefix(line, `{"schema":2,"kind":"record"`) {
			var r record.Record
			ts.Check(json.Unmarshal([]byte(line), &r))
			key := record.Key(r.Problem, r.Variant(), run.Device,
				record.CodeHash{Source: r.Source, Launch: r.Launch}.String(), run.Protocol, r.BaseOf)
			line = strings.Replace(line, r.Key, key, 1)
		} else if ours {
			ts.Check(json.Unmarshal([]byte(line), &run))
		}
		if ours {
			line = string(durable.Seal([]byte(line)))
		}
		b.WriteString(line + "\n")
	}
	text = b.String()
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(text), 0o644))
}
