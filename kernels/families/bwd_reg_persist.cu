// Backward, persistent: the row and the weight gradient live in registers.
//
//   x, dy (M,N), w (N), rstd (M), [mean (M)] -> dx (M,N), partial sums of dw
//   and db (programs,N) fp32, which k2 (reduce.cu) adds up
//
// Bytes: x, dy and dx once; 8 bytes per partial element, written here and read
// by k2. A program walks over tiles of BLOCK_ROWS rows, gridDim.x tiles apart,
// WARPS*32/BLOCK_ROWS threads to a row. One reduction per row, layernorm's two
// sums together: with g = dy*w and xhat = (x-mean)*rstd,
//
//   dx = rstd*(g - xhat*sum(g*xhat)/N - sum(g)/N)    (rmsnorm: no last term)
//
// STAGES = 2 loads the next tile's x and dy before this tile's reduction, at
// twice the registers for them.
#include "common.cuh"

constexpr int TPR = THREADS / BLOCK_ROWS;
constexpr int L = cdiv(VECS, TPR);
constexpr int K = LAYERNORM ? 2 : 1;

struct Row { RowVec x[L], dy[L]; float rs, mu; };

__device__ __forceinline__ bool inside(int i) {
  return VECS % TPR == 0 || threadIdx.x % TPR + i * TPR < VECS;
}

__device__ __forceinline__ i64 column(int i) { return (i64)(threadIdx.x % TPR + i * TPR) * VEC; }

__device__ __forceinline__ void fetch(Row &r, const X *x, const X *dy, const float *rstd, const float *mean, i64 row, i64 rows) {
#pragma unroll
  for (int i = 0; i < L; i++) {
    bool in = row < rows && inside(i);
    r.x[i] = in ? load<VECTOR_BYTES>(x + row * COLS + column(i)) : zero<VECTOR_BYTES>();
    r.dy[i] = in ? load<VECTOR_BYTES>(dy + row * COLS + column(i)) : zero<VECTOR_BYTES>();
  }
  r.rs = row < rows ? __ldg(rstd + row) : 0.f;
  r.mu = LAYERNORM && row < rows ? __ldg(mean + row) : 0.f;
}

// write stores the program's partial row: the groups of threads add into
// shared memory one after the other, so that the order is always the same.
__device__ __forceinline__ void write(float *partial, const float (&acc)[L][VEC]) {
  extern __shared__ float merged[];
  float *out = partial + (i64)blockIdx.x * COLS;
  for (int g = 0; g < BLOCK_ROWS; g++) {
    if (threadIdx.x / TPR == g) {
#pragma unroll
      for (int i = 0; i < L; i++)
        if (inside(i)) {
#pragma unroll
          for (int j = 0; j < VEC; j++) {
            i64 c = column(i) + j;
            float v = acc[i][j];
            if (g > 0) v += merged[c];
            if (g < BLOCK_ROWS - 1) merged[c] = v;
            else out[c] = v;
          }
        }
    }
    if (BLOCK_ROWS > 1) __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
reg_persist(const X *x, const X *dy, const X *dres, const W *w, const W *b, const float *rstd, const float *mean, X *dx,
            float *dw_partial, float *db_partial, i64 rows) {
  Raw<W_BYTES> wraw[L];
  float dw[L][VEC], db[HAS_BIAS ? L : 1][VEC];
#pragma unroll
  for (int i = 0; i < L; i++) {
    wraw[i] = inside(i) ? load<W_BYTES>(w + column(i)) : zero<W_BYTES>();
#pragma unroll
    for (int j = 0; j < VEC; j++) {
      dw[i][j] = 0.f;
      if (HAS_BIAS) db[i][j] = 0.f;
    }
  }
  i64 stride = (i64)gridDim.x * BLOCK_ROWS;
  i64 row = (i64)blockIdx.x * BLOCK_ROWS + threadIdx.x / TPR;
  int phase = 0;
  Row r;
  fetch(r, x, dy, rstd, mean, row, rows);
  for (i64 first = (i64)blockIdx.x * BLOCK_ROWS; first < rows; first += stride, row += stride) {
    Row next;
    if (STAGES == 2) fetch(next, x, dy, rstd, mean, row + stride, rows);

    float s[K];
#pragma unroll
    for (int k = 0; k < K; k++) s[k] = 0.f;
#pragma unroll
    for (int i = 0; i < L; i++) {
      float xf[VEC], g[VEC], wf[VEC];
      unpackX(r.x[i], xf);
      unpackX(r.dy[i], g);
      weights(wraw[i], wf);
#pragma unroll
      for (int j = 0; j < VEC; j++) {
        float xhat = (xf[j] - r.mu) * r.rs;
        dw[i][j] += g[j] * xhat;
        if (HAS_BIAS) db[i][j] += g[j];
        g[j] *= wf[j];
        s[0] += g[j] * xhat;
        if (LAYERNORM) s[K - 1] += g[j];
      }
    }
    sumOver<K, TPR>(s, phase);
    phase ^= 1;

    if (row < rows) {
      float c1 = s[0] * INV_COLS, c2 = LAYERNORM ? s[K - 1] * INV_COLS : 0.f;
#pragma unroll
      for (int i = 0; i < L; i++)
        if (inside(i)) {
          float xf[VEC], g[VEC], wf[VEC];
          unpackX(r.x[i], xf);
          unpackX(r.dy[i], g);
          weights(wraw[i], wf);
#pragma unroll
          for (int j = 0; j < VEC; j++) {
            float xhat = (xf[j] - r.mu) * r.rs;
            g[j] = r.rs * (g[j] * wf[j] - xhat * c1 - c2);
          }
          store<VECTOR_BYTES>(dx + row * COLS + column(i), pack<X_TYPE, VEC>(g));
        }
    }
    if (STAGES == 2) r = next;
    else if (first + stride < rows) fetch(r, x, dy, rstd, mean, row + stride, rows);
  }
  write(dw_partial, dw);
#if HAS_BIAS
  write(db_partial, db);
#endif
}
