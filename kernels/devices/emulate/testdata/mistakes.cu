extern "C" __global__ void k(const float *x, float *y, long long n, long long which) {
  const int t = threadIdx.x;
  switch (which) {
    case 0: // beyond x
      if (t < n) y[t] = x[t + 1];
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
      if (t < n) y[t] = s[(t + 1) % n];
      break;
    }
    case 8: // within what makes the buffer a multiple of 16 bytes
      if (t == 0) y[n + 2] = x[0];
      break;
    case 9: { // a plain load of a vector
      float4 v = *reinterpret_cast<const float4 *>(x + 1);
      y[0] = v.x + v.w;
      break;
    }
    case 10: { // a plain store of a vector, to shared memory
      __shared__ __align__(16) float s[64];
      *reinterpret_cast<float4 *>(s + 4 * t % 32 + 2) = make_float4(1.f, 2.f, 3.f, 4.f);
      __syncthreads();
      y[0] = s[3];
      break;
    }
    case 11: { // an asynchronous copy whose last bytes are beyond
      __shared__ __align__(16) float s[4];
      unsigned to = __cvta_generic_to_shared(s);
      if (t == 0) asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(x + 12), "r"(16) : "memory");
      break;
    }
    case 12: { // a bulk copy
      __shared__ unsigned long long b;
      __shared__ __align__(16) float s[16];
      unsigned to = __cvta_generic_to_shared(s), at = __cvta_generic_to_shared(&b);
      if (t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(1) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                     "l"(x), "r"(64), "r"(at)
                     : "memory");
      }
      break;
    }
    case 13: { // an array in shared memory
      __shared__ float s[40];
      s[t] = x[0];
      break;
    }
    case 14: { // dynamic shared memory, of 64 bytes
      extern __shared__ float d[];
      d[t] = x[0];
      break;
    }
    case 15: { // nobody has cleared shared memory
      __shared__ float s[4];
      __builtin_assume(s[t % 4] == s[t % 4]);
      break;
    }
    case 16: { // nor that
      extern __shared__ float d[];
      __builtin_assume(d[t % 16] == d[t % 16]);
      break;
    }
    case 17: // the lock is never free
      if (t == 0) y[0] = -1.f;
      __syncthreads();
      while (atomicCAS((int *)y, 0, 1) != 0) {}
      break;
    case 18: { // a pointer of nothing
      const float *none = (const float *)(which - 18);
      y[0] = none[t];
      break;
    }
    case 19: // so far that no buffer is near
      y[0] = x[(long long)t - (1ll << 40)];
      break;
  }
}
