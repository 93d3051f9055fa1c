package families_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/families"
)

// typical problems: the shapes of the published benchmarks from narrow to wide,
// and each kind of oddness once.
var typical = []string{
	"rmsnorm/fwd/32768x1024/bf16",
	"rmsnorm/fwd/4096x8192/bf16",
	"rmsnorm/fwd/256x65536/bf16",
	"rmsnorm/fwd/1x4096/bf16",
	"rmsnorm/fwd/196608x128/bf16",
	"layernorm/fwd/16384x768/fp16+bias",
	"layernorm/fwd/512x12289/fp32+bias",
	"layernorm/fwd/16384x12288/bf16+bias",
	"rmsnorm/fwd/8192x8192/bf16+fp8t",
	"layernorm/fwd/29x17389/bf16+bias+fp8t",
	"l2norm/fwd/4096x8192/bf16+residual",
	"l2norm/bwd/33x541/fp32",
	"rmsnormgated/fwd/4096x8192/bf16+sigmoid",
	"rmsnormgated/bwd/33x541/fp32+gatefirst",
	"layernormgated/fwd/64x256/fp16-wfp32+bias+gatefirst",
	"layernormgated/bwd/4096x8192/bf16+bias+acc",
	"rmsnorm/bwd/32768x1024/bf16",
	"rmsnorm/bwd/4096x8192/bf16",
	"rmsnorm/bwd/4096x8192/fp32",
	"rmsnorm/bwd/256x65536/bf16",
	"rmsnorm/bwd/128x262144/bf16",
	"rmsnorm/bwd/1x4096/bf16",
	"rmsnorm/bwd/33x541/bf16-wfp32+zc",
	"layernorm/bwd/16384x768/fp16+bias",
	"layernorm/bwd/4096x4096/bf16+bias",
	"layernorm/bwd/4096x4096/bf16+bias+nodw",
}

// list holds what is said of the families that serve some problems, on two devices, to a file of each.
func list(t *testing.T, name string, problems []string, problem func(p kernels.Problem, d kernels.DeviceInfo) string,
	family func(f *kernels.Family, p kernels.Problem, d kernels.DeviceInfo) string) {
	r := families.NewRegistry()
	for of, d := range map[string]kernels.DeviceInfo{"h200": devicetest.H200(), "cpu": devicetest.CPU()} {
		var b strings.Builder
		for _, text := range problems {
			p := devicetest.Problem(t, text)
			b.WriteString(problem(p, d))
			for _, f := range r.Families {
				if f.CheckServes(p) == nil {
					b.WriteString(family(f, p, d))
				}
			}
		}
		assert.Golden(t, filepath.Join("testdata", name+"_"+of+".txt"), b.String())
	}
}

// Bases are arithmetic: a changed one shows here, with the geometry it leads
// to, before any device has run it.
func TestBasePlansStay(t *testing.T) {
	r := families.NewRegistry()
	list(t, "plans", typical, func(p kernels.Problem, d kernels.DeviceInfo) string {
		base, err := r.Base(p, d)
		assert.NoError(t, err)
		return fmt.Sprintf("\n%s: base %s\n", p, base)
	}, func(f *kernels.Family, p kernels.Problem, d kernels.DeviceInfo) string {
		c := f.Base(p, d)
		if err := f.Refuse(p, c, d); err != nil {
			return fmt.Sprintf("  %s@%s refused: %v\n", f.Name, c, err)
		}
		plan := strings.TrimSuffix(f.Plan(p, c, d).String(), "\n")
		return fmt.Sprintf("  %s@%s\n    %s\n", f.Name, c, strings.ReplaceAll(plan, "\n", "\n    "))
	})
}

// How long a sweep takes follows from the sizes of spaces: configs, refused ones and aliases. They begin
// with the base, have each config once, and reasons that are one short line for records and lists.
func TestSizesOfSpacesStay(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long with the race detector")
	}
	list(t, "spaces", append(slices.Clip(typical), "rmsnorm/bwd/1x1/fp32",
		"layernorm/fwd/262144x1/bf16+bias"), func(p kernels.Problem, _ kernels.DeviceInfo) string {
		return p.String() + "\n"
	}, func(f *kernels.Family, p kernels.Problem, d kernels.DeviceInfo) string {
		s := f.Space(p, d)
		aliases := sound(t, f, p, d, s)
		return fmt.Sprintf("%7d %7d %7d %s\n", len(s.Configs), len(s.Refused)-aliases, aliases, f.Name)
	})
}

// sound holds a space to what is said of it, and counts its aliases.
func sound(t *testing.T, f *kernels.Family, p kernels.Problem, d kernels.DeviceInfo,
	s kernels.Space) (aliases int) {
	base := f.Base(p, d)
	assert.That(t, f.Refuse(p, base, d) != nil || len(s.Configs) != 0 && s.Configs[0] == base,
		"%s on %s: the base %s is not the first of %d configs", f.Name, p, base, len(s.Configs))
	seen := map[kernels.Config]bool{}
	for i, c := range s.Configs {
		assert.That(t, !seen[c], "%s@%s twice", f.Name, c)
		seen[c] = true
		if i%25 == 0 {
			valid(t, p, d, f, c, f.Plan(p, c, d))
		}
	}
	for _, x := range s.Refused {
		assert.That(t, !seen[x.Config], "%s@%s is offered and refused: %s", f.Name, x.Config, x.Reason)
		n := len(x.Reason)
		assert.That(t, n != 0 && n <= 120 && !strings.ContainsAny(x.Reason, "\n\r\t") &&
			!strings.HasSuffix(x.Reason, "."),
			"%s@%s: the reason %q is not a short line", f.Name, x.Config, x.Reason)
		if strings.HasPrefix(x.Reason, "alias: ") {
			aliases++
		}
	}
	return aliases
}

// valid holds a plan to what CUDA and the devices take for granted.
func valid(t *testing.T, p kernels.Problem, d kernels.DeviceInfo, f *kernels.Family,
	c kernels.Config, plan kernels.Plan) {
	t.Helper()
	bad := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s@%s on %s: %s\n%s", f.Name, c, p, fmt.Sprintf(format, args...), plan)
	}
	buffers := map[string]bool{"": true}
	for _, x := range slices.Concat(p.Tensors(), p.SavedTensors()) {
		buffers[x.Name] = true
	}
	for _, s := range plan.Scratch {
		if s.Elems < 1 || buffers[s.Name] {
			bad("scratch %s has %d elements, or the name of another buffer", s.Name, s.Elems)
		}
		buffers[s.Name] = true
	}
	stages := map[string]bool{}
	for _, l := range plan.Launches {
		if stages[l.Stage] {
			bad("two stages are %s", l.Stage)
		}
		stages[l.Stage] = true
		if d.Kind == kernels.KindCPU && f.Host[l.Entry] == nil && l.Entry != kernels.Memset {
			bad("no host stage for %s", l.Entry)
		}
		for _, a := range l.Args {
			if a.Kind == kernels.ArgBuffer && !buffers[a.Name] {
				bad("no buffer %q", a.Name)
			}
		}
		if l.Grid[0] < 1 || l.Grid[0] > 1<<31-1 || l.Grid[1] < 1 || l.Grid[1] > 65535 ||
			l.Grid[2] < 1 || l.Grid[2] > 65535 {
			bad("grid %v", l.Grid)
		}
		if !l.IsKernel() {
			continue
		}
		if l.Block < 32 || l.Block > 1024 || l.Block%32 != 0 {
			bad("%d threads", l.Block)
		}
		if d.SharedPerBlock > 0 && l.Shared > d.SharedPerBlock {
			bad("%d bytes of shared memory", l.Shared)
		}
		if d.Kind == kernels.KindCPU {
			continue
		}
		if !slices.Contains(f.Files, l.Source) {
			bad("%s is not among the files %q", l.Source, f.Files)
		}
		for _, x := range l.Defines {
			if m, ok := macrosOf(t, l.Source)[x.Name]; !ok || !m.holds(x.Value) {
				bad("%s has no block of %s with %d in its range", l.Source, x.Name, x.Value)
			}
		}
	}
}

// What the knobs mean for the plan, or why they cannot: testdata/knobs.txt. p says how many CTAs
// there are, whatever k says, but never more than tiles; the partial rows follow. The bases are the
// rules' own: a map that is filled again changes none of these lines.
func TestKnobsMeanWhatTheyMeant(t *testing.T) {
	r := families.NewRegistry()
	assert.Lines(t, "testdata/knobs.txt", func(input string) string {
		problem, variant, _ := strings.Cut(input, " ")
		p := devicetest.Problem(t, problem)
		_, _, plan, err := r.Resolve(p, devicetest.Variant(t, variant), h200)
		if err != nil {
			return assert.Refusal(t, err)
		}
		text := ""
		for _, l := range plan.Launches {
			text += fmt.Sprintf("%s of %d from %s, ", l.Stage, l.Grid[0], l.Args[0].Name)
		}
		for _, s := range plan.Scratch {
			size := fmt.Sprint(s.Elems)
			if s.Elems%p.N == 0 {
				size = fmt.Sprint(s.Elems/p.N, " * N")
			}
			text += fmt.Sprintf("%s %s[%s], ", s.Name, s.DType, size)
		}
		for _, x := range plan.Rounds {
			text += "rounds " + x.Output + ", "
		}
		return strings.TrimSuffix(text, ", ")
	})
}
