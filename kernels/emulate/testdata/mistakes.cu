extern "C" __global__ void k(const float *x, float *y, long long n, long long which) {
  const int t = threadIdx.x;
  switch (which) {
    case 0: // beyond x
      if (t < 12) y[t] = x[t + 1];
      break;
    case 1: // before y
      y[t - 1] = x[0];
      break;
    case 2: // no vector begins there
      y[0] = __ldg((const float4 *)(x + 1)).x;
      break;
    case 3: // not all threads come to the barrier
      if (t < 20) __syncthreads();
      else __syncwarp();
      break;
    case 4: // nobody writes what is waited for
      while (*(volatile float *)y != 7.f) __nanosleep(1);
      break;
    case 5:
      __builtin_assume(t < 5);
      break;
    case 6: { // nobody waits for the copy
      __shared__ unsigned long long b;
      __shared__ __align__(16) float s[4];
      unsigned to = __cvta_generic_to_shared(s), at = __cvta_generic_to_shared(&b);
      if (t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(1) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                     "l"(x), "r"(16), "r"(at)
                     : "memory");
      }
      break;
    }
    case 7: { // right
      __shared__ float s[44];
      s[t] = x[t % n];
      __syncthreads();
      if (t < 12) y[t] = s[(t + 1) % 12];
      break;
    }
  }
}
