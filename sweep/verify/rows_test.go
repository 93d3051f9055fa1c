package verify

import (
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/cpu"
	"normbench/kernels/devices/devicetest"
	"normbench/sweep"
)

// flipping is a registry whose rms_fwd/faulty is a right forward that changes the last bit of the rstd of rows.
func flipping(t *testing.T, which func(h *kernels.HostRun, row int64) bool) *kernels.Registry {
	t.Helper()
	r := faulty(t, func(*kernels.HostRun) {})
	f, err := r.Lookup("rms_fwd/faulty")
	assert.NoError(t, err)
	f.Bits = kernels.PerConfig
	norm := f.Host["forward"]
	f.Host["forward"] = func(h *kernels.HostRun, pid int) {
		norm(h, pid)
		for r := int64(pid); r < h.Problem.M; r += int64(h.Launch.Grid[0]) { // those of the CTA
			if which(h, r) {
				kernels.Elements[uint32](h.Mem["rstd"])[r] ^= 1
			}
		}
	}
	return r
}

// rowsOf checks rms_fwd/faulty with its rows compared, as an operand picks it if there is one.
func rowsOf(t *testing.T, text string, r *kernels.Registry, pick sweep.VariantsFunc) *Verdicts {
	t.Helper()
	p := devicetest.Problem(t, text)
	f, err := r.Lookup("rms_fwd/faulty")
	assert.NoError(t, err)
	c := &Checker{Registry: r, Device: cpu.New(r), Code: Host, Seed: 5, Repeats: 1, BatchInvariant: true,
		Refs: func(kernels.Problem, kernels.Variant) string { return "" }, Now: func(kernels.Problem, string) {}, Done: func(int) {}}
	if pick != nil {
		c.Picking = []sweep.Operand{{Text: "pick", Variants: pick}}
	}
	v := kernels.Variant{Family: f.Name, Config: f.Base(p, c.Device.Info())}
	found, err := c.Check(t.Context(), sweep.Task{Problem: p, Variants: []kernels.Variant{v}})
	assert.NoError(t, err)
	assert.Must(t, len(found) == 1, "%d verdicts", len(found))
	return found[0]
}

// A kernel whose rows have other bits in fewer rows, or at another place among them, fails with the first such row;
// one whose rows are its own passes, with the numbers of rows at which they were compared.
func TestRowsWithOtherBitsInFewerRowsAreFound(t *testing.T) {
	never := func(*kernels.HostRun, int64) bool { return false }
	for _, test := range []struct {
		name, problem, want string
		same                []int64
		which               func(h *kernels.HostRun, row int64) bool
	}{
		{"nothing", "rmsnorm/fwd/300x64/bf16", "", []int64{1, 7, 128, 300}, never},
		{"few rows alone", "rmsnorm/fwd/33x64/bf16", "", []int64{1, 7, 33}, never},
		{"one row", "rmsnorm/fwd/1x64/bf16", "", nil, never},
		{"one row is another", "rmsnorm/fwd/300x64/bf16", "row 0 of rstd has other bits in 1 row than in 300",
			[]int64{7, 128, 300}, func(h *kernels.HostRun, _ int64) bool { return h.Problem.M == 1 }},
		{"up to 200", "rmsnorm/fwd/300x64/bf16", "row 0 of rstd has other bits in 128 rows than in 300",
			[]int64{300}, func(h *kernels.HostRun, _ int64) bool { return h.Problem.M < 200 }},
		{"every second row", "rmsnorm/fwd/300x64/bf16", "row 7 of rstd has other bits in 7 rows than in 300",
			[]int64{128, 300}, func(_ *kernels.HostRun, r int64) bool { return r%2 == 1 }},
		{"fewer rows fail", "rmsnorm/fwd/33x64/bf16", "in 7 rows: crash: ", []int64{33},
			func(h *kernels.HostRun, _ int64) bool {
				if h.Problem.M < 8 {
					panic("as asked")
				}
				return false
			}},
	} {
		k := rowsOf(t, test.problem, flipping(t, test.which), nil)
		reason := ""
		if len(k.Reasons) > 0 {
			_, reason, _ = strings.Cut(k.Reasons[0], ": ")
		}
		assert.That(t, (reason == "") == (test.want == "") && strings.HasPrefix(reason, test.want) && slices.Equal(k.SameRows(), test.same),
			"%s: %q at %v, want %q at %v", test.name, reason, k.SameRows(), test.want, test.same)
	}
}

// What an operand picks for fewer rows is compared too: another variant passes if its bits are the same.
func TestPickForFewerRowsIsCompared(t *testing.T) {
	fewer := func(v kernels.Variant) sweep.VariantsFunc {
		return func(p kernels.Problem, _ kernels.DeviceInfo) ([]kernels.Variant, error) {
			if p.M < 8 {
				return []kernels.Variant{v}, nil
			}
			return []kernels.Variant{devicetest.Variant(t, "rms_fwd/faulty@w1.k0")}, nil
		}
	}
	for _, other := range []bool{false, true} {
		r := flipping(t, func(*kernels.HostRun, int64) bool { return other })
		want := ""
		if other {
			want = "pick picks rms_fwd/plain@w1.k0 for 7 rows: row 0 of rstd has other bits than in 33"
		}
		k := rowsOf(t, "rmsnorm/fwd/33x64/bf16", r, fewer(devicetest.Variant(t, "rms_fwd/plain@w1.k0")))
		reason := strings.Join(k.Reasons, "")
		assert.That(t, (reason == "") == (want == "") && strings.HasSuffix(reason, want), "%q, want %q", reason, want)
	}
}
