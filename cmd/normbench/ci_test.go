package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"go.yaml.in/yaml/v4"
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
