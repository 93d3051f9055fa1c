// RMSNorm forward, a warp to a row.
//
//   x (M,N), [w (N)] -> y (M,N), rstd (M) fp32
//
// Bytes: x once, y once; w comes from the caches. Each lane holds EACH vectors of
// its row in registers (a define of rms_warp.yaml), so narrow rows need neither
// shared memory nor a barrier. common.cuh is normbench's: element types, vectors,
// weights.
#include "common.cuh"

extern "C" __global__ void BOUNDS(THREADS)
rms_warp(const X *x, const W *w, X *y, float *rstd, i64 rows, float eps) {
  i64 row = (i64)blockIdx.x * WARPS + threadIdx.x / 32;
  int lane = threadIdx.x % 32;
  if (row >= rows) return; // the whole warp
  x += row * COLS;
  y += row * COLS;

  RowVec v[EACH];
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    int at = lane + 32 * i;
    v[i] = at < VECS ? loadRow<VECTOR_BYTES>(x + at * VEC) : zero<VECTOR_BYTES>();
  }
  float s = 0.f;
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    float f[VEC];
    unpackX(v[i], f);
#pragma unroll
    for (int j = 0; j < VEC; j++) s += f[j] * f[j];
  }
#pragma unroll
  for (int d = 16; d > 0; d /= 2) s += __shfl_xor_sync(0xffffffffu, s, d);
  float rs = 1.0f / sqrtf(s * INV_COLS + eps);
  if (lane == 0) rstd[row] = rs;
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    int at = lane + 32 * i;
    if (at < VECS) {
      float f[VEC], wf[VEC];
      unpackX(v[i], f);
      weights(loadW(w, at * VEC), wf);
#pragma unroll
      for (int j = 0; j < VEC; j++) f[j] *= rs * wf[j];
      store<VECTOR_BYTES>(y + at * VEC, pack<X_TYPE, VEC>(f));
    }
  }
}
