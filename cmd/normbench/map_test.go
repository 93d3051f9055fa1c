package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/kernels/rule"
	"normbench/sweep/shapes"
	"normbench/tune"
)

// checkMap holds what tune filled from the records that are checked in, as README has it, to the
// map that the program brings along for an H200.
func checkMap(t *testing.T, out string) {
	made, err := tune.Read(out)
	assert.NoError(t, err)
	assert.Same(t, made.Map.Rasters, checkedIn(t).Map.Rasters, "the map of tuned.json is another",
		cmpopts.EquateComparable(kernels.Config{}))
}

func checkedIn(t *testing.T) *tune.Table {
	table, err := tune.Read(filepath.Join("results", "nvidia-h200", tune.FileName))
	assert.NoError(t, err)
	return table
}

// The map answers every problem of maps that learn has measured, and where the records have
// its answer's time it loses little.
func TestMap(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	page, _ := os.ReadFile("README.md")
	assert.That(t, bytes.Contains(page, []byte("\n$ normbench tune results/nvidia-h200/learn "+
		"results/nvidia-h200/learn-2 --out ")),
		"no command of README fills the map, so TestReadme does not check it")
	have := checkedIn(t)
	d := devicetest.H200()
	ps := 0
	for _, s := range shapes.Everything.Draw(2000, 5) {
		for _, c := range []string{"rmsnorm/fwd/2-byte", "rmsnorm/bwd/2-byte",
			"layernorm/fwd/2-byte", "layernorm/bwd/2-byte"} {
			class, err := rule.ParseClass(c)
			assert.NoError(t, err)
			r := have.Map.Raster(class, rule.AlignOf(s.N, class.Bytes))
			if r.CellAt(s.M, s.N, d.SMs).Match == rule.MatchCell {
				ps++
			}
		}
	}
	assert.That(t, ps >= 7900, "%d of 8000 problems have a cell with an answer", ps)
	for i := range have.Map.Rasters {
		r := &have.Map.Rasters[i]
		assert.That(t, r.Regret <= 2 && r.Regret >= 0, "%s: regret %.2f%%", r.Title(), r.Regret)
	}
}

// What the program brings along are the maps of results/*/tuned.json, without their entries.
func TestMapsBrought(t *testing.T) {
	paths, _ := filepath.Glob("../../results/*/tuned.json")
	want := map[string][]byte{}
	for _, path := range paths {
		table, err := tune.Read(path)
		assert.NoError(t, err)
		if table.Map != nil {
			text, err := json.MarshalIndent(struct {
				Device kernels.DeviceInfo `json:"device"`
				Map    *rule.Map          `json:"map"`
			}{table.Device, table.Map}, "", "  ")
			assert.NoError(t, err)
			want[table.Device.ID+".json"] = append(text, '\n')
		}
	}
	const dir = "../../kernels/families/maps"
	if *assert.Update {
		for name, text := range want {
			assert.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
		}
	}
	files, err := os.ReadDir(dir)
	assert.That(t, err == nil && len(files) == len(want),
		"%d files, %d maps: %v", len(files), len(want), err)
	for _, f := range files {
		got, err := os.ReadFile(filepath.Join(dir, f.Name()))
		assert.That(t, err == nil && bytes.Equal(got, want[f.Name()]),
			"%s is not the map of its tuned.json (%v): go test ./cmd/normbench -run "+
				"TestMapsBrought -update",
			f.Name(), err)
	}
}
