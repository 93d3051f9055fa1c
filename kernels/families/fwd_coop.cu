// Forward, several CTAs to a row: the row in the registers of CTAS_PER_ROW
// CTAs, which exchange its sums through global memory.
//
//   x (M,N), [res (M,N)], [w (N)], [b (N)] -> y (M,N), [resout (M,N)], rstd (M)
//   fp32, [mean (M) fp32]; scratch: counters, zero at first, and sums of CTAs
//
// plain_rms_fwd.cu and plain_ln_fwd.cu read a row again for each sum and for y, one element at a
// time. Here the registers of several CTAs hold the row.
//
// Bytes: x (and res) once, y (and resout) once, w and b once per CTA: they
// stay in registers over all rows. CTAs are persistent: each group of
// CTAS_PER_ROW, or each CTA of BLOCK_ROWS rows side by side, walks over the
// rows, groups apart. After apex FastLayerNorm (ln_fwd_kernel) and
// TransformerEngine's tuned kernels. One exchange per row: layernorm's is of
// each CTA's sum and centred squares, which Chan's formula merges. What
// differs: rows stay packed, columns of a CTA are contiguous (there, vectors
// are dealt to the CTAs in turns), any N that the vector divides is masked,
// rmsnorm takes no mean (TransformerEngine does and merges it back in), and
// the counters only grow (coop.cuh).
#ifndef COLS
#define COLS 4096 // 1 to 16777216: N
#endif
#ifndef WARPS
#define WARPS 2 // 1 to 32, powers of 2: of a CTA
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

// With a residual what is normalized is the fp32 sum, which no X holds.
struct Row {
#if RESIDUAL
  float v[L][VEC];
#else
  RowVec v[L];
#endif

  __device__ __forceinline__ void get(int i, float (&f)[VEC]) const {
#if RESIDUAL
#pragma unroll
    for (int j = 0; j < VEC; j++) f[j] = v[i][j];
#else
    unpackX(v[i], f);
#endif
  }

  __device__ __forceinline__ void fetch(const X *x, const X *res, X *resout, i64 row, bool there) {
    RowVec in[L];
#pragma unroll
    for (int i = 0; i < L; i++)
      in[i] = there && inside(i) ? loadRow<VECTOR_BYTES>(x + row * COLS + column(i)) : zero<VECTOR_BYTES>();
#if RESIDUAL
    RowVec add[L];
#pragma unroll
    for (int i = 0; i < L; i++)
      add[i] = there && inside(i) ? loadRow<VECTOR_BYTES>(res + row * COLS + column(i)) : zero<VECTOR_BYTES>();
#pragma unroll
    for (int i = 0; i < L; i++) {
      float f[VEC];
      unpackX(in[i], v[i]);
      unpackX(add[i], f);
#pragma unroll
      for (int j = 0; j < VEC; j++) v[i][j] += f[j];
      if (there && inside(i)) store<VECTOR_BYTES>(resout + row * COLS + column(i), pack<X_TYPE, VEC>(v[i]));
    }
#else
#pragma unroll
    for (int i = 0; i < L; i++) v[i] = in[i];
#endif
  }
};

// squares adds up (v - mu)^2 over the thread's part of the row.
__device__ __forceinline__ float squares(const Row &r, float mu) {
  float s = 0.f;
#pragma unroll
  for (int i = 0; i < L; i++)
    if (inside(i)) {
      float f[VEC];
      r.get(i, f);
#pragma unroll
      for (int j = 0; j < VEC; j++) s += (f[j] - mu) * (f[j] - mu);
    }
  return s;
}

// keepPacked hides from the compiler that v is what it was a row ago, so that it does
// not hold the weights unpacked, in twice the registers, over all rows.
__device__ __forceinline__ void keepPacked(Raw<W_BYTES> &v) {
#pragma unroll
  for (int i = 0; i < (W_BYTES < 4 ? 1 : W_BYTES / 4); i++) asm("" : "+r"(v.word[i]));
}

extern "C" __global__ void BOUNDS(THREADS)
coop(const X *x, const X *res, const W *w, const W *b, X *y, X *resout, float *rstd, float *mean, i64 rows, float eps,
     u32 *counters, float *exchange) {
  Raw<W_BYTES> wraw[L], braw[HAS_BIAS ? L : 1];
#pragma unroll
  for (int i = 0; i < L; i++) {
    wraw[i] = inside(i) ? loadW(w, column(i)) : zero<W_BYTES>();
    if (HAS_BIAS) braw[i] = inside(i) ? load<W_BYTES>(b + column(i)) : zero<W_BYTES>();
  }
  Exchange others(exchange, counters);
  i64 stride = groups() * BLOCK_ROWS;
  int phase = 0;
  // All CTAs of a group, and all threads of a CTA, take as many turns.
  for (i64 first = group() * BLOCK_ROWS; first < rows; first += stride) {
    i64 row = first + threadIdx.x / TPR;
    bool there = row < rows;
#pragma unroll
    for (int i = 0; i < L; i++) {
      keepPacked(wraw[i]);
      if (HAS_BIAS) keepPacked(braw[i]);
    }
    Row r;
    r.fetch(x, res, resout, row, there);

    float mu = 0.f, squared;
#if LAYERNORM
    float s[1] = {0.f}, q[1];
#pragma unroll
    for (int i = 0; i < L; i++) {
      float f[VEC];
      r.get(i, f);
#pragma unroll
      for (int j = 0; j < VEC; j++) s[0] += f[j];
    }
    sumOver<1, TPR>(s, 0);
    q[0] = squares(r, sliceMean(s[0], rank()));
    sumOver<1, TPR>(q, 1);
    float mine[2] = {s[0], q[0]}, all[2][RANKS];
    others.gather(mine, all);
#pragma unroll
    for (int i = 0; i < RANKS; i++) mu += all[0][i];
    mu *= INV_COLS;
    squared = all[1][0];
    if constexpr (RANKS > 1) {
      squared = 0.f;
#pragma unroll
      for (int i = 0; i < RANKS; i++) {
        float d = sliceMean(all[0][i], i) - mu;
        squared += all[1][i] + sliceCols(i) * d * d;
      }
    }
#else
    float q[1] = {squares(r, 0.f)};
    sumOver<1, TPR>(q, phase);
    others.sum(q);
    squared = q[0];
#endif
    phase ^= 1;
    float rs = 1.0f / sqrtf(squared * INV_COLS + eps);

    if (there && rank() == 0 && lane() == 0) {
      rstd[row] = rs;
#if LAYERNORM
      mean[row] = mu;
#endif
    }
#pragma unroll
    for (int i = 0; i < L; i++)
      if (there && inside(i)) {
        float f[VEC], wf[VEC];
        r.get(i, f);
        weights(wraw[i], wf);
#pragma unroll
        for (int j = 0; j < VEC; j++) f[j] = (f[j] - mu) * rs * wf[j];
#if HAS_BIAS
        float bf[VEC];
        unpack<W_TYPE, VEC>(braw[i], bf);
#pragma unroll
        for (int j = 0; j < VEC; j++) f[j] += bf[j];
#endif
        store<VECTOR_BYTES>(y + row * COLS + column(i), pack<X_TYPE, VEC>(f));
      }
  }
}
