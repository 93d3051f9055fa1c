// Backward, persistent: the row and the weight gradient live in registers.
//
//   x, dy (M,N), [dres (M,N)], [w (N)], rstd (M), [mean (M)] -> dx (M,N), partial
//   sums of dw and db (CTAs,N) of P_TYPE, which k2 (reduce.cu) adds up
//
// plain_rms_bwd.cu and plain_ln_bwd.cu read x and dy twice, by rows for dx and by columns for dw.
// Here CTAs stay for many rows, read each once, and keep their sums of dw in registers.
//
// Bytes: x, dy, [dres] and dx once; partials written here and read by k2. A
// CTA walks over tiles of BLOCK_ROWS rows, WARPS*32/BLOCK_ROWS threads to a
// row. One reduction per row, layernorm's two sums together: with g = dy*w and
// xhat = (x-mean)*rstd,
//
//   dx = rstd*(g - c*(x-mean) - sum(g)/N), c = rstd*sum(g*xhat)/N once per row
//
// (rmsnorm: no mean, no last term; plus dres, the residual's gradient), as
// TransformerEngine (ROCm) PR 593 has it.
//
// STAGES = 2 loads the next tile's rows before this tile's reduction, at twice
// the registers for them. HOIST = 1 keeps w packed in registers for all rows;
// 0 loads it with every row, as TransformerEngine did before the PR and Inductor
// does. ROW_ORDER 1 are Liger's ranges of rows. SAVED_OUTPUT reads y in place of
// x, and b (Fast-LLM, apex): y then comes as x.
#ifndef COLS
#define COLS 4096 // 1 to 16777216: N
#endif
#ifndef WARPS
#define WARPS 16 // 1 to 32, powers of 2: of a CTA
#endif
#ifndef VECTOR_BYTES
#define VECTOR_BYTES 16 // 2 to 16, powers of 2: of a thread's load or store
#endif
#ifndef BLOCK_ROWS
#define BLOCK_ROWS 2 // 1 to 64, powers of 2: rows of a CTA
#endif
#ifndef STAGES
#define STAGES 2 // 1 or 2: tiles in flight
#endif
#ifndef HOIST
#define HOIST 1 // 0 or 1: whether the weight stays in registers
#endif
#ifndef SAVED_OUTPUT
#define SAVED_OUTPUT 0 // 0 or 1: whether y is read in place of x
#endif

#include "common.cuh"
#include "bwd_reg.cuh"

constexpr int TPR = THREADS / BLOCK_ROWS;
constexpr int L = cdiv(VECS, TPR);
constexpr int K = LAYERNORM ? 2 : 1;

struct Row { RowVec x[L], dy[L], res[RESIDUAL ? L : 1]; float rs, mu; };
struct Weights { Raw<W_BYTES> w[L], b[NEEDS_BIAS ? L : 1]; };

__device__ __forceinline__ bool inside(int i) {
  return VECS % TPR == 0 || threadIdx.x % TPR + i * TPR < VECS;
}

__device__ __forceinline__ i64 column(int i) { return (i64)(threadIdx.x % TPR + i * TPR) * VEC; }

__device__ __forceinline__ void fetch(Row &r, const X *x, const X *dy, const X *dres, const float *rstd, const float *mean, i64 row, i64 end) {
#pragma unroll
  for (int i = 0; i < L; i++) {
    bool in = row < end && inside(i);
    r.x[i] = in ? loadRow<VECTOR_BYTES>(x + row * COLS + column(i)) : zero<VECTOR_BYTES>();
    r.dy[i] = in ? loadRow<VECTOR_BYTES>(dy + row * COLS + column(i)) : zero<VECTOR_BYTES>();
    if (RESIDUAL) r.res[i] = in ? loadRow<VECTOR_BYTES>(dres + row * COLS + column(i)) : zero<VECTOR_BYTES>();
  }
  r.rs = row < end ? __ldg(rstd + row) : 0.f;
  r.mu = NEEDS_MEAN && row < end ? __ldg(mean + row) : 0.f;
}

__device__ __forceinline__ void fetch(Weights &c, const W *w, const W *b) {
#pragma unroll
  for (int i = 0; i < L; i++) {
    c.w[i] = inside(i) ? loadW(w, column(i)) : zero<W_BYTES>();
    if (NEEDS_BIAS) c.b[i] = inside(i) ? load<W_BYTES>(b + column(i)) : zero<W_BYTES>();
  }
}

// writePartial stores the CTA's partial row: the groups of threads add into
// shared memory one after the other, so that the order is always the same.
__device__ __forceinline__ void writePartial(P *partial, float (&acc)[L][VEC]) {
  extern __shared__ __align__(16) float merged[];
  P *out = partial + (i64)blockIdx.x * COLS;
  for (int g = 0; g < BLOCK_ROWS; g++) {
    if (threadIdx.x / TPR == g) {
#pragma unroll
      for (int i = 0; i < L; i++)
        if (inside(i)) {
          if (g > 0) addKept<FP32, VEC>(merged + column(i), acc[i]);
          if (g < BLOCK_ROWS - 1) keepPartial<FP32, VEC>(merged + column(i), acc[i]);
          else keepPartial<P_TYPE, VEC>(out + column(i), acc[i]);
        }
    }
    if (BLOCK_ROWS > 1) __syncthreads();
  }
}

extern "C" __global__ void BOUNDS(THREADS)
reg_persist(const X *x, const X *dy, const X *dres, const W *w, const W *b, const float *rstd, const float *mean, X *dx,
            P *dw_partial, P *db_partial, i64 rows) {
  Weights c;
  float dw[L][VEC], db[HAS_BIAS ? L : 1][VEC];
#pragma unroll
  for (int i = 0; i < L; i++)
#pragma unroll
    for (int j = 0; j < VEC; j++) {
      dw[i][j] = 0.f;
      if (HAS_BIAS) db[i][j] = 0.f;
    }
  if (HOIST) fetch(c, w, b);
  Tiles t(rows);
  i64 row = t.first + threadIdx.x / TPR;
  int phase = 0;
  Row r;
  if (STAGES == 2) fetch(r, x, dy, dres, rstd, mean, row, t.end);
  for (i64 first = t.first; first < t.end; first += t.stride, row += t.stride) {
    if (!HOIST) {
      asm volatile("" : "+l"(w), "+l"(b)); // or the compiler hoists the loads
      fetch(c, w, b);
    }
    Row next;
    if (STAGES == 2) fetch(next, x, dy, dres, rstd, mean, row + t.stride, t.end);
    else fetch(r, x, dy, dres, rstd, mean, row, t.end);

    float s[K], f = factor(r.rs);
#pragma unroll
    for (int k = 0; k < K; k++) s[k] = 0.f;
#pragma unroll
    for (int i = 0; i < L; i++) {
      float xm[VEC], g[VEC], wf[VEC];
      weightsBy(First(), c.w[i], wf);
      centred(First(), r.x[i], r.mu, c.b[NEEDS_BIAS ? i : 0], wf, xm);
      unpackX(r.dy[i], g);
#pragma unroll
      for (int j = 0; j < VEC; j++) {
        float xhat = xm[j] * f;
        dw[i][j] += g[j] * xhat;
        if (HAS_BIAS) db[i][j] += g[j];
        g[j] *= wf[j];
        s[0] += g[j] * xhat;
        if (LAYERNORM) s[K - 1] += g[j];
      }
    }
    sumOver<K, TPR>(s, phase);
    phase ^= 1;

    if (row < t.end) {
      Again again(row);
      float c1 = f * s[0] * INV_COLS, c2 = LAYERNORM ? s[K - 1] * INV_COLS : 0.f;
#pragma unroll
      for (int i = 0; i < L; i++)
        if (inside(i)) {
          float xm[VEC], g[VEC], wf[VEC];
          weightsBy(again, c.w[i], wf);
          centred(again, r.x[i], r.mu, c.b[NEEDS_BIAS ? i : 0], wf, xm);
          unpackBy<X_TYPE, VEC>(again, r.dy[i], g);
#pragma unroll
          for (int j = 0; j < VEC; j++) g[j] = r.rs * (g[j] * wf[j] - xm[j] * c1 - c2);
          if (RESIDUAL) {
            float add[VEC];
            unpackX(r.res[i], add);
#pragma unroll
            for (int j = 0; j < VEC; j++) g[j] += add[j];
          }
          store<VECTOR_BYTES>(dx + row * COLS + column(i), pack<X_TYPE, VEC>(g));
        }
    }
    if (STAGES == 2) r = next;
  }
  letNextStart();
#if HAS_WEIGHT
  writePartial(dw_partial, dw);
#if HAS_BIAS
  writePartial(db_partial, db);
#endif
#endif
}
