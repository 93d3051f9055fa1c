// Backward, several CTAs to a row: x and dy in the registers of
// CTAS_PER_ROW CTAs, which exchange the row's sums through global memory.
//
//   x, dy (M,N), [dres (M,N)], [w (N)], rstd (M), [mean (M)] -> dx (M,N), partial
//   sums of dw and db (groups,N) fp32, which k2 (reduce.cu) adds up; scratch:
//   counters, zero at first, and sums of CTAs
//
// plain_rms_bwd.cu and plain_ln_bwd.cu read x and dy twice, by rows for dx and by columns for dw.
// Here the registers of several CTAs hold a row, which is read once and serves both.
//
// Bytes: x, dy (and dres) and dx once, w once per CTA, which stays in
// registers; 8 bytes per partial element, written here and read by k2. CTAs
// are persistent: each group of CTAS_PER_ROW, or each CTA of BLOCK_ROWS rows
// side by side, walks over the rows, groups apart, and leaves one partial row:
// CTAS_PER_ROW times fewer than one for each CTA. One exchange per row, of
// layernorm's two sums together: with g = dy*w and xhat = (x-mean)*rstd,
//
//   dx = rstd*(g - xhat*sum(g*xhat)/N - sum(g)/N)    (rmsnorm: no last term)
//
// After apex FastLayerNorm (ln_bwd_kernel) and TransformerEngine's tuned kernels
// (with dres: its BackwardAdd). What differs: x and dy stay packed over the
// exchange instead of as fp32 of xhat and dy*w, columns of a CTA are
// contiguous, any N that the vector divides is masked, and k2 is ours.
#ifndef COLS
#define COLS 4096 // 1 to 16777216: N
#endif
#ifndef WARPS
#define WARPS 4 // 1 to 32, powers of 2: of a CTA
#endif
#ifndef VECTOR_BYTES
#define VECTOR_BYTES 16 // 2 to 16, powers of 2: of a thread's load or store
#endif
#ifndef BLOCK_ROWS
#define BLOCK_ROWS 1 // 1 to 32, powers of 2: rows of a CTA
#endif
#ifndef CTAS_PER_ROW
#define CTAS_PER_ROW 1 // 1 to 8: that share a row through global memory
#endif

#include "common.cuh"
#include "coop.cuh"

constexpr int K = LAYERNORM ? 2 : 1;

// writePartial stores the CTA's part of its group's partial row. Rows that stand
// side by side meet in shared memory, one after the other so that the order is
// always the same; each thread finds its own columns there.
__device__ __forceinline__ void writePartial(float *partial, float (&acc)[L][VEC]) {
  extern __shared__ float merged[];
  for (int g = 0; g < BLOCK_ROWS; g++) {
    if (threadIdx.x / TPR == g) {
#pragma unroll
      for (int i = 0; i < L; i++)
        if (inside(i)) {
#pragma unroll
          for (int j = 0; j < VEC; j++) {
            float *at = merged + (i * VEC + j) * TPR + lane();
            if (g > 0) acc[i][j] += *at;
            if (g < BLOCK_ROWS - 1) *at = acc[i][j];
          }
          if (g == BLOCK_ROWS - 1) {
            float *out = partial + group() * COLS + column(i);
            if constexpr (VEC % 4 == 0) {
#pragma unroll
              for (int j = 0; j < VEC; j += 4) *(float4 *)(out + j) = make_float4(acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]);
            } else {
#pragma unroll
              for (int j = 0; j < VEC; j++) out[j] = acc[i][j];
            }
          }
        }
    }
    if (BLOCK_ROWS > 1) __syncthreads();
  }
}

extern "C" __global__ void BOUNDS(THREADS)
coop(const X *x, const X *dy, const X *dres, const W *w, const W *b, const float *rstd, const float *mean, X *dx,
     float *dw_partial, float *db_partial, i64 rows, u32 *counters, float *exchange) {
  Raw<W_BYTES> wraw[L];
  float dw[HAS_WEIGHT ? L : 1][VEC], db[HAS_BIAS ? L : 1][VEC];
#pragma unroll
  for (int i = 0; i < L; i++) {
    wraw[i] = inside(i) ? loadW(w, column(i)) : zero<W_BYTES>();
#pragma unroll
    for (int j = 0; j < VEC; j++) {
      if (HAS_WEIGHT) dw[i][j] = 0.f;
      if (HAS_BIAS) db[i][j] = 0.f;
    }
  }
  Exchange others(exchange, counters);
  i64 stride = groups() * BLOCK_ROWS;
  int phase = 0;
  // All CTAs of a group, and all threads of a CTA, take as many turns.
  for (i64 first = group() * BLOCK_ROWS; first < rows; first += stride) {
    i64 row = first + threadIdx.x / TPR;
    bool there = row < rows;
    RowVec xr[L], gr[L], add[RESIDUAL ? L : 1];
#pragma unroll
    for (int i = 0; i < L; i++) {
      bool in = there && inside(i);
      xr[i] = in ? loadRow<VECTOR_BYTES>(x + row * COLS + column(i)) : zero<VECTOR_BYTES>();
      gr[i] = in ? loadRow<VECTOR_BYTES>(dy + row * COLS + column(i)) : zero<VECTOR_BYTES>();
    }
    float rs = there ? __ldg(rstd + row) : 0.f;
    float mu = LAYERNORM && there ? __ldg(mean + row) : 0.f;

    float s[K];
#pragma unroll
    for (int k = 0; k < K; k++) s[k] = 0.f;
#pragma unroll
    for (int i = 0; i < L; i++) {
      float xf[VEC], g[VEC], wf[VEC];
      unpackX(xr[i], xf);
      unpackX(gr[i], g);
      weights(wraw[i], wf);
#pragma unroll
      for (int j = 0; j < VEC; j++) {
        float xhat = (xf[j] - mu) * rs;
        if (HAS_WEIGHT) dw[i][j] += g[j] * xhat;
        if (HAS_BIAS) db[i][j] += g[j];
        g[j] *= wf[j];
        s[0] += g[j] * xhat;
        if (LAYERNORM) s[K - 1] += g[j];
      }
    }
#if RESIDUAL // on its way during the exchange
#pragma unroll
    for (int i = 0; i < L; i++)
      add[i] = there && inside(i) ? loadRow<VECTOR_BYTES>(dres + row * COLS + column(i)) : zero<VECTOR_BYTES>();
#endif
    sumOver<K, TPR>(s, phase);
    phase ^= 1;
    others.sum(s);

    float c1 = s[0] * INV_COLS, c2 = LAYERNORM ? s[K - 1] * INV_COLS : 0.f;
#pragma unroll
    for (int i = 0; i < L; i++)
      if (there && inside(i)) {
        float xf[VEC], g[VEC], wf[VEC];
        unpackX(xr[i], xf);
        unpackX(gr[i], g);
        weights(wraw[i], wf);
#pragma unroll
        for (int j = 0; j < VEC; j++) {
          float xhat = (xf[j] - mu) * rs;
          g[j] = rs * (g[j] * wf[j] - xhat * c1 - c2);
        }
#if RESIDUAL
        unpackX(add[i], xf);
#pragma unroll
        for (int j = 0; j < VEC; j++) g[j] += xf[j];
#endif
        store<VECTOR_BYTES>(dx + row * COLS + column(i), pack<X_TYPE, VEC>(g));
      }
  }
#if HAS_WEIGHT
  writePartial(dw_partial, dw);
#endif
#if HAS_BIAS
  writePartial(db_partial, db);
#endif
}
