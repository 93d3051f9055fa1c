// What the plain kernels share. Each of them is the definition of an op's pass, to be read first:
// a CTA per row, a thread per column, no vectors. Every macro has its default and its range here,
// so that a plain_*.cu compiles by itself.
#ifdef COLS // N in the launches of manifests; plain.go's have COLUMNS
#define COLUMNS COLS
#endif
#ifndef COLUMNS
#define COLUMNS 4096 // 1 to 16777216: N
#endif
#ifndef WARPS
#define WARPS 8 // 1 to 32, powers of 2: of a CTA
#endif
#include "common.cuh"

#ifndef COLS // with it common.cuh has THREADS
constexpr int THREADS = 32 * WARPS;
#endif

// The tensors that a problem may lack are null pointers.

// sumAt widens element i of x, or of x + res.
__device__ __forceinline__ float sumAt(const X *x, const X *res, i64 i) {
  return at<X_TYPE>(x + i) + (res ? at<X_TYPE>(res + i) : 0.f);
}

// weightAt is the factor of column c.
__device__ __forceinline__ float weightAt(const W *w, int c) {
  return (w ? at<W_TYPE>(w + c) : 1.f) + ZERO_CENTERED;
}

// biasAt is what is added in column c.
__device__ __forceinline__ float biasAt(const W *b, int c) { return b ? at<W_TYPE>(b + c) : 0.f; }

// sumOverCTA adds v over all threads, which all get the sum: by shuffles within each warp, then
// through shared memory.
__device__ __forceinline__ float sumOverCTA(float v) {
  __shared__ float part[WARPS];
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
  __syncthreads(); // part may still be read for the sum before
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0;
  for (int i = 0; i < WARPS; i++) v += part[i];
  return v;
}
