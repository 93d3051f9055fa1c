package manifest

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/hint"
	"normbench/internal/yamldoc"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
)

func TestExpressionsAreTypedAndBounded(t *testing.T) {
	p := kernels.Problem{Op: kernels.RMSNorm, M: 4096, N: 8192}
	kinds := map[string]kind{"number": whole, "condition": truth, "fraction": fraction}
	assert.Lines(t, "testdata/expressions.txt", func(input string) string {
		of, text, _ := strings.Cut(input, ": ")
		e := &expression{passage: passage{yamldoc.Position{At: "f:1:1", Path: "p"}, text}, kind: kinds[of],
			lo: math.MinInt, hi: math.MaxInt}
		if err := e.compile(scope{variables, ofProblem, 1e-5}); err != nil {
			return err.Error()
		}
		var got any
		v := &env{Problem: p}
		switch e.kind {
		case whole:
			got = e.int(v)
		case truth:
			got = e.holds(v)
		default:
			got = e.float(v)
		}
		if v.err != nil {
			return v.err.Error()
		}
		return fmt.Sprint(got)
	})
}

// What a family remembers of other problems, configs and devices makes no difference.
func TestRememberedEnvironmentsMakeNoDifference(t *testing.T) {
	draw := rand.New(rand.NewPCG(38, 6))
	names, err := filepath.Glob("../*.yaml")
	assert.Must(t, err == nil && len(names) > 10, "%q, %v", names, err)
	for _, name := range names {
		var ds [2]*design // the second forgets
		for i := range ds {
			read, err := parse(name, assert.File(t, name))
			assert.NoError(t, err)
			ds[i] = read[0]
		}
		f := newFamily(ds[0], code{})
		p, c, dev := fullProblem(f.Op, f.Pass), kernels.Config{}, devicetest.H200()
		p.DType, p.Weight = kernels.BF16, kernels.BF16
		for range 400 {
			switch r := f.Knobs[draw.IntN(len(f.Knobs))]; draw.IntN(8) {
			case 0:
				p.M = 1 << draw.IntN(18)
			case 1:
				p.N = 8 + draw.Int64N(1<<draw.IntN(16))
			case 2:
				p.DType, p.Weight = kernels.DType(draw.IntN(2)), kernels.DType(draw.IntN(2))
			case 3:
				options := kernels.Options()
				options[draw.IntN(len(options))].Set(&p)
			case 4:
				p = kernels.Problem{Op: p.Op, Pass: p.Pass, M: p.M, N: p.N, DType: p.DType, Weight: p.Weight}
			case 5:
				dev.SMs, dev.SharedPerBlock = 1+draw.IntN(200), 1<<10*draw.IntN(228)
			case 6:
				c = f.Base(p, dev)
			default:
				c = c.With(kernels.Setting{Knob: r.Knob, Value: r.Values[draw.IntN(len(r.Values))]})
			}
			var got [2]string
			for i, f := range []*kernels.Family{f, newFamily(ds[1], code{})} {
				err := cmp.Or(f.Serves(p), f.Refuse(p, c, dev))
				if got[i] = fmt.Sprint(err, f.Base(p, dev)); err == nil {
					got[i] += f.Plan(p, c, dev).String()
				}
			}
			assert.Must(t, got[0] == got[1], "%s: %s, %s: %s, not %s", name, p, c, got[0], got[1])
		}
	}
}

// Texts that are no manifest are errors of one line; those that are one have a
// space, whose plans can all be made. Those of testdata/fuzz are short: the fuzzer minimizes what it
// finds byte by byte.
func FuzzParse(f *testing.F) {
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
		fam := newFamily(d, code{})
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
