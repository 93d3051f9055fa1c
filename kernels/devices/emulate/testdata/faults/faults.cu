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

// warpSum sums over a warp, which may have fewer lanes than 32.
__device__ float warpSum(float v) {
  int lane = threadIdx.x % 32, live = min(32, (int)(blockDim.x - threadIdx.x / 32 * 32));
  unsigned mask = live == 32 ? 0xffffffffu : (1u << live) - 1;
  for (int d = 16; d > 0; d /= 2) {
    float other = __shfl_down_sync(mask, v, d);
    if (lane + d < live) v += other;
  }
  return __shfl_sync(mask, v, 0);
}

// 1: the last warp, which is not full, is left out. 2: shuffles of it name lanes that do not exist. 3: all lanes
// store what only the first has. 4: half of a warp shuffles, for all of it.
template <int FAULT> __device__ float blockSum(float v) {
  __shared__ float part[32];
  int lane = threadIdx.x % 32, warps = FAULT == 1 ? blockDim.x / 32 : (blockDim.x + 31) / 32;
  if (FAULT == 2)
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
  else if (FAULT == 3)
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
  else if (FAULT == 4 && threadIdx.x < 32 && lane < 16)
    v = __shfl_xor_sync(0xffffffffu, v, 8);
  else v = warpSum(v);
  if (FAULT == 3 || lane == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0.f;
  for (int i = 0; i < warps; i++) v += part[i];
  __syncthreads();
  return v;
}

// 1 to 4: those of blockSum. 5: reads what an earlier CTA stores. 6: a vector in shared memory is not aligned.
// 7: reads the weight's next element, for nothing.
template <int FAULT>
__global__ void lanes(const float *x, const float *w, float *y, int n, float eps) {
  extern __shared__ float kept[];
  size_t base = (size_t)blockIdx.x * n;
  float sum = 0.f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[base + i] * x[base + i];
  if (FAULT == 6) *(float4 *)(kept + 1 + 4 * threadIdx.x) = make_float4(sum, 0.f, 0.f, 0.f);
  float r = 1.0f / sqrtf(blockSum<FAULT>(sum) / n + eps);
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    float v = x[base + i] * r * w[i];
    if (FAULT == 5 && blockIdx.x > 0) v += 0.f * y[base + i - n];
    if (FAULT == 7) v += 0.f * w[i + 1];
    y[base + i] = v;
  }
}

// One warp stores the scale that both read. 1: no barrier behind the first warp's store. 2: none behind the second's.
// 3: each warp reads what its first lane stores, with no barrier of the warp.
template <int FAULT>
__global__ void handoff(const float *x, const float *w, float *y, int n, float eps) {
  __shared__ float r, own[2];
  size_t base = (size_t)blockIdx.y * n;
  if (threadIdx.x / 32 == (FAULT == 2) || FAULT == 3) {
    float sum = 0.f;
    for (int i = threadIdx.x % 32; i < n; i += 32) sum += x[base + i] * x[base + i];
    sum = warpSum(sum);
    if (threadIdx.x % 32 == 0) (FAULT == 3 ? own[threadIdx.x / 32] : r) = 1.0f / sqrtf(sum / n + eps);
  }
  if (FAULT == 0) __syncthreads();
  float scale = FAULT == 3 ? own[threadIdx.x / 32] : r;
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[base + i] = x[base + i] * scale * w[i];
}

// RMSNorm's backward; each CTA adds its row to dw. 1: by a load and a store. 2: the last CTA, of a counter, scales dw.
template <int FAULT>
__global__ void adds(const float *x, const float *dy, const float *w, const float *rstd, float *dx, float *dw, unsigned *count, int n) {
  size_t base = (size_t)blockIdx.x * n;
  float r = rstd[blockIdx.x], a = 0.f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) a += dy[base + i] * w[i] * x[base + i] * r;
  a = blockSum<0>(a) / n;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    float xhat = x[base + i] * r;
    dx[base + i] = r * (dy[base + i] * w[i] - xhat * a);
    if (FAULT == 1) dw[i] += dy[base + i] * xhat;
    else atomicAdd(dw + i, dy[base + i] * xhat);
  }
  if (FAULT != 2) return;
  __shared__ bool last;
  __threadfence();
  if (threadIdx.x == 0) last = atomicAdd(count, 1u) == gridDim.x - 1;
  __syncthreads();
  if (last)
    for (int i = threadIdx.x; i < n; i += blockDim.x) dw[i] = 1.f * dw[i];
}

// LayerNorm's backward, by partial rows of three CTAs. 1: nobody clears them. 2: stores into the next row of dx. 3: dy
// becomes g. 4: the scale of tiny rows is limited.
template <int FAULT>
__global__ void parts(const float *x, float *dy, const float *w, const float *rstd, const float *mean, float *dx, float *dw,
                      float *db, int rows, int n) {
  dw += (size_t)blockIdx.x * n, db += (size_t)blockIdx.x * n;
  for (int i = threadIdx.x; FAULT != 1 && i < n; i += blockDim.x) dw[i] = db[i] = 0.f;
  for (int row = blockIdx.x; row < rows; row += gridDim.x) {
    size_t base = (size_t)row * n;
    float r = FAULT == 4 ? fminf(rstd[row], 100.f) : rstd[row], mu = mean[row], a = 0.f, b = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
      float g = dy[base + i] * w[i];
      a += g * (x[base + i] - mu) * r, b += g;
    }
    a = blockSum<0>(a) / n, b = blockSum<0>(b) / n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
      float d = dy[base + i], xhat = (x[base + i] - mu) * r;
      dx[base + i] = r * (d * w[i] - b - xhat * a);
      dw[i] += d * xhat, db[i] += d;
      if (FAULT == 3) dy[base + i] = d * w[i];
    }
    if (FAULT == 2 && threadIdx.x == 0 && row + 1 < rows) dx[base + n] = 0.f;
  }
}

// 5: adds a part that does not exist. 6: a NaN becomes 0. 7: does not store db.
template <int FAULT>
__global__ void sumParts(const float *parts, const float *biasParts, float *dw, float *db, int count, int n) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= n) return;
  float a = 0.f, b = 0.f;
  for (int i = 0; i < count + (FAULT == 5); i++) a += parts[i * n + c], b += biasParts[i * n + c];
  dw[c] = FAULT == 6 && isnan(a) ? 0.f : a;
  if (FAULT != 7) db[c] = b;
}
