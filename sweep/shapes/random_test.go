package shapes

import (
	"slices"
	"strings"
	"testing"

	"normbench/internal/hint"
)

func TestRandom(t *testing.T) {
	list, err := Select("random:300:seed=7")
	if err != nil || len(list) != 300 {
		t.Fatal(len(list), err)
	}
	again, _ := Select("random:300:seed=7")
	other, _ := Select("random:300:seed=8")
	if !slices.Equal(list, again) || slices.Equal(list, other) {
		t.Error("a seed does not name its shapes")
	}
	hard, wide, tall := 0, 0, 0
	begin := map[int64]int{} // bytes at which rows of bf16 begin
	for _, s := range list {
		if !Everything.Holds(s.M, s.N) {
			t.Errorf("%s is not in the domain", s)
		}
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
	if hard < 75 || wide < 40 || tall < 40 {
		t.Errorf("%d odd or of few rows, %d wide, %d tall of 300", hard, wide, tall)
	}
	if begin[2] < 50 || begin[4] < 8 || begin[8] < 8 || begin[16] < 100 {
		t.Errorf("rows begin at %v", begin)
	}
	if list, err := Select("random:5:M=3:9;N=100,64x64"); err != nil || len(list) != 6 || list[0].N != 100 {
		t.Error(list, err)
	}
	if list, err := Select("random:500:M=1:2;N=64"); err != nil || len(list) != 2 {
		t.Error(list, err)
	}
}

func TestParseDomain(t *testing.T) {
	d, err := ParseDomain("M=2:1Mi,N=64")
	if want := (Domain{2, 1 << 20, 64, 64, 1 << 28}); err != nil || d != want {
		t.Error(d, err)
	}
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
		if _, err := ParseDomain(text); err == nil || !strings.Contains(err.Error(), want) || hint.Of(err) == "" {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	for _, text := range []string{"random:", "random:0", "random:x", "random:3:seed=a", "random:3:M=9:8", "random:99999999"} {
		if _, err := Select(text); err == nil || hint.Of(err) == "" {
			t.Errorf("%q: got %v", text, err)
		}
	}
}
