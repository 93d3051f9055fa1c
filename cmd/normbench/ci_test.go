package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.yaml.in/yaml/v4"

	"normbench/internal/assert"
)

// jobs writes the jobs of a CI's file to a folder, each as a script of its commands, and wants them
// to have a timeout, and the file to have what a recipe must: jobs FILE FOLDER.
func jobs(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2, "jobs FILE FOLDER")
	text := ts.ReadFile(args[0])
	for _, part := range []string{"timeout", "--gate", "--strict", "pipefail", "selftest"} {
		if !strings.Contains(text, part) {
			ts.Fatalf("%s has no %s", args[0], part)
		}
	}
	type job struct {
		Timeout        string
		TimeoutMinutes int `yaml:"timeout-minutes"`
		Extends        string
		BeforeScript   []string `yaml:"before_script"`
		Script         []string
		Steps          []struct{ Run string }
	}
	var top map[string]yaml.Node
	ts.Check(yaml.Unmarshal([]byte(text), &top))
	if inner, ok := top["jobs"]; ok { // GitHub
		top = nil
		ts.Check(inner.Decode(&top))
	}
	all := map[string]job{}
	for name, node := range top {
		var j job
		if node.Kind == yaml.MappingNode {
			ts.Check(node.Decode(&j))
		}
		all[name] = j
	}
	ts.Check(os.MkdirAll(ts.MkAbs(args[1]), 0o755))
	for name, j := range all {
		script := slices.Concat(all[j.Extends].BeforeScript, j.Script)
		for _, step := range j.Steps {
			if step.Run != "" { // in a shell of its own
				script = append(script, "bash --noprofile --norc -eo pipefail <<'STEP'\n"+step.Run+
					"\nSTEP")
			}
		}
		if len(script) == 0 || strings.HasPrefix(name, ".") {
			continue
		}
		if j.Timeout == "" && j.TimeoutMinutes == 0 {
			ts.Fatalf("job %s has no timeout", name)
		}
		ts.Check(os.WriteFile(filepath.Join(ts.MkAbs(args[1]), name+".sh"),
			[]byte(strings.Join(script, "\n")), 0o644))
	}
}

// The workflows of docs/gate.md give inputs that there are, the page's table names them all, and the first
// is 12 lines.
func TestGatePageNamesEveryInput(t *testing.T) {
	root := filepath.Join("..", "..")
	page := string(assert.File(t, filepath.Join(root, "docs", "gate.md")))
	inputs := func(of map[string]any) (names []string) {
		for name := range of {
			names = append(names, name)
		}
		return names
	}
	var action struct{ Inputs map[string]any }
	assert.NoError(t, yaml.Unmarshal(assert.File(t, filepath.Join(root, "action.yml")), &action))
	var spec struct {
		Spec struct{ Inputs map[string]any }
	}
	head, _, _ := strings.Cut(string(assert.File(t, filepath.Join(root, "templates", "gate.yml"))), "\n---\n")
	assert.NoError(t, yaml.Unmarshal([]byte(head), &spec))
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(page, -1)
	assert.Must(t, len(blocks) == 3, "%d workflows", len(blocks))
	assert.Equal(t, strings.Count(blocks[0][1], "\n"), 12)
	given := regexp.MustCompile(`(?m)^ +(?:with|inputs):\n((?: +[a-z]+: .*\n)+)`)
	for i, b := range blocks {
		known := inputs(action.Inputs)
		if i == 2 {
			known = inputs(spec.Spec.Inputs)
		}
		m := given.FindStringSubmatch(b[1])
		assert.Must(t, m != nil, "no inputs in %s", b[1])
		for line := range strings.Lines(m[1]) {
			name, _, _ := strings.Cut(strings.TrimSpace(line), ":")
			assert.That(t, slices.Contains(known, name), "%q is no input of workflow %d", name, i+1)
		}
	}
	for _, name := range inputs(action.Inputs) {
		assert.That(t, name == "token" || strings.Contains(page, "\n| `"+name+"` | "), "the page has no input %s", name)
	}
}

// expression is one of GitHub's, or an input of GitLab's.
var expression = regexp.MustCompile(`\$\{\{ *(.*?) *\}\}|\$\[\[ *(.*?) *\]\]`)

// A contexts says what expressions stand for; an input that is not given has its default.
type contexts map[string]string

func (c contexts) replace(ts *testscript.TestScript, text string) string {
	return expression.ReplaceAllStringFunc(text, func(e string) string {
		m := expression.FindStringSubmatch(e)
		value, ok := c[m[1]+m[2]]
		if !ok {
			ts.Fatalf("nothing is known of %s", e)
		}
		return value
	})
}

// give reads the inputs that a script gives, over the defaults.
func (c contexts) give(ts *testscript.TestScript, defaults map[string]struct{ Default *string }, args []string) {
	for name, in := range defaults {
		if in.Default != nil {
			c["inputs."+name] = c.replace(ts, *in.Default)
		}
	}
	for _, a := range args {
		name, value, _ := strings.Cut(a, "=")
		if _, ok := defaults[name]; !ok {
			ts.Fatalf("there is no input %s", name)
		}
		c["inputs."+name] = value
	}
}

// action writes the steps of action.yml that run commands as one script, with inputs filled in. What a
// step needs beside GitHub's own environment stands in the step: action FILE NAME=VALUE...
func action(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) > 0, "action FILE NAME=VALUE...")
	var a struct {
		Inputs map[string]struct{ Default *string }
		Runs   struct {
			Using string
			Steps []struct {
				Shell, Run, Uses string
				Env              map[string]string
			}
		}
	}
	root := filepath.Dir(ts.Getenv("EXAMPLES"))
	text, err := os.ReadFile(filepath.Join(root, "action.yml"))
	ts.Check(err)
	ts.Check(yaml.Unmarshal(text, &a))
	if a.Runs.Using != "composite" {
		ts.Fatalf("it is %q", a.Runs.Using)
	}
	c := contexts{"github.token": "t0k", "github.action_path": root, "runner.temp": filepath.Join(ts.Getenv("WORK"), "temp"),
		"github.server_url": "https://example.com", "github.action_repository": "o/normbench"}
	c.give(ts, a.Inputs, args[1:])
	script := "set -e\n"
	for _, step := range a.Runs.Steps {
		if step.Run == "" {
			continue
		}
		script += "(\n"
		for name, value := range step.Env {
			script += fmt.Sprintf("export %s='%s'\n", name, c.replace(ts, value))
		}
		if step.Shell != "bash" || expression.MatchString(step.Run) {
			ts.Fatalf("a step has the shell %q, or an expression in its script", step.Shell)
		}
		script += "bash --noprofile --norc -eo pipefail <<'STEP'\n" + step.Run + "\nSTEP\n)\n"
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(script), 0o644))
}

// component writes a job of templates/gate.yml as a script, with inputs filled in, and wants its copy of
// scripts/install.sh to be one: component FILE JOB NAME=VALUE...
func component(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) > 1, "component FILE JOB NAME=VALUE...")
	root := filepath.Dir(ts.Getenv("EXAMPLES"))
	text, err := os.ReadFile(filepath.Join(root, "templates", "gate.yml"))
	ts.Check(err)
	head, jobs, _ := strings.Cut(string(text), "\n---\n")
	var spec struct {
		Spec struct {
			Inputs map[string]struct{ Default *string }
		}
	}
	// a list is no text, and no script's
	ts.Check(yaml.Unmarshal([]byte(strings.Replace(head, "default: [gpu]", "default: gpu", 1)), &spec))
	c := contexts{}
	c.give(ts, spec.Spec.Inputs, args[2:])
	var all map[string]struct {
		Extends      string
		Variables    map[string]string
		BeforeScript []string `yaml:"before_script"`
		Script       []string
	}
	ts.Check(yaml.Unmarshal([]byte(strings.ReplaceAll(jobs, "$[[ inputs.tags ]]", "[gpu]")), &all))
	job, ok := all[args[1]]
	base := all[job.Extends]
	if !ok || len(base.BeforeScript) == 0 {
		ts.Fatalf("there is no job %s", args[1])
	}
	install, err := os.ReadFile(filepath.Join(root, "scripts", "install.sh"))
	ts.Check(err)
	if !strings.Contains(base.BeforeScript[0], "<<'INSTALL'\n"+string(install)+"INSTALL") {
		ts.Fatalf("templates/gate.yml has another scripts/install.sh")
	}
	script := "set -e\n"
	for name, value := range base.Variables {
		script += fmt.Sprintf("export %s=\"%s\"\n", name, c.replace(ts, value))
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(script+strings.Join(slices.Concat(base.BeforeScript, job.Script), "\n")), 0o644))
}
