package sweep

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/sweep/record"
)

// writer opens a results folder until done is called.
func writer(t *testing.T, dir string) (w *record.Writer, done func()) {
	t.Helper()
	w, notes, err := record.OpenWriter(dir, ".")
	assert.Must(t, err == nil && notes == nil, "%v %v", err, notes)
	return w, func() {
		assert.NoError(t, w.Close())
	}
}

// resume runs ts into dir and returns the variants that were measured.
func resume(t *testing.T, dir string, r *kernels.Registry, ts []Task, f *devicetest.Fake,
	o Options) ([]kernels.Variant, Summary) {
	t.Helper()
	w, done := writer(t, dir)
	defer done()
	var vs []kernels.Variant
	o.Observe = func(e Event) {
		if v := e.Record.Variant(); v.Family != record.Stream {
			vs = append(vs, v)
		}
	}
	sum, err := Run(t.Context(), r, devices(f), ts, w, o)
	assert.NoError(t, err)
	assert.Equal(t, len(vs), sum.Measured, "events", sum)
	return vs, sum
}

// A second run measures what the folder lacks: nothing, or what another source or
// protocol made new, or what failed if asked.
func TestRunResumes(t *testing.T) {
	ts := tasks(t, 3, pool[0])
	two, one := ts[0].Variants, kernels.Variant{}
	for _, task := range tasks(t, 40, pool[0]) { // a variant of another family
		for _, v := range task.Variants {
			if v.Family != two[0].Family {
				one = v
			}
		}
	}
	if one.Family == "" {
		s, err := Grid(t.Context(), registry, parse(t, pool[0]), devicetest.H200(),
			[]string{"rms_bwd/two_pass"}, nil)
		assert.NoError(t, err)
		one = s[0].Variants[1]
	}
	ts[0].Variants = append(ts[0].Variants, one)
	all := ts[0].Variants
	bad := all[2]

	dir := t.TempDir()
	failing := fake()
	failing.Fail = devicetest.Failing(kernels.StatusTimeout, bad)
	vs, sum := resume(t, dir, registry, ts, failing, options(3))
	assert.Must(t, slices.Equal(vs, all) && sum.Failed == 1, "first: %v, %+v", vs, sum)
	path := filepath.Join(dir, record.FileName)
	before := assert.File(t, path)
	f := fake()
	if vs, sum := resume(t, dir, registry, ts, f, options(3)); len(vs) != 0 || sum.Skipped != 4 {
		t.Errorf("second: %v, %+v", vs, sum)
	}
	calls := f.Calls()
	assert.Equal(t, len(calls), 0, "a second run calls", calls)
	after, err := os.ReadFile(path)
	assert.That(t, string(after) == string(before) && err == nil,
		"a second run writes %d bytes, %v", len(after)-len(before), err)

	// What does not count: seed, run, UUID.
	o := options(3)
	o.Seed, o.Run.ID = 8, "r2"
	f = fake()
	f.DeviceInfo = devicetest.H200()
	f.DeviceInfo.UUID = "GPU-2"
	if vs, _ := resume(t, dir, registry, ts, f, o); len(vs) != 0 {
		t.Errorf("another seed and card measure %v", vs)
	}

	o.RetryFailed = true
	if vs, sum := resume(t, dir, registry, ts, fake(), o); !slices.Equal(vs,
		[]kernels.Variant{bad}) || sum.Skipped != 3 {
		t.Errorf("--retry-failed: %v, %+v", vs, sum)
	}
	if vs, _ := resume(t, dir, registry, ts, fake(), o); len(vs) != 0 {
		t.Errorf("--retry-failed of nothing: %v", vs)
	}
	loaded, err := record.Load(dir)
	assert.NoError(t, err)
	ok := 0
	for _, e := range loaded.Latest() {
		if e.Status == kernels.StatusOK && e.Variant.Family != record.Stream {
			ok++
		}
	}
	assert.Equal(t, ok, 4, "variants are right, want 4")

	// Every variant of a family whose source changes is measured again, no other.
	_, design, _ := strings.Cut(one.Family, "/")
	var again []kernels.Variant
	for _, v := range append(slices.Clone(two), one) {
		if v.Family == one.Family {
			again = append(again, v)
		}
	}
	changed, more := *registry, ""
	changed.File = func(name string) (string, error) {
		text, err := registry.File(name)
		if name == "bwd_"+design+".cu" {
			text += "// a comment\n" + more
		}
		return text, err
	}
	if vs, _ := resume(t, dir, &changed, ts, fake(), options(3)); len(vs) > 0 {
		t.Errorf("a comment in the source of %s measures %v again", design, vs)
	}
	more = "int more;\n"
	if vs, _ := resume(t, dir, &changed, ts, fake(), options(3)); !slices.Equal(vs, again) {
		t.Errorf("another source of %s measures %v, want %v", design, vs, again)
	}
	// What else makes a key another, record's TestKey shows.
	if vs, _ := resume(t, dir, registry, ts, fake(), options(4)); !slices.Equal(vs, all) {
		t.Errorf("more samples measure %v", vs)
	}
	if vs, _ := resume(t, dir, registry, ts, fake(), options(3)); len(vs) != 0 {
		t.Errorf("back again: %v", vs)
	}
}
