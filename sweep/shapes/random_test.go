package shapes

import (
	"slices"
	"testing"

	"normbench/internal/assert"
)

func TestSeedNamesItsRandomShapes(t *testing.T) {
	list, err := Select("random:300:seed=7")
	assert.Must(t, err == nil && len(list) == 300, "%v %v", len(list), err)
	again, _ := Select("random:300:seed=7")
	other, _ := Select("random:300:seed=8")
	assert.That(t, slices.Equal(list, again) && !slices.Equal(list, other),
		"a seed does not name its shapes")
	hard, wide, tall := 0, 0, 0
	begin := map[int64]int{} // bytes at which rows of bf16 begin
	for _, s := range list {
		assert.That(t, DefaultDomain.Holds(s.M, s.N), "%s is not in the domain", s)
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
}
