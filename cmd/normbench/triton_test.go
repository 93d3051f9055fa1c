package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels/triton"
)

// What is wrong with a kernel of Triton is one line, with file and line where there is one, a hint
// and exit code 2. Triton is a package without code, its compiler a script.
func TestTritonErrors(t *testing.T) {
	python, err := exec.Command("python3", "-c",
		"import sys; sys.stdlib_module_names; print(sys.executable, end='')").Output()
	if err != nil {
		t.Skip("no Python 3.10 or later")
	}
	examples := filepath.Join("..", "..", "examples", "triton")
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(examples, name))
		assert.NoError(t, err)
		return string(text)
	}
	manifest, source := read("rms_forward.yaml"), read("rms.py")
	type change [2]string // a text of the manifest or the source, and what stands there instead
	const entry = `t.yaml:19:40: launches[0].triton.function: `
	failed := `{"ID": 1, "Failed": {"Source": "user:rms.py", "Log": "user:rms.py:15: error: no such thing\nall of it"}}`
	binary := func(params string) string {
		return `{"ID": 1, "Value": {"Cubin": "AAAA", "Symbols": {"rms_forward": "f"}, "Meta": {"Threads": 128, "Params": [` + params + `]}}}`
	}
	for name, test := range map[string]struct {
		change
		version, reply, want string
	}{
		"no Triton":     {version: "none", want: entry + "PYTHON: there is no Triton"},
		"an old Triton": {version: "2.1.0", want: entry + "PYTHON has Triton 2.1.0"},
		"no function": {change: change{"function: rms_forward", "function: nope"},
			want: entry + "rms.py: there is no function nope"},
		"not jitted": {change: change{"@triton.jit\ndef rms_forward", "def rms_forward"},
			want: entry + "rms.py:7: rms_forward has no @triton.jit"},
		"no argument": {change: change{"X: x, ", ""}, want: entry +
			"rms_forward (rms.py:8) has no argument for X"},
		"no tensor": {change: change{"X: x, ", "X: input, "},
			want: `t.yaml:21:15: launches[0].args.X: unknown name input in "input"`},
		"no value": {change: change{"BLOCK: pow2(N)", ""}, want: entry +
			"rms_forward (rms.py:8) has no value for BLOCK"},
		"another folder": {change: change{"source: rms.py", "source: ../rms.py"},
			want: `t.yaml:19:22: launches[0].triton.source: malformed source "../rms.py"`},
		"a link out": {want: "rms.py: path escapes from parent"},
		"a huge expression": {change: change{"grid: M", "grid: " + strings.Repeat("1+", 600) + "1"},
			want: "t.yaml:20:11: launches[0].grid: an expression of 1201 bytes"},
		"a huge number": {change: change{"grid: M", "grid: M * 100000000 * 100000000"},
			want: "t.yaml:20:11: launches[0].grid has a number beyond 2^53"},
		"no code": {reply: failed, want: "compile user:rms.py:15: error: no such thing"},
		"a dead helper": {reply: "dies", want: "compile user:rms.py: Triton's process ended: " +
			"exit status 3"},
		"other parameters": {reply: binary(`{"Name": "Q", "Type": "*bf16"}`),
			want: "user:rms.py: rms_forward: parameter Q has no argument"},
		"no cubin": {reply: binary(`{"Name": "X", "Type": "*bf16"}`),
			want: "user:rms.py: rms_forward: the cubin does not tell its parameters"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			version := test.version
			if version == "" {
				version = "3.6.0"
			}
			script := fmt.Sprintf("#!/bin/sh\n[ $3 = probe ] && exec %s \"$@\"\nread source\n"+
				"echo {}\nread line\n%s\nread line\n",
				python, strings.NewReplacer("echo 'dies'", "exit 3").Replace("echo '"+
					strings.ReplaceAll(test.reply, `\`, `\\`)+"'"))
			files := map[string]string{"python": script, "k/t.yaml": strings.Replace(manifest,
				test.change[0], test.change[1], 1),
				"k/rms.py": strings.Replace(source, test.change[0], test.change[1], 1)}
			if test.version != "none" {
				files["lib/triton/__init__.py"] = "__version__ = '" + version + "'"
			}
			for name, text := range files {
				assert.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
				assert.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
			}
			if name == "a link out" {
				link := filepath.Join(dir, "k", "rms.py")
				assert.NoError(t, os.Rename(link, filepath.Join(dir, "rms.py")))
				assert.NoError(t, os.Symlink("../rms.py", link))
			}
			t.Setenv(triton.PythonVariable, filepath.Join(dir, "python"))
			t.Setenv("PYTHONPATH", filepath.Join(dir, "lib"))
			t.Setenv("NORMBENCH_CACHE", filepath.Join(dir, "cache"))
			args := []string{"verify", "triton/rms_forward", "--kernels", filepath.Join(dir, "k"),
				"--device", "cpu", "--shapes", "64x256", "--op", "rmsnorm", "--pass", "fwd"}
			if test.reply == failed {
				_, _, stderr := normbench(append(args, "-v"))
				assert.That(t, strings.Contains(stderr, "\nall of it\n"), "-v shows\n%s", stderr)
			}
			code, _, stderr := normbench(args)
			want := `(?m)^normbench: error: (\S*/)?` + regexp.QuoteMeta(strings.Replace(test.want,
				"PYTHON", filepath.Join(dir, "python"), 1)) + `[^\n]*\nnormbench: hint: .+\n\z`
			assert.That(t, code == exitTrouble && regexp.MustCompile(want).MatchString(stderr),
				"exit code %d, want %s\n%s", code, want, stderr)
		})
	}
}
