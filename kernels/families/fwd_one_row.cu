// RMSNorm forward, one CTA for a row. The second kernel to read, after plain_rms_fwd.cu.
//
//   x (M,N), [w (N)], [b (N)] -> y (M,N), rstd (M) fp32
//
//   rstd = 1/sqrt(mean(x²) + eps),  y = x*rstd*w + b
//
// The grid has M CTAs. common.cuh has vectors: RowVec is one of the row, packed, of VEC elements.
//
// Bytes: x once, y once; w and b are in a cache after the first row.
//
// Three things are faster here than in the plain kernel. The other designs do them too.
// - An instruction moves a vector of VECTOR_BYTES, not one element: as many as 16 bytes.
// - A thread keeps its vectors of the row in registers, from the sum of squares to y.
// - It loads all of them before it uses the first, so that their ways from memory overlap.
//
// A thread's vectors are THREADS apart, so neighbouring threads read and write neighbouring vectors.
// They are kept packed as they came, since floats would take twice the registers. fwd_cta_reg.cu is next:
// several rows in a CTA, the next ones on their way, layernorm, a residual, odd lengths, fp8.
#ifndef COLS
#define COLS 4096 // 1 to 16777216: N
#endif
#ifndef WARPS
#define WARPS 8 // 1 to 32, powers of 2: of a CTA
#endif
#ifndef VECTOR_BYTES
#define VECTOR_BYTES 16 // 2 to 16, powers of 2: of a thread's load or store
#endif
#include "common.cuh"

constexpr int L = cdiv(VECS, THREADS); // vectors that a thread has of the row

// sumOverCTA adds v over all threads, which all get the sum: by shuffles within each warp, then
// through shared memory. The plain kernel's has one __syncthreads more, as its CTAs come back with the
// next row. A CTA calls this one once.
__device__ __forceinline__ float sumOverCTA(float v) {
  __shared__ float part[WARPS];
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0;
  for (int i = 0; i < WARPS; i++) v += part[i];
  return v;
}

extern "C" __global__ void __launch_bounds__(THREADS)
one_row(const X *x, const W *w, const W *b, X *y, float *rstd, float eps) {
  i64 row = blockIdx.x;
  x += row * COLS;
  y += row * COLS;

  // Vector i of the thread starts at column at[i]. All loops over i are unrolled: the compiler keeps an
  // array in registers only if it knows each index.
  int at[L];
  RowVec held[L];
#pragma unroll
  for (int i = 0; i < L; i++) {
    at[i] = (threadIdx.x + i * THREADS) * VEC;
    held[i] = at[i] < COLS ? load<VECTOR_BYTES>(x + at[i]) : zero<VECTOR_BYTES>();
  }

  float squares = 0;
#pragma unroll
  for (int i = 0; i < L; i++) {
    float f[VEC];
    unpackX(held[i], f); // zeros behind the row's end add nothing
#pragma unroll
    for (int j = 0; j < VEC; j++) squares += f[j] * f[j];
  }
  float r = 1 / sqrtf(sumOverCTA(squares) * INV_COLS + eps);
  if (threadIdx.x == 0) rstd[row] = r;

#pragma unroll
  for (int i = 0; i < L; i++)
    if (at[i] < COLS) {
      float f[VEC], factors[VEC], bias[VEC];
      unpackX(held[i], f);
      weights(loadW(w, at[i]), factors);
      unpack<W_TYPE, VEC>(HAS_BIAS ? load<W_BYTES>(b + at[i]) : zero<W_BYTES>(), bias);
#pragma unroll
      for (int j = 0; j < VEC; j++) f[j] = f[j] * r * factors[j] + bias[j];
      store<VECTOR_BYTES>(y + at[i], pack<X_TYPE, VEC>(f));
    }
}
