// RMSNorm kernels in which a fault is planted, by number; 0 is right.
#include <cuda_bf16.h>

template <typename T> __device__ float inverse(const T *x, int n, float eps) {
  float sum = 0.f;
  for (int i = threadIdx.x; i < n; i += 32) {
    float v = (float)x[i];
    sum += v * v;
  }
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  return 1.0f / sqrtf(sum / n + eps);
}

// 1: stores into the next row's first column. 2: behind y's end too. 3: into the last of the row before.
template <int FAULT>
__global__ void spill(const __nv_bfloat16 *x, const __nv_bfloat16 *w, __nv_bfloat16 *y, int rows, int n, float eps) {
  size_t base = (size_t)blockIdx.x * n;
  float r = inverse(x + base, n, eps);
  for (int i = threadIdx.x; i < n; i += 32)
    y[base + i] = __float2bfloat16(__bfloat162float(x[base + i]) * r * __bfloat162float(w[i]));
  if (threadIdx.x > 0) return;
  if (FAULT == 1 && blockIdx.x + 1 < rows || FAULT == 2) y[base + n] = __float2bfloat16(7.f);
  if (FAULT == 3 && blockIdx.x > 0) y[base - 1] = __float2bfloat16(7.f);
}

// 1: the first CTA that comes stores another bit of its row's last element.
template <int FAULT>
__global__ void order(const float *x, const float *w, float *y, unsigned *seen, int n, float eps) {
  size_t base = (size_t)blockIdx.x * n;
  float r = inverse(x + base, n, eps);
  for (int i = threadIdx.x; i < n; i += 32)
    y[base + i] = x[base + i] * r * w[i];
  if (threadIdx.x > 0) return;
  unsigned *last = (unsigned *)(y + base + n - 1);
  if (atomicAdd(seen, 1u) == 0xffffffffu && FAULT) *last ^= 1;
}

// 1: waits for what nobody stores.
template <int FAULT>
__global__ void spin(const float *x, const float *w, float *y, unsigned *seen, int n, float eps) {
  while (FAULT && *(volatile unsigned *)seen == 0xffffffffu) {}
  order<0>(x, w, y, seen, n, eps);
}

// x and res are overwritten by y and their sum. 1: the sum is not stored. 2: changes the weight.
template <int FAULT>
__global__ void inplace(float *x, float *res, float *w, int n, float eps) {
  size_t base = (size_t)blockIdx.x * n;
  for (int i = threadIdx.x; res && i < n; i += 32) {
    x[base + i] += res[base + i];
    if (FAULT != 1) res[base + i] = x[base + i];
  }
  float r = inverse(x + base, n, eps);
  for (int i = threadIdx.x; i < n; i += 32)
    x[base + i] *= r * w[i];
  if (FAULT == 2 && blockIdx.x == 0 && threadIdx.x == 0) w[1] += 1.f;
}
