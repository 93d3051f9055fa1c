package main

import (
	"path/filepath"
	"testing"

	"normbench/kernels/devicetest"
	"normbench/kernels/rule"
	"normbench/sweep/shapes"
	"normbench/tune"
	"normbench/tune/learn"
)

// The map that the program brings along for an H200 is what tune fills from the records that are checked in. It answers
// every problem of maps that learn has measured, and where the records have its answer's time it loses little.
func TestMapMade(t *testing.T) {
	from, out := filepath.Join("..", "..", "results", "nvidia-h200"), filepath.Join(t.TempDir(), tune.FileName)
	if code, _, stderr := normbench([]string{"tune", filepath.Join(from, "learn"), "--out", out}); code != 0 {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	made, err := tune.Read(out)
	if err != nil {
		t.Fatal(err)
	}
	have, err := tune.Read(filepath.Join(from, tune.FileName))
	if err != nil {
		t.Fatal(err)
	}
	if changed, of := made.Map.Changed(have.Map); changed > 0 || of < 1000 {
		t.Errorf("%d of %d cells differ", changed, of)
	}
	d := devicetest.H200()
	ps := 0
	for _, s := range shapes.Everything.Draw(2000, 5) {
		for _, c := range []string{"rmsnorm/fwd/2-byte", "rmsnorm/bwd/2-byte", "layernorm/fwd/2-byte", "layernorm/bwd/2-byte"} {
			class, err := rule.ParseClass(c)
			if err != nil {
				t.Fatal(err)
			}
			if a := have.Map.Find(class.Problem(s.M, s.N), &d); a.Match == rule.MatchCell {
				ps++
			}
		}
	}
	if ps < 7900 {
		t.Errorf("%d of 8000 problems have a cell with an answer", ps)
	}
	data, err := learn.Collect([]string{filepath.Join(from, "learn")})
	if err != nil {
		t.Fatal(err)
	}
	for i := range have.Map.Rasters {
		if r := &have.Map.Rasters[i]; r.Regret > 1.02 || r.Regret < 1 {
			t.Errorf("%s: regret %.4f of %d problems", r.Title(), r.Regret, len(data.Points))
		}
	}
}
