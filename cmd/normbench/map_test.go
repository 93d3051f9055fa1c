package main

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"normbench/internal/assert"
	"normbench/kernels"
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

func checkedIn(t *testing.T) *tune.TunedTable {
	table, err := tune.Read(filepath.Join("results", "nvidia-h200", tune.FileName))
	assert.NoError(t, err)
	return table
}
