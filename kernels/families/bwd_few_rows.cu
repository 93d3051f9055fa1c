// Backward of few rows, in one kernel that waits for nothing but its cluster.
//
//   x, dy (M,N), w (N), rstd (M), [mean (M)] -> dx (M,N), dw, [db] (N)
//
// plain_rms_bwd.cu and plain_ln_bwd.cu read x and dy twice, by rows for dx and by columns for dw.
// So does this design, but each CTA does both at once, in one launch, with vectors.
//
// Bytes: x and dy twice, the second time from L2, as all of it is read at once; dx once.
// CLUSTER CTAs share a row and make its dx. dw needs nothing of a row but its saved
// statistics, so each CTA also reads DW_COLS columns of all rows, and has dw and db of
// those: there are no partial rows, no scratch, no order among CTAs. Everything is
// asked for before anything is waited for.
//
// That is for few rows. Designs that walk over rows leave a partial row of N for each
// CTA, which a second kernel has to read when nothing else runs: 10.4 and 11.6 us at
// 29x17389 (H200, rmsnorm and layernorm). Two kernels, rows' sums in the first and all else
// by columns in the second, which starts early, took 7.1 and 7.8: it was tried before this.
//
// Of one row dw is no sum: each thread has that of its columns from what it has read for dx.
//
// Columns: ACROSS threads stand side by side, DOWN of those one below the other.
#ifndef COLS
#define COLS 4096 // 1 to 16777216: N
#endif
#ifndef FEW
#define FEW 64 // 1 to 32768: M
#endif
#ifndef WARPS
#define WARPS 16 // 1 to 32, powers of 2: of a CTA
#endif
#ifndef VECTOR_BYTES
#define VECTOR_BYTES 16 // 2 to 16, powers of 2: of a thread's load or store
#endif
#ifndef CLUSTER
#define CLUSTER 1 // 1 to 16, powers of 2: CTAs that share a row through distributed shared memory
#endif
#ifndef DW_COLS
#define DW_COLS 16 // 1 to 1024, powers of 2: columns of dw that a CTA sums
#endif

#include "common.cuh"
#include "pipe.cuh"

constexpr int K = LAYERNORM ? 2 : 1;             // sums of a row
constexpr int SLICE = cdiv(VECS, CLUSTER);       // vectors of a row in one CTA; the last may have fewer
constexpr int L = cdiv(SLICE, THREADS);          // and in one thread
constexpr int ACROSS = DW_COLS / VEC, DOWN = THREADS / ACROSS;
constexpr int EACH = cdiv(FEW, DOWN);            // rows of a thread in its columns
constexpr int MEET = ACROSS < 32 ? WARPS : DOWN; // sums of a column that meet in shared memory
constexpr int GRADS = 1 + HAS_BIAS;
static_assert(ACROSS * VEC == DW_COLS && DOWN * ACROSS == THREADS, "columns and threads divide each other");

struct Stats { float rs, mu; };

__device__ __forceinline__ Stats statsOf(const float *rstd, const float *mean, i64 row, bool there) {
  return {there ? __ldg(rstd + row) : 0.f, LAYERNORM && there ? __ldg(mean + row) : 0.f};
}

extern "C" __global__ void BOUNDS(THREADS)
few_rows(const X *x, const X *dy, const W *w, const float *rstd, const float *mean, X *dx, W *dw, W *db) {
#if CLUSTER > 1
  __shared__ ClusterSum<K, 1, CLUSTER> cluster;
#endif
  // The CTA's part of a row. What is not inside is zero, and adds nothing.
  i64 row = blockIdx.x / CLUSTER;
  int from = blockIdx.x % CLUSTER * SLICE + threadIdx.x;
  auto inside = [&](int i) {
    return row < FEW && (SLICE % THREADS == 0 || threadIdx.x + i * THREADS < SLICE) && (VECS % CLUSTER == 0 || from + i * THREADS < VECS);
  };
  i64 first = row * COLS + (i64)from * VEC;
  RowVec xr[L], gr[L];
  Raw<W_BYTES> wr[L];
#pragma unroll
  for (int i = 0; i < L; i++) {
    int off = i * THREADS * VEC;
    xr[i] = inside(i) ? loadRow<VECTOR_BYTES>(x + first + off) : zero<VECTOR_BYTES>();
    gr[i] = inside(i) ? loadRow<VECTOR_BYTES>(dy + first + off) : zero<VECTOR_BYTES>();
    wr[i] = inside(i) ? loadW(w, (i64)from * VEC + off) : zero<W_BYTES>();
  }
  Stats st = statsOf(rstd, mean, row, row < FEW);

#if FEW > 1
  // Its columns of all rows.
  int place = threadIdx.x % ACROSS, down = threadIdx.x / ACROSS;
  i64 column = (i64)blockIdx.x * DW_COLS + place * VEC;
  RowVec xc[EACH], gc[EACH];
  Stats sc[EACH];
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    i64 r = down + i * DOWN;
    bool in = ((i + 1) * DOWN <= FEW || r < FEW) && column < COLS;
    xc[i] = in ? loadRow<VECTOR_BYTES>(x + r * COLS + column) : zero<VECTOR_BYTES>();
    gc[i] = in ? loadRow<VECTOR_BYTES>(dy + r * COLS + column) : zero<VECTOR_BYTES>();
    sc[i] = statsOf(rstd, mean, r, in);
  }
#endif
#if CLUSTER > 1
  cluster.begin();
#endif

  float s[K];
#pragma unroll
  for (int k = 0; k < K; k++) s[k] = 0.f;
#pragma unroll
  for (int i = 0; i < L; i++) {
    float xf[VEC], g[VEC], wf[VEC];
    unpackX(xr[i], xf);
    unpackX(gr[i], g);
    weights(wr[i], wf);
#if FEW == 1
    if (inside(i)) {
      i64 col = (i64)(from + i * THREADS) * VEC;
      if (HAS_BIAS) store<W_BYTES>(db + col, pack<W_TYPE, VEC>(g));
      float own[VEC];
#pragma unroll
      for (int j = 0; j < VEC; j++) own[j] = g[j] * ((xf[j] - st.mu) * st.rs);
      store<W_BYTES>(dw + col, pack<W_TYPE, VEC>(own));
    }
#endif
#pragma unroll
    for (int j = 0; j < VEC; j++) {
      g[j] *= wf[j];
      s[0] += g[j] * ((xf[j] - st.mu) * st.rs);
      if (LAYERNORM) s[K - 1] += g[j];
    }
  }
  sumOver<K, THREADS>(s, 0);
#if CLUSTER > 1
  clusterWait();
  cluster.sum(s, 0, threadIdx.x, 0);
#endif
  float c1 = s[0] * INV_COLS, c2 = LAYERNORM ? s[K - 1] * INV_COLS : 0.f;
#pragma unroll
  for (int i = 0; i < L; i++)
    if (inside(i)) {
      float xf[VEC], g[VEC], wf[VEC];
      unpackX(xr[i], xf);
      unpackX(gr[i], g);
      weights(wr[i], wf);
#pragma unroll
      for (int j = 0; j < VEC; j++) g[j] = st.rs * (g[j] * wf[j] - (xf[j] - st.mu) * st.rs * c1 - c2);
      store<VECTOR_BYTES>(dx + first + i * THREADS * VEC, pack<X_TYPE, VEC>(g));
    }

#if FEW > 1
  float sums[GRADS][VEC];
#pragma unroll
  for (int n = 0; n < GRADS; n++)
#pragma unroll
    for (int j = 0; j < VEC; j++) sums[n][j] = 0.f;
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    float xf[VEC], g[VEC];
    unpackX(xc[i], xf);
    unpackX(gc[i], g);
#pragma unroll
    for (int j = 0; j < VEC; j++) {
      sums[0][j] += g[j] * ((xf[j] - sc[i].mu) * sc[i].rs);
      if (HAS_BIAS) sums[GRADS - 1][j] += g[j];
    }
  }
#pragma unroll
  for (int d = ACROSS; d < 32; d *= 2)
#pragma unroll
    for (int n = 0; n < GRADS; n++)
#pragma unroll
      for (int j = 0; j < VEC; j++) sums[n][j] += __shfl_xor_sync(0xffffffffu, sums[n][j], d);
  __shared__ float part[MEET][GRADS][DW_COLS];
  if (ACROSS >= 32 || threadIdx.x % 32 < ACROSS)
#pragma unroll
    for (int n = 0; n < GRADS; n++)
#pragma unroll
      for (int j = 0; j < VEC; j++) part[ACROSS < 32 ? threadIdx.x / 32 : down][n][place * VEC + j] = sums[n][j];
  __syncthreads();
  for (int c = threadIdx.x; c < GRADS * DW_COLS; c += THREADS) {
    float sum = 0.f;
#pragma unroll
    for (int m = 0; m < MEET; m++) sum += part[m][c / DW_COLS][c % DW_COLS];
    i64 col = (i64)blockIdx.x * DW_COLS + c % DW_COLS;
    if (col < COLS) put<W_TYPE>((c < DW_COLS ? dw : db) + col, sum);
  }
#endif
}
