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
