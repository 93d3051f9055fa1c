package peers

import (
	_ "embed"
	"os"
	"path/filepath"
	"strconv"
)

// captureHook is what a Python that finds it in its PYTHONPATH runs first: it records the norms of a
// program.
//
//go:embed capture/sitecustomize.py
var captureHook []byte

// PutCapture puts the hook of a capture into a folder, where its files will be too, and gives the
// environment in which a program is recorded: it ends after so many steps, or as it does for 0.
func PutCapture(dir string, steps int) (env []string, err error) {
	hook := filepath.Join(dir, "hook")
	if err := os.Mkdir(hook, 0o777); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(hook, "sitecustomize.py"), captureHook, 0o666); err != nil {
		return nil, err
	}
	path := hook
	if old := os.Getenv("PYTHONPATH"); old != "" {
		path += string(os.PathListSeparator) + old
	}
	return append(os.Environ(), "PYTHONPATH="+path, "NORMBENCH_CAPTURE="+dir,
		"NORMBENCH_CAPTURE_STEPS="+strconv.Itoa(steps)), nil
}
