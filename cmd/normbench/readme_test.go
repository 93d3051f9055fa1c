package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/shlex"

	"normbench/internal/assert"
	"normbench/kernels/compile/triton"
	"normbench/kernels/devices/cpu"
	"normbench/kernels/devices/local"
	"normbench/kernels/families"
)

// A command is what a reader of a page may paste, with what the page shows of its output.
type command struct{ text, output string }

var (
	consoles = regexp.MustCompile("(?ms)^ *```(?:console|sh)\n(.*?)^ *```")
	prompt   = regexp.MustCompile(`(?m)^\$ `)
)

// commands are the lines behind a "$ " in the console and sh blocks of a
// Markdown file, with the lines that a backslash continues them on.
func commands(markdown string) (list []command) {
	for _, block := range consoles.FindAllStringSubmatch(markdown, -1) {
		for _, part := range prompt.Split(block[1], -1)[1:] {
			text, output, _ := strings.Cut(part, "\n")
			for strings.HasSuffix(text, "\\") {
				var more string
				more, output, _ = strings.Cut(output, "\n")
				text = strings.TrimSuffix(text, "\\") + " " + strings.TrimSpace(more)
			}
			list = append(list, command{text, output})
		}
	}
	return list
}

// compilerOnly is a folder for $PATH with the C++ compiler of the emulator, where there is one, and what starts it.
func compilerOnly(t *testing.T) string {
	dir := t.TempDir()
	for _, name := range []string{"g++", "as", "ld", "sh", "rm", "sleep"} {
		if path, err := exec.LookPath(name); err == nil {
			assert.NoError(t, os.Symlink(path, filepath.Join(dir, name)))
		}
	}
	return dir
}

// TestCommandsOfPagesRunAsShown runs the commands of the pages, in one folder with a link to the results, in the order
// of the pages. Commands for GPUs must fail for the want of one, and for nothing else. The output
// that a page shows is what the command prints, within 100 columns.
func TestCommandsOfPagesRunAsShown(t *testing.T) {
	if testing.Short() {
		t.Skip("the whole suite runs README's commands")
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	assert.NoError(t, err)
	pages := []string{"README.md", "docs/start.md", "docs/triton.md", "docs/cuda.md", "docs/python.md",
		"docs/manifest.md", "docs/gate.md", "docs/models.md", "docs/launch-map.md", "docs/batch-invariant.md", "docs/read-a-table.md",
		"docs/performance.md", "docs/clusters.md", "docs/cli.md", "docs/formats.md", "docs/history.md",
		"docs/extending.md", "lab/notes/performance.md", "lab/notes/reliability.md", "CONTRIBUTING.md"}
	list := map[string][]command{}
	for _, page := range pages {
		text := assert.File(t, filepath.Join(root, page))
		list[page] = commands(string(text))
		for _, block := range fenced.FindAllString(string(text), -1) {
			assert.Equal(t, regexp.MustCompile(`(?m)^(normbench|make|go) .*`).FindString(block), "",
				page, "a command without a $, which nothing would run")
		}
	}
	t.Chdir(t.TempDir())
	t.Setenv("COLUMNS", "")
	for _, dir := range []string{"docs", "lab/notes"} { // for the plots of the two pages on performance
		assert.NoError(t, os.MkdirAll(dir, 0o755))
	}
	// Nothing writes there, as checkOutputs sees to. out/main is the checkout of the main branch
	// that a pull request races.
	assert.NoError(t, os.Mkdir("out", 0o755))
	for _, name := range []string{"results", "shapes.yaml", "examples", "out/main"} {
		assert.NoError(t,
			os.Symlink(filepath.Join(root, strings.TrimPrefix(name, "out/main")), name))
	}
	assert.NoError(t, os.Symlink(root, "old")) // a function of Python as it was
	t.Setenv("CXX", compiler(t))
	t.Setenv("PATH", compilerOnly(t)) // no ssh, nor anything else
	t.Setenv(triton.PythonVariable, "")
	t.Setenv(cpu.CacheVariable, smallCache)
	for _, page := range pages {
		checked := 0
		for _, c := range list[page] {
			t.Run(filepath.Base(page)+" "+c.text, func(t *testing.T) {
				if checkCommand(t, root, c, asksPython.MatchString(c.text)) {
					checked++
				}
			})
		}
		assert.That(t, checked != 0,
			"%s shows no command that could be checked, of %d", page, len(list[page]))
	}
}

// runPage runs the commands of a page that need no GPU by a Python that has what they import.
func runPage(t *testing.T, page, python string) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	assert.NoError(t, err)
	list := commands(string(assert.File(t, filepath.Join(root, page))))
	t.Chdir(t.TempDir())
	t.Setenv("COLUMNS", "")
	t.Setenv("CXX", compiler(t))
	t.Setenv(triton.PythonVariable, python)
	for _, name := range []string{"results", "shapes.yaml", "examples"} {
		assert.NoError(t, os.Symlink(filepath.Join(root, name), name))
	}
	assert.NoError(t, os.Symlink(root, "old"))
	for _, c := range list {
		t.Run(c.text, func(t *testing.T) { checkCommand(t, root, c, false) })
	}
}

// The page on kernels of Triton shows what its commands print.
func TestPageOfTritonRunsAsShown(t *testing.T) {
	python := cmp.Or(os.Getenv(triton.PythonVariable), "python3")
	out, err := exec.Command(python, "-c", "import triton, numpy").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %s", python, out)
	}
	assert.Needs(t, "TRITON", err) // scripts/triton-env.sh
	runPage(t, "docs/triton.md", python)
}

// The page on kernels of CUDA shows two faults as verify names them: a column that is not written, and one too many.
func TestFaultsOfThePageOfCUDAAreNamed(t *testing.T) {
	root := filepath.Join("..", "..")
	_, rest, _ := strings.Cut(string(assert.File(t, filepath.Join(root, "docs", "cuda.md"))), "exit code is 1:\n\n```\n")
	faults, _, _ := strings.Cut(rest, "\n```")
	source := string(assert.File(t, filepath.Join(root, "examples", "cuda", "rms_block.cu")))
	manifest := string(assert.File(t, filepath.Join(root, "examples", "cuda", "rms_block.yaml")))
	cxx := compiler(t)
	if cxx == "" {
		t.Skip("no g++")
	}
	t.Setenv("CXX", cxx)
	named := strings.Split(faults, "\n")
	assert.Equal(t, len(named), 2)
	for i, end := range []string{"n - 1", "n + 1"} {
		dir := t.TempDir()
		assert.Write(t, filepath.Join(dir, "rms_block.cu"), strings.Replace(source, "i < n; i += THREADS)\n", "i < "+end+"; i += THREADS)\n", 1))
		assert.Write(t, filepath.Join(dir, "rms_block.yaml"), manifest)
		code, stdout, _ := normbench([]string{"verify", "rms_block", "--kernels", dir, "--device", "cpu",
			"--shapes", "64x256", "--op", "rmsnorm", "--pass", "fwd", "--format", "csv"})
		assert.That(t, code == exitGate && strings.Contains(stdout, named[i]), "%s: %d, not %q in\n%s", end, code, named[i], stdout)
	}
}

// The page on functions of Python shows what its commands print.
func TestPageOfPythonRunsAsShown(t *testing.T) {
	runPage(t, "docs/python.md", torchOf(t))
}

var (
	assignment = regexp.MustCompile(`^[A-Z_]+=`)
	inQuotes   = regexp.MustCompile(`'[^']*'|"[^"]*"`)
	asksPython = regexp.MustCompile(`^normbench list peers|normbench capture|examples/triton|examples/public|verify py:`)
)

// checkCommand runs a line, and says whether it could. One that lacks a Python must be refused for that.
func checkCommand(t *testing.T, root string, c command, lacksPython bool) bool {
	text := c.text
	if strings.ContainsAny(inQuotes.ReplaceAllString(text, ""), "|><;&") {
		t.Errorf("it needs a shell, so nothing runs it: %s", text)
		return false
	}
	words, err := shlex.Split(text)
	assert.NoError(t, err, text)
	for len(words) > 0 && assignment.MatchString(words[0]) {
		name, value, _ := strings.Cut(words[0], "=")
		t.Setenv(name, value)
		words = words[1:]
	}
	if len(words) == 0 {
		return false
	}
	if strings.HasPrefix(text, "go run ./cmd/normbench ") {
		words = words[2:]
	}
	switch program := strings.TrimPrefix(strings.TrimPrefix(words[0], "./"), "bin/"); program {
	case "make":
		checkTargets(t, root, words[1:])
		return true
	case "normbench", "cmd/normbench":
		words = words[1:]
	case "go":
		// Not run: it would build and test what this very test is part of. Its packages exist.
		for _, w := range words {
			if dir, ok := strings.CutPrefix(w, "./"); ok {
				_, err := os.Stat(filepath.Join(root, strings.TrimSuffix(dir, "...")))
				assert.That(t, err == nil, "%s: %v", text, err)
			}
		}
		return true
	default:
		t.Errorf("neither run nor known: %s", text)
		return false
	}
	checkOutputs(t, words)
	if lacksPython {
		checkRefused(t, words, "Python")
		return true
	}
	if strings.Contains(text, "--device cuda") {
		checkGPU(t, words)
		return true
	}
	want := []int{0}
	switch {
	case len(words) == 0:
	case isMap(words, "fill") && !assert.All: // it fills all of a map, in eight seconds
		return true
	case words[0] == "verify" || words[0] == "gate":
		if os.Getenv("CXX") == "" || !assert.All && c.output == "" {
			t.Setenv("CXX", "nosuch") // CUDA code is not run here
			want = append(want, exitUnclear)
		}
	case words[0] == "selftest":
		if testing.Short() || raceEnabled() {
			t.Logf("not run, it takes long: %s", text)
			return false
		}
		want = append(want, exitUnfit)
	case isMap(words, "learn"): // a good fit takes longer
		if at := slices.Index(words, "--budget"); at > 0 {
			words[at+1] = "1s"
		}
	case words[0] == "compare" && !strings.Contains(text, "results/"):
		words = append(words, "--samples=1", "--rounds=12", "--warm")
	case words[0] == "sweep" || words[0] == "bench":
		words = append(words, "--samples=1") // it is not the times that count here
		if !strings.Contains(text, "replay:") {
			words = append(words, "--warm")
		}
	}
	code, stdout, stderr := normbench(words)
	if isMap(words, "learn") && strings.Contains(stderr, "too short to measure one problem") {
		return true // this machine is busy
	}
	if !slices.Contains(want, code) {
		t.Errorf("%s: exit code %d\n%s", text, code, stderr)
	} else if stdout == "" && code != exitUnclear && !slices.Contains(words, "--dry-run") {
		t.Errorf("%s prints nothing\n%s", text, stderr)
	}
	if code == exitUnclear && os.Getenv("CXX") == "" { // the emulator needs one
		return true
	}
	if isMap(words, "fill") {
		checkMap(t, words[slices.Index(words, "--out")+1])
	}
	for line := range strings.Lines(c.output) {
		assert.That(t, len([]rune(line)) <= 101 && strings.Contains(stdout, line),
			"%s does not print %q, or beyond 100 columns:\n%s", text, line, stdout)
	}
	return true
}

// isMap says whether a command is such a subcommand of map.
func isMap(words []string, name string) bool {
	return len(words) > 1 && words[0] == "map" && words[1] == name
}

// checkOutputs wants a command of a page to write below out/, which git ignores. The plots of the
// pages are in docs/ and lab/notes/.
func checkOutputs(t *testing.T, words []string) {
	t.Helper()
	if words[0] == "sweep" || isMap(words, "learn") {
		assert.That(t, slices.Contains(words, "--out") || slices.Contains(words, "--dry-run") || slices.Contains(words, "--emit"),
			"%s writes to results: it lacks --out", strings.Join(words, " "))
	}
	for i, w := range words[:len(words)-1] {
		to := words[i+1]
		assert.That(t,
			!slices.Contains([]string{"--out", "--plot", "--html", "--resume"}, w) || to == "out" ||
				strings.HasPrefix(to, "out/") || strings.HasPrefix(to, "docs/") || strings.HasPrefix(to, "lab/notes/"),
			"%s writes to %s, which is not below out", strings.Join(words, " "), to)
	}
}

// An output may be written by several goroutines: a worker's standard error is part of ours.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// normbench runs the program in this process.
func normbench(args []string) (code int, stdout, stderr string) {
	var out, err output
	code = run(append([]string{"normbench"}, args...), strings.NewReader(""), &out, &err,
		families.New())
	return code, out.String(), err.String()
}

// checkRefused wants a command to be refused for a reason.
func checkRefused(t *testing.T, words []string, why string) {
	code, _, stderr := normbench(words)
	assert.That(t, code == exitTrouble && strings.Contains(stderr, why),
		"%s: exit code %d, not as %s\n%s", strings.Join(words, " "), code, why, stderr)
}

// checkGPU holds a command for a GPU to what can be told without: it gets as far as the device that
// is not there, and a sweep's other flags are right, as they would be on a cpu.
func checkGPU(t *testing.T, words []string) {
	if slices.Contains(words, "--worker") {
		checkRefused(t, words, "does not start")
	} else if !local.HaveCUDA {
		checkRefused(t, words, "built without CUDA")
	}
	if words[0] == "sweep" {
		var rest []string // without what names the device
		for i, w := range words {
			named := []string{words[max(i-1, 0)], w}
			if !slices.Contains(named, "--device") && !slices.Contains(named, "--worker") {
				rest = append(rest, w)
			}
		}
		code, _, stderr := normbench(append(rest, "--device=cpu", "--dry-run"))
		// It may be too large for this machine, or have no host stage.
		assert.That(t, code == 0 || strings.Contains(stderr, " needs ") ||
			strings.Contains(stderr, "it runs on a GPU only"),
			"%s: exit code %d on a cpu\n%s", strings.Join(words, " "), code, stderr)
	}
	i := slices.Index(words, "--out")
	if i < 0 || words[0] != "sweep" && words[0] != "bench" && !isMap(words, "learn") {
		return
	}
	if slices.Contains(words, "--family") {
		plantTable(t, words)
		return
	}
	const device = "nvidia-h200" // what it would have written, for the commands behind it
	if _, err := os.Stat(filepath.Join(words[i+1], device)); err != nil {
		assert.NoError(t,
			os.CopyFS(filepath.Join(words[i+1], device), os.DirFS(filepath.Join("results", device))))
	}
}

// plantTable writes what `map learn --family` would on an H200: a table of the family alone, whose map has
// the family's base config for its op and pass.
func plantTable(t *testing.T, words []string) {
	value := func(flag string) string { return words[slices.Index(words, flag)+1] }
	family, class := value("--family"), value("--op")+"/"+value("--pass")
	code, label, errs := normbench([]string{"list", "configs", "--family", family, "--kernels", value("--kernels"),
		"--problem", class + "/4096x4096/bf16", "--device", "h200", "--format", "csv", "--columns", "config"})
	assert.Must(t, code == 0, "%s: %s", family, errs)
	knobs := regexp.MustCompile(`([A-Za-z]+)(\d+)`).FindAllStringSubmatch(strings.Split(label, "\n")[1], -1)
	legend := []string{"  family " + strings.Repeat(" ", len(family)), "a " + family + " "}
	for _, k := range knobs {
		legend[0] += k[1] + strings.Repeat(" ", len(k[2])+1)
		legend[1] += k[2] + strings.Repeat(" ", len(k[1])+1)
	}
	var table map[string]any
	assert.NoError(t, json.Unmarshal(assert.File(t, "results/nvidia-h200/tuned.json"), &table))
	table["base_of"], table["entries"] = family, []any{}
	table["map"].(map[string]any)["rasters"] = []any{map[string]any{"class": class + "/2-byte", "align": 16,
		"problems": 1, "regret_percent": 0, "rows": "1048576", "legend": legend, "lines": []string{"    64  a  m"}}}
	text, err := json.Marshal(table)
	assert.NoError(t, err)
	assert.Write(t, filepath.Join(value("--out"), "nvidia-h200", family, "tuned.json"), string(text))
}

// checkTargets wants the Makefile to have the targets.
func checkTargets(t *testing.T, root string, targets []string) {
	files, err := filepath.Glob(filepath.Join(root, "scripts", "*.mk"))
	assert.NoError(t, err)
	makefiles := ""
	for _, name := range append(files, filepath.Join(root, "Makefile")) {
		makefiles += "\n" + string(assert.File(t, name))
	}
	for _, target := range targets {
		if strings.HasPrefix(target, "-") || strings.Contains(target, "=") {
			continue
		}
		assert.That(t,
			regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(target)+`:`).MatchString(makefiles),
			"there is no target %q to make", target)
	}
}

// The parser is what would let commands through unseen.
func TestEveryCommandOfAPageIsParsed(t *testing.T) {
	got := commands("$ no block\n```console\n$ a b\nits output\n$ c \\\n  d\n```\n$ out\n```go\n$ " +
		"x\n```\n```sh\n$ e\n```\n```\n$ y\n```\n")
	assert.Same(t, got, []command{{"a b", "its output\n"}, {"c  d", ""}, {"e", ""}},
		gocmp.AllowUnexported(command{}))
}
