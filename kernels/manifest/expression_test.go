package manifest

import (
	"math"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/hint"
	"normbench/internal/yamldoc"
	"normbench/kernels"
	"normbench/kernels/devicetest"
)

func compiled(text string, k kind, known scope) (*expression, error) {
	e := &expression{Place: yamldoc.Place{At: "f:1:1", Path: "p"}, text: text, kind: k,
		lo: math.MinInt, hi: math.MaxInt}
	return e, e.compile(known)
}

func TestExpressions(t *testing.T) {
	p := kernels.Problem{Op: kernels.RMSNorm, M: 4096, N: 8192}
	for text, want := range map[string]any{
		"M": 4096, " M ": 4096, "M/3": 1365, "-M/3": -1365, "M%3": 1, "M - 3 * 2": 4090, "0x10": 16,
		"ceildiv(M, 3)": 1366, "ceildiv(-7, 2)": -3, "ceildiv(7, -2)": -3, "ceildiv(-7, -2)": 4,
		"min(M, 3, 2)": 2, "max(1)": 1, "max(N / 3, M)": 4096,
		"pow2(1)": 1, "pow2(0)": 1, "pow2(5)": 8, "pow2(M)": 4096, "log2(1)": 0, "log2(M + 1)": 12,
		"weight ? 2 : 1": 2, "bias ? 2 : 1": 1, "!bias ? 2 : 1": 2, "not weight ? 2 : 1": 1,
		"M > 2 && bias || weight ? 3 : 4": 3,
		"M == 4096 and N != 1 ? 1 : 0":    1, "1 < 2 ? (weight ? 7 : 8) : 9": 7,
		"9007199254740992": 1 << 53, "-9007199254740991 - 1": -1 << 53,
		"9007199254740991 / 2": 1<<52 - 1, "-9007199254740991 % 4": -3,

		"M / bias": "divides by zero", "M % bias": "divides by zero",
		"ceildiv(M, 0)": "divides by zero",
		"M*M*M*M*M*M":   "beyond 2^53", "9007199254740992 + weight * 2": "beyond 2^53",
		"-9007199254740992 - 2":      "beyond 2^53",
		"pow2(M * M * M * 4096) + M": 1<<48 + 4096, "log2(bias)": "log2 of a number below 1",
	} {
		e, err := compiled(text, whole, scope{level: ofProblem})
		got, v := 0, &env{Problem: p}
		if err == nil {
			got, err = e.int(v), v.err
		}
		s, isText := want.(string)
		assert.That(t, (!isText || err != nil && strings.Contains(err.Error(), s)) &&
			(isText || err == nil && got == want), "%s is %v (%v), want %v", text, got, err, want)
	}
	for text, want := range map[string]bool{
		"M": true, "bias": false, "M > N": false, "weight and M": true, "true": true,
		"!true": false, "weight ? M > 2 : false": true, "M - 4096": false,
	} {
		e, err := compiled(text, truth, scope{level: ofProblem})
		v := &env{Problem: p}
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := e.holds(v); v.err != nil || got != want {
			t.Errorf("%s is %v (%v), want %v", text, got, v.err, want)
		}
	}
	for text, want := range map[string]float64{
		"M": 4096, "1e-5": 1e-5, "1 / N": 1.0 / 8192, "1.5 * weight": 1.5,
		"weight ? 0.5 : 2.5": 0.5, "-M": -4096,
	} {
		e, err := compiled(text, fraction, scope{level: ofProblem, eps: 1e-5})
		v := &env{Problem: p}
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := e.float(v); v.err != nil || got != want {
			t.Errorf("%s is %v (%v), want %v", text, got, v.err, want)
		}
	}
	for _, text := range []string{"M[0]", "$env.M", "$env", "nil", "M ?? 2", "M ** 2",
		"let x = 1; x", "1; 2", "[1, 2]", "{a: 1}", "M in [1]",
		"1 + foo", "ceildiv(foo, 2)", "min(1, foo ? 1 : 2)", "min(M, M > true ? 1 : 2)", "1..3",
		"'a' + 'b'", "M = 2", "foo", "foo()", "min()", "pow2(1, 2)", "ceildiv", "M + true",
		"99999999999999999999", "1e3", "M ? 1 : true", "@", "((("} {
		_, err := compiled(text, whole, scope{level: ofProblem})
		assert.That(t, err != nil, "%s compiles as a number", text)
	}
}

// A comparison of what cannot be compared is found where it stands deep.
func TestTruthErrors(t *testing.T) {
	for _, text := range []string{"foo", "M > foo", "M > true", "'a'", "true + 1", "min(true)",
		"1.5 > M", "true ? 1 : false"} {
		_, err := compiled(text, truth, scope{level: ofProblem})
		assert.That(t, err != nil, "%s compiles as a condition", text)
	}
}

// Texts that are no manifest are errors of one line; those that are one have a
// space, whose plans can all be made.
func FuzzParse(f *testing.F) {
	// Short ones: the fuzzer minimizes what it finds byte by byte.
	f.Add([]byte("name: a\nop: rmsnorm\npass: fwd\nknobs: {w: [1, 2]}\nbase: {w: N / 7}\n" +
		"launches: [{source: a.cu, entry: e, grid: N / (M - 3), block: 32 * w, args: [x, w, y, " +
		"rstd]}]"))
	f.Add([]byte("name: a\nop: rmsnorm\npass: bwd\nbase: {}\n" +
		"scratch: [{name: c, dtype: i32, elems: M}]\n" +
		"launches: [{zero: c}, {source: a.cu, entry: e, grid: 1, block: 1, args: [x, dy, w, " +
		"rstd, dx, dw_partial, c]}, {reduce: {partials: N}}]"))
	f.Add([]byte("serves: [{require: M > 1, reason: r}]\nconstraints: [{if: bias, reason: r}]"))
	f.Add([]byte("name: &a [*a]"))
	f.Add([]byte("name: ../../a\nop: rmsnorm\npass: fwd\nbase: {}\n" +
		"launches: [{source: ../../etc/passwd, entry: \"e\\e[2J\", grid: 1, block: 1, args: [x, " +
		"w, y, rstd]}]"))
	f.Add([]byte("\xef\xbb\xbfname: a\nname: b\nop: rmsnorm"))
	f.Add([]byte("name: a\nop: rmsnorm\npass: fwd\nknobs: {v: [0]}\nbase: {v: 3}\n" +
		"launches: [{source: a.cu, entry: e, grid: " + strings.Repeat("(", 500) +
		"1, block: .nan, args: []}]"))
	f.Add([]byte("name: a\nop: rmsnorm\npass: fwd\nserves: [{require: \"0\", reason: r}]\n" +
		"base: {}\nlaunches: [{source: a.cu, entry: e, grid: 1 << 62, block: 99999999, shared: " +
		"99999999, args: [x]}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<14 {
			return
		}
		ds, err := parse("f.yaml", data)
		if err != nil {
			assert.Must(t, !strings.Contains(err.Error(), "\n") && hint.Of(err) != "",
				"the error %q has several lines or no hint", err)
			return
		}
		d, size := ds[0], 1
		for _, r := range d.knobs {
			size *= len(r.Values)
		}
		if size > 100 {
			return
		}
		fam := d.family(nil, nil)
		for _, n := range []int64{1, 541, 4096} {
			p := kernels.Problem{Op: d.Op, Pass: d.Pass, M: 3, N: n, DType: kernels.BF16,
				Weight: kernels.BF16}
			if fam.CheckServes(p) != nil {
				continue
			}
			for _, c := range fam.Space(p, devicetest.H200()).Configs {
				for _, l := range fam.Plan(p, c, devicetest.H200()).Launches {
					assert.Must(t,
						!l.IsKernel() || l.Grid[0] >= 1 && l.Block >= 1 && l.Block <= 1024, "%+v",
						l)
				}
			}
		}
	})
}

// Each expression is evaluated for every config, so their number is bounded.
func TestExpressionCount(t *testing.T) {
	many := "constraints:\n" + strings.Repeat("  - {require: M > 0, reason: r}\n", maxExpressions)
	_, err := parse("f.yaml", []byte("name: a\nop: rmsnorm\npass: fwd\nbase: {}\n"+many+
		"launches: [{source: a.cu, entry: e, grid: 1, block: 32, args: [x, w, y, rstd]}]\n"))
	assert.That(t, err != nil &&
		strings.Contains(err.Error(), "is one of more than 500 expressions") && hint.Of(err) != "",
		"%v", err)
}
