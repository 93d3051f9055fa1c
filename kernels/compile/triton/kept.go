package triton

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"normbench/kernels/compile/nvrtc"
)

// A keeper keeps what a folder's probe has found for the next command. It is found again while the question, the
// Python and its variables are the same, and all that was read has its size and its time of change.
type keeper struct {
	file string // "" keeps nothing
	key  string
}

// kept is what stands in the file.
type kept struct {
	Key    string
	Answer json.RawMessage
}

// variablesRE are the variables that change what a probe finds.
var variablesRE = regexp.MustCompile(`^(PYTHON|VIRTUAL_ENV|TRITON_|DISABLE_|MLIR_|LLVM_|USE_IR_)`)

// keeperOf returns the keeper of a folder's probe.
func keeperOf(python, folder string, question any) keeper {
	python, err := exec.LookPath(python)
	if err != nil {
		return keeper{}
	}
	python, _ = filepath.Abs(python)
	here, _ := os.Getwd() // from which $PYTHONPATH may name folders
	parts := []any{program, here, stampOf(python), question}
	for _, v := range os.Environ() {
		if variablesRE.MatchString(v) {
			parts = append(parts, v)
		}
	}
	text, err := json.Marshal(parts)
	if err != nil {
		return keeper{}
	}
	name := fmt.Sprintf("%x.json", sha256.Sum256([]byte(folder+"\n"+python)))
	return keeper{file: filepath.Join(nvrtc.DefaultCacheDir(), "probes", name),
		key: fmt.Sprintf("%x", sha256.Sum256(text))}
}

// read reads the answer, and says whether it still holds.
func (k keeper) read(a *answer) bool {
	if st, err := os.Stat(k.file); k.file == "" || err != nil || !nvrtc.IsTrusted(st) {
		return false
	}
	text, err := os.ReadFile(k.file)
	var was kept
	if err != nil || json.Unmarshal(text, &was) != nil || was.Key != k.key ||
		json.Unmarshal(was.Answer, a) != nil {
		return false
	}
	for path, stamp := range a.Read {
		if fmt.Sprint(stamp) != fmt.Sprint(stampOf(path)) {
			return false
		}
	}
	return true
}

// write keeps an answer. That it cannot costs the next command a second, so it is no error.
func (k keeper) write(a *answer) {
	body, err := json.Marshal(a)
	if err != nil || k.file == "" {
		return
	}
	text, err := json.Marshal(kept{k.key, body})
	if err != nil || os.MkdirAll(filepath.Dir(k.file), 0o777) != nil {
		return
	}
	f, err := os.CreateTemp(filepath.Dir(k.file), "probe-")
	if err != nil {
		return
	}
	_, err = f.Write(text)
	if bad := f.Close(); err == nil {
		err = bad
	}
	if err != nil || os.Rename(f.Name(), k.file) != nil {
		os.Remove(f.Name())
	}
}

// stampOf is size and time of change, none of what is not there.
func stampOf(path string) []int64 {
	st, err := os.Stat(path)
	if err != nil {
		return []int64{}
	}
	return []int64{st.Size(), st.ModTime().UnixNano()}
}

// absolute returns a folder by its whole path.
func absolute(folder string) string {
	if abs, err := filepath.Abs(folder); err == nil {
		return abs
	}
	return strings.TrimRight(folder, "/")
}
