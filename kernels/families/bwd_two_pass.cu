// Backward, two passes: rows are read in chunks of columns, and again.
//
//   x, dy (M,N), w (N), rstd (M), [mean (M)] -> dx (M,N), partial sums of dw
//   and db (programs,N) fp32, which k2 (reduce.cu) adds up
//
// Bytes: x and dy twice where the tile has left the caches by the second pass,
// dx once; partials as in reg_persist, plus a read and a write of the
// program's own partial row for every tile after its first. Any N, whatever
// the registers. The first pass takes the sums of BLOCK_ROWS rows, the second
// writes dx and adds the tile's rows into the partial row. With one program
// per tile nothing is added to, but the partials grow with M (Fast-LLM's wide
// kernel). Where the whole row is one chunk and SINGLE_PASS is set, the tile
// stays in registers and x and dy are read once.
#include "common.cuh"

constexpr int U = BLOCK_COLS / (THREADS * VEC); // vectors per thread, row and chunk
static_assert(U * THREADS * VEC == BLOCK_COLS, "a chunk is a whole number of vectors per thread");
constexpr int KEPT = SINGLE_PASS ? U : 1;
constexpr int K = LAYERNORM ? 2 : 1;

__device__ __forceinline__ int column(int chunk, int u) { return chunk + (u * THREADS + (int)threadIdx.x) * VEC; }

// addTo adds a vector to the program's own partial row; its first tile sets it.
__device__ __forceinline__ void addTo(float *p, float (&v)[VEC], bool set) {
#pragma unroll
  for (int j = 0; j < VEC; j++) p[j] = set ? v[j] : p[j] + v[j];
}

extern "C" __global__ void __launch_bounds__(THREADS)
two_pass(const X *x, const X *dy, const W *w, const float *rstd, const float *mean, X *dx,
         float *dw_partial, float *db_partial, i64 rows) {
  int phase = 0;
  i64 stride = (i64)gridDim.x * BLOCK_ROWS;
  for (i64 first = (i64)blockIdx.x * BLOCK_ROWS; first < rows; first += stride) {
    bool set = first < stride;
    float rs[BLOCK_ROWS], mu[BLOCK_ROWS], s[K * BLOCK_ROWS];
    RowVec keptX[BLOCK_ROWS][KEPT], keptDY[BLOCK_ROWS][KEPT];
#pragma unroll
    for (int r = 0; r < BLOCK_ROWS; r++) {
      bool live = first + r < rows;
      rs[r] = live ? __ldg(rstd + first + r) : 0.f;
      mu[r] = LAYERNORM && live ? __ldg(mean + first + r) : 0.f;
    }
#pragma unroll
    for (int i = 0; i < K * BLOCK_ROWS; i++) s[i] = 0.f;

    for (int chunk = 0; chunk < COLS; chunk += BLOCK_COLS)
#pragma unroll
      for (int u = 0; u < U; u++) {
        int c = column(chunk, u);
        if (c >= COLS) continue;
        float wf[VEC];
        weights(load<W_BYTES>(w + c), wf);
#pragma unroll
        for (int r = 0; r < BLOCK_ROWS; r++) {
          if (first + r >= rows) continue;
          RowVec vx = load<VECTOR_BYTES>(x + (first + r) * COLS + c);
          RowVec vd = load<VECTOR_BYTES>(dy + (first + r) * COLS + c);
          if (SINGLE_PASS) { keptX[r][u % KEPT] = vx; keptDY[r][u % KEPT] = vd; }
          float xf[VEC], g[VEC];
          unpackX(vx, xf);
          unpackX(vd, g);
#pragma unroll
          for (int j = 0; j < VEC; j++) {
            float xhat = (xf[j] - mu[r]) * rs[r];
            g[j] *= wf[j];
            s[K * r] += g[j] * xhat;
            if (LAYERNORM) s[K * r + K - 1] += g[j];
          }
        }
      }
    sumOver<K * BLOCK_ROWS, THREADS>(s, phase);
    phase ^= 1;

    for (int chunk = 0; chunk < COLS; chunk += BLOCK_COLS)
#pragma unroll
      for (int u = 0; u < U; u++) {
        int c = column(chunk, u);
        if (c >= COLS) continue;
        float wf[VEC], dw[VEC], db[VEC];
        weights(load<W_BYTES>(w + c), wf);
#pragma unroll
        for (int j = 0; j < VEC; j++) dw[j] = db[j] = 0.f;
#pragma unroll
        for (int r = 0; r < BLOCK_ROWS; r++) {
          if (first + r >= rows) continue;
          i64 at = (first + r) * COLS + c;
          float xf[VEC], g[VEC];
          unpackX(SINGLE_PASS ? keptX[r][u % KEPT] : load<VECTOR_BYTES>(x + at), xf);
          unpackX(SINGLE_PASS ? keptDY[r][u % KEPT] : load<VECTOR_BYTES>(dy + at), g);
          float c1 = s[K * r] * INV_COLS, c2 = LAYERNORM ? s[K * r + K - 1] * INV_COLS : 0.f;
#pragma unroll
          for (int j = 0; j < VEC; j++) {
            float xhat = (xf[j] - mu[r]) * rs[r];
            dw[j] += g[j] * xhat;
            db[j] += g[j];
            g[j] = rs[r] * (g[j] * wf[j] - xhat * c1 - c2);
          }
          store<VECTOR_BYTES>(dx + at, pack<X_TYPE, VEC>(g));
        }
        i64 out = (i64)blockIdx.x * COLS + c;
        addTo(dw_partial + out, dw, set);
#if HAS_BIAS
        addTo(db_partial + out, db, set);
#endif
      }
  }
}
