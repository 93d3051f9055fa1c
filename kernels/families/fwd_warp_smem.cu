// Forward, one pass: a warp per row, the row and the weights in shared memory.
//
//   x (M,N), [res (M,N)], [w (N)], [b (N)] ->
//     y (M,N), [resout (M,N)], rstd (M) fp32, [mean (M) fp32]
//
// plain_rms_fwd.cu and plain_ln_fwd.cu read a row again for each sum and for y, one element at a
// time. Here the row is in shared memory, and a warp has it alone.
//
// Bytes: x (and res) once, y (and resout) once; w and b once per CTA, mostly
// from L2.
//
// The design of llm.c's forward (llmc/layernorm.cuh, layernorm_forward_kernel6,
// and its residual form). A CTA of WARPS warps first brings w and b to shared
// memory; then each warp has rows of its own: it sums a row on its way to the
// warp's part of shared memory and reads it from there again. So a thread's
// registers do not limit N, and a row needs no barrier. BLOCK_ROWS is WARPS.
//
// Not in llm.c: rmsnorm; persistent CTAs, which bring the weights once for
// many rows (there, one row per warp); and the sum with a residual staged in fp32,
// from which the statistics and y come (there, rounded to the type of x).
#ifndef COLS
#define COLS 4096 // 1 to 16777216: N
#endif
#ifndef WARPS
#define WARPS 8 // 1 to 32, powers of 2: of a CTA
#endif
#ifndef VECTOR_BYTES
#define VECTOR_BYTES 16 // 2 to 16, powers of 2: of a thread's load or store
#endif
#ifndef BLOCK_ROWS
#define BLOCK_ROWS 8 // 1 to 32, powers of 2: rows of a CTA, one per warp
#endif

#include "common.cuh"
#include "pipe.cuh"

static_assert(BLOCK_ROWS == WARPS, "a warp per row");
constexpr int L = cdiv(VECS, 32);
constexpr int BATCH = imin(L, RESIDUAL ? 4 : 8); // vectors of each tensor that a thread has in flight
constexpr int UNROLLED = imin(L, 4);             // from shared memory fewer will do
// What is normalized, as it stands in shared memory: x, or x + res in fp32.
constexpr int STAGED = RESIDUAL ? FP32 : X_TYPE;
constexpr int STAGED_BYTES = VEC * sizeof(Elem<STAGED>::bits);
constexpr int ROW_BYTES = cdiv(VECS * STAGED_BYTES, 16) * 16;
constexpr int PARAM_BYTES = cdiv(COLS * (int)sizeof(W), 16) * 16;

extern __shared__ __align__(16) char smem[]; // [w], [b], a row per warp

__device__ __forceinline__ int vector(int i) { return threadIdx.x % 32 + i * 32; }
__device__ __forceinline__ bool inside(int i) { return vector(i) < VECS; }

// copyWeights copies a parameter to shared memory; all threads of the CTA do.
__device__ __forceinline__ void copyWeights(char *to, const W *from) {
  for (int v = threadIdx.x; v < VECS; v += THREADS) storeShared(to + v * W_BYTES, load<W_BYTES>(from + v * VEC));
}

// staged widens vector i of the warp's row.
__device__ __forceinline__ void staged(const char *row, int i, float (&f)[VEC]) {
  unpack<STAGED, VEC>(loadShared<STAGED_BYTES>(row + vector(i) * STAGED_BYTES), f);
}

// stageRow brings a row to shared memory, stores the sum with the residual, and
// returns the thread's sum: of the values in layernorm, of their squares in
// rmsnorm.
__device__ __forceinline__ float stageRow(char *to, const X *x, const X *res, X *resout) {
  float sum = 0.f;
  for (int first = 0; first < L; first += BATCH) {
    RowVec v[BATCH], r[RESIDUAL ? BATCH : 1];
#pragma unroll
    for (int i = 0; i < BATCH; i++)
      if (inside(first + i)) {
        v[i] = loadRow<VECTOR_BYTES>(x + vector(first + i) * VEC);
        if (RESIDUAL) r[i % (RESIDUAL ? BATCH : 1)] = loadRow<VECTOR_BYTES>(res + vector(first + i) * VEC);
      }
#pragma unroll
    for (int i = 0; i < BATCH; i++)
      if (inside(first + i)) {
        float f[VEC];
        unpackX(v[i], f);
#if RESIDUAL
        float g[VEC];
        unpackX(r[i], g);
#pragma unroll
        for (int j = 0; j < VEC; j++) f[j] += g[j];
        store<VECTOR_BYTES>(resout + vector(first + i) * VEC, pack<X_TYPE, VEC>(f));
#endif
        storeShared(to + vector(first + i) * STAGED_BYTES, pack<STAGED, VEC>(f));
#pragma unroll
        for (int j = 0; j < VEC; j++) sum += LAYERNORM ? f[j] : f[j] * f[j];
      }
  }
  return sum;
}

__device__ __forceinline__ float warpSum(float v) {
  float s[1] = {v};
  sumOver<1, 32>(s, 0);
  return s[0];
}

extern "C" __global__ void BOUNDS(THREADS)
warp_smem(const X *x, const X *res, const W *w, const W *b, X *y, X *resout, float *rstd, float *mean, i64 rows, float eps) {
  char *ws = smem, *bs = ws + HAS_WEIGHT * PARAM_BYTES;
  char *own = bs + HAS_BIAS * PARAM_BYTES + threadIdx.x / 32 * ROW_BYTES;
  if (HAS_WEIGHT) copyWeights(ws, w);
  if (HAS_BIAS) copyWeights(bs, b);
  bool ready = !(HAS_WEIGHT || HAS_BIAS); // whether the parameters are there

  Tiles t(rows);
  for (i64 first = t.first; first < t.end; first += t.stride) {
    i64 row = first + threadIdx.x / 32;
    float s = 0.f, mu = 0.f;
    // A thread reads only what it has staged itself.
    if (row < t.end) s = stageRow(own, x + row * COLS, res + row * COLS, resout + row * COLS);
    if (!ready) __syncthreads(); // after the first row is on its way
    ready = true;
    if (row >= t.end) break; // and so are the warp's later rows
    s = warpSum(s);
#if LAYERNORM
    mu = s * INV_COLS;
    s = 0.f;
#pragma unroll UNROLLED
    for (int i = 0; i < L; i++)
      if (inside(i)) {
        float f[VEC];
        staged(own, i, f);
#pragma unroll
        for (int j = 0; j < VEC; j++) s += (f[j] - mu) * (f[j] - mu);
      }
    s = warpSum(s);
#endif
    float rs = 1.0f / sqrtf(s * INV_COLS + eps);
    if (threadIdx.x % 32 == 0) {
      rstd[row] = rs;
#if LAYERNORM
      mean[row] = mu;
#endif
    }
#pragma unroll UNROLLED
    for (int i = 0; i < L; i++)
      if (inside(i)) {
        float f[VEC], wf[VEC];
        staged(own, i, f);
        weights(HAS_WEIGHT ? loadShared<W_BYTES>(ws + vector(i) * W_BYTES) : zero<W_BYTES>(), wf);
#pragma unroll
        for (int j = 0; j < VEC; j++) f[j] = (f[j] - mu) * rs * wf[j];
#if HAS_BIAS
        float bf[VEC];
        unpack<W_TYPE, VEC>(loadShared<W_BYTES>(bs + vector(i) * W_BYTES), bf);
#pragma unroll
        for (int j = 0; j < VEC; j++) f[j] += bf[j];
#endif
        store<VECTOR_BYTES>(y + row * COLS + vector(i) * VEC, pack<X_TYPE, VEC>(f));
      }
  }
}
