package families_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/families"
	"normbench/kernels/families/manifest"
	"normbench/kernels/launchmap"
)

// A map with a user's family is exported as those with ours are: as a chain and as tables. What the family
// does not serve another one answers, as explain says. It is refused in the map of that family alone, also where there
// is no answer.
func TestMapWithAUsersFamilyIsExported(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles programs")
	}
	for _, test := range []struct {
		family, folder string
		alone          bool
	}{
		{"rms_warp", "../../examples/kernels", false},
		{"rms_block", "../../examples/cuda", false},
		{"rms_block", "../../examples/cuda", true},
	} {
		t.Run(fmt.Sprint(test.family, " alone ", test.alone), func(t *testing.T) {
			t.Parallel()
			reg, _, err := manifest.Load(families.NewRegistry(), test.folder)
			assert.NoError(t, err)
			if test.alone {
				reg, err = reg.Against(test.family)
				assert.NoError(t, err)
			}
			family, err := reg.Lookup(test.family)
			assert.NoError(t, err)
			d := devicetest.H200()
			x := launchmap.Blank(launchmap.ClassOf(devicetest.Problem(t, "rmsnorm/fwd/8x4096/bf16")), 16, d.SMs)
			for line := range x.Lines {
				for cell := range x.Rows {
					if box := x.Box(line, cell, d.SMs); !box.Empty() && (test.alone || (line+cell)%3 > 0) {
						v := devicetest.Variant(t, test.family+"@"+family.Base(box.Class.Problem(box.MLo, box.NLo), d).String())
						if c, ok := family.Knobs[0], (line+cell)%4; len(c.Values) > ok {
							v.Config = v.Config.With(kernels.Setting{Knob: c.Knob, Value: c.Values[ok]})
						}
						x.Set(line, cell, v, launchmap.Measured)
					}
				}
			}
			m := &launchmap.Map{Device: d, Tool: "v0", Rasters: []launchmap.Raster{*x}}
			book := families.Book(reg, launchmap.Ladder([]*launchmap.Map{m}, &d), d)
			for _, columns := range [][]int64{nil, {1024, 2048, 4096}} {
				ask := askUsers(t, reg, book, x.Class)
				users, unserved := 0, 0
				for _, q := range ask {
					users += int(kernels.Flag(q.answer.Family == test.family && !q.refused))
					unserved += int(kernels.Flag(q.refused || q.other && q.answer.Family != "" && q.answer.Family != test.family))
				}
				assert.Must(t, min(users, unserved) > len(ask)/50, "of %d answers %d are of the family, %d are what it does not serve",
					len(ask), users, unserved)
				for _, format := range launchmap.Formats {
					text, err := book.Export([]launchmap.Class{x.Class}, columns, format)
					assert.NoError(t, err)
					if format == "json" {
						checkJSON(t, text, ask)
					} else {
						checkCode(t, format, text, ask)
					}
				}
			}
		})
	}
}

// askUsers draws problems of all types and some options, with a book's answers for its one class. A problem
// is refused which the book's one family serves with no type of weight.
func askUsers(t *testing.T, reg *kernels.Registry, book *launchmap.Book, class launchmap.Class) (ask []question) {
	r := rand.New(rand.NewPCG(rand.Uint64(), 0))
	for len(ask) < draws(20000) {
		p := devicetest.Problem(t, "rmsnorm/fwd/8x4096/bf16")
		p.M, p.N = 1+r.Int64N(1<<13), []int64{1024, 2048, 4096}[r.IntN(3)]
		p.DType = []kernels.DType{kernels.BF16, kernels.BF16, kernels.FP16, kernels.FP32}[r.IntN(4)]
		p.Weight, p.Bias, p.ZeroCentered = p.DType, r.IntN(4) == 0, r.IntN(4) == 0
		p.NoWeight, p.Residual = r.IntN(8) == 0, r.IntN(8) == 0
		if p.Validate() != nil {
			continue
		}
		sum := int64(0)
		for i, o := range kernels.Options() {
			sum += kernels.Flag(o.IsWritten(p)) << i
		}
		names := typeNames[p.DType]
		q := question{text: fmt.Sprint("rmsnorm fwd ", p.M, " ", p.N, " ", names[r.IntN(len(names))], " ", sum)}
		family := reg.BaseOf
		if launchmap.ClassOf(p) == class {
			q.answer = book.Answer(class.Problem(p.M, p.N)).Variant
		}
		if own := cmp.Or(family, q.answer.Family); own != "" {
			f, err := reg.Lookup(own)
			assert.NoError(t, err)
			served := slices.ContainsFunc(kernels.DTypes(), func(w kernels.DType) bool {
				p.Weight = w
				return p.Validate() == nil && f.Serves(p) == nil
			})
			switch {
			case served:
			case family != "":
				q.refused, q.answer.Family = true, family
			default: // another family answers, as explain says
				p.Weight = p.DType
				q.answer, q.other = book.Answer(p).Variant, true
			}
		}
		ask = append(ask, q)
	}
	return ask
}

// An export says which types of a weight a kernel does not take, as its function is not asked for them.
func TestExportNamesWeightsThatAreNotTaken(t *testing.T) {
	reg := *families.NewRegistry()
	f, err := reg.Lookup("rms_fwd/cta_reg")
	assert.NoError(t, err)
	own := *f
	own.Name = "own"
	own.Serves = func(p kernels.Problem) error {
		if p.Weight != p.DType {
			return errors.New("the weight is of x's type")
		}
		return f.Serves(p)
	}
	reg.Families = append(slices.Clone(reg.Families), &own)
	d := devicetest.H200()
	p := devicetest.Problem(t, "rmsnorm/fwd/8x4096/bf16")
	x := launchmap.Blank(launchmap.ClassOf(p), 16, d.SMs)
	line, cell := x.At(p.M, p.N, d.SMs)
	x.Set(line, cell, kernels.Variant{Family: "own", Config: f.Base(p, d)}, launchmap.Measured)
	m := &launchmap.Map{Device: d, Rasters: []launchmap.Raster{*x}}
	text, err := families.Book(&reg, launchmap.Ladder([]*launchmap.Map{m}, &d), d).Export([]launchmap.Class{x.Class}, []int64{4096}, "python")
	assert.That(t, err == nil && strings.Contains(string(text), "# own with x of bf16 takes a weight of bf16, not of fp16 or fp32.\n"), "%v: %s", err, text)
}
