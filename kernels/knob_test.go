package kernels_test

import (
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
)

// The label is read by cutting at the first digit and looked up by key or name: one with a digit in it,
// or two alike, would make labels ambiguous.
func TestKnobNamesAreUnambiguous(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range kernels.Knobs() {
		assert.That(t, strings.Trim(k.Key, "abcdefghijklmnopqrstuvwxyz") == "" && k.Key != "" &&
			k.Doc != "", "knob %+v: want a key of letters, and a doc", k)
		assert.That(t, strings.Trim(k.Name, "abcdefghijklmnopqrstuvwxyz_") == "", "%s has more than letters and _", k.Name)
		for _, s := range []string{k.Key, k.Name, k.Macro} {
			assert.That(t, s == "" || !seen[s], "%q names two knobs", s)
			seen[s] = true
		}
		for _, s := range []string{k.Key, k.Name} {
			got, err := kernels.FindKnob(s)
			assert.That(t, err == nil && got == k, "FindKnob(%q) = %v, %v", s, got, err)
		}
	}
	_, err := kernels.FindKnob("BLOCK_ROWS")
	assert.That(t, err != nil, "a macro is no name of a knob")
}

func FuzzParseConfig(f *testing.F) {
	for _, s := range []string{"br4.bc1024.w8.st2.p264", "w8.br4", "sp0.p0", "br1.st2.w8.st3",
		"br4.", "br4..w8", "w2147483648", "br004",
		"warps8.block_rows4"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := kernels.ParseConfig(s)
		if err != nil {
			assert.Equal(t, c, (kernels.Config{}), "ParseConfig", s, "failed with")
			return
		}
		back, err := kernels.ParseConfig(c.String())
		assert.That(t, err == nil && back == c,
			"%q parsed as %q, which reads back as %q (%v)", s, c, back, err)
		assert.Equal(t, kernels.NewConfig(c.Settings()...), c, "settings that make")
		n := strings.Count(s, ".") + 1
		assert.That(t, s == "" || len(c.Settings()) == n,
			"%q has %d parts, but sets %d knobs", s, n, len(c.Settings()))
	})
}

// A user's knob is in capitals in labels, where any may stand; its order does not depend on which
// came first.
func TestUserKnobsKeepTheirOrder(t *testing.T) {
	_, err1 := kernels.UserKnob("vec", "")
	tpb, err2 := kernels.UserKnob("tpb", "threads")
	again, err3 := kernels.UserKnob("TPB", "other words")
	assert.Must(t, err1 == nil && err2 == nil && err3 == nil && again == tpb &&
		tpb.Doc == "threads", "%v %v %v, %+v", err1, err2, err3, again)
	c, err := kernels.ParseConfig("VEC8.br4.TPB256.NEW_ONE0")
	assert.Must(t, err == nil && c.String() == "br4.NEW_ONE0.TPB256.VEC8" && c.Get(tpb) == 256,
		"%v, %v", c, err)
	k, err := kernels.FindKnob("tpb")
	assert.That(t, err == nil && k == tpb && slices.Contains(kernels.Knobs(), tpb),
		"%+v, %v", k, err)
	assert.Equal(t, c.Unpack().String(), c.String(), "laid out")
	long, err := kernels.ParseConfig("vec8.block_rows4.tpb256.NEW_ONE0")
	assert.That(t, err == nil && long == c, "by name it is %s, %v", long, err)
	_, err = kernels.ParseConfig("Tpb256")
	assert.Error(t, err, `unknown knob "Tpb"`)
}
