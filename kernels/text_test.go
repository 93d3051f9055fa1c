package kernels_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
)

// What users and devices write is read as testdata/texts.txt says, or refused with a hint.
func TestTextsAreReadOrRefusedWithAHint(t *testing.T) {
	assert.Lines(t, "testdata/texts.txt", func(input string) string {
		kind, text, _ := strings.Cut(input, ":")
		text = strings.TrimPrefix(text, " ")
		if plain, err := strconv.Unquote(text); err == nil {
			text = plain
		}
		var got any = "ok"
		var err error
		switch kind {
		case "problem":
			got, err = kernels.ParseProblem(text)
		case "config":
			got, err = kernels.ParseConfig(text)
			if err == nil {
				back, _ := kernels.ParseConfig(fmt.Sprint(got))
				assert.That(t, back == got, "%s reads back as %s", got, back)
			}
		case "variant":
			got, err = kernels.ParseVariant(text)
		case "dtype":
			got, err = kernels.ParseDType(text)
		case "fits": // into so many bytes
			bytes, problem, _ := strings.Cut(text, " ")
			d := kernels.DeviceInfo{Name: "small gpu", MemoryBytes: assert.Value[int64](t, bytes)}
			err = devicetest.Problem(t, problem).CheckFits(d)
		case "id":
			err = kernels.CheckID(text)
		case "slug":
			got = kernels.Slug(text)
			err = kernels.CheckID(fmt.Sprint(got))
		case "info":
			info := assert.Value[kernels.DeviceInfo](t, text)
			return fmt.Sprint(info.Validate())
		case "numbers":
			var list []kernels.Number
			err := json.Unmarshal([]byte(text), &list)
			again, bad := json.Marshal(list)
			assert.NoError(t, bad, text)
			return fmt.Sprint(string(again), err != nil)
		case "argument": // its bits in its slot, and of whole numbers the range
			name, number, _ := strings.Cut(text, " ")
			k, ok := kernels.FindArgKind(name)
			if !ok {
				return "no number"
			}
			assert.Equal(t, k.String(), name)
			a := kernels.Arg{Kind: k, Float: assert.Value[float64](t, number)}
			if k.IsFloat() {
				return fmt.Sprintf("%x", a.Bits())
			}
			a.Int = int64(a.Float)
			lo, hi := k.Range()
			return fmt.Sprintf("%x of %d to %d", a.Bits(), lo, hi)
		case "printable":
			return strconv.QuoteToASCII(kernels.MakePrintable(text, 100))
		}
		if err != nil {
			return assert.Refusal(t, err)
		}
		return fmt.Sprint(got)
	})
}
