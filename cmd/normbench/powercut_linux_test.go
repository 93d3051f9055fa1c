package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/durable"
	"normbench/internal/durable/powercut"
	"normbench/kernels/devices/devicetest"
	"normbench/sweep/record"
	"normbench/tune"
)

// Each command that writes is cut off behind each of its steps. Whatever that leaves, a table, a
// map or a compare is whole, and of the records only the last append may be torn. What the command
// had said it was done with is there, and the same command goes on.
func TestPowerCutLeavesWholeFilesOfCommands(t *testing.T) {
	device := devicetest.CPU().ID
	sweep := []string{"sweep", "--op", "rmsnorm", "--pass", "fwd", "--samples", "2", "--seed", "1",
		"--worker", "normbench-faulty", "--out", "OUT"}
	search := append(slices.Clone(sweep), "--shapes", "512x1024,256x1024", "--strategy", "auto",
		"--budget", "6configs", "--finals", "2", "--rounds", "6")
	grid := append(slices.Clone(sweep), "--shapes", "512x1024", "--strategy", "grid")
	for _, c := range []struct {
		name   string
		before [][]string // what was there is on the disk
		args   []string
	}{
		{"sweep", nil, search},
		{"sweep, into a table", [][]string{grid}, search},
		{"tune", [][]string{grid}, []string{"map", "fill", "OUT/" + device, "--out", "OUT/" + device +
			"/" + tune.FileName, "--plot", "OUT/map.svg"}},
		{"learn", nil, []string{"map", "learn", "--worker", "normbench-faulty", "--domain",
			"M=1:16,N=64:128", "--op", "rmsnorm", "--pass", "fwd",
			"--prior", "none", "--budget", "600ms", "--out", "OUT"}},
		{"compare", nil, []string{"compare", "base", "rms_fwd/cta_reg@br4.w2", "--shapes",
			"1024x1024,512x1024", "--op", "rmsnorm", "--pass", "fwd",
			"--worker", "normbench-fake ab", "--out", "OUT", "--html", "OUT/page.html"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			exec := func(root string, args []string) error {
				words := slices.Clone(args)
				for i := range words {
					words[i] = strings.ReplaceAll(words[i], "OUT", root)
				}
				if code, _, text := normbench(words); code != 0 {
					return fmt.Errorf("%v: exit code %d: %s", words, code, text)
				}
				return nil
			}
			whole, states := map[string]bool{}, 0
			powercut.Cuts(t, func(root string, ack func()) {
				for _, args := range append(slices.Clone(c.before), c.args) {
					assert.NoError(t, exec(root, args))
					ack()
				}
				assert.NoError(t, leftFiles(root, func(name string, _ []byte) error {
					whole[name] = true
					return nil
				}))
			}, func(root string, acked int) error {
				found := map[string]bool{}
				err := leftFiles(root, func(name string, data []byte) error {
					found[name] = true
					return leftWhole(filepath.Join(root, name), data)
				})
				if err != nil {
					return err
				}
				for name := range whole {
					if acked > len(c.before) && !found[name] {
						return fmt.Errorf("%s was promised", name)
					}
				}
				if states++; states%97 > 0 || acked < len(c.before) {
					return nil
				}
				return exec(root, c.args)
			})
		})
	}
}

// leftFiles reads the files below a folder, but for temporary ones.
func leftFiles(root string, each func(name string, data []byte) error) error {
	dir := os.DirFS(root)
	return fs.WalkDir(dir, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			return err
		}
		data, err := fs.ReadFile(dir, name)
		return errors.Join(err, each(name, data))
	})
}

// leftWhole holds a file to being whole, or torn where it may be.
func leftWhole(path string, data []byte) error {
	switch filepath.Ext(path) {
	case ".jsonl":
		w, _, err := record.OpenWriter(filepath.Dir(filepath.Dir(path)),
			filepath.Base(filepath.Dir(path)))
		if err != nil {
			return err
		}
		return w.Close()
	case ".json":
		if !json.Valid(data) {
			return fmt.Errorf("%s is torn", path)
		}
		return durable.Verify(data)
	case ".svg", ".html":
		if !strings.HasSuffix(strings.TrimSpace(string(data)), "</"+filepath.Ext(path)[1:]+">") {
			return fmt.Errorf("%s is torn", path)
		}
	}
	return nil
}
