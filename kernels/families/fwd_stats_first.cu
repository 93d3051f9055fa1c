// Forward to fp8 and its transpose in two launches: the statistics of all rows first, then y and
// yt by tiles, from x again, which is in L2 as far as it fits.
//
//   stats: x (M,N) -> sums (M,CTAS_PER_ROW,1 or 2) fp32, amax = 0
//   tiles: x (M,N), [w (N)], [b (N)], sums, scale -> y (M,N), yt (N,M), rstd (M) fp32, [mean (M) fp32], amax, scale_inv
//
// plain_rms_fwd.cu and plain_ln_fwd.cu make the sums of a row and its y in one kernel. Here these
// are two, so that the second need not go by rows.
//
// Bytes: x, y and yt once from DRAM where x stays in L2, and x once more from there. Nothing is
// held until its row is complete, so that a row may be as wide and start where it likes, and a
// tile have 128 rows, whose bytes are whole lines of yt.
//
// stats divides a row among CTAS_PER_ROW CTAs, and leaves for each the sum of squares or, in
// layernorm, the sum and the squares centred on its mean, which each CTA of tiles merges again
// for its rows (Chan, Golub and LeVeque 1979): CTAs that wait for each other, or a launch
// more, would take longer. tiles starts while stats ends (programmatic dependent launch), with
// x, and with the last rows, which have been read last.
#ifndef Y_TYPE
#define Y_TYPE 3 // 3: e4m3
#endif
#ifndef TRANSPOSED
#define TRANSPOSED 1 // 1: yt is written
#endif
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
#ifndef CTAS_PER_ROW
#define CTAS_PER_ROW 1 // 1 to 64: that share a row through global memory
#endif
#ifndef X_ALIGN
#define X_ALIGN 16 // 2 to 16, powers of 2: bytes that rows of x start at multiples of
#endif
#ifndef Y_ALIGN
#define Y_ALIGN 16 // 1 to 16, powers of 2: of y
#endif

#include "common.cuh"
#include "ragged.cuh"
#include "ragged_fwd.cuh"
#include "turn.cuh"

constexpr int TPR = THREADS / BLOCK_ROWS;
constexpr int SLICE = cdiv(ROW_VECS, CTAS_PER_ROW); // vectors of a row in one CTA; the last may have fewer
constexpr int L = cdiv(SLICE, TPR);
constexpr int K = LAYERNORM ? 2 : 1;
static_assert(Y_TYPE == E4M3 && TRANSPOSED && !RESIDUAL, "the tile is one of bytes, for yt");

extern "C" __global__ void BOUNDS(THREADS)
stats(const X *x, float *sums, float *amax, i64 rows) {
  int lane = threadIdx.x % TPR, rank = blockIdx.x % CTAS_PER_ROW;
  i64 row = (i64)(blockIdx.x / CTAS_PER_ROW) * BLOCK_ROWS + threadIdx.x / TPR;
  int from = rank * SLICE + lane, shift = shiftOf((u32)row);
  auto inside = [&](int i) {
    return (SLICE % TPR == 0 || lane + i * TPR < SLICE) && (ROW_VECS % CTAS_PER_ROW == 0 || from + i * TPR < ROW_VECS);
  };
  auto column = [&](int i) { return (from + i * TPR) * VEC - shift; };
  RowVec r[L];
#pragma unroll
  for (int i = 0; i < L; i++) r[i] = row < rows && inside(i) ? loadOwn(x + row * COLS, column(i)) : zero<VECTOR_BYTES>();
  if (blockIdx.x == 0 && threadIdx.x == 0) *amax = 0.f;

  float mu = 0.f, s[1] = {0.f}, all = 0.f, f[VEC];
#if LAYERNORM
#pragma unroll
  for (int i = 0; i < L; i++) {
    unpackX(r[i], f);
#pragma unroll
    for (int j = 0; j < VEC; j++) s[0] += f[j];
  }
  sumOver<1, TPR>(s, 0);
  all = s[0], mu = all / sliceCols<SLICE>(rank, shift);
  s[0] = 0.f;
#endif
#pragma unroll
  for (int i = 0; i < L; i++)
    if (inside(i)) {
      unpackX(r[i], f);
      if (LAYERNORM) clearOthers(f, column(i), mu);
#pragma unroll
      for (int j = 0; j < VEC; j++) s[0] += (f[j] - mu) * (f[j] - mu);
    }
  letNextStart();
  sumOver<1, TPR>(s, LAYERNORM);
  if (lane == 0 && row < rows) {
    float *own = sums + (row * CTAS_PER_ROW + rank) * K;
    own[K - 1] = s[0];
    if (LAYERNORM) own[0] = all;
  }
}

// ---- Tiles --------------------------------------------------------------------

constexpr int ACROSS_ROW = cdiv(COLS, TC);                          // tiles side by side
constexpr int PIECE = imin(IN * (int)sizeof(X), X_ALIGN);           // bytes of x that a load may have
constexpr int PUT = imin(IN, Y_ALIGN);                              // bytes of y that a store may have
constexpr int PIECES = IN * sizeof(X) / PIECE, PER_PIECE = PIECE / sizeof(X);

// parameters reads IN weights or biases from column col on.
template <int TYPE> __device__ __forceinline__ void parameters(const typename Elem<TYPE>::bits *p, int col, float (&f)[IN]) {
  if (COLS % IN == 0 || col + IN <= COLS) {
    unpack<TYPE, IN>(load<IN * sizeof(*p)>(p + col), f);
  } else {
#pragma unroll
    for (int j = 0; j < IN; j++) f[j] = col + j < COLS ? at<TYPE>(p + col + j) : 0.f;
  }
}

// elements reads IN of x from column col of a row on, zeros beyond it.
__device__ __forceinline__ Raw<IN * sizeof(X)> elements(const X *row, int col) {
  Raw<IN * sizeof(X)> all = zero<IN * sizeof(X)>();
#pragma unroll
  for (int k = 0; k < PIECES; k++) {
    int c = col + k * PER_PIECE;
    if (COLS % IN != 0 && c >= COLS) continue;
    Raw<PIECE> some = loadRow<PIECE>(row + c);
    if constexpr (PIECE == 2) {
      all.word[k / 2] |= some.word[0] << 16 * (k % 2);
    } else {
#pragma unroll
      for (int m = 0; m < PIECE / 4; m++) all.word[k * (PIECE / 4) + m] = some.word[m];
    }
  }
  return all;
}

// putBytes writes IN bytes of y from column col on, those of the row.
__device__ __forceinline__ void putBytes(Y *row, int col, const Raw<IN> &bytes) {
#pragma unroll
  for (int k = 0; k < IN / PUT; k++) {
    if (COLS % IN != 0 && col + k * PUT >= COLS) continue;
    Raw<PUT> some;
    if constexpr (PUT < 4) {
      some.word[0] = bytes.word[k * PUT / 4] >> 8 * (k * PUT % 4);
    } else {
#pragma unroll
      for (int m = 0; m < PUT / 4; m++) some.word[m] = bytes.word[k * (PUT / 4) + m];
    }
    store<PUT>(row + col + k * PUT, some);
  }
}

// merged are the statistics of a row of the tile.
__device__ __forceinline__ void merged(const float *sums, i64 row, float eps, float &rs, float &mu) {
  const float *own = sums + row * CTAS_PER_ROW * K;
  int shift = shiftOf((u32)row);
  float squares = 0.f;
  mu = 0.f;
  if (LAYERNORM) {
#pragma unroll
    for (int r = 0; r < CTAS_PER_ROW; r++) mu += own[r * K] * INV_COLS;
#pragma unroll
    for (int r = 0; r < CTAS_PER_ROW; r++) {
      float cols = sliceCols<SLICE>(r, shift), off = own[r * K] / cols - mu;
      squares += own[r * K + 1] + cols * off * off;
    }
  } else {
#pragma unroll
    for (int r = 0; r < CTAS_PER_ROW; r++) squares += own[r];
  }
  rs = 1.0f / sqrtf(squares * INV_COLS + eps);
}

extern "C" __global__ void __launch_bounds__(TTHREADS)
tiles(const X *x, const W *w, const W *b, Y *y, float *rstd, float *mean, i64 rows, float eps, const float *sums, const float *scale, float *amax,
      float *scale_inv, Y *yt) {
  __shared__ __align__(16) u32 tile[TC * PITCH];
  __shared__ float rsOf[TR], muOf[TR];
  i64 group = (rows + TR - 1) / TR - 1 - blockIdx.x / ACROSS_ROW, row0 = group * TR;
  int col0 = blockIdx.x % ACROSS_ROW * TC;
  auto rowOf = [&](int u, int k) { return (u * TTHREADS + (int)threadIdx.x) / ACROSS * 4 + k; };
  auto columnOf = [&](int u) { return col0 + (u * TTHREADS + (int)threadIdx.x) % ACROSS * IN; };
  Raw<IN * sizeof(X)> in[UNITS][4];
#pragma unroll
  for (int u = 0; u < UNITS; u++)
#pragma unroll
    for (int k = 0; k < 4; k++) {
      i64 row = row0 + rowOf(u, k);
      in[u][k] = row < rows && columnOf(u) < COLS ? elements(x + row * COLS, columnOf(u)) : zero<IN * sizeof(X)>();
    }
  float by = __ldg(scale);
  waitForPrevious(); // the sums
  for (int r = threadIdx.x; r < TR && row0 + r < rows; r += TTHREADS) {
    merged(sums, row0 + r, eps, rsOf[r], muOf[r]);
    if (col0 == 0) {
      rstd[row0 + r] = rsOf[r];
      if (LAYERNORM) mean[row0 + r] = muOf[r];
    }
  }
  __syncthreads();

  u32 most = 0;
  Raw<IN> bytes[UNITS][4];
#pragma unroll
  for (int u = 0; u < UNITS; u++) {
    int col = columnOf(u);
    float wf[IN], bf[IN];
    if (HAS_WEIGHT && col < COLS) parameters<W_TYPE>(w, col, wf);
#pragma unroll
    for (int j = 0; j < IN; j++) wf[j] = (HAS_WEIGHT ? wf[j] : 1.0f) + (ZERO_CENTERED ? 1.0f : 0.0f);
    if (HAS_BIAS && col < COLS) parameters<W_TYPE>(b, col, bf);
#pragma unroll
    for (int k = 0; k < 4; k++) {
      int r = rowOf(u, k);
      float f[IN];
      unpack<X_TYPE, IN>(in[u][k], f);
#pragma unroll
      for (int j = 0; j < IN; j++) {
        f[j] = (LAYERNORM ? f[j] - muOf[r] : f[j]) * rsOf[r] * wf[j];
        if (HAS_BIAS) f[j] += bf[j];
        if (row0 + r < rows && (COLS % TC == 0 || col + j < COLS)) most = max(most, magnitude(f[j]));
        f[j] *= by;
      }
      bytes[u][k] = pack<Y_TYPE, IN>(f);
      if (row0 + r < rows && col < COLS) putBytes(y + (row0 + r) * COLS, col, bytes[u][k]);
    }
  }
  keepTile(tile, bytes);
  __syncthreads();
  storeTile(tile, yt, rows, COLS, row0, col0);
  amaxOver(amax, most);
  if (blockIdx.x == 0 && threadIdx.x == 0) *scale_inv = 1.0f / by;
}
