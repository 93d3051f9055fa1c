package main

import (
	"cmp"
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
		return string(assert.File(t, filepath.Join(examples, name)))
	}
	const failed = `{"ID": 1, "Failed": {"Source": "user:rms.py", ` +
		`"Log": "user:rms.py:15: error: no such thing\nall of it"}}`
	binary := func(params string) string {
		return `{"ID": 1, "Value": {"Cubin": "AAAA", "Symbols": {"rms_forward": "f"}, ` +
			`"Meta": {"Threads": 128, "Params": [` + params + `]}}}`
	}
	for name, test := range map[string]struct{ version, reply, want string }{
		"no Triton": {version: "none",
			want: "t.yaml:19:40: launches[0].triton.function: PYTHON: there is no Triton"},
		"an old Triton": {version: "2.1.0",
			want: "t.yaml:19:40: launches[0].triton.function: PYTHON has Triton 2.1.0"},
		"no code": {reply: failed, want: "compile DIR/rms.py:15: error: no such thing"},
		"a dead helper": {reply: "dies",
			want: "compile DIR/rms.py: Triton's process ended: exit status 3"},
		"other parameters": {reply: binary(`{"Name": "Q", "Type": "*bf16"}`),
			want: "DIR/rms.py: rms_forward: parameter Q has no argument"},
		"no cubin": {reply: binary(`{"Name": "X", "Type": "*bf16"}`),
			want: "DIR/rms.py: rms_forward: the cubin does not tell its parameters"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			script := fmt.Sprintf("#!/bin/sh\n[ $3 = probe ] && exec %s \"$@\"\nread source\n"+
				"echo {}\nread line\n%s\nread line\n",
				python, strings.NewReplacer("echo 'dies'", "exit 3").Replace("echo '"+
					strings.ReplaceAll(test.reply, `\`, `\\`)+"'"))
			files := map[string]string{"python": script, "k/t.yaml": read("rms_forward.yaml"),
				"k/rms.py": read("rms.py")}
			if test.version != "none" {
				files["lib/triton/__init__.py"] = "__version__ = '" + cmp.Or(test.version, "3.6.0") + "'"
			}
			for name, text := range files {
				assert.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
				assert.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
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
			want := strings.NewReplacer("PYTHON", filepath.Join(dir, "python"), "DIR",
				filepath.Join(dir, "k")).Replace(test.want)
			want = `(?m)^normbench: error: (\S*/)?` + regexp.QuoteMeta(want) +
				`[^\n]*\nnormbench: hint: .+\n\z`
			assert.That(t, code == exitTrouble && regexp.MustCompile(want).MatchString(stderr) &&
				!strings.Contains(stderr, "--timeout"), // no worker drives a cpu
				"exit code %d, want %s\n%s", code, want, stderr)
		})
	}
}
