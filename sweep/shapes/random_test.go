package shapes

import (
	"slices"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/hint"
)

func TestRandom(t *testing.T) {
	list, err := Select("random:300:seed=7")
	assert.Must(t, err == nil && len(list) == 300, "%v %v", len(list), err)
	again, _ := Select("random:300:seed=7")
	other, _ := Select("random:300:seed=8")
	assert.That(t, slices.Equal(list, again) && !slices.Equal(list, other),
		"a seed does not name its shapes")
	hard, wide, tall := 0, 0, 0
	begin := map[int64]int{} // bytes at which rows of bf16 begin
	for _, s := range list {
		assert.That(t, Everything.Holds(s.M, s.N), "%s is not in the domain", s)
		if s.N%2 == 1 || s.M <= 64 {
			hard++
		}
		begin[min(16, 2*(s.N&-s.N))]++
		if s.N >= 8192 {
			wide++
		}
		if s.M >= 8192 {
			tall++
		}
	}
	assert.That(t, hard >= 75 && wide >= 40 && tall >= 40,
		"%d odd or of few rows, %d wide, %d tall of 300", hard, wide, tall)
	assert.That(t, begin[2] >= 50 && begin[4] >= 8 && begin[8] >= 8 && begin[16] >= 100,
		"rows begin at %v", begin)
	if list, err := Select("random:5:M=3:9;N=100,64x64"); err != nil || len(list) != 6 ||
		list[0].N != 100 {
		t.Error(list, err)
	}
	if list, err := Select("random:500:M=1:2;N=64"); err != nil || len(list) != 2 {
		t.Error(list, err)
	}
}

func TestParseDomain(t *testing.T) {
	d, err := ParseDomain("M=2:1Mi,N=64")
	assert.That(t, err == nil && d == (Domain{2, 1 << 20, 64, 64, 1 << 28}), "%v %v", d, err)
	for text, want := range map[string]string{
		"":                      "malformed domain",
		"M":                     "malformed domain",
		"M=0:4":                 "malformed domain",
		"M=a":                   "malformed domain",
		"K=1":                   "malformed domain",
		"MN=1:2":                "malformed domain",
		"N=9:8":                 "holds no shape",
		"M=1Mi,N=64Ki":          "holds no shape",
		"N=1:2000000000Mi":      "out of range",
		"M=99999999999999999Mi": "malformed domain",
	} {
		_, err := ParseDomain(text)
		assert.Refused(t, err, want, text)
	}
	for _, text := range []string{"random:", "random:0", "random:x", "random:3:seed=a",
		"random:3:M=9:8", "random:99999999"} {
		_, err := Select(text)
		assert.That(t, err != nil && hint.Of(err) != "", "%q: got %v", text, err)
	}
}
