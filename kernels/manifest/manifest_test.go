package manifest_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/cpu"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
	. "normbench/kernels/manifest" // outside of it, as families import it
)

// good is a backward with one of everything.
const good = `name: mine/bwd
op: layernorm
pass: bwd
doc: all that a manifest can say
origin: nowhere
bits: bitwise
knobs:
  warps: [4, 8]
  v: [0, 8]
  k: 2
base:
  w: "N > 1024 ? 8 : 4"
  v: 0
  k: max(2, 2048 / (w * 32) / 8)
serves:
  - require: weight
    reason: there is no kernel without a weight
  - if: zero_centered && xb == 4
    reason: no zero-centered weight with fp32
constraints:
  - if: vecs < w * 32
    reason: threads without a vector
  - if: k > 1
    require: M >= k * sms
    reason: more CTAs than rows
scratch:
  - {name: arrived, dtype: i32, elems: "k * sms > 100 ? 1 : 0"}
  - {name: rows, dtype: fp32, elems: M}
launches:
  - zero: arrived
  - source: mine.cu
    entry: first
    grid: ["min(M, k * sms)"]
    block: 32 * w
    shared: 4 * w
    resident: true
    defines: {EACH: "ceildiv(vecs, 32 * w)"}
    args: [x, dy, dres, w, rstd, mean, dx, dw_partial, db_partial, arrived, rows, {int64: rows, value: M}, {float32: eps, value: eps * 2}]
  - source: mine.cu
    entry: second
    stage: extra
    if: bias
    grid: [N, 1, 1]
    block: 64
    args: [db]
  - reduce: {partials: "min(M, k * sms)"}
`

const goodSource = `#include "common.cuh"
extern "C" __global__ void first(const X *x, X *dy, X *dres, W *w, float *rstd, float *mean, X *dx,
  float *dw, float *db, int *arrived, float *sums, i64 rows, float eps) {}
extern "C" __global__ void second (W *db) {}
`

// folder writes files, given as name and text by turns.
func folder(t testing.TB, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		assert.NoError(t, os.WriteFile(filepath.Join(dir, files[i]), []byte(files[i+1]), 0o666))
	}
	return dir
}

// load loads the good manifest after replacements, old and new by turns.
func load(t testing.TB, replace ...string) (*kernels.Registry, *kernels.Family) {
	t.Helper()
	r, fs, err := Load(families.New(), folder(t, "mine.yaml",
		strings.NewReplacer(replace...).Replace(good), "mine.cu", goodSource))
	assert.NoError(t, err, hint.Of(err))
	return r, fs[0]
}

func TestFamily(t *testing.T) {
	_, f := load(t)
	d := devicetest.H200()
	p := devicetest.Problem(t, "layernorm/bwd/4096x4096/bf16+bias")
	assert.That(t, f.Name == "mine/bwd" && f.Op == p.Op && f.Pass == p.Pass &&
		f.Doc == "all that a manifest can say" && f.Origin == "nowhere" &&
		f.Bits == kernels.Bitwise, "the family is %+v", f)
	want := []string{"common.cuh", "reduce.cu", "reduce.cuh", "user:common.cuh", "user:mine.cu",
		"user:mine.yaml"}
	assert.Same(t, f.Files, want, "files")
	err := f.CheckServes(p)
	assert.That(t, err == nil, "%v", err)
	s := f.Space(p, d)
	got := s.Configs[0].String()
	assert.That(t, strings.HasPrefix(got, "w8.v0.k2.rc0.rr0.rw0"), "the base is %s", got)
	base := f.Base(devicetest.Problem(t, "layernorm/bwd/64x512/bf16"), d)
	assert.That(t, base.Get(kernels.Warps) == 4 && base.Get(kernels.PerSM) == 2,
		"the base of a narrow row is %s", base)
	c := s.Configs[0].With(kernels.Setting{Knob: kernels.PerSM, Value: 2})
	plan := strings.Join(strings.Fields(f.Plan(p, c, d).String()), " ")
	for _, part := range []string{
		"scratch dw_partial fp32[1081344] scratch db_partial fp32[1081344] scratch arrived " +
			"i32[1] scratch rows fp32[4096] ",
		" zero :memset grid=1,1,1 block=0 shared=0 (arrived, bytes=4) ",
		" k1 user:mine.cu:first grid=264,1,1 block=256 shared=32 resident X_TYPE=1 ",
		" WARPS=8 EACH=2 (x, dy, , w, rstd, mean, dx, dw_partial, db_partial, arrived, rows, " +
			"rows=4096, eps=2e-05) ",
		" extra user:mine.cu:second grid=4096,1,1 block=64 ",
		" k2 reduce.cu:reduce ",
		" PARTIALS=264 ",
	} {
		assert.That(t, strings.Contains(plan, part), "the plan has no %q:\n%s", part, plan)
	}
	// No bias: no second kernel, and null pointers in the first.
	_, f = load(t, `"k * sms > 100 ? 1 : 0"`, "bias", "origin: nowhere",
		"rounds: {dx: 2, db: k - 2}", "dtype: fp32", "dtype: x")
	p.Bias = false
	plan = f.Plan(p, c, d).String()
	assert.That(t, !strings.Contains(plan, "extra") && !strings.Contains(plan, "zero") &&
		strings.Contains(plan, "dw_partial, , , rows,") &&
		strings.Contains(plan,
			"scratch rows bf16[4096]\nrounds dx to bf16\nrounds dx to bf16\nk1 "),
		"the plan without a bias is\n%s", plan)
}

func TestServes(t *testing.T) {
	_, f := load(t)
	for text, want := range map[string]string{
		"layernorm/bwd/64x512/bf16+bias":              "",
		"layernorm/bwd/64x512/bf16+bias+residual+acc": "",
		"layernorm/bwd/64x512/bf16+zc":                "",
		"layernorm/bwd/64x512/fp32+zc":                "no zero-centered weight with fp32",
		"layernorm/bwd/64x512/bf16+noweight":          "there is no kernel without a weight",
		"layernorm/fwd/64x512/bf16":                   "does not serve",
		"rmsnorm/bwd/64x512/bf16":                     "does not serve",
	} {
		got := errorText(f.CheckServes(devicetest.Problem(t, text)))
		assert.That(t, got == want || want != "" && strings.Contains(got, want),
			"%s: %q, want %q", text, got, want)
	}
	// What no launch takes is not ignored.
	_, f = load(t, " dres,", "")
	assert.Equal(t,
		errorText(f.CheckServes(devicetest.Problem(t, "layernorm/bwd/64x512/bf16+residual"))),
		"mine/bwd does not serve layernorm/bwd/64x512/bf16+residual: no launch takes dres",
		"without dres")
	// A backward from the saved output needs neither x nor mean.
	_, f = load(t, "args: [x, dy,", "args: [y, b, dy,", " mean,", "")
	p := devicetest.Problem(t, "layernorm/bwd/4096x4096/bf16+bias")
	err := f.CheckServes(p)
	assert.That(t, err == nil, "%v", err)
	plan := f.Plan(p, f.Base(p, devicetest.H200()), devicetest.H200()).String()
	assert.That(t, strings.Contains(plan, "(y, b, dy, "), "%v", plan)
}

// A manifest may be of several ops, name expressions, try several bases and say what a launch sees
// of the knobs.
func TestGeneral(t *testing.T) {
	_, f := load(t, "origin: nowhere", "fragile: w > 4", "name: mine/bwd\nop: layernorm",
		"name: OP_bwd/mine\nop: [layernorm, rmsnorm]",
		"knobs:\n  warps", "let: {wide: vecs / 2, most: \"min(wide, 512)\"}\nknobs:\n  warps",
		`"N > 1024 ? 8 : 4"`, "[64, 16, 8]", "shared: 4 * w",
		"shared: most\n    knobs: {w: w / 2, br: 7}",
		"require: M >= k * sms", "require: w <= 8 && M >= k * sms")
	p, d := devicetest.Problem(t, "layernorm/bwd/4096x4096/bf16"), devicetest.H200()
	base := f.Base(p, d)
	plan := f.Plan(p, base, d).String()
	assert.That(t, f.Name == "ln_bwd/mine" && base.Get(kernels.Warps) == 8 && f.Fragile(base) &&
		!f.Fragile(base.With(kernels.Setting{Knob: kernels.Warps, Value: 4})) &&
		strings.Contains(plan, "block=256 shared=256 ") &&
		strings.Contains(plan, "BLOCK_ROWS=7 WARPS=4 "), "%s@%s\n%s", f.Name, base, plan)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Rules and the device refuse with a reason; a number out of its range is a
// Fault, which says where it comes from.
func TestRefuse(t *testing.T) {
	d := devicetest.H200()
	old := d
	old.Arch = "sm_80"
	for _, test := range []struct {
		problem, config string
		device          kernels.DeviceInfo
		replace         []string
		want            string
		fault           bool
	}{
		{"layernorm/bwd/4096x4096/bf16", "w8.v0.k2", d, nil, "", false},
		{"layernorm/bwd/4096x512/bf16", "w8.v0.k2", d, nil, "threads without a vector", false},
		{"layernorm/bwd/100x4096/bf16", "w8.v0.k2", d, nil, "more CTAs than rows", false},
		{"layernorm/bwd/100x4096/bf16", "w8.v0.k1", d, nil, "", false},
		{"layernorm/bwd/4096x4097/bf16", "w8.v8.k2", d, nil,
			"rows of 8194 bytes are not whole 8-byte vectors", false},
		{"layernorm/bwd/4096x4097/bf16", "w8.v16.k2", d, nil,
			"rows of 8194 bytes are not whole 16-byte vectors", false},
		{"layernorm/bwd/4096x4097/bf16", "w8.v16.k2", d, []string{"origin: nowhere",
			"ragged: true"}, "", false},
		{"layernorm/bwd/4096x4097/bf16", "w8.v8.k2", d, []string{"origin: nowhere", "ragged: true"},
			"rows of 8194 bytes are not whole 8-byte vectors", false},
		{"layernorm/bwd/4096x4096/bf16", "w8.v0.k2", d, []string{"knobs:", "knobs:\n  cl: [2]",
			"base:", "base:\n  cl: 2", "constraints:", "constraints:\n  - {if: clusters_at_once " +
				"== 66, reason: 66 clusters of two}"}, "66 clusters of two", false},
		{"layernorm/bwd/4096x4096/bf16", "w8.v0.k2.rc3", d, nil, "k2's columns are", false},
		{"layernorm/bwd/4096x4096/bf16", "w8.v0.k2", d, []string{"shared: 4 * w", "shared: 300000"},
			"k1 takes 300000 bytes of shared memory, more than 232448", false},
		{"layernorm/bwd/4096x4096/bf16", "w8.v0.k2", old, []string{"resident: true", "cluster: 2"},
			"clusters need sm_90 or later", false},
		{"layernorm/bwd/4096x4096/bf16", "w8.v0.k2", d, []string{"resident: true", "cluster: 2"},
			"", false},
		{"layernorm/bwd/4096x4096/bf16", "w8.v0.k2", d, []string{"resident: true", "cluster: 7"},
			"mine.yaml:33:12: launches[1].grid[0] is 264, no multiple of the cluster of 7", true},
		{"layernorm/bwd/4096x4096/bf16", "w8.v0.k2", d, []string{`["min(M, k * sms)"]`, "M - 5000"},
			"mine.yaml:33:11: launches[1].grid is -904, less than 1", true},
		{"layernorm/bwd/4096x4096/bf16", "w8.v0.k2", d, []string{"block: 32 * w", "block: 256 * w"},
			"launches[1].block is 2048, more than 1024", true},
		{"layernorm/bwd/4096x4096/bf16", "w8.v0.k2", d, []string{"block: 32 * w",
			"block: 32 / (w - 8)"}, "launches[1].block divides by zero", true},
		{"layernorm/bwd/4096x4096/bf16", "w8.v0.k2", d, []string{"elems: M",
			"elems: M * M * M * M * M * M"}, "scratch[1].elems has a number beyond 2^53", true},
		{"layernorm/bwd/4096x4096/bf16", "w8.k2", d, []string{"v: 0\n", "v: 3 - w\n"},
			"base.v is -5, less than 0", true},
		{"layernorm/bwd/4096x4096/bf16", "w8.v0.k2", d, []string{"v: 0\n", "v: M / 512\n"}, "",
			false},
		// its first value
		{"layernorm/bwd/4096x512/bf16", "w8.k2", d, []string{"  v: 0\n", ""},
			"threads without a vector", false},
		{"layernorm/bwd/4096x4096/bf16", "w8.v0.k2", d, []string{"value: eps * 2",
			"value: eps / (M - 4096)"}, "launches[1].args[12].value is +Inf", true},
		{"layernorm/bwd/4096x4096/bf16", "w8.v0.k2", d, []string{"if: k > 1", "if: M % (k - 2)"},
			"constraints[1].if divides by zero", true},
		{"layernorm/bwd/4096x4096/bf16", "w8.v0.k2", d, []string{"require: M >= k",
			"require: log2(w - 8) > k"}, "constraints[1].require is the log2 of a number below 1",
			true},
		{"layernorm/bwd/4096x4096/bf16", "w8.v0.k2", d, []string{`partials: "min(M, k * sms)"`,
			"partials: M - 4096"}, "launches[3].reduce.partials is 0, less than 1", true},
	} {
		_, f := load(t, test.replace...)
		p := devicetest.Problem(t, test.problem)
		c := devicetest.Config(t, test.config)
		err := f.Refuse(p, f.Base(p, test.device).With(c.Settings()...), test.device)
		_, fault := err.(*Fault)
		got := errorText(err)
		assert.That(t, (test.want == "") == (got == "") && strings.Contains(got, test.want) &&
			fault == test.fault, "%s on %s %q: %q (fault: %v), want %q", test.config, test.problem,
			test.replace, got, fault, test.want)
	}
}

// Whatever is wrong with a manifest is one line with file, line, column and
// field, and a hint.
func TestErrors(t *testing.T) {
	for _, test := range []struct{ old, new, want string }{
		{"name: mine/bwd\n", "", "mine.yaml:1:1: name: is missing"},
		{"name: mine/bwd", "name: Mine", `mine.yaml:1:7: name: malformed name "Mine"`},
		{"name: mine/bwd", "name: base", `mine.yaml:1:7: name: "base" is the name of one of`},
		{"name: mine/bwd", "name: 7", "mine.yaml:1:7: name: is a whole number, not a text"},
		{"name: mine/bwd", "name:", "mine.yaml:1:1: name: is empty"},
		{"name: mine/bwd", "name: ln_bwd/two_pass",
			`mine.yaml:1:7: name: "ln_bwd/two_pass" is the name of one of normbench's families`},
		{"op: layernorm", "op: batchnorm", `mine.yaml:2:5: op: unknown op "batchnorm"`},
		{"pass: bwd", "pass: [bwd]", "mine.yaml:3:7: pass: is a list, not a text"},
		{"pass: bwd", "pass: fwd", "mine.yaml:46:5: launches[3]: reduce is for a backward"},
		{"bits: bitwise", "bits: 1", "mine.yaml:6:7: bits: is a whole number"},
		{"bits: bitwise", "colour: red", "mine.yaml:6:1: colour: unknown field"},
		{"origin: nowhere", "doc: twice", "mine.yaml:5:1: doc: stands twice"},
		{"origin: nowhere", "host: nowhere", `mine.yaml:5:7: host: unknown family "nowhere"`},
		{"origin: nowhere", "host: rms_bwd/two_pass",
			"mine.yaml:5:7: host: rms_bwd/two_pass is of no use for layernorm bwd"},
		{"knobs:\n  warps: [4, 8]\n  v: [0, 8]\n  k: 2\n", "knobs: 3\n",
			"mine.yaml:7:8: knobs: is a whole number, not a mapping"},
		{"warps: [4, 8]", "wraps: [4, 8]", "mine.yaml:8:3: knobs.wraps: unknown knob"},
		{"v: [0, 8]", "w: [0, 8]", "mine.yaml:9:3: knobs.w: is w, which stands above"},
		{"v: [0, 8]", "v: []", "mine.yaml:9:6: knobs.v: is an empty list"},
		{"v: [0, 8]", "v: [0, -8]", "mine.yaml:9:10: knobs.v[1]: -8 is out of range"},
		{"v: [0, 8]", "v: [0, 0x100000000]",
			"mine.yaml:9:10: knobs.v[1]: 0x100000000 is out of range"},
		{"v: [0, 8]", "v: [0, 8.5]",
			"mine.yaml:9:10: knobs.v[1]: is a fraction, not a whole number"},
		{"v: [0, 8]", "v: [8, 8]", "mine.yaml:9:10: knobs.v[1]: 8 stands twice"},
		{"v: [0, 8]", "v: [" + numbers(200) + "]\n  cr: [" + numbers(200) + "]",
			"mine.yaml:10:3: knobs.cr: the knobs make more than 30000 configs"},
		{"v: [0, 8]", "v: [0, 8]\n  cr: [" + numbers(60) + "]\n  cl: [" + numbers(60) + "]",
			"base.cl: is missing, and there are more than 1000 configs to try"},
		{"  v: 0\n", "  v: 0\n  lb: 0\n", "mine.yaml:14:3: base.lb: the family has no knob lb"},
		{"  v: 0\n", "  v: 0\n  vector_bytes: 0\n",
			"mine.yaml:14:3: base.vector_bytes: is v, which stands above"},
		{"  v: 0\n", "  v: -1\n", "mine.yaml:13:6: base.v is -1, less than 0"},
		{"  v: 0\n", "  v: k\n", `mine.yaml:13:6: base.v: unknown name k in "k"`},
		{"  v: 0\n", "  v: M > 1\n",
			`mine.yaml:13:6: base.v: a condition where a number belongs in "M > 1"`},
		{`"N > 1024 ? 8 : 4"`, "N > 1024 ? 8 : 4",
			"mine.yaml:12:19: mapping values are not allowed in this context"},
		{`"N > 1024 ? 8 : 4"`, `"N > 1024 ? 8 : true"`, "base.w: "},
		{`"N > 1024 ? 8 : 4"`, `"N > 1024 ? 8 :"`, "mine.yaml:12:6: base.w: unexpected end in"},
		{`"N > 1024 ? 8 : 4"`, `"len('abc')"`, `base.w: unexpected "'" in`},
		{`"N > 1024 ? 8 : 4"`, `"sqrt(N)"`, "base.w: unknown function sqrt in"},
		{`"N > 1024 ? 8 : 4"`, `"` + strings.Repeat("1+", 600) + `1"`,
			"mine.yaml:12:6: base.w: an expression of 1201 bytes, more than 1000"},
		{`"N > 1024 ? 8 : 4"`, `" "`, "mine.yaml:12:6: base.w: no expression"},
		{`"N > 1024 ? 8 : 4"`, `[[8]]`, "mine.yaml:12:7: base.w[0]: is a list, not an expression"},
		{"require: weight", "require: w",
			`mine.yaml:16:14: serves[0].require: unknown name w in "w"`},
		{"require: weight", "require: sms > 1", `serves[0].require: unknown name sms in`},
		{"origin: nowhere", "fragile: w > 4 && M > 5",
			`mine.yaml:5:10: fragile: unknown name M in "w > 4 && M > 5"`},
		{"origin: nowhere", "fragile: bias", `fragile: unknown name bias in "bias"`},
		{"shared: 4 * w", "shared: clusters_at_once",
			`launches[1].shared: unknown name clusters_at_once in "clusters_at_once"`},
		{"require: weight\n", "reason: again\n", "mine.yaml:17:5: serves[0].reason: stands twice"},
		{"  - require: weight\n    reason:", "  - reason:",
			"serves[0]: has neither if nor require"},
		{"    reason: threads without a vector\n", "",
			"mine.yaml:21:5: constraints[0].reason: is missing"},
		{"if: vecs < w * 32", "if: vecs << w", `constraints[0].if: unexpected "<" in "vecs << w"`},
		{"name: rows", "name: dx", `scratch[1].name: "dx" is the name of a tensor`},
		{"name: rows", "name: arrived", `scratch[1].name: "arrived" stands twice`},
		{"name: rows", "name: a-b", `scratch[1].name: malformed name "a-b"`},
		{"dtype: fp32", "dtype: e4m3", `scratch[1].dtype: unknown dtype "e4m3"`},
		{"origin: nowhere", "rounds: {y: 1}", "mine.yaml:5:10: rounds.y: is no output"},
		{"origin: nowhere", "rounds: {dx: 9}", "mine.yaml:5:14: rounds.dx is 9, more than 8"},
		{"elems: M", "elems: -4", "scratch[1].elems is -4, less than 0"},
		{"  - zero: arrived\n", "  - zero: nothing\n",
			`mine.yaml:30:11: launches[0].zero: unknown buffer "nothing"`},
		{"source: mine.cu\n    entry: first", "source: other.cu\n    entry: first",
			"mine.yaml:31:13: launches[1].source: no file other.cu"},
		{"source: mine.cu\n    entry: first", "source: ../mine.cu\n    entry: first",
			`launches[1].source: malformed source "../mine.cu"`},
		{"entry: first", "entry: third", "mine.yaml:32:12: launches[1].entry: mine.cu has no " +
			"kernel third"},
		{"entry: first", "entry: 1st", `launches[1].entry: malformed entry "1st"`},
		{"    block: 32 * w\n", "", "mine.yaml:31:5: launches[1].block: is missing"},
		{`["min(M, k * sms)"]`, "[min(M, k * sms)]",
			`launches[1].grid[0]: the end where "," belongs in "min(M"`},
		{`["min(M, k * sms)"]`, "[1, 2, 3, 4]", "mine.yaml:33:21: launches[1].grid[3]: is one of " +
			"4 numbers"},
		{`["min(M, k * sms)"]`, "[-1, 1, 1]",
			"mine.yaml:33:12: launches[1].grid[0] is -1, less than 1"},
		{`["min(M, k * sms)"]`, "[1, 70000]", "mine.yaml:33:15: launches[1].grid[1] is 70000, " +
			"more than 65535"},
		{"resident: true", "resident: [1]", "launches[1].resident: is a list, not an expression"},
		{"resident: true", "persistent: true",
			"mine.yaml:36:5: launches[1].persistent: unknown field"},
		{"{EACH:", "{each:", "launches[1].defines.each: malformed macro name"},
		{"{EACH:", "{COLS:",
			"launches[1].defines.COLS: is defined by the problem or a knob already"},
		{"args: [x, dy,", "args: [x, dz,", `launches[1].args[1]: unknown buffer "dz"`},
		{"args: [x, dy,", "args: [x, b,", `launches[1].args[1]: unknown buffer "b"`},
		{"{float32: eps, value: eps * 2}", "{float32: eps, value: eps * 2}, {int64: q, value: eps}",
			`launches[1].args[13].value: unknown name eps in "eps"`},
		{"{int64: rows, value: M}", "{int33: rows, value: M}",
			"launches[1].args[11].int33: unknown field"},
		{"{int64: rows, value: M}", "{int32: rows, value: 0x80000000}",
			"launches[1].args[11].value is 2147483648, more than 2147483647"},
		{"{int64: rows, value: M}", "{bool: rows, value: 2}",
			"launches[1].args[11].value is 2, more than 1"},
		{"origin: nowhere", "options: [fast]",
			`mine.yaml:5:11: options[0]: malformed options[0] "fast"`},
		{"origin: nowhere", "options: --include-path=/x",
			`options: "--include-path=/x" is not for here`},
		{"origin: nowhere", "options: [-DA=1]", `options[0]: malformed options[0] "-DA=1"`},
		{"origin: nowhere", "options: [-arch=sm_90]", `options[0]: "-arch=sm_90" is not for here`},
		{"origin: nowhere", "include: gone", "mine.yaml:5:10: include: no folder "},
		{"v: [0, 8]", "tpb: [64]", "mine.yaml:9:3: knobs.tpb: unknown knob"},
		{"v: [0, 8]", "tp8: {values: [64]}", "mine.yaml:9:3: knobs.tp8: malformed name"},
		{"v: [0, 8]", "sms: {values: [64]}", "knobs.sms: is the name of a variable or a macro"},
		{"v: [0, 8]", "cols: {values: [64]}", "knobs.cols: is the name of a variable or a macro"},
		{"v: [0, 8]", "tpb: {valeus: [64]}", "knobs.tpb.valeus: unknown field"},
		{"v: [0, 8]", "tpb: {values: 64, doc: threads, type: float}",
			"knobs.tpb.type: unknown field"},
		{"entry: first", "entry: first<1; 2>", `launches[1].entry: malformed entry "first<1; 2>"`},
		{"source: mine.cu\n    entry: first", "cubin: mine.cu\n    entry: first",
			`launches[1].cubin: malformed cubin "mine.cu"`},
		{"source: mine.cu\n    entry: first",
			"ptx: mine.ptx\n    source: mine.cu\n    entry: first",
			"launches[1].entry: is in 2 files"},
		{"source: mine.cu\n    entry: first", "cubin: mine.cubin\n    entry: first",
			"launches[1].defines.EACH: is for a source, not for compiled code"},
		{"source: mine.cu\n    entry: second", "ptx: mine.ptx\n    entry: second",
			"launches[2].ptx: no file mine.ptx"},
		{"{int64: rows, value: M}", "{value: M}",
			"launches[1].args[11]: has not a type and a value"},
		{"{int64: rows, value: M}", "{int64: rows, value: 1.5}",
			"launches[1].args[11].value: 1.5, which is no whole number, in"},
		{"origin: nowhere", "let: {a: 1, M: 2}",
			"mine.yaml:5:13: let.M: is no name for an expression"},
		{"origin: nowhere", "let: {a: b, b: 1}", `let.a: unknown name b in "b"`},
		{"origin: nowhere", "let: [1]", "let: is a list, not a mapping"},
		{"  v: 0\n  k: max(2, 2048 / (w * 32) / 8)\n", "  v: [" + numbers(40) + "]\n  k: [" +
			numbers(40) + "]\n", "base.k: more than 1000 configs to try"},
		{"resident: true", "knobs: {zz: 1}", "launches[1].knobs.zz: unknown knob"},
		{"op: layernorm", "op: [layernorm, rmsnorm]", "name: is one name for several ops"},
		{"stage: extra", "stage: k1", `launches[2].stage: two stages are "k1"`},
		{"stage: extra", "stage: k2", `launches[3].stage: two stages are "k2"`},
		{"dw_partial, db_partial, ", "", "mine.yaml:46:24: launches[3].reduce.partials: no " +
			"launch has the argument dw_partial"},
		{"reduce: {partials:", "reduce: {parts:",
			"mine.yaml:46:14: launches[3].reduce.parts: unknown field"},
		{good, "", "mine.yaml is empty"},
		{good, good + "---\nname: second\n", "mine.yaml:48:1: a second document"},
		{good, "just text", "mine.yaml:1:1: the file: is a text, not a mapping"},
		{good, "name: [", "mine.yaml:2:1: did not find"},
		{good, "name: " + strings.Repeat("[\n", 3000), "mine.yaml:3001:1: "},
		{good, "name: " + strings.Repeat("- ", 3000), "mine.yaml:1:7: "},
		{good, strings.Repeat("# note\n", 10000), "mine.yaml has 70000 bytes"},
		{"name: mine/bwd", "name: &a mine/bwd", "name: is an anchor, an alias or a tag"},
	} {
		text := strings.Replace(good, test.old, test.new, 1)
		assert.That(t, text != good, "%q is not in the good manifest", test.old)
		dir := folder(t, "mine.yaml", text, "mine.cu", goodSource)
		_, _, err := Load(families.New(), dir)
		if err == nil {
			t.Errorf("%q for %q is no error", test.new, test.old)
			continue
		}
		got := strings.TrimPrefix(err.Error(), dir+string(filepath.Separator))
		assert.That(t, strings.Contains(got, test.want) && !strings.Contains(got, "\n") &&
			hint.Of(err) != "" && strings.HasPrefix(got, "mine.yaml"),
			"%.60q for %.60q:\n got %s (hint: %s)\nwant %s", test.new, test.old, got, hint.Of(err),
			test.want)
	}
}

// numbers is 0, 1, ... n-1 with commas.
func numbers(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = strconv.Itoa(i)
	}
	return strings.Join(list, ", ")
}

func TestFolders(t *testing.T) {
	second := strings.Replace(good, "mine/bwd", "mine/bwd2", 1)
	for _, test := range []struct{ dir, want string }{
		{filepath.Join(t.TempDir(), "nowhere"), "no folder "},
		{folder(t), " has no manifest (*.yaml)"},
		{filepath.Join(folder(t, "mine.yaml", good), "mine.yaml"), "mine.yaml is no folder"},
		{folder(t, "a.yaml", good, "b.yaml", good, "mine.cu", goodSource),
			`b.yaml:1:7: name: "mine/bwd" is the name of a family at `},
		{folder(t, "a.yaml", good, "b.yaml", second),
			"a.yaml:31:13: launches[1].source: no file mine.cu"},
		{folder(t, "a.yaml", good, "mine.cu", `#include "gone.cuh"`+"\n"+goodSource),
			`a.yaml:31:13: launches[1].source: mine.cu includes "gone.cuh", which is nowhere`},
		{folder(t, "a.yaml", good, "mine.cu", "\xef\xbb\xbf#include \"gone.cuh\"\n"+goodSource),
			`mine.cu includes "gone.cuh", which is nowhere`},
		{folder(t, "a.yaml", good, "mine.cu", "\xef\xbb\xbf#include \"a.cuh\"\n"+goodSource,
			"a.cuh", "\xef\xbb\xbf#include \"gone.cuh\"\n"),
			`mine.cu includes "gone.cuh", which is nowhere`},
		{folder(t, "a.yaml", good, "mine.cu", "#include HEADER\n"+goodSource),
			"a.yaml:31:13: launches[1].source: mine.cu includes #include HEADER, which names no " +
				"file to follow"},
		{folder(t, "a.yaml", good, "mine.cu", strings.Repeat("//\n", 1<<20/3)+goodSource),
			"mine.cu has 1.0 MiB, more than 1.0 MiB"},
	} {
		_, _, err := Load(families.New(), test.dir)
		assert.That(t, err != nil && strings.Contains(err.Error(), test.want) && hint.Of(err) != "",
			"%s: %v, want %q", test.dir, err, test.want)
	}
	r, fs, err := Load(families.New(), folder(t, "a.yaml", good, "b.yaml", second, "mine.cu",
		goodSource, "notes.txt", "no"))
	assert.Must(t, err == nil && len(fs) == 2 && fs[0].Name == "mine/bwd" &&
		fs[1].Name == "mine/bwd2", "two manifests: %v, %v", fs, err)
	f, err := r.Lookup("mine/bwd2")
	assert.That(t, err == nil && f == fs[1], "the registry has %v, %v", f, err)
}

// A user's source includes normbench's header unless the folder has one of that
// name; a change of their code changes the hash.
func TestFiles(t *testing.T) {
	hash := func(files ...string) string {
		r, fs, err := Load(families.New(), folder(t, files...))
		assert.NoError(t, err)
		h, err := families.NewIdentity(r, kernels.KindCUDA).Source(fs[0])
		assert.NoError(t, err)
		return h
	}
	seen := map[string]bool{}
	for _, files := range [][]string{
		{"mine.yaml", good, "mine.cu", goodSource},
		{"mine.yaml", good, "mine.cu", goodSource + "int more;\n"},
		{"mine.yaml", good, "mine.cu", goodSource, "common.cuh", "int mine;"},
		{"mine.yaml", good, "mine.cu", `#include "a.h"` + "\n" + goodSource, "a.h",
			`#include "b.h"`, "b.h", "int b;"},
		{"mine.yaml", good, "mine.cu", "/*\n*/ #inc\\\nlude \"a.h\"\n" + goodSource, "a.h",
			"extern \"C\" __global__ void c() {}"},
		{"mine.yaml", good, "mine.cu", "/*\n*/ #inc\\\nlude \"a.h\"\n" + goodSource, "a.h",
			"extern \"C\" __global__ void d() {}"},
		{"mine.yaml", good, "mine.cu", `#  include	"a.h" // blanks` + "\n" + goodSource, "a.h",
			"int a;"},
	} {
		h := hash(files...)
		assert.That(t, !seen[h], "%.40q has the hash of other files", files)
		seen[h] = true
		assert.Equal(t, hash(files...), h, "the folder's name changes the hash")
	}
	plain := hash("mine.yaml", good, "mine.cu", goodSource)
	for what, files := range map[string][]string{
		"comments": {"mine.yaml", good + "#\n", "mine.cu", goodSource + "// a comment\n"},
	} {
		assert.Equal(t, hash(files...), plain, what, "change the hash")
	}
	r, _ := load(t)
	ours, err1 := families.File("common.cuh")
	theirs, err2 := r.File(Prefix + "common.cuh")
	assert.That(t, err1 == nil && err2 == nil && ours == theirs, "common.cuh: %v, %v", err1, err2)
}

// What a source includes of the user's include folders is part of its hash.
func TestIncludeFolder(t *testing.T) {
	headers := t.TempDir()
	t.Setenv("NORMBENCH_INCLUDE", filepath.Join(t.TempDir(), "none")+string(filepath.ListSeparator)+
		headers)
	dir := folder(t, "mine.yaml", good, "mine.cu", "#include \"near.h\"\n"+goodSource, "near.h",
		"#include <sub/far.h>\n#include <nowhere.h>\n")
	assert.NoError(t, os.Mkdir(filepath.Join(headers, "sub"), 0o777))
	seen := map[string]bool{}
	for _, text := range []string{"int a;", "int b;", "int a;"} {
		assert.NoError(t, os.WriteFile(filepath.Join(headers, "sub", "far.h"), []byte(text), 0o666))
		r, fs, err := Load(families.New(), dir)
		assert.NoError(t, err)
		h, err := families.NewIdentity(r, kernels.KindCUDA).Source(fs[0])
		assert.NoError(t, err)
		seen[h] = true
	}
	assert.Equal(t, len(seen), 2, "hashes of two texts")
	assert.NoError(t, os.Truncate(filepath.Join(headers, "sub", "far.h"), 1<<20+1))
	_, _, err := Load(families.New(), dir)
	assert.That(t, err != nil && hint.Of(err) != "" &&
		strings.Contains(err.Error(), "<sub/far.h> of "), "a large one: %v", err)
}

// On the cpu a family runs the host stages of the one that it names, or nothing.
func TestHost(t *testing.T) {
	p := devicetest.Problem(t, "layernorm/bwd/33x136/bf16+bias")
	r, f := load(t)
	s := f.Space(p, cpu.New(r).Info())
	assert.That(t, len(s.Configs) == 0 &&
		s.Refused[0].Reason == "the family has no host stage: it runs on a GPU only",
		"without a host: %+v", s)
	r, f = load(t, "origin: nowhere", "host: ln_bwd/two_pass")
	d := cpu.New(r)
	if s := f.Space(p, d.Info()); len(s.Configs) != 1 {
		t.Fatalf("with a host: %+v", s)
	}
	b, err := d.Open(context.Background(), p, 7)
	assert.NoError(t, err)
	got, err := b.Check(context.Background(), kernels.Variant{Family: f.Name, Config: f.Base(p,
		d.Info())}, 2)
	assert.That(t, err == nil && got.OK(), "the host stages: %v, %s", err, got.Reason())
}

// The manifests in the documentation are some.
func TestDocumentation(t *testing.T) {
	text, err := os.ReadFile("../../docs/kernels.md")
	assert.NoError(t, err)
	blocks := strings.Split(string(text), "```yaml\n")
	assert.Must(t, len(blocks) == 5, "%d manifests", len(blocks)-1)
	for _, file := range []string{"cuda/rms_block.cu", "cuda/rms_block.yaml",
		"triton/rms_forward.yaml", "triton/rms.py"} {
		example, err := os.ReadFile("../../examples/" + file)
		first, _, _ := strings.Cut(string(example), "\n\n\n@triton.jit\ndef rms_backward")
		first = strings.TrimRight(first, "\n")
		assert.That(t, err == nil && strings.Contains(string(text), first+"\n```\n"),
			"examples/%s does not stand there (%v)", file, err)
	}
	launch, _, _ := strings.Cut(blocks[3], "```")
	liger, err := os.ReadFile("../../examples/liger/rms_backward.yaml")
	assert.That(t, strings.Contains(string(liger), launch),
		"examples/liger/rms_backward.yaml is another (%v)", err)
	shown, _, _ := strings.Cut(blocks[4], "```")
	source := "#include \"common.cuh\"\n#include \"reduce.cuh\"\n#include \"pipe.cuh\"\n" +
		"extern \"C\" __global__ void mine_bwd() {}\n"
	_, fs, err := Load(families.New(), folder(t, "shown.yaml", shown, "mine.cu", source))
	assert.NoError(t, err, hint.Of(err))
	p := devicetest.Problem(t, "rmsnorm/bwd/4096x4096/bf16")
	s := fs[0].Space(p, devicetest.H200())
	assert.That(t, fs[0].CheckServes(p) == nil && len(s.Configs) == 12,
		"%v, %+v", fs[0].CheckServes(p), s)
}

// Sources stay in their folder, also through links; what a link inside it points to is read.
func TestLinks(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret.cu")
	assert.NoError(t, os.WriteFile(outside, []byte(goodSource), 0o666))
	dir := folder(t, "mine.yaml", good, "real.cu", goodSource)
	link := filepath.Join(dir, "mine.cu")
	assert.NoError(t, os.Symlink("real.cu", link))
	_, _, err := Load(families.New(), dir)
	assert.That(t, err == nil, "a link inside: %v", err)
	rel, err := filepath.Rel(dir, outside)
	assert.NoError(t, err)
	for _, to := range []string{outside, rel, "/dev/zero", "../" + filepath.Base(dir) +
		"/real.cu"} {
		assert.NoError(t, os.Remove(link))
		assert.NoError(t, os.Symlink(to, link))
		_, _, err := Load(families.New(), dir)
		assert.That(t, err != nil && strings.Contains(err.Error(), "mine.cu: ") &&
			hint.Of(err) != "", "a link to %s: %v", to, err)
	}
}
