package textfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/hint"
)

// A file of another tool is refused by what it is, with what helps; ours and half of one are not.
func TestFileOfAnotherToolIsRefusedByName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "F")
	for text, want := range map[string][2]string{
		"{\n<<<<<<< HEAD\n\"a\": 1\n=======\n\"a\": 2\n>>>>>>> x\n}":      {"conflict markers of git", "--ours"},
		`{"device_name": "A100", "tune_params_keys": ["b"], "cache": {}}`: {"a cache of kernel_tuner", "judge"},
		`{"meta": {}, "devices": [], "benchmarks": []}`:                   {"results of NVBench", "judge"},
		"goos: linux\nBenchmarkX-8   100   12.5 ns/op\n":                  {"Go's benchmarks", "benchstat"},
		`{"architectures": ["G"], "model_type": "gemma2", "hidden_size": 3584}`: {"Hugging Face",
			"--model FILE"},
	} {
		assert.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		_, err := Read(path, Small)
		assert.Refused(t, err, want[0], text)
		assert.That(t, strings.Contains(hint.Of(err), want[1]), "%s: %s", text, hint.Of(err))
	}
	for _, text := range []string{"", "{", `{"schema": 2, "entries": []}`, "a,b\n1,2\n", "x <<<<<<< y\n",
		`{"devices": []}`} {
		assert.NoError(t, CheckForeign([]byte(text)), text)
	}
}
