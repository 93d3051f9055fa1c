// RMSNorm forward: y = x / rms(x) * w. One block for each row.
#include <cuda_bf16.h>

template <int THREADS, typename T>
__global__ void rms_block(const T *x, const T *w, T *y, int rows, int n, float eps) {
  __shared__ float sums[THREADS / 32];
  const T *in = x + (size_t)blockIdx.x * n;
  T *out = y + (size_t)blockIdx.x * n;

  float sum = 0.f;
  for (int i = threadIdx.x; i < n; i += THREADS) {
    float v = __bfloat162float(in[i]);
    sum += v * v;
  }
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0.f;
  for (int i = 0; i < THREADS / 32; i++) sum += sums[i];

  float scale = 1.0f / sqrtf(sum / n + eps);
  for (int i = threadIdx.x; i < n; i += THREADS)
    out[i] = __float2bfloat16(__bfloat162float(in[i]) * scale * __bfloat162float(w[i]));
}
