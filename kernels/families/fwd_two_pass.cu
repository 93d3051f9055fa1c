// Forward, two passes: a row is read in chunks of columns, and again.
//
//   x (M,N), w (N), [b (N)] -> y (M,N), rstd (M) fp32, [mean (M) fp32]
//
// Bytes: x twice where the row has left the caches by the second pass, y once.
// Any N, whatever the registers. All threads of a program work on each of its
// BLOCK_ROWS rows, BLOCK_COLS columns at a time. Where the whole row is one
// chunk and SINGLE_PASS is set, the chunk stays in registers and x is read
// once.
//
// Layernorm needs mean and variance from one reading. Sums of x-s and (x-s)²,
// with s the row's first element, are as good as centred ones where s lies
// within a few standard deviations of the mean; sums of x and x² lose the
// variance when the mean is large.
#include "common.cuh"

constexpr int U = BLOCK_COLS / (THREADS * VEC); // vectors per thread, row and chunk
static_assert(U * THREADS * VEC == BLOCK_COLS, "a chunk is a whole number of vectors per thread");
constexpr int KEPT = SINGLE_PASS ? U : 1;

__device__ __forceinline__ int column(int chunk, int u) { return chunk + (u * THREADS + (int)threadIdx.x) * VEC; }

extern "C" __global__ void __launch_bounds__(THREADS)
two_pass(const X *x, const X *res, const W *w, const W *b, X *y, X *resout, float *rstd, float *mean, i64 rows, float eps) {
  int phase = 0;
  for (i64 first = (i64)blockIdx.x * BLOCK_ROWS; first < rows; first += (i64)gridDim.x * BLOCK_ROWS) {
    constexpr int K = LAYERNORM ? 2 : 1;
    float s[K * BLOCK_ROWS], shift[BLOCK_ROWS];
    RowVec kept[BLOCK_ROWS][KEPT];
#pragma unroll
    for (int i = 0; i < K * BLOCK_ROWS; i++) s[i] = 0.f;
#pragma unroll
    for (int r = 0; r < BLOCK_ROWS; r++) {
      shift[r] = 0.f;
#if LAYERNORM
      if (first + r < rows) {
        float one[1];
        unpack<X_TYPE, 1>(load<sizeof(X)>(x + (first + r) * COLS), one);
        shift[r] = one[0];
      }
#endif
    }
    for (int chunk = 0; chunk < COLS; chunk += BLOCK_COLS)
#pragma unroll
      for (int r = 0; r < BLOCK_ROWS; r++) {
        RowVec v[U];
#pragma unroll
        for (int u = 0; u < U; u++)
          if (first + r < rows && column(chunk, u) < COLS) v[u] = load<VECTOR_BYTES>(x + (first + r) * COLS + column(chunk, u));
#pragma unroll
        for (int u = 0; u < U; u++) {
          if (SINGLE_PASS) kept[r][u % KEPT] = v[u];
          if (first + r < rows && column(chunk, u) < COLS) {
            float f[VEC];
            unpackX(v[u], f);
#pragma unroll
            for (int j = 0; j < VEC; j++) {
              float d = f[j] - shift[r];
              s[K * r] += d * d;
              if (LAYERNORM) s[K * r + K - 1] += d;
            }
          }
        }
      }
    sumOver<K * BLOCK_ROWS, THREADS>(s, phase);
    phase ^= 1;

    float rs[BLOCK_ROWS], mu[BLOCK_ROWS];
#pragma unroll
    for (int r = 0; r < BLOCK_ROWS; r++) {
      float d = LAYERNORM ? s[K * r + K - 1] * INV_COLS : 0.f;
      mu[r] = shift[r] + d;
      rs[r] = 1.0f / sqrtf(fmaxf(s[K * r] * INV_COLS - d * d, 0.f) + eps);
      if (threadIdx.x == 0 && first + r < rows) {
        rstd[first + r] = rs[r];
#if LAYERNORM
        mean[first + r] = mu[r];
#endif
      }
    }
    for (int chunk = 0; chunk < COLS; chunk += BLOCK_COLS)
#pragma unroll
      for (int u = 0; u < U; u++) {
        int c = column(chunk, u);
        if (c >= COLS) continue;
        float wf[VEC];
        weights(load<W_BYTES>(w + c), wf);
#if HAS_BIAS
        float bf[VEC];
        unpack<W_TYPE, VEC>(load<W_BYTES>(b + c), bf);
#endif
#pragma unroll
        for (int r = 0; r < BLOCK_ROWS; r++) {
          if (first + r >= rows) continue;
          float f[VEC];
          unpackX(SINGLE_PASS ? kept[r][u % KEPT] : load<VECTOR_BYTES>(x + (first + r) * COLS + c), f);
#pragma unroll
          for (int j = 0; j < VEC; j++) {
            f[j] = (f[j] - mu[r]) * rs[r] * wf[j];
#if HAS_BIAS
            f[j] += bf[j];
#endif
          }
          store<VECTOR_BYTES>(y + (first + r) * COLS + c, pack<X_TYPE, VEC>(f));
        }
      }
  }
}
