package rules

import (
	"fmt"
	"slices"
	"testing"

	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
	"normbench/kernels/launchrule"
)

// TestNear is of what Near lists first, and what it leaves out.
func TestNear(t *testing.T) {
	j := launchrule.Judge{Registry: families.New(), Device: devicetest.H200()}
	var lines []string
	record := func(problem, variant string, us float64, base string) {
		family, label := variant[:len(variant)-3], variant[len(variant)-2:]
		c, err := kernels.ParseConfig(label)
		if err != nil {
			t.Fatal(err)
		}
		p, err := kernels.ParseProblem(problem)
		if err != nil {
			t.Fatal(err)
		}
		_, full, _, err := j.Registry.Resolve(p, kernels.Variant{Family: family, Config: c}, j.Device)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%s %s %s %g %s", problem, full, family, us, base))
	}
	record("rmsnorm/bwd/4096x4096/bf16", "rms_bwd/reg_persist@w8", 50, "base")
	record("rmsnorm/bwd/4096x4096/bf16", "rms_bwd/two_pass@w8", 51, "")
	record("rmsnorm/bwd/4096x4096/bf16", "rms_bwd/reg_persist@w4", 60, "")
	record("rmsnorm/bwd/4096x2048/bf16", "rms_bwd/smem_pipe@w4", 30, "base")
	record("rmsnorm/bwd/4096x4099/bf16", "rms_bwd/smem_pipe@w8", 80, "base")
	record("layernorm/bwd/4096x4096/bf16+bias", "ln_bwd/two_pass@w8", 9, "base") // another class
	d, err := Collect([]string{recordsFile(t, append([]string{h200Run}, lines...)...)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		problem string
		k       int
		want    []string
	}{
		// What was best at the shape itself, then what was nearly as good.
		{"rmsnorm/bwd/4096x4096/bf16", 2, []string{"rms_bwd/reg_persist@w8", "rms_bwd/two_pass@w8"}},
		// Another width's best comes before what was a fifth behind here.
		{"rmsnorm/bwd/2048x4096/bf16", 4, []string{"rms_bwd/reg_persist@w8", "rms_bwd/two_pass@w8", "rms_bwd/smem_pipe@w4", "rms_bwd/smem_pipe@w8"}},
		// Rows that start alike are the nearer ones.
		{"rmsnorm/bwd/4096x4101/bf16", 1, []string{"rms_bwd/smem_pipe@w8"}},
		// reg_persist is refused on rows as wide as these.
		{"rmsnorm/bwd/4096x65536/bf16", 1, []string{"rms_bwd/two_pass@w8"}},
		{"rmsnorm/fwd/4096x4096/bf16", 4, nil},
	} {
		p, err := kernels.ParseProblem(c.problem)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range d.Near(p, c.k, j) {
			got = append(got, fmt.Sprintf("%s@w%d", v.Family, v.Config.Get(kernels.Warps)))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("near %s: %v, want %v", p, got, c.want)
		}
	}
}
