package main

import (
	"path/filepath"
	"strings"
	"testing"

	"normbench/internal/assert"
)

// The tables and plots that are checked in are what commands make of the records that are:
// -update writes them.
func TestCheckedInTablesFollowFromRecords(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	const peers = "report results/nvidia-h200/peers/"
	const growth = "compare results/nvidia-h200/growth-peers#peers results/nvidia-h200/growth-peers#base "
	made := map[string]string{ // commands by what they print or, with --plot, draw
		"results/nvidia-h200/table.txt": "compare results/nvidia-h200#base results/nvidia-h200",
		"results/nvidia-h100-80gb-hbm3/table.txt": "compare results/nvidia-h100-80gb-hbm3#base " +
			"results/nvidia-h100-80gb-hbm3",
		"docs/peers-rmsnorm-fwd.svg":   peers + "rmsnorm-fwd.json.gz",
		"docs/peers-rmsnorm-bwd.svg":   peers + "rmsnorm-bwd.json.gz",
		"docs/peers-layernorm-fwd.svg": peers + "layernorm-fwd.json.gz",
		"docs/peers-layernorm-bwd.svg": peers + "layernorm-bwd.json.gz",
		"lab/notes/growth-fwd.svg":     growth + "--pass fwd",
		"lab/notes/growth-bwd.svg":     growth + "--pass bwd",
	}
	drawn := filepath.Join(t.TempDir(), "x.svg")
	for name, command := range made {
		args := strings.Fields(command)
		if filepath.Ext(name) == ".svg" {
			args = append(args, "--plot", drawn)
		}
		code, stdout, stderr := normbench(args)
		got := stdout
		if filepath.Ext(name) == ".svg" {
			got = string(assert.File(t, drawn))
		}
		assert.Must(t, code == 0, "%s: exit code %d\n%s", command, code, stderr)
		assert.Golden(t, name, got)
		assert.That(t,
			!strings.HasPrefix(name, "docs/peers") || strings.Contains(stdout, "A = peer:best, B = tuned:"),
			"%s does not say who is who\n%s", command, stdout)
	}
}
