// Forward, two passes: a row is read in chunks of columns, and again.
//
//   x (M,N), [res (M,N)], [w (N)], [b (N)], [scale] ->
//     y (M,N), [resout (M,N)], rstd (M) fp32, [mean (M) fp32], [amax, scale_inv, yt (N,M)]
//
// plain_rms_fwd.cu and plain_ln_fwd.cu read a row again for each sum and for y, one element at a
// time. So does this design where it must, but in vectors, several at once, and the mean and the
// variance of layernorm in one reading.
//
// Bytes: x (and res) twice where the row has left the caches by the second pass,
// y (and resout) once. Any N, whatever the registers. All threads of a CTA
// work on each of its BLOCK_ROWS rows, BLOCK_COLS columns at a time. Where the
// whole row is one chunk and SINGLE_PASS is set, the chunk stays in registers
// and x is read once.
//
// Layernorm needs mean and variance from one reading. Sums of x-s and (x-s)²,
// with s the row's first element, are as good as centred ones where s lies
// within a few standard deviations of the mean; sums of x and x² lose the
// variance when the mean is large.
//
// With a residual, x + res stands for x: the second pass adds again, as the sum
// in resout is rounded. In fp8 the largest |y| before the scale takes one atomic
// operation per CTA, and scale_inv is CTA 0's. With TRANSPOSE_PATH 0
// each lane also stores its bytes to yt one by one, M bytes apart, as
// TransformerEngine did before PR 593.
#ifndef COLS
#define COLS 4096 // 1 to 16777216: N
#endif
#ifndef WARPS
#define WARPS 32 // 1 to 32, powers of 2: of a CTA
#endif
#ifndef VECTOR_BYTES
#define VECTOR_BYTES 16 // 2 to 16, powers of 2: of a thread's load or store
#endif
#ifndef BLOCK_ROWS
#define BLOCK_ROWS 1 // 1 to 8, powers of 2: rows of a CTA
#endif
#ifndef BLOCK_COLS
#define BLOCK_COLS 8192 // 32 to 131072: of a chunk
#endif
#ifndef SINGLE_PASS
#define SINGLE_PASS 1 // 0 or 1: whether the chunk stays in registers
#endif
#ifndef TRANSPOSE_PATH
#define TRANSPOSE_PATH 0 // 0 or 1: 0 writes yt here, 1 leaves it to transpose.cu
#endif

#include "common.cuh"

constexpr int U = BLOCK_COLS / (THREADS * VEC); // vectors per thread, row and chunk
static_assert(U * THREADS * VEC == BLOCK_COLS, "a chunk is a whole number of vectors per thread");
constexpr int KEPT = SINGLE_PASS ? U : 1;
constexpr bool FP8 = Y_TYPE == E4M3;

__device__ __forceinline__ int column(int chunk, int u) { return chunk + (u * THREADS + (int)threadIdx.x) * VEC; }

// A vector as it came.
struct Packed {
  RowVec x;
#if RESIDUAL
  RowVec res;
#endif
};

// fetch reads the vector at offset at, for the LAST time or not: what is read
// again should stay in the caches.
template <bool LAST> __device__ __forceinline__ Packed fetch(const X *x, const X *res, i64 at) {
  Packed v;
  v.x = LAST ? loadRow<VECTOR_BYTES>(x + at) : load<VECTOR_BYTES>(x + at);
#if RESIDUAL
  v.res = LAST ? loadRow<VECTOR_BYTES>(res + at) : load<VECTOR_BYTES>(res + at);
#endif
  return v;
}

// unpackValues are what is normalized: x, or x + res.
__device__ __forceinline__ void unpackValues(const Packed &v, float (&f)[VEC]) {
  unpackX(v.x, f);
#if RESIDUAL
  float g[VEC];
  unpackX(v.res, g);
#pragma unroll
  for (int j = 0; j < VEC; j++) f[j] += g[j];
#endif
}

// notNegative is fmaxf(v, 0), but for a NaN, which stays one.
__device__ __forceinline__ float notNegative(float v) {
  asm("max.NaN.f32 %0, %0, 0f00000000;" : "+f"(v));
  return v;
}

extern "C" __global__ void BOUNDS(THREADS)
two_pass(const X *x, const X *res, const W *w, const W *b, Y *y, X *resout, float *rstd, float *mean, i64 rows, float eps,
         const float *scale, float *amax, float *scale_inv, Y *yt) {
  Tiles t(rows);
  int phase = 0;
  u32 most = 0;
  float by = FP8 ? __ldg(scale) : 1.0f;
  for (i64 first = t.first; first < t.end; first += t.stride) {
    constexpr int K = LAYERNORM ? 2 : 1;
    float s[K * BLOCK_ROWS], shift[BLOCK_ROWS];
    Packed kept[BLOCK_ROWS][KEPT];
#pragma unroll
    for (int i = 0; i < K * BLOCK_ROWS; i++) s[i] = 0.f;
#pragma unroll
    for (int r = 0; r < BLOCK_ROWS; r++) {
      shift[r] = 0.f;
#if LAYERNORM
      if (first + r < t.end) {
        shift[r] = at<X_TYPE>(x + (first + r) * COLS);
        if (RESIDUAL) shift[r] += at<X_TYPE>(res + (first + r) * COLS);
        if (shift[r] - shift[r] != 0.f) shift[r] = 0.f; // an infinity: the mean is one, not NaN
      }
#endif
    }
    for (int chunk = 0; chunk < COLS; chunk += BLOCK_COLS)
#pragma unroll
      for (int r = 0; r < BLOCK_ROWS; r++) {
        Packed v[U];
#pragma unroll
        for (int u = 0; u < U; u++)
          if (first + r < t.end && column(chunk, u) < COLS)
            v[u] = fetch<SINGLE_PASS>(x, res, (first + r) * COLS + column(chunk, u));
#pragma unroll
        for (int u = 0; u < U; u++) {
          if (SINGLE_PASS) kept[r][u % KEPT] = v[u];
          if (first + r < t.end && column(chunk, u) < COLS) {
            float f[VEC];
            unpackValues(v[u], f);
#if RESIDUAL
            store<VECTOR_BYTES>(resout + (first + r) * COLS + column(chunk, u), pack<X_TYPE, VEC>(f));
#endif
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
      float var = s[K * r] * INV_COLS - d * d;
      rs[r] = 1.0f / sqrtf(notNegative(var) + eps);
      if (threadIdx.x == 0 && first + r < t.end) {
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
        weights(loadW(w, c), wf);
#if HAS_BIAS
        float bf[VEC];
        unpack<W_TYPE, VEC>(load<W_BYTES>(b + c), bf);
#endif
#pragma unroll
        for (int r = 0; r < BLOCK_ROWS; r++) {
          if (first + r >= t.end) continue;
          i64 row = first + r;
          float f[VEC];
          unpackValues(SINGLE_PASS ? kept[r][u % KEPT] : fetch<true>(x, res, row * COLS + c), f);
#pragma unroll
          for (int j = 0; j < VEC; j++) {
            f[j] = (f[j] - mu[r]) * rs[r] * wf[j];
#if HAS_BIAS
            f[j] += bf[j];
#endif
            if (FP8) {
              most = max(most, magnitude(f[j]));
              f[j] *= by;
            }
          }
          Raw<Y_BYTES> out = pack<Y_TYPE, VEC>(f);
          store<Y_BYTES>(y + row * COLS + c, out);
#if TRANSPOSED && TRANSPOSE_PATH == 0
#pragma unroll
          for (int j = 0; j < VEC; j++) yt[(i64)(c + j) * rows + row] = (Y)(out.word[j / 4] >> j % 4 * 8);
#endif
        }
      }
  }
  if (FP8) {
    amaxOver(amax, most);
    if (blockIdx.x == 0 && threadIdx.x == 0) *scale_inv = 1.0f / by;
  }
}
