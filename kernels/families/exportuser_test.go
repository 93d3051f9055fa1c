package families_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/families"
	"normbench/kernels/families/manifest"
	"normbench/kernels/launchmap"
)

// A map with a user's family is exported as those with ours are: as a chain and as tables.
func TestMapWithAUsersFamilyIsExported(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles programs")
	}
	reg, _, err := manifest.Load(families.NewRegistry(), "../../examples/kernels")
	assert.NoError(t, err)
	d := devicetest.H200()
	x := launchmap.Blank(launchmap.ClassOf(devicetest.Problem(t, "rmsnorm/fwd/8x4096/bf16")), 16, d.SMs)
	for line := range x.Lines {
		for cell := range x.Rows {
			if box := x.Box(line, cell, d.SMs); !box.Empty() {
				config := fmt.Sprintf("rms_warp@w%d.v0.ch%d", 1<<((line+cell)%4), cell%2)
				x.Set(line, cell, devicetest.Variant(t, config), launchmap.Measured)
			}
		}
	}
	m := &launchmap.Map{Device: d, Tool: "v0", Rasters: []launchmap.Raster{*x}}
	book := families.Book(reg, launchmap.Ladder([]*launchmap.Map{m}, &d), d)
	for _, columns := range [][]int64{nil, {1024, 2048, 4096}} {
		r := rand.New(rand.NewPCG(rand.Uint64(), 0))
		var ask []question
		users := 0
		for range draws(20000) {
			p := devicetest.Problem(t, "rmsnorm/fwd/8x4096/bf16")
			p.M, p.N = 1+r.Int64N(1<<13), []int64{1024, 2048, 4096}[r.IntN(3)]
			q := question{text: fmt.Sprint("rmsnorm fwd ", p.M, " ", p.N, " torch.bfloat16 0"), answer: book.Answer(p).Variant}
			users += int(kernels.Flag(q.answer.Family == "rms_warp"))
			ask = append(ask, q)
		}
		assert.Must(t, users > len(ask)/4, "%d of %d answers are of the user's family", users, len(ask))
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
}
