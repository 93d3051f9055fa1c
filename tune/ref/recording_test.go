package ref

import (
	"path/filepath"
	"slices"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/sweep/record"
)

// A selector stands for the outcomes of a family, of a config, of peers or of the base.
func TestSelectorStandsForItsOutcomes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "records.jsonl")
	assert.Write(t, file, "")
	variant := func(family, label string) kernels.Variant {
		c, err := kernels.ParseConfig(label)
		assert.NoError(t, err)
		return kernels.Variant{Family: family, Config: c}
	}
	outcomes := []*record.Outcome{{Variant: variant("rms_fwd/cta_reg", "w4"), Base: true, Default: true},
		{Variant: variant("rms_fwd/cta_reg", "w8")}, {Variant: kernels.PeerVariant("torch")},
		{Variant: kernels.PeerVariant("liger")}}
	s := &Resolver{Registry: families.New()}
	for selector, want := range map[string][]int{
		"": {0, 1}, "#base": {0}, "#default": {0}, "#peers": {2, 3}, "#peer:best": {2, 3}, "#peer:torch": {2},
		"#rms_fwd/cta_reg": {0, 1}, "#rms_fwd/cta_reg@w8": {1}, "#rms_fwd/warp": nil,
	} {
		r, err := s.ParseRecording(file + selector)
		assert.NoError(t, err, selector)
		var got []int
		for i, x := range outcomes {
			if r.Keeps(x) {
				got = append(got, i)
			}
		}
		assert.That(t, slices.Equal(got, want) && r.Path == file && r.All == (selector == ""),
			"%q keeps %v, want %v: %+v", selector, got, want, r)
	}
	r, err := s.ParseRecording("tuned:t.json")
	assert.That(t, err == nil && r.Tuned && r.Path == "t.json", "a table: %+v, %v", r, err)
	for text, want := range map[string]string{
		file + "#":        "nothing stands behind the # of " + file + "#",
		file + "#family@": "nothing stands behind the @ of #family@",
		"base":            "base is not recorded, and compare takes recorded operands",
		"nosuch":          "no records at nosuch",
	} {
		_, err := s.ParseRecording(text)
		assert.That(t, err != nil && err.Error() == want, "%s: %v, want %q", text, err, want)
	}
}
