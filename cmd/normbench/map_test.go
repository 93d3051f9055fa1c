package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/rule"
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

// What the program brings along are the maps of results/*/tuned.json, without their entries.
func TestMapsBrought(t *testing.T) {
	const dir = "../../kernels/families/maps"
	paths, _ := filepath.Glob("../../results/*/tuned.json")
	brought := 0
	for _, path := range paths {
		table, err := tune.Read(path)
		assert.NoError(t, err)
		if table.Map != nil {
			text, err := json.MarshalIndent(struct {
				Device kernels.DeviceInfo `json:"device"`
				Map    *rule.Map          `json:"map"`
			}{table.Device, table.Map}, "", "  ")
			assert.NoError(t, err)
			assert.Golden(t, filepath.Join(dir, table.Device.ID+".json"), string(text)+"\n")
			brought++
		}
	}
	files, err := os.ReadDir(dir)
	assert.That(t, err == nil && len(files) == brought, "%d files, %d maps: %v", len(files), brought, err)
}
