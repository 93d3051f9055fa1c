// Forward, one pass: a group of threads holds a whole row in registers.
//
//   x (M,N), [res (M,N)], [w (N)], [b (N)], [scale] ->
//     y (M,N), [resout (M,N)], rstd (M) fp32, [mean (M) fp32], [amax, scale_inv, yt (N,M)]
//
// plain_rms_fwd.cu and plain_ln_fwd.cu read a row again for each sum and for y, one element at a
// time. Here threads hold the row in registers, in vectors, and a CTA may have several rows.
//
// Bytes: x (and res) once, y (and resout) once; w stays in L1/L2. A CTA of
// WARPS warps handles BLOCK_ROWS rows at a time, WARPS*32/BLOCK_ROWS threads to
// a row; each thread holds L vectors of it, packed as they came. Layernorm takes
// the mean first and then the centred squares, as the row is at hand. With fewer
// CTAs than tiles of rows, CTAs stride over the tiles; STAGES = 2 then
// loads the next tile's rows before it finishes this one's.
//
// With HOIST the weight and the bias are read once per CTA, while its first
// rows are on their way (ROCm TransformerEngine after PR 593); without, once per
// row, after the reduction (before it). TransformerEngine hoists the weight
// widened, with the one of zero-centered weights added; here it stays packed,
// at half the registers, and is widened per row.
//
// With a residual the statistics and y come from the fp32 sum x + res; only
// resout is rounded. In fp8 the largest |y| before the scale takes one atomic
// operation per CTA, and scale_inv is CTA 0's. With TRANSPOSE_PATH 0
// each lane also stores its bytes to yt one by one, M bytes apart: the old
// design of TransformerEngine, in which each byte is a sector of its own.
//
// RAGGED rows are read and written by aligned vectors (ragged.cuh), the weights cut
// out of two vectors each; HOIST does that once where a thread's rows all start alike
// in their vectors.
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
#ifndef STAGES
#define STAGES 1 // 1 or 2: tiles in flight
#endif
#ifndef HOIST
#define HOIST 1 // 0 or 1: whether the weight is read once per CTA
#endif
#ifndef TRANSPOSE_PATH
#define TRANSPOSE_PATH 0 // 0 or 1: 0 writes yt here, 1 leaves it to transpose.cu
#endif

#include "common.cuh"
#include "ragged.cuh"
#include "ragged_fwd.cuh"

constexpr int TPR = THREADS / BLOCK_ROWS;
constexpr int L = cdiv(ROW_VECS, TPR);
constexpr int HELD = HOIST ? L : 1, SUMS = RESIDUAL ? L : 1;
constexpr bool FP8 = Y_TYPE == E4M3;

struct Row {
  RowVec x[L];
#if RESIDUAL
  RowVec res[L];
#endif
};

__device__ __forceinline__ bool inside(int i) {
  return ROW_VECS % TPR == 0 || threadIdx.x % TPR + i * TPR < ROW_VECS;
}

// column is that of the thread's vector i in a row that starts shift elements behind an
// aligned vector.
__device__ __forceinline__ int column(int lane, int i, int shift) {
  int c = (lane + i * TPR) * VEC - shift;
  wholeBetween(c, i > 0, (i + 1) * TPR * VEC <= COLS);
  return c;
}

// nextIsWhole says that a row has another whole vector behind vector i, of any thread.
__device__ __forceinline__ bool nextIsWhole(int i) { return ((i + 1) * TPR + 1) * VEC <= COLS; }

__device__ __forceinline__ void fetch(Row &r, const X *x, const X *res, i64 row, i64 end) {
  int lane = threadIdx.x % TPR, shift = shiftOf(row);
#pragma unroll
  for (int i = 0; i < L; i++) {
    bool in = row < end && inside(i);
    r.x[i] = in ? loadOwn(x + row * COLS, column(lane, i, shift)) : zero<VECTOR_BYTES>();
#if RESIDUAL
    r.res[i] = in ? loadOwn(res + row * COLS, column(lane, i, shift)) : zero<VECTOR_BYTES>();
#endif
  }
}

// addResidual is x + res of vector i.
__device__ __forceinline__ void addResidual(const Row &r, int i, float (&f)[VEC]) {
  unpackX(r.x[i], f);
#if RESIDUAL
  float g[VEC];
  unpackX(r.res[i], g);
#pragma unroll
  for (int j = 0; j < VEC; j++) f[j] += g[j];
#endif
}

// readValues are what is normalized of vector i: x, or the sum, of which two fp32
// take no more registers than the 16-bit vectors that they come from.
__device__ __forceinline__ void readValues(const Row &r, const float (&sum)[SUMS][VEC], int i, float (&f)[VEC]) {
#if RESIDUAL
#pragma unroll
  for (int j = 0; j < VEC; j++) f[j] = sum[i][j];
#else
  unpackX(r.x[i], f);
#endif
}

// keepPacked makes the compiler forget what a packed vector holds: else it would widen
// hoisted weights once, ahead of the loop, and keep them so (at N = 16384 with 8
// warps in 127 registers instead of 96).
template <int BYTES> __device__ __forceinline__ void keepPacked(Raw<BYTES> &r) {
#pragma unroll
  for (int i = 0; i < (BYTES < 4 ? 1 : BYTES / 4); i++) asm volatile("" : "+r"(r.word[i]));
}

extern "C" __global__ void BOUNDS(THREADS)
cta_reg(const X *x, const X *res, const W *w, const W *b, Y *y, X *resout, float *rstd, float *mean, i64 rows, float eps,
        const float *scale, float *amax, float *scale_inv, Y *yt) {
  int lane = threadIdx.x % TPR;
  Tiles t(rows);
  i64 row = t.first + threadIdx.x / TPR;
  int phase = 0;
  u32 most = 0;
  float by = FP8 ? __ldg(scale) : 1.0f;
  Row r;
  fetch(r, x, res, row, t.end);
  Raw<W_BYTES> wraw[HELD], braw[HELD];
  if (HOIST)
#pragma unroll
    for (int i = 0; i < HELD; i++) {
      int c = column(lane, i, shiftOf(row));
      wraw[i] = HAS_WEIGHT && inside(i) ? loadColumns(w, c, i > 0, nextIsWhole(i)) : zero<W_BYTES>();
      if (HAS_BIAS) braw[i] = inside(i) ? loadColumns(b, c, i > 0, nextIsWhole(i)) : zero<W_BYTES>();
    }
  for (i64 first = t.first; first < t.end; first += t.stride, row += t.stride) {
    Row next;
    if (STAGES == 2) fetch(next, x, res, row + t.stride, t.end);

    int shift = shiftOf(row);
    float mu = 0.f, s[1] = {0.f}, f[VEC];
    float sum[SUMS][VEC];
#if RESIDUAL
#pragma unroll
    for (int i = 0; i < L; i++) {
      addResidual(r, i, sum[i]);
      int c = column(lane, i, shift);
      if (row < t.end && inside(i)) storeOwn<X>(resout + row * COLS + c, c, pack<X_TYPE, VEC>(sum[i]));
    }
#endif
#if LAYERNORM
#pragma unroll
    for (int i = 0; i < L; i++) {
      readValues(r, sum, i, f);
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
        readValues(r, sum, i, f);
        if (LAYERNORM) clearOthers(f, column(lane, i, shift), mu);
#pragma unroll
        for (int j = 0; j < VEC; j++) s[0] += (f[j] - mu) * (f[j] - mu);
      }
    // Layernorm's two reductions alternate phases within a row, rmsnorm's one
    // from row to row.
    sumOver<1, TPR>(s, LAYERNORM ? 1 : phase);
    phase ^= 1;
    float rs = 1.0f / sqrtf(s[0] * INV_COLS + eps);

    if (row < t.end) {
      if (lane == 0) {
        rstd[row] = rs;
#if LAYERNORM
        mean[row] = mu;
#endif
      }
#pragma unroll
      for (int i = 0; i < L; i++)
        if (inside(i)) {
          int c = column(lane, i, shift);
          float wf[VEC];
          readValues(r, sum, i, f);
          if (HOIST) keepPacked(wraw[i % HELD]);
          weights(HOIST ? wraw[i % HELD] : HAS_WEIGHT ? loadColumns(w, c, i > 0, nextIsWhole(i)) : zero<W_BYTES>(), wf);
#pragma unroll
          for (int j = 0; j < VEC; j++) f[j] = (f[j] - mu) * rs * wf[j];
#if HAS_BIAS
          float bf[VEC];
          if (HOIST) keepPacked(braw[i % HELD]);
          unpack<W_TYPE, VEC>(HOIST ? braw[i % HELD] : loadColumns(b, c, i > 0, nextIsWhole(i)), bf);
#pragma unroll
          for (int j = 0; j < VEC; j++) f[j] += bf[j];
#endif
          if (FP8) clearOthers(f, c, 0.f);
          if (FP8)
#pragma unroll
            for (int j = 0; j < VEC; j++) {
              most = max(most, magnitude(f[j]));
              f[j] *= by;
            }
          Raw<Y_BYTES> out = pack<Y_TYPE, VEC>(f);
          storeOwn<Y>(y + row * COLS + c, c, out);
#if TRANSPOSED && TRANSPOSE_PATH == 0
#pragma unroll
          for (int j = 0; j < VEC; j++)
            if (inRow(c + j)) yt[(c + j) * rows + row] = (Y)(out.word[j / 4] >> j % 4 * 8);
#endif
        }
    }
    if (STAGES == 2) r = next;
    else if (first + t.stride < t.end) fetch(r, x, res, row + t.stride, t.end);
  }
  if (FP8) {
    amaxOver(amax, most);
    if (blockIdx.x == 0 && threadIdx.x == 0) *scale_inv = 1.0f / by;
  }
}
