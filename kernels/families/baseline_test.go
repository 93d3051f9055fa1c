package families_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/devices/emulate"
	"normbench/kernels/families"
)

// copyCheckout copies this folder, as one of another checkout.
func copyCheckout(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "families")
	assert.NoError(t, os.CopyFS(dir, os.DirFS(".")))
	return dir
}

// replaceIn replaces a text in a file, which has it.
func replaceIn(t *testing.T, file, old, text string) {
	t.Helper()
	was := string(assert.File(t, file))
	assert.Must(t, strings.Contains(was, old), "%s has no %q", file, old)
	assert.Write(t, file, strings.ReplaceAll(was, old, text))
}

// The kernels of another checkout may be a pull request's. What is larger than a source, and what a link
// leads to elsewhere, is refused before it is read.
func TestBaselineRefusesForeignFilesAndLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need rights there")
	}
	dir := copyCheckout(t)
	_, err := families.WithBaseline(families.New(), dir)
	assert.NoError(t, err, "of this checkout")
	path := filepath.Join(dir, "bwd_coop.cu")
	text := assert.File(t, path)
	for _, x := range []struct {
		name, want string
		put        func() error
	}{
		{"a link out", "path escapes from parent", func() error { return os.Symlink("/dev/zero", path) }},
		{"a link to itself", "too many", func() error { return os.Symlink("bwd_coop.cu", path) }},
		{"a large file", "has 1.0 MiB, more than 1.0 MiB",
			func() error { return os.WriteFile(path, bytes.Repeat([]byte(" "), 1<<20+1), 0o644) }},
	} {
		assert.NoError(t, os.RemoveAll(path))
		assert.NoError(t, x.put(), x.name)
		_, err := families.WithBaseline(families.New(), dir)
		assert.Refused(t, err, x.want, x.name)
	}
	assert.NoError(t, os.Remove(path))
	assert.NoError(t, os.Symlink("coop.txt", path)) // a link to a file of the folder is one
	assert.Write(t, filepath.Join(dir, "coop.txt"), string(text))
	_, err = families.WithBaseline(families.New(), dir)
	assert.NoError(t, err, "a link in the folder")
	for name, want := range map[string]string{filepath.Join(dir, "nosuch"): "there is no such folder",
		filepath.Join(dir, "coop.txt"): "it is no folder", t.TempDir(): "has no family of this program"} {
		_, err := families.WithBaseline(families.New(), name)
		assert.Refused(t, err, want, name)
	}
}

// The kernels of another checkout are launched as the manifests there say. Here one takes its arguments in another
// order, has another knob, and lacks a header that this program's has.
func TestBaselineIsLaunchedByItsOwnManifest(t *testing.T) {
	dir := copyCheckout(t)
	replaceIn(t, filepath.Join(dir, "fwd_one_row.cu"), "const X *x, const W *w, const W *b, X *y,",
		"X *y, const W *b, const W *w, const X *x,")
	replaceIn(t, filepath.Join(dir, "fwd_one_row.yaml"), "[x, w, b, y,", "[y, b, w, x,")
	replaceIn(t, filepath.Join(dir, "fwd_one_row.yaml"), "vector_bytes: [0]", "stages: [1, 2]")
	replaceIn(t, filepath.Join(dir, "fwd_one_row.yaml"), "vector_bytes: 0", "stages: 2")
	replaceIn(t, filepath.Join(dir, "fwd_cta_reg.cu"), `#include "fwd_output.cuh"`,
		string(assert.File(t, "fwd_output.cuh")))
	assert.NoError(t, os.Remove(filepath.Join(dir, "fwd_output.cuh")))
	r, err := families.WithBaseline(families.New(), dir)
	assert.NoError(t, err)

	p := devicetest.Problem(t, "rmsnorm/fwd/8x256/bf16")
	f, err := r.Lookup(families.Baseline + "rms_fwd/one_row")
	assert.NoError(t, err)
	now, err := r.Lookup("rms_fwd/one_row")
	assert.NoError(t, err)
	base := f.Base(p, h200)
	assert.Equal(t, base.Get(kernels.Stages), 2, "the base of a knob that this program's lacks")
	assert.Equal(t, base.Get(kernels.Warps), now.Base(p, h200).Get(kernels.Warps))
	assert.Equal(t, f.Plan(p, base, h200).Launches[0].Args[0].Name, "y")

	e, err := emulate.New(t.Context(), t.TempDir())
	assert.Needs(t, "CXX", err)
	defer e.Close()
	d := emulate.NewDevice(t.Context(), e, r, h200, emulate.Limit)
	defer d.Close()
	b, err := d.Open(t.Context(), p, kernels.Inputs{Seed: 1})
	assert.NoError(t, err)
	for _, name := range []string{"rms_fwd/one_row", "rms_fwd/cta_reg", "rms_fwd/plain"} {
		c, err := b.Check(t.Context(), kernels.Variant{Family: families.Baseline + name}, 1)
		assert.That(t, err == nil && c.OK(), "%s: %s %v", name, c.Reason(), err)
	}
}

// What another checkout lacks has no copy. A family there that cannot be loaded, or whose kernel takes other
// parameters than Go code launches it with, is refused alone.
func TestBaselineRefusesAFamilyAlone(t *testing.T) {
	const rows = "float *rstd, i64 rows, float eps)"
	for _, x := range []struct {
		family, want string
		edit         func(dir string)
	}{
		{"rms_fwd/plain", "plain_rms_fwd.cu: forward takes (const X *x, const X *res, const W *w, const W *b, X *y, " +
			"X *resout, float *rstd, int rows, float eps), and is launched with (const X *x, const X *res, const W *w, " +
			"const W *b, X *y, X *resout, float *rstd, i64 rows, float eps)", func(dir string) {
			replaceIn(t, filepath.Join(dir, "plain_rms_fwd.cu"), rows, "float* rstd, int rows, float eps)")
		}},
		{"rms_fwd/plain", "", func(dir string) {
			replaceIn(t, filepath.Join(dir, "plain_rms_fwd.cu"), rows, "float* rstd,\n    i64 rows, // of x\n float eps)")
		}},
		{"rms_bwd/plain", "plain_rms_bwd.cu has no kernel gradients", func(dir string) {
			replaceIn(t, filepath.Join(dir, "plain_rms_bwd.cu"), "gradients(", "others(")
		}},
		{"rms_bwd/two_pass", "reduce.cu: reduce takes (const P *dw_partial, ", func(dir string) {
			replaceIn(t, filepath.Join(dir, "reduce.cu"), "W *dw, W *db)", "W *dw, W *db, int n)")
		}},
		{"rms_fwd/coop", `fwd_coop.yaml:`, func(dir string) {
			assert.NoError(t, os.Remove(filepath.Join(dir, "fwd_coop.cu")))
		}},
		{"rms_fwd/coop", "launchs: unknown field", func(dir string) {
			replaceIn(t, filepath.Join(dir, "fwd_coop.yaml"), "launches:", "launchs:")
		}},
		{"rms_fwd/one_row", "new", func(dir string) {
			assert.NoError(t, os.Remove(filepath.Join(dir, "fwd_one_row.yaml")))
		}},
		{"rms_fwd/plain", "new", func(dir string) {
			assert.NoError(t, os.Remove(filepath.Join(dir, "plain_rms_fwd.cu")))
		}},
	} {
		dir := copyCheckout(t)
		x.edit(dir)
		r, err := families.WithBaseline(families.New(), dir)
		assert.NoError(t, err, x.want)
		assert.That(t, strings.Contains(served(t, r, x.family), x.want) && (x.want == "") == (served(t, r, x.family) == ""),
			"%s: %s, want %s", x.family, served(t, r, x.family), x.want)
		assert.Equal(t, served(t, r, "rms_fwd/cta_reg"), "", "another than "+x.family)
		_, err = families.Hash(r)
		assert.NoError(t, err, x.want)
	}
}

// served says why a family's copy does not serve a problem: "" where it does, "new" where there is no copy.
func served(t *testing.T, r *kernels.Registry, family string) string {
	t.Helper()
	f, err := r.Lookup(families.Baseline + family)
	if err != nil {
		return "new"
	}
	err = f.CheckServes(devicetest.Problem(t, string(f.Op)+"/"+string(f.Pass)+"/64x256/bf16"))
	if err == nil {
		return ""
	}
	return err.Error()
}
