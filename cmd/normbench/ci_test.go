package main

import (
	_ "embed"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"normbench/internal/assert"
	"normbench/kernels/cpu"
)

// onCPU stands for bin/normbench-cuda: it runs the same command on the CPU device with two tiny
// shapes, of which the table there has one. A comparison then ends with the code that the test
// wants, as noise is not tested here.
//
//go:embed testdata/on-cpu.sh
var onCPU string

// TestWorkflows runs the scripts of examples/ci, in the order of their jobs, each as its CI runs
// it.
func TestWorkflows(t *testing.T) {
	if runtime.GOOS != "linux" || testing.Short() {
		t.Skip("it needs bash and git, and takes seconds")
	}
	for _, file := range []string{"github.yml", "github-sweep.yml", "gitlab.yml"} {
		text := string(assert.File(t, filepath.Join("..", "..", "examples", "ci", file)))
		for _, part := range []string{"timeout", "--gate", "--strict", "pipefail", "selftest"} {
			assert.That(t, strings.Contains(text, part), "%s has no %s", file, part)
		}
		jobs := workflow(t, file, []byte(text))
		codes := map[string][]string{"github.yml": {"1"}, "github-sweep.yml": {"0"}}[file]
		if testAll {
			codes = []string{"0", "1", "3"}
		}
		for _, code := range codes {
			t.Run(file+", exit code "+code, func(t *testing.T) {
				w := newRunner(t, code)
				confirmed := true // what a job needs has ended well
				for _, j := range jobs {
					if j.needs && !confirmed {
						continue
					}
					gated := strings.Contains(j.script, "--gate")
					want := 0
					if gated {
						want = int(code[0] - '0')
					}
					assert.Equal(t, w.run(t, j.script), want, j.name, "exit code")
					confirmed = confirmed && want == 0
				}
				pushed := w.git(t, w.origin, "branch", "--list", "sweep-*")
				assert.That(t,
					!strings.Contains(text, "sweep") || file == "github.yml" ||
						(pushed != "") == (code == "0"),
					"exit code %s, and pushed %q", code, pushed)
			})
		}
	}
}

// A ciJob is a job's commands as one script, each step in a shell of its own on GitHub.
type ciJob struct {
	name, script string
	needs        bool // another job, that has to end well
}

func workflow(t *testing.T, file string, data []byte) (jobs []ciJob) {
	t.Helper()
	type entry struct {
		Timeout        string
		TimeoutMinutes int `yaml:"timeout-minutes"`
		Needs          any
		Extends        string
		BeforeScript   []string `yaml:"before_script"`
		Script         []string
		Steps          []struct{ Run string }
	}
	var top map[string]yaml.Node
	assert.NoError(t, yaml.Unmarshal(data, &top), file)
	if inner, ok := top["jobs"]; ok { // GitHub
		top = nil
		assert.NoError(t, inner.Decode(&top))
	}
	all := map[string]entry{}
	for name, node := range top {
		var e entry
		if node.Kind == yaml.MappingNode {
			assert.NoError(t, node.Decode(&e), name)
		}
		all[name] = e
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		e := all[name]
		script := slices.Concat(all[e.Extends].BeforeScript, e.Script)
		for _, step := range e.Steps {
			if step.Run != "" { // in a shell of its own
				script = append(script, "bash --noprofile --norc -eo pipefail <<'STEP'\n"+step.Run+
					"\nSTEP")
			}
		}
		if len(script) == 0 || strings.HasPrefix(name, ".") {
			continue
		}
		assert.That(t, e.Timeout != "" || e.TimeoutMinutes != 0, "job %s has no timeout", name)
		j := ciJob{name, strings.Join(script, "\n"), e.Needs != nil}
		if !j.needs {
			jobs = append([]ciJob{j}, jobs...)
		} else {
			jobs = append(jobs, j)
		}
	}
	assert.Must(t, len(jobs) != 0, "no jobs")
	return jobs
}

// A runner is a checkout with an origin, results of this machine's CPU, and programs that stand for
// those of a CI machine.
type runner struct {
	dir, origin string
	env         []string
}

func newRunner(t *testing.T, code string) *runner {
	t.Helper()
	top := t.TempDir()
	w := &runner{dir: filepath.Join(top, "checkout"), origin: filepath.Join(top, "origin.git")}
	write := func(path, text string) {
		assert.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		assert.NoError(t, os.WriteFile(path, []byte(text), 0o755))
	}
	write(filepath.Join(w.dir, "bin", "normbench-cuda"), onCPU)
	write(filepath.Join(w.dir, ".gitignore"), "/bin/\n/out/\n")
	write(filepath.Join(w.dir, "kernels", "families", "x.cu"), "")
	for _, name := range []string{"make", "gh"} {
		write(filepath.Join(top, "path", name), "#!/bin/sh\n")
	}
	results := filepath.Join(w.dir, "results")
	if code, _, stderr := normbench([]string{"sweep", "--device", "cpu", "--shapes", "4x64", "--op",
		"rmsnorm", "--pass", "fwd", "--samples", "1", "--warm", "--out", results}); code != 0 {
		t.Fatal(stderr)
	}
	devices, err := os.ReadDir(results)
	assert.Must(t, err == nil && len(devices) == 1, "%v %v", devices, err)
	w.env = append(os.Environ(), "CODE="+code, "RAN="+filepath.Join(top, "ran"), "DEVICE="+
		devices[0].Name(),
		"PATH="+filepath.Join(top, "path")+string(os.PathListSeparator)+os.Getenv("PATH"),
		"HOME="+top, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=x",
		"GIT_AUTHOR_EMAIL=x@x", "GIT_COMMITTER_NAME=x", "GIT_COMMITTER_EMAIL=x@x",
		"GITHUB_RUN_ID=1", "GITHUB_STEP_SUMMARY="+filepath.Join(top, "summary.md"), "CI_PIPELINE_ID=1", "CI_DEFAULT_BRANCH=main",
		"CI_MERGE_REQUEST_TARGET_BRANCH_NAME=main",
		"SWEEP_TOKEN=secret", "CI_SERVER_HOST=example.com", "CI_PROJECT_PATH=group/project")
	w.git(t, top, "init", "-q", "--bare", "-b", "main", w.origin)
	w.git(t, w.origin, "config", "receive.advertisePushOptions", "true")
	w.git(t, w.dir, "init", "-q", "-b", "main")
	w.git(t, w.dir, "add", "-A")
	w.git(t, w.dir, "commit", "-q", "-m", "first")
	w.git(t, w.dir, "remote", "add", "origin", w.origin)
	w.git(t, w.dir, "push", "-q", "origin", "main")
	w.git(t, w.dir, "config", "url."+w.origin+".insteadOf",
		"https://sweep:secret@example.com/group/project.git")
	if strings.Contains(t.Name(), "github.yml") { // actions/checkout makes it
		w.git(t, w.dir, "clone", "-q", w.origin, "out/main")
	}
	return w
}

func (w *runner) git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	c := exec.Command("git", args...)
	c.Dir, c.Env = dir, w.env
	out, err := c.CombinedOutput()
	assert.NoError(t, err, "git", strings.Join(args, " "), out)
	return strings.TrimSpace(string(out))
}

// run runs a job's script, and is its exit code.
func (w *runner) run(t *testing.T, script string) int {
	t.Helper()
	c := exec.Command("bash", "-eo", "pipefail", "-c", script)
	c.Dir, c.Env = w.dir, slices.Concat(w.env, []string{cpu.CacheVariable + "=" + smallCache})
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	assert.Must(t, err == nil || errors.As(err, &exit), "%v", err)
	code := c.ProcessState.ExitCode()
	t.Logf("exit code %d\n%s", code, out)
	return code
}
