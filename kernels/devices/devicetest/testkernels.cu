// Kernels that misbehave on purpose: what a device and its checks must notice.
//
//   x (M,N), w (N), [b (N)] -> y (M,N), rstd (M) fp32
//
// A rmsnorm forward of one warp per row, each with one fault: see the entries.
// Slow and simple; eps and sizes are arguments.
#include "common.cuh"

__device__ float at(const X *p, i64 i) {
  float v[1];
  unpack<X_TYPE, 1>(load<sizeof(X)>(p + i), v);
  return v[0];
}

__device__ float weight(const W *p, i64 i) {
  float v[1];
  unpack<W_TYPE, 1>(load<sizeof(W)>(p + i), v);
  return v[0];
}

// norm writes the rows of this CTA, but for element skip, and returns rstd.
__device__ void norm(const X *x, const W *w, const W *b, X *y, float *rstd, i64 rows, i64 cols, float eps, i64 skip) {
  for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
    float s = 0.f;
    for (i64 c = threadIdx.x; c < cols; c += 32) s += at(x, row * cols + c) * at(x, row * cols + c);
    for (int d = 16; d > 0; d /= 2) s += __shfl_xor_sync(0xffffffffu, s, d);
    float rs = 1.0f / sqrtf(s / cols + eps);
    if (threadIdx.x == 0) rstd[row] = rs;
    for (i64 c = threadIdx.x; c < cols; c += 32) {
      if (row * cols + c == skip) continue;
      float v[1] = {at(x, row * cols + c) * rs * (weight(w, c) + ZERO_CENTERED)};
      if (HAS_BIAS) v[0] += weight(b, c);
      store<sizeof(X)>(y + row * cols + c, pack<X_TYPE, 1>(v));
    }
  }
}

// wrong: one element of y is 1000.
extern "C" __global__ void wrong(const X *x, const W *w, const W *b, X *y, float *rstd, i64 rows, i64 cols, i64 element, float eps) {
  norm(x, w, b, y, rstd, rows, cols, eps, element);
  float v[1] = {1000.f};
  if (blockIdx.x == 0 && threadIdx.x == 0) store<sizeof(X)>(y + element, pack<X_TYPE, 1>(v));
}

// unwritten: one element of y is left as it was.
extern "C" __global__ void unwritten(const X *x, const W *w, const W *b, X *y, float *rstd, i64 rows, i64 cols, i64 element, float eps) {
  norm(x, w, b, y, rstd, rows, cols, eps, element);
}

// spin: never ends.
extern "C" __global__ void spin(const X *x, const W *w, const W *b, X *y, float *rstd, i64 rows, i64 cols, i64 element, float eps) {
  for (;;) asm volatile("nanosleep.u32 1000;");
}

// crash: writes to an address that is nobody's.
extern "C" __global__ void crash(const X *x, const W *w, const W *b, X *y, float *rstd, i64 rows, i64 cols, i64 element, float eps) {
  *(volatile int *)16 = 1;
}

// racy: right within the tolerance, but the last bit of one rstd is another in
// every second run. A counter, since the bits of a clock may agree by chance.
__device__ u32 runs;
extern "C" __global__ void racy(const X *x, const W *w, const W *b, X *y, float *rstd, i64 rows, i64 cols, i64 element, float eps) {
  norm(x, w, b, y, rstd, rows, cols, eps, -1);
  if (blockIdx.x == 0 && threadIdx.x == 0) rstd[0] = __uint_as_float(__float_as_uint(rstd[0]) ^ (atomicAdd(&runs, 1u) & 1u));
}

// spoiling: right, but one element of x, its input, is another afterwards. Its rows are read before.
extern "C" __global__ void spoiling(X *x, const W *w, const W *b, X *y, float *rstd, i64 rows, i64 cols, i64 element, float eps) {
  norm(x, w, b, y, rstd, rows, cols, eps, -1);
  __syncwarp();
  if (blockIdx.x != element / cols % gridDim.x || threadIdx.x != 0) return;
  float v[1] = {-at(x, element) - 1};
  store<sizeof(X)>(x + element, pack<X_TYPE, 1>(v));
}

// overrun: right, but the first element behind y is written too.
extern "C" __global__ void overrun(const X *x, const W *w, const W *b, X *y, float *rstd, i64 rows, i64 cols, i64 element, float eps) {
  norm(x, w, b, y, rstd, rows, cols, eps, -1);
  float v[1] = {1.f};
  if (blockIdx.x == 0 && threadIdx.x == 0) store<sizeof(X)>(y + rows * cols, pack<X_TYPE, 1>(v));
}

// lazy: right in its first four runs, then it does nothing. The blocks of a run may see the
// counter move: what counts is that it stops.
__device__ u32 lazyRuns;
extern "C" __global__ void lazy(const X *x, const W *w, const W *b, X *y, float *rstd, i64 rows, i64 cols, i64 element, float eps) {
  if (*(volatile u32 *)&lazyRuns >= 4 * gridDim.x) return;
  norm(x, w, b, y, rstd, rows, cols, eps, -1);
  if (threadIdx.x == 0) atomicAdd(&lazyRuns, 1u);
}
