package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"normbench/internal/assert"
)

// The tables and plots that are checked in are what commands make of the records that are:
// -update writes them.
func TestMade(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	const results = "results/nvidia-h200"
	made := map[string][]string{} // commands by what they print or, with --plot, draw
	for _, from := range []string{results, "results/nvidia-h100-80gb-hbm3"} {
		made[from+"/table.txt"] = []string{"compare", from + "#base", from}
	}
	for _, pass := range []string{"fwd", "bwd"} {
		for _, op := range []string{"rmsnorm", "layernorm"} {
			made["docs/peers-"+op+"-"+pass+".svg"] = []string{"report", results + "/peers/" + op +
				"-" + pass + ".json.gz"}
		}
		made["docs/growth-"+pass+".svg"] = []string{"report", results + "/growth-peers#peers",
			results + "/growth-peers#base", "--pass", pass}
	}
	drawn := filepath.Join(t.TempDir(), "x.svg")
	for name, args := range made {
		if filepath.Ext(name) == ".svg" {
			args = append(args, "--plot", drawn)
		}
		code, stdout, stderr := normbench(args)
		got := []byte(stdout)
		if filepath.Ext(name) == ".svg" {
			got, _ = os.ReadFile(drawn)
		}
		if *assert.Update && code == 0 {
			assert.NoError(t, os.WriteFile(name, got, 0o644))
		}
		kept, err := os.ReadFile(name)
		assert.That(t, err == nil && code == 0 && bytes.Equal(kept, got),
			"%s is not what %s makes (%v, exit code %d)\n%s", name, args, err, code, stderr)
		assert.That(t,
			!strings.HasPrefix(name, "docs/peers") || strings.Contains(stdout,
				"A = peer:best, B = tuned:"),
			"%s does not say who is who\n%s", args, stdout)
	}
}
