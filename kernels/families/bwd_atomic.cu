// Backward with dw and db added up in memory by atomic operations.
//
//   x, dy (M,N), [dres (M,N)], w (N), rstd (M), [mean (M)] -> dx (M,N), sums of dw
//   and db (N) fp32, zeros at the start, which a last launch (reduce.cu, over one
//   partial row) rounds to dw and db
//
// Bytes: x, dy and dx once; 4 bytes per element added in L2 (8 with db), for each
// row or, with ATOMIC_SCOPE = 1, once per CTA, which then sums its rows in
// registers before. The order of the additions is that in which CTAs come.
//
// FlyDSL's atomic variant adds each row; Liger's layer norm before PR 945, and
// quack PR 101 in its first version, what a CTA has summed. Atomics on four
// floats at a time need sm_90.
#define ROW_THREADS (THREADS / BLOCK_ROWS)
#include "common.cuh"
#include "bwd_row.cuh"

// addInMemory adds a vector to the sums at out.
__device__ __forceinline__ void addInMemory(float *out, const float (&v)[VEC]) {
#if __CUDA_ARCH__ >= 900
  if constexpr (BY_FOUR) {
#pragma unroll
    for (int j = 0; j < VEC; j += 4)
      asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(out + j), "f"(v[j]), "f"(v[j + 1]), "f"(v[j + 2]), "f"(v[j + 3])
                   : "memory");
    return;
  }
#endif
#pragma unroll
  for (int j = 0; j < VEC; j++) asm volatile("red.global.add.f32 [%0], %1;" ::"l"(out + j), "f"(v[j]) : "memory");
}

// addProgram adds the CTA's sums. Its groups of threads first add theirs in
// shared memory one after the other, so that there is one addition per column.
__device__ __forceinline__ void addProgram(float *out, float (&acc)[L][VEC]) {
  extern __shared__ float merged[];
#pragma unroll 1
  for (int g = 0; g < BLOCK_ROWS; g++) {
    if (threadIdx.x / (ROW_THREADS) == g) {
#pragma unroll
      for (int i = 0; i < L; i++)
        if (inside(i)) {
          if (BLOCK_ROWS > 1 && g > 0)
#pragma unroll
            for (int j = 0; j < VEC; j++) acc[i][j] += merged[column(i) + j];
          if (g == BLOCK_ROWS - 1) addInMemory(out + column(i), acc[i]);
          else
#pragma unroll
            for (int j = 0; j < VEC; j++) merged[column(i) + j] = acc[i][j];
        }
    }
    if (BLOCK_ROWS > 1) __syncthreads();
  }
}

extern "C" __global__ void BOUNDS(THREADS)
atomic_sums(const X *x, const X *dy, const X *dres, const W *w, const W *b, const float *rstd, const float *mean, X *dx,
            float *dw_sum, float *db_sum, i64 rows) {
  In in = {x, dy, dres, rstd, mean};
  u32 nothing = (u32)(rows >> 62); // no one has so many
  float dw[L][VEC], db[HAS_BIAS ? L : 1][VEC];
#pragma unroll
  for (int i = 0; i < L; i++)
#pragma unroll
    for (int j = 0; j < VEC; j++) dw[i][j] = db[HAS_BIAS ? i : 0][j] = 0.f;

  Tiles t(rows);
  int phase = 0;
  for (i64 first = t.first; first < t.end; first += t.stride) {
    i64 row = first + threadIdx.x / (ROW_THREADS);
    bool live = row < t.end;
    Row r;
    r.fetch(in, row, live);
    Raw<W_BYTES> wraw[L];
#pragma unroll
    for (int i = 0; i < L; i++) wraw[i] = inside(i) ? loadW(w, column(i)) : zero<W_BYTES>();

    float s[K], wf[VEC];
#pragma unroll
    for (int k = 0; k < K; k++) s[k] = 0.f;
#pragma unroll
    for (int i = 0; i < L; i++)
      if (inside(i)) {
        weights(wraw[i], wf);
        addSums(r.x[i], r.dy[i], wf, r.st, s[0], s[K - 1]);
      }
    sumOver<K, ROW_THREADS>(s, phase);
    phase ^= 1;
    r.packed(nothing);

    float c1 = s[0] * INV_COLS, c2 = LAYERNORM ? s[K - 1] * INV_COLS : 0.f;
#pragma unroll
    for (int i = 0; i < L; i++)
      if (live && inside(i)) {
        if (!KEEP_W) wraw[i] = loadW(w, column(i));
        weights(wraw[i], wf);
        putDX(dx + row * COLS + column(i), r.x[i], r.dy[i], r.residual(i), wf, r.st, c1, c2);
#if ATOMIC_SCOPE == 0
#pragma unroll
        for (int j = 0; j < VEC; j++) dw[i][j] = db[HAS_BIAS ? i : 0][j] = 0.f;
#endif
        addGradients(r.x[i], r.dy[i], r.st, dw[i], db[HAS_BIAS ? i : 0]);
#if ATOMIC_SCOPE == 0
        addInMemory(dw_sum + column(i), dw[i]);
#if HAS_BIAS
        addInMemory(db_sum + column(i), db[i]);
#endif
#endif
      }
  }
#if ATOMIC_SCOPE == 1
  addProgram(dw_sum, dw);
#if HAS_BIAS
  addProgram(db_sum, db);
#endif
#endif
}
