// Forward, one pass: a tile of rows for each CTA, or a row for each cluster, and
// everything asked for at once.
//
//   x (M,N), [res (M,N)], [w (N)], [b (N)] -> y (M,N), [resout (M,N)], rstd (M) fp32, [mean (M) fp32]
//
// plain_rms_fwd.cu and plain_ln_fwd.cu read a row again for each sum and for y, one element at a
// time. Here registers hold the row, and no CTA has a second tile of rows.
//
// Bytes: x (and res) once, y (and resout) once; w and b stay in L1/L2. A group of
// WARPS*32*UNROLL/BLOCK_ROWS threads has UNROLL rows, which share what a thread reads of
// the weights: at N = 256 four rows of a warp take 6 loads, in two groups of half a warp 12.
// Everything is read before anything is waited for, the weights too (as Inductor's persistent
// reductions do), and is widened once: no row comes after, so registers need not last. The
// loop over tiles of cta_reg makes 632 instructions of a row of 1024 columns in layernorm;
// here they are 376.
//
// With CLUSTER > 1 the CTAs of a cluster have a slice of one row each, which is what a
// few wide rows need. They exchange their slices' mean and centred squares once, through
// distributed shared memory, and merge them in the order of their ranks (Chan, Golub and
// LeVeque 1979); rmsnorm's squares are only added.
//
// RAGGED rows are read and written by the aligned vectors around them (ragged.cuh). A
// thread's rows are PHASES apart, so that they start alike in their vectors, and what it
// cuts out of the weights serves all of them.
//
// With WHOLE_TILES there are as many rows as CTAs have room for.
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
#define BLOCK_ROWS 1 // 1 to 64, powers of 2: rows of a CTA
#endif
#ifndef UNROLL
#define UNROLL 1 // 1 to 64, powers of 2: rows of a thread
#endif
#ifndef CLUSTER
#define CLUSTER 1 // 1 to 16, powers of 2: CTAs that share a row through distributed shared memory
#endif
#ifndef WHOLE_TILES
#define WHOLE_TILES 0 // 0 or 1: whether M is a multiple of BLOCK_ROWS
#endif

#include "common.cuh"
#if CLUSTER > 1
#include "pipe.cuh"
#endif
#include "ragged.cuh"
#include "ragged_fwd.cuh"

constexpr int ROWS = UNROLL;
constexpr int GROUP = THREADS * ROWS / BLOCK_ROWS;
constexpr int SLICE = cdiv(ROW_VECS, CLUSTER); // vectors of a row in one CTA; the last may have fewer
constexpr int L = cdiv(SLICE, GROUP);
constexpr int K = LAYERNORM ? 2 : 1;
static_assert(CLUSTER == 1 || BLOCK_ROWS == 1, "a cluster has one row");

// sumVec is the sum of f, in pairs.
__device__ __forceinline__ float sumVec(const float (&f)[VEC]) {
  float t[VEC];
#pragma unroll
  for (int j = 0; j < VEC; j++) t[j] = f[j];
#pragma unroll
  for (int n = VEC / 2; n > 0; n /= 2)
#pragma unroll
    for (int j = 0; j < n; j++) t[j] += t[j + n];
  return t[0];
}

// normalizeRows has the CTA's rows. WHOLE says that all of them are there: without a guard at each.
template <bool WHOLE>
__device__ __forceinline__ void normalizeRows(const X *x, const X *res, const W *w, const W *b, Y *y, X *resout, float *rstd, float *mean, i64 rows, float eps) {
  int lane = threadIdx.x % GROUP, rank = blockIdx.x % CLUSTER;
  i64 group = (i64)(blockIdx.x / CLUSTER) * (BLOCK_ROWS / ROWS) + threadIdx.x / GROUP;
  i64 row = group / PHASES * (PHASES * ROWS) + group % PHASES; // and PHASES more, ROWS times
  int from = rank * SLICE + lane, shift = shiftOf((u32)row);   // the thread's first vector of a row
  auto inside = [&](int i) {
    return (SLICE % GROUP == 0 || lane + i * GROUP < SLICE) && (ROW_VECS % CLUSTER == 0 || from + i * GROUP < ROW_VECS);
  };
  auto has = [&](int r, int i) { return (WHOLE || row + r * PHASES < rows) && inside(i); };
  auto column = [&](int i) {
    int c = (from + i * GROUP) * VEC - shift;
    wholeBetween(c, i > 0, CLUSTER == 1 && (i + 1) * GROUP * VEC <= COLS);
    return c;
  };
  auto ends = [](int i) { return CLUSTER == 1 && ((i + 1) * GROUP + 1) * VEC <= COLS; }; // of any thread's vector i
  i64 first = row * COLS + from * VEC - shift;
  auto at = [&](int r, int i) { return first + (i64)(r * PHASES * COLS + i * GROUP * VEC); };

  RowVec xr[ROWS][L], rr[ROWS][L];
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int i = 0; i < L; i++) {
      i64 start = at(r, i) - column(i);
      xr[r][i] = has(r, i) ? loadOwn(x + start, column(i)) : zero<VECTOR_BYTES>();
      if (RESIDUAL) rr[r][i] = has(r, i) ? loadOwn(res + start, column(i)) : zero<VECTOR_BYTES>();
    }
  Raw<W_BYTES> wr[L], br[L];
#pragma unroll
  for (int i = 0; i < L; i++) {
    wr[i] = HAS_WEIGHT && inside(i) ? loadColumns(w, column(i), i > 0, ends(i)) : zero<W_BYTES>();
    if (HAS_BIAS) br[i] = inside(i) ? loadColumns(b, column(i), i > 0, ends(i)) : zero<W_BYTES>();
  }
#if CLUSTER > 1
  __shared__ ClusterSum<K, 1, CLUSTER> across;
  across.begin();
#endif

  float f[ROWS][L][VEC], s[ROWS], mu[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    s[r] = mu[r] = 0.f;
#pragma unroll
    for (int i = 0; i < L; i++) {
      unpackX(xr[r][i], f[r][i]);
      if (RESIDUAL) {
        float g[VEC];
        unpackX(rr[r][i], g);
#pragma unroll
        for (int j = 0; j < VEC; j++) f[r][i][j] += g[j];
        if (has(r, i)) storeOwn<X>(resout + at(r, i), column(i), pack<X_TYPE, VEC>(f[r][i]));
      }
      if (LAYERNORM) s[r] += sumVec(f[r][i]);
    }
  }
  if (LAYERNORM) {
    sumOver<ROWS, GROUP>(s, 0);
#if CLUSTER > 1
    float scale = 1.0f / sliceCols<SLICE>(rank, shift);
#else
    constexpr float scale = INV_COLS;
#endif
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      mu[r] = s[r] * scale;
#pragma unroll
      for (int i = 0; i < L; i++) {
#pragma unroll
        for (int j = 0; j < VEC; j++) f[r][i][j] = inside(i) ? f[r][i][j] - mu[r] : 0.f;
        clearOthers(f[r][i], column(i), 0.f);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    s[r] = 0.f;
#pragma unroll
    for (int i = 0; i < L; i++) {
      float q[VEC];
#pragma unroll
      for (int j = 0; j < VEC; j++) q[j] = f[r][i][j] * f[r][i][j];
      s[r] += sumVec(q);
    }
  }
  sumOver<ROWS, GROUP>(s, LAYERNORM);
#if CLUSTER > 1
  float own = mu[0];
  clusterWait();
  exchangeSums<SLICE>(across, s[0], mu[0], 0, lane, shift, 0);
  if (LAYERNORM)
#pragma unroll
    for (int i = 0; i < L; i++)
#pragma unroll
      for (int j = 0; j < VEC; j++) f[0][i][j] += own - mu[0];
#endif
#if LAYERNORM
  // Lane r of a group stores the statistics of row r: neighbours leave in one request. One lane
  // that stored them all made as many requests, of 4 bytes, as there are statistics, half as
  // many as y's: 2% slower at 65536x256 (H200, 2 and 4 rows). In rmsnorm, which has half as
  // many, it was no faster, and of four rows' choice the compiler made an index into local memory.
  float own_rstd = 0.f, own_mean = 0.f;
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    s[r] = rsqrtf(s[r] * INV_COLS + eps);
    if (lane == r) own_rstd = s[r], own_mean = mu[r];
  }
  if (lane < ROWS && rank == 0 && (WHOLE || row + lane * PHASES < rows)) {
    rstd[row + lane * PHASES] = own_rstd;
    mean[row + lane * PHASES] = own_mean;
  }
#else
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    s[r] = rsqrtf(s[r] * INV_COLS + eps);
    if (lane == 0 && rank == 0 && (WHOLE || row + r * PHASES < rows)) rstd[row + r * PHASES] = s[r];
  }
#endif
#pragma unroll
  for (int i = 0; i < L; i++) {
    float wf[VEC], bf[VEC];
    weights(wr[i], wf);
    if (HAS_BIAS) unpack<W_TYPE, VEC>(br[i], bf);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      if (!has(r, i)) continue;
#pragma unroll
      for (int j = 0; j < VEC; j++) f[r][i][j] = f[r][i][j] * s[r] * wf[j] + (HAS_BIAS ? bf[j] : 0.f);
      storeOwn<Y>(y + at(r, i), column(i), pack<Y_TYPE, VEC>(f[r][i]));
    }
  }
}

extern "C" __global__ void BOUNDS(THREADS)
one_shot(const X *x, const X *res, const W *w, const W *b, Y *y, X *resout, float *rstd, float *mean, i64 rows, float eps) {
  if (WHOLE_TILES || PHASES == 1 && (i64)(blockIdx.x / CLUSTER + 1) * BLOCK_ROWS <= rows) normalizeRows<true>(x, res, w, b, y, resout, rstd, mean, rows, eps);
  else normalizeRows<false>(x, res, w, b, y, resout, rstd, mean, rows, eps);
}
