// Forward, one pass: a group of threads holds a whole row in registers.
//
//   x (M,N), [res (M,N)], [w (N)], [b (N)], [scale] ->
//     y (M,N), [resout (M,N)], rstd (M) fp32, [mean (M) fp32], [amax, scale_inv, yt (N,M)]
//
// Bytes: x (and res) once, y (and resout) once; w stays in L1/L2. A program of
// WARPS warps handles BLOCK_ROWS rows at a time, WARPS*32/BLOCK_ROWS threads to
// a row; each thread holds L vectors of it, packed as they came. Layernorm takes
// the mean first and then the centred squares, as the row is at hand. With fewer
// programs than tiles of rows, programs stride over the tiles; STAGES = 2 then
// loads the next tile's rows before it finishes this one's.
//
// With HOIST the weight and the bias are read once per program, while its first
// rows are on their way (ROCm TransformerEngine after PR 593); without, once per
// row, after the reduction (before it). TransformerEngine hoists the weight
// widened, with the one of zero-centered weights added; here it stays packed,
// at half the registers, and is widened per row.
//
// With a residual the statistics and y come from the fp32 sum x + res; only
// resout is rounded. In fp8 the largest |y| before the scale takes one atomic
// operation per program, and scale_inv is program 0's. With TRANSPOSE_PATH 0
// each lane also stores its bytes to yt one by one, M bytes apart: the old
// design of TransformerEngine, in which each byte is a sector of its own.
#include "common.cuh"

constexpr int TPR = THREADS / BLOCK_ROWS;
constexpr int L = cdiv(VECS, TPR);
constexpr int HELD = HOIST ? L : 1, SUMS = RESIDUAL ? L : 1;
constexpr bool FP8 = Y_TYPE == E4M3;

struct Row {
  RowVec x[L];
#if RESIDUAL
  RowVec res[L];
#endif
};

__device__ __forceinline__ bool inside(int i) {
  return VECS % TPR == 0 || threadIdx.x % TPR + i * TPR < VECS;
}

__device__ __forceinline__ i64 column(int lane, int i) { return (i64)(lane + i * TPR) * VEC; }

__device__ __forceinline__ void fetch(Row &r, const X *x, const X *res, i64 row, i64 end) {
  int lane = threadIdx.x % TPR;
#pragma unroll
  for (int i = 0; i < L; i++) {
    bool in = row < end && inside(i);
    r.x[i] = in ? loadRow<VECTOR_BYTES>(x + row * COLS + column(lane, i)) : zero<VECTOR_BYTES>();
#if RESIDUAL
    r.res[i] = in ? loadRow<VECTOR_BYTES>(res + row * COLS + column(lane, i)) : zero<VECTOR_BYTES>();
#endif
  }
}

// add is x + res of vector i.
__device__ __forceinline__ void add(const Row &r, int i, float (&f)[VEC]) {
  unpackX(r.x[i], f);
#if RESIDUAL
  float g[VEC];
  unpackX(r.res[i], g);
#pragma unroll
  for (int j = 0; j < VEC; j++) f[j] += g[j];
#endif
}

// values are what is normalized of vector i: x, or the sum, of which two fp32
// take no more registers than the 16-bit vectors that they come from.
__device__ __forceinline__ void values(const Row &r, const float (&sum)[SUMS][VEC], int i, float (&f)[VEC]) {
#if RESIDUAL
#pragma unroll
  for (int j = 0; j < VEC; j++) f[j] = sum[i][j];
#else
  unpackX(r.x[i], f);
#endif
}

// stay makes the compiler forget what a packed vector holds: else it would widen
// hoisted weights once, ahead of the loop, and keep them so (at N = 16384 with 8
// warps in 127 registers instead of 96).
template <int BYTES> __device__ __forceinline__ void stay(Raw<BYTES> &r) {
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
      wraw[i] = inside(i) ? loadW(w, column(lane, i)) : zero<W_BYTES>();
      if (HAS_BIAS) braw[i] = inside(i) ? load<W_BYTES>(b + column(lane, i)) : zero<W_BYTES>();
    }
  for (i64 first = t.first; first < t.end; first += t.stride, row += t.stride) {
    Row next;
    if (STAGES == 2) fetch(next, x, res, row + t.stride, t.end);

    float mu = 0.f, s[1] = {0.f}, f[VEC];
    float sum[SUMS][VEC];
#if RESIDUAL
#pragma unroll
    for (int i = 0; i < L; i++) {
      add(r, i, sum[i]);
      if (row < t.end && inside(i)) store<VECTOR_BYTES>(resout + row * COLS + column(lane, i), pack<X_TYPE, VEC>(sum[i]));
    }
#endif
#if LAYERNORM
#pragma unroll
    for (int i = 0; i < L; i++) {
      values(r, sum, i, f);
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
        values(r, sum, i, f);
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
          i64 c = column(lane, i);
          float wf[VEC];
          values(r, sum, i, f);
          if (HOIST) stay(wraw[i % HELD]);
          weights(HOIST ? wraw[i % HELD] : loadW(w, c), wf);
#pragma unroll
          for (int j = 0; j < VEC; j++) f[j] = (f[j] - mu) * rs * wf[j];
#if HAS_BIAS
          float bf[VEC];
          if (HOIST) stay(braw[i % HELD]);
          unpack<W_TYPE, VEC>(HOIST ? braw[i % HELD] : load<W_BYTES>(b + c), bf);
#pragma unroll
          for (int j = 0; j < VEC; j++) f[j] += bf[j];
#endif
          if (FP8)
#pragma unroll
            for (int j = 0; j < VEC; j++) {
              most = max(most, magnitude(f[j]));
              f[j] *= by;
            }
          Raw<Y_BYTES> out = pack<Y_TYPE, VEC>(f);
          store<Y_BYTES>(y + row * COLS + c, out);
#if TRANSPOSED && TRANSPOSE_PATH == 0
#pragma unroll
          for (int j = 0; j < VEC; j++) yt[(c + j) * rows + row] = (Y)(out.word[j / 4] >> j % 4 * 8);
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
