package nvrtc

import (
	_ "embed"
	"errors"
	"strings"
	"testing"

	"normbench/internal/assert"
)

// copies is a kernel of asynchronous copies, as our forwards have them, under a policy where POLICY
// says so.
//
//go:embed testdata/copies.cu
var copies string

func TestIllegalCopiesAreRefused(t *testing.T) {
	c := compiler(t)
	cache := NewCache(t.TempDir(), c)
	compile := func(policy, arch string) error {
		_, err := cache.Compile(Source{Name: "copies.cu", Text: copies}, CompileOptions{Arch: arch,
			Defines: []Macro{{"POLICY", policy}}})
		return err
	}
	assert.NoError(t, compile("0", "sm_90"))
	if major, minor := c.Version(); major != 13 || minor != 0 {
		t.Skipf("NVRTC %d.%d may know better than 13.0", major, minor)
	}
	var refused *CompileError
	for range 2 { // the second time from the cache
		err := compile("1", "sm_90")
		assert.That(t, errors.As(err, &refused) && strings.Contains(err.Error(), "cache policy"),
			"an instruction that no H200 takes was not found: %v", err)
	}
}
