package nvrtc

import (
	"errors"
	"strings"
	"testing"

	"normbench/internal/assert"
)

// copies is a kernel of asynchronous copies, as our forwards have them, under a policy where POLICY
// says so.
const copies = `
extern "C" __global__ void copies(const char *x, float *y) {
  extern __shared__ float s[];
  unsigned to = (unsigned)__cvta_generic_to_shared(s) + threadIdx.x * 16;
  for (int i = 0; i < 4; i++)
#if POLICY
  {
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(to + i * 2048), "l"(x + (threadIdx.x + i * 128) * 16), "l"(policy) : "memory");
  }
#else
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + i * 2048), "l"(x + (threadIdx.x + i * 128) * 16) : "memory");
#endif
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x];
}
`

func TestIllegalCopies(t *testing.T) {
	c := compiler(t)
	cache := NewCache(t.TempDir(), c)
	compile := func(policy, arch string) error {
		_, err := cache.Compile(Source{Name: "copies.cu", Text: copies}, Options{Arch: arch,
			Defines: []Define{{"POLICY", policy}}})
		return err
	}
	err := compile("0", "sm_90")
	assert.That(t, err == nil, "%v", err)
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
