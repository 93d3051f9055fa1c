package sweep

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/sweep/record"
)

// resume runs ts into dir and returns the variants that were measured.
func resume(t *testing.T, dir string, r *kernels.Registry, ts []Task, f *devicetest.Fake,
	o RunOptions) ([]kernels.Variant, Totals) {
	t.Helper()
	w, notes, err := record.OpenWriter(dir, ".")
	assert.Must(t, err == nil && notes == nil, "%v %v", err, notes)
	defer w.Close()
	var vs []kernels.Variant
	o.Observe = func(e ProgressEvent) {
		if v := e.Record.Variant(); v.Family != record.Stream {
			vs = append(vs, v)
		}
	}
	sum, err := Run(t.Context(), r, devices(f), ts, w, o)
	assert.NoError(t, err)
	assert.Equal(t, len(vs), sum.Measured, "events", sum)
	return vs, sum
}

// A second run measures what the folder lacks: nothing, or what another source or protocol made new,
// or what failed if asked. What else makes a key another, record's TestKeyChangesWithTheMeasurement shows.
func TestRunMeasuresWhatTheFolderLacks(t *testing.T) {
	ts := tasks(t, 3, pool[0])
	s, err := Grid(t.Context(), registry, parse(t, pool[0]), devicetest.H200(),
		[]string{"rms_bwd/two_pass"}, nil)
	assert.NoError(t, err)
	other := s[0].Variants[1]
	assert.Must(t, other.Family != ts[0].Variants[0].Family, "one family")
	all := append(ts[0].Variants, other)
	ts[0].Variants = all
	failing, card2 := fake(), fake()
	failing.Fail = devicetest.FailVariants(kernels.StatusTimeout, all[2])
	card2.DeviceInfo = devicetest.H200()
	card2.DeviceInfo.UUID = "GPU-2"
	run2 := options(3)
	run2.Seed, run2.Run.ID = 8, "r2"
	retry := run2
	retry.RetryFailed = true
	with := func(more string) *kernels.Registry {
		r := *registry
		r.File = func(name string) (string, error) {
			text, err := registry.File(name)
			if name == "bwd_two_pass.cu" {
				text += more
			}
			return text, err
		}
		return &r
	}
	dir := t.TempDir()
	for _, x := range []struct {
		name string
		r    *kernels.Registry
		f    *devicetest.Fake
		o    RunOptions
		want []kernels.Variant
	}{
		{"the first run", registry, failing, options(3), all},
		{"the second", registry, fake(), options(3), nil},
		{"another seed, run and card", registry, card2, run2, nil},
		{"--retry-failed", registry, fake(), retry, all[2:3]},
		{"--retry-failed of nothing", registry, fake(), retry, nil},
		{"a comment in a source", with("// a comment\n"), fake(), options(3), nil},
		{"another source", with("int more;\n"), fake(), options(3), all[3:]},
		{"more samples", registry, fake(), options(4), all},
		{"back again", registry, fake(), options(3), nil},
	} {
		path := filepath.Join(dir, record.FileName)
		before, _ := os.ReadFile(path)
		vs, sum := resume(t, dir, x.r, ts, x.f, x.o)
		assert.That(t, slices.Equal(vs, x.want) && sum.Skipped == len(all)-len(vs),
			"%s measures %v, not %v: %+v", x.name, vs, x.want, sum)
		assert.That(t, len(vs) > 0 || len(x.f.Calls()) == 0 &&
			string(before) == string(assert.File(t, path)), "%s calls %v, or writes", x.name, x.f.Calls())
	}
}
