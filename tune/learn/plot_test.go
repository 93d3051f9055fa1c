package learn

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/picture"
	"normbench/kernels"
	"normbench/kernels/launchmap"
)

// A picture colours each cell by its family: one colour for a design of both ops, one more for all rare ones
// together. Its other class is the regret's, here of cells that nothing was measured in.
func TestPictureColoursCellsByFamily(t *testing.T) {
	class, err := launchmap.ParseClass("rmsnorm/fwd/2-byte")
	assert.NoError(t, err)
	const designs = picture.Areas + 2
	r := launchmap.Raster{Class: class, Align: 16, Rows: launchmap.Bounds{{Rows: 1}}}
	letters := launchmap.Letters[:designs+1]
	for i := range designs {
		r.Legend = append(r.Legend, kernels.Variant{Family: fmt.Sprintf("rms_fwd/d%d", i)})
		for n := range designs - i { // d0 has the most cells
			r.Lines = append(r.Lines, launchmap.Band{From: int64(64 + 100*i + n), Cells: letters[i : i+1], Evidence: "b"})
		}
	}
	r.Legend = append(r.Legend, kernels.Variant{Family: "ln_fwd/d0"})
	r.Lines = append(r.Lines, launchmap.Band{From: 2000, Cells: letters[designs:], Evidence: "b"})
	all := Pictures(&launchmap.Map{Rasters: []launchmap.Raster{r}}, nil, kernels.DeviceInfo{SMs: 1})
	var names []string
	for _, s := range all.Families {
		names = append(names, s.Class+" "+s.Name)
	}
	assert.Equal(t, strings.Join(names, "; "), "a0 d0; a1 d1; a2 d2; a3 d3; a4 d4; a5 d5; a6 d6; a7 d7, d8")
	text := string(all.Drawings[0].Inline())
	for letter, want := range map[string]string{"a": "a0 q5", "g": "a6 q5", "h": "a7 q5", "i": "a7 q5", "j": "a0 q5"} {
		m := regexp.MustCompile(`<rect class="([^"]*)"[^>]*/><text [^>]*>` + letter + `</text>`).FindStringSubmatch(text)
		assert.Must(t, m != nil, "no cell %s in %s", letter, text)
		assert.Equal(t, m[1], want, letter)
	}
	assert.Equal(t, all.Drawings[0].Details[8], "i  rms_fwd/d8@")
}
