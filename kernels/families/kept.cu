// Lines that the L2 is asked to keep. No entry writes a tensor.

__device__ __forceinline__ long long thread() { return blockIdx.x * (long long)blockDim.x + threadIdx.x; }
__device__ __forceinline__ long long threads() { return gridDim.x * (long long)blockDim.x; }

// keep reads bytes of x and asks the L2 to keep them. Before sm_80 no load can ask for that.
extern "C" __global__ void keep(const uint4 *x, unsigned *never, long long bytes) {
  unsigned s = 0;
#if __CUDA_ARCH__ >= 800
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
#endif
  for (long long i = thread(); i < bytes / 16; i += threads()) {
    uint4 v;
#if __CUDA_ARCH__ >= 800
    asm volatile("ld.global.L2::cache_hint.v4.b32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(x + i), "l"(policy));
#else
    v = __ldcg(x + i);
#endif
    s += v.x ^ v.y ^ v.z ^ v.w;
  }
  if (s == 0x9e3779b9u) *never = s; // without a use the compiler drops the loads
}

// wash reads bytes of p plainly, as a flush that knows nothing of kept lines.
extern "C" __global__ void wash(const uint4 *p, unsigned *never, long long bytes) {
  unsigned s = 0;
  for (long long i = thread(); i < bytes / 16; i += threads()) {
    uint4 v = __ldcg(p + i);
    s += v.x ^ v.y ^ v.z ^ v.w;
  }
  if (s == 0x9e3779b9u) *never = s;
}
