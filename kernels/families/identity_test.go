package families_test

import (
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/families"
)

// sources are the families' identities with more in one file, or in all.
func sources(t *testing.T, kind, changed, more string) map[string]string {
	t.Helper()
	r := families.New()
	r.File = func(name string) (string, error) {
		text, err := families.File(name)
		if name == changed || changed == "all" {
			text += more
		}
		return text, err
	}
	id, m := families.NewIdentity(r, kind), map[string]string{}
	for _, f := range r.Families {
		s, err := id.Source(f)
		assert.Must(t, err == nil && len(s) == 12,
			"%s with %s edited: %q, %v", f.Name, changed, s, err)
		m[f.Name] = s
	}
	return m
}

// embedded are the source files of this package that end in one of exts.
func embedded(t *testing.T, exts ...string) []string {
	t.Helper()
	entries, err := os.ReadDir(".")
	assert.NoError(t, err)
	var names []string
	for _, e := range entries {
		if slices.Contains(exts, path.Ext(e.Name())) && !strings.HasSuffix(e.Name(), "_test.go") {
			names = append(names, e.Name())
		}
	}
	return names
}

// differing are the families whose identity is another, in order.
func differing(before, after map[string]string) (names []string) {
	for name := range before {
		if before[name] != after[name] {
			names = append(names, name)
		}
	}
	return slices.Sorted(slices.Values(names))
}

// An edit of a file changes the families that have it, and no other: CUDA and headers on a GPU. On
// a CPU an edit of a host stage changes all that have one, and other Go none: it lays out launches, of
// which records have the hash. Comments and blank lines change none: nvrtc.Code.
func TestAnEditChangesTheFamiliesThatHaveIt(t *testing.T) {
	r := families.New()
	for _, kind := range []string{kernels.KindCUDA, kernels.KindCPU} {
		before := sources(t, kind, "", "")
		changed := differing(before, sources(t, kind, "all", "\n\n// A comment.\n/* And\n another. */"))
		assert.That(t, len(changed) == 0, "%s: comments change the identities of %v", kind, changed)
		for i, file := range append(embedded(t, ".cu", ".cuh", ".go", ".yaml"), "kernels/dtype.go",
			"common/reduce.go") {
			of := 8
			host := strings.HasPrefix(file, "host") || file == "kernels/dtype.go"
			if (path.Ext(file) == ".go") == (kind == kernels.KindCPU) { // it is of this kind
				of = 2
			}
			if !assert.Sampled(i, of) {
				continue
			}
			got := differing(before, sources(t, kind, file, "\nvar more int;\n"))
			var want []string
			for _, f := range r.Families {
				source := path.Ext(file) != ".yaml" && slices.Contains(f.Files, file)
				if kind == kernels.KindCPU && host || kind == kernels.KindCUDA && source {
					want = append(want, f.Name)
				}
			}
			slices.Sort(want)
			assert.That(t, slices.Equal(got, want),
				"%s: %s changes the identities of %v, want %v", kind, file, got, want)
		}
	}
	flags := nvrtc.FixedFlags
	defer func() { nvrtc.FixedFlags = flags }()
	before := sources(t, kernels.KindCUDA, "", "")
	nvrtc.FixedFlags = append(slices.Clone(flags), "--use_fast_math")
	got := differing(before, sources(t, kernels.KindCUDA, "", ""))
	if len(got) != len(before)-2 || slices.Contains(got, "rms_fwd/copy") { // a copy of the driver's
		t.Errorf("a flag changes %d of %d identities", len(got), len(before))
	}
}

// Launches is of all that a plan's text has, but the checkout that a source is of.
func TestLaunchesHaveAllOfAPlansText(t *testing.T) {
	p := devicetest.Problem(t, "rmsnorm/bwd/4096x8192/bf16")
	f, err := families.New().Lookup("rms_bwd/reg_persist")
	assert.NoError(t, err)
	plan := f.Plan(p, f.Base(p, h200), h200)
	hash := families.Launches(plan)
	plan.Launches[0].Source = families.Baseline + plan.Launches[0].Source
	assert.Equal(t, families.Launches(plan), hash, "the copy of another checkout")
	plan.Launches[0].Grid[0]++
	assert.That(t, families.Launches(plan) != hash, "another grid is launched alike")
}
