// Forward, one pass: a group of threads holds a whole row in registers.
//
//   x (M,N), w (N), [b (N)] -> y (M,N), rstd (M) fp32, [mean (M) fp32]
//
// Bytes: x once, y once; w stays in L1/L2. A program of WARPS warps handles
// BLOCK_ROWS rows at a time, WARPS*32/BLOCK_ROWS threads to a row; each thread
// holds L vectors of it, packed as they came. Layernorm takes the mean first
// and then the centred squares, as the row is at hand. With fewer programs
// than tiles of rows, programs stride over the tiles; STAGES = 2 then loads
// the next tile's rows before it finishes this one's.
#include "common.cuh"

constexpr int TPR = THREADS / BLOCK_ROWS;
constexpr int L = cdiv(VECS, TPR);

struct Row { RowVec v[L]; };

__device__ __forceinline__ bool inside(int i) {
  return VECS % TPR == 0 || threadIdx.x % TPR + i * TPR < VECS;
}

__device__ __forceinline__ void fetch(Row &r, const X *x, i64 row, i64 rows) {
#pragma unroll
  for (int i = 0; i < L; i++)
    r.v[i] = row < rows && inside(i) ? load<VECTOR_BYTES>(x + row * COLS + (i64)(threadIdx.x % TPR + i * TPR) * VEC)
                                     : zero<VECTOR_BYTES>();
}

extern "C" __global__ void __launch_bounds__(THREADS)
cta_reg(const X *x, const X *res, const W *w, const W *b, X *y, X *resout, float *rstd, float *mean, i64 rows, float eps) {
  int lane = threadIdx.x % TPR;
  i64 stride = (i64)gridDim.x * BLOCK_ROWS;
  i64 row = (i64)blockIdx.x * BLOCK_ROWS + threadIdx.x / TPR;
  int phase = 0;
  Row r;
  fetch(r, x, row, rows);
  for (i64 first = (i64)blockIdx.x * BLOCK_ROWS; first < rows; first += stride, row += stride) {
    Row next;
    if (STAGES == 2) fetch(next, x, row + stride, rows);

    float mu = 0.f, s[1] = {0.f}, f[VEC];
#if LAYERNORM
#pragma unroll
    for (int i = 0; i < L; i++) {
      unpackX(r.v[i], f);
#pragma unroll
      for (int j = 0; j < VEC; j++) s[0] += f[j];
    }
    sumOver<1, TPR>(s, 0);
    mu = s[0] * INV_COLS;
    s[0] = 0.f;
#endif
#pragma unroll
    for (int i = 0; i < L; i++)
      if (inside(i)) {
        unpackX(r.v[i], f);
#pragma unroll
        for (int j = 0; j < VEC; j++) s[0] += (f[j] - mu) * (f[j] - mu);
      }
    // Layernorm's two reductions alternate phases within a row, rmsnorm's one
    // from row to row.
    sumOver<1, TPR>(s, LAYERNORM ? 1 : phase);
    phase ^= 1;
    float rs = 1.0f / sqrtf(s[0] * INV_COLS + eps);

    if (row < rows) {
      if (lane == 0) {
        rstd[row] = rs;
#if LAYERNORM
        mean[row] = mu;
#endif
      }
#pragma unroll
      for (int i = 0; i < L; i++)
        if (inside(i)) {
          i64 c = (i64)(lane + i * TPR) * VEC;
          float wf[VEC];
          unpackX(r.v[i], f);
          weights(load<W_BYTES>(w + c), wf);
#pragma unroll
          for (int j = 0; j < VEC; j++) f[j] = (f[j] - mu) * rs * wf[j];
#if HAS_BIAS
          float bf[VEC];
          unpack<W_TYPE, VEC>(load<W_BYTES>(b + c), bf);
#pragma unroll
          for (int j = 0; j < VEC; j++) f[j] += bf[j];
#endif
          store<VECTOR_BYTES>(y + row * COLS + c, pack<X_TYPE, VEC>(f));
        }
    }
    if (STAGES == 2) r = next;
    else if (first + stride < rows) fetch(r, x, row + stride, rows);
  }
}
