// Backward, mix order: a CTA's own consecutive rows, one workspace row.
//
//   x, dy (M,N), [dres (M,N)], w (N), rstd (M), [mean (M)] -> dx (M,N), partial
//   sums of dw and db (CTAs,N) fp32, which k2 (reduce.cu) adds up
//
// plain_rms_bwd.cu and plain_ln_bwd.cu read x and dy twice, by rows for dx and by columns for dw.
// Here a CTA has neighbouring rows, reads them once, and keeps their sums of dw in registers.
//
// Bytes: x, dy and dx once; 8 bytes per partial element, written here and read
// by k2. The kernel that PyTorch Inductor generates since PR 165370: a CTA
// owns SPLIT_SIZE neighbouring rows and takes BLOCK_ROWS of them at a time, each
// row whole and spread over all of its threads; the weights are loaded anew for
// every tile; dw and db stay in fp32 registers until the one partial row is
// stored. The CTAs are ceil(M/SPLIT_SIZE), so the partial rows grow with M.
// STAGES - 1 tiles are in flight ahead of the one at work (num_stages there).
//
// Unlike there a row is not padded to a power of two, as threads are masked by
// vector, and the last CTA's missing rows cost no loads.
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
#define BLOCK_ROWS 1 // 1 to 16, powers of 2: rows of a CTA
#endif
#ifndef SPLIT_SIZE
#define SPLIT_SIZE 16 // 4 to 256: rows of a CTA in all
#endif
#ifndef STAGES
#define STAGES 3 // 1 to 3: tiles in flight
#endif

#define ROW_THREADS THREADS
#include "common.cuh"
#include "bwd_row.cuh"

constexpr int TILES = SPLIT_SIZE / BLOCK_ROWS;
static_assert(TILES * BLOCK_ROWS == SPLIT_SIZE && STAGES <= TILES, "tiles divide a split, and each stage has one");

// kept is a load of weights with Inductor's evict_last: every tile reads it again. It is
// volatile, as a compiler that moves it out of the loop gives its registers away
// for the whole kernel.
template <int BYTES> __device__ __forceinline__ Raw<BYTES> kept(const char *p) {
  Raw<BYTES> r;
  if constexpr (BYTES == 2) {
    unsigned short v;
    asm volatile("ld.global.nc.L1::evict_last.u16 %0, [%1];" : "=h"(v) : "l"(p));
    r.word[0] = v;
  } else if constexpr (BYTES == 4) {
    asm volatile("ld.global.nc.L1::evict_last.b32 %0, [%1];" : "=r"(r.word[0]) : "l"(p));
  } else if constexpr (BYTES == 8) {
    asm volatile("ld.global.nc.L1::evict_last.v2.b32 {%0, %1}, [%2];" : "=r"(r.word[0]), "=r"(r.word[1]) : "l"(p));
  } else {
#pragma unroll
    for (int i = 0; i < BYTES / 16; i++)
      asm volatile("ld.global.nc.L1::evict_last.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(r.word[4 * i]), "=r"(r.word[4 * i + 1]), "=r"(r.word[4 * i + 2]), "=r"(r.word[4 * i + 3])
                   : "l"(p + 16 * i));
  }
  return r;
}

struct Tile {
  Row row[BLOCK_ROWS];

  __device__ __forceinline__ void fetch(const In &in, i64 first, i64 end) {
#pragma unroll
    for (int r = 0; r < BLOCK_ROWS; r++) row[r].fetch(in, first + r, first + r < end);
  }
};

extern "C" __global__ void BOUNDS(THREADS)
mix_order(const X *x, const X *dy, const X *dres, const W *w, const W *b, const float *rstd, const float *mean, X *dx,
          float *dw_partial, float *db_partial, i64 rows) {
  In in = {x, dy, dres, rstd, mean};
  float dw[L][VEC], db[HAS_BIAS ? L : 1][VEC];
#pragma unroll
  for (int i = 0; i < L; i++)
#pragma unroll
    for (int j = 0; j < VEC; j++) dw[i][j] = db[HAS_BIAS ? i : 0][j] = 0.f;

  i64 begin = (i64)blockIdx.x * SPLIT_SIZE;
  i64 end = begin + SPLIT_SIZE < rows ? begin + SPLIT_SIZE : rows;
  u32 nothing = (u32)(rows >> 62); // no one has so many
  int phase = 0;
  Tile tiles[STAGES];
#pragma unroll
  for (int s = 0; s < STAGES; s++) tiles[s].fetch(in, begin + s * BLOCK_ROWS, end);

  // The stages are a ring that the loop's body goes round once, so that no tile
  // moves from register to register: that would wait for its loads.
  for (i64 round = begin; round < end; round += STAGES * BLOCK_ROWS)
#pragma unroll
    for (int stage = 0; stage < STAGES; stage++) {
      i64 first = round + stage * BLOCK_ROWS;
      if (first >= end) break;
      Tile &t = tiles[stage];
      Raw<W_BYTES> wraw[L];
#pragma unroll
      for (int i = 0; i < L; i++) wraw[i] = inside(i) ? kept<W_BYTES>((const char *)(w + column(i))) : zero<W_BYTES>();

      float s[K * BLOCK_ROWS];
#pragma unroll
      for (int k = 0; k < K * BLOCK_ROWS; k++) s[k] = 0.f;
#pragma unroll
      for (int i = 0; i < L; i++)
        if (inside(i)) {
          float wf[VEC];
          weights(wraw[i], wf);
#pragma unroll
          for (int r = 0; r < BLOCK_ROWS; r++) {
            addSums(t.row[r].x[i], t.row[r].dy[i], wf, t.row[r].st, s[K * r], s[K * r + K - 1]);
            addGradients(t.row[r].x[i], t.row[r].dy[i], t.row[r].st, dw[i], db[HAS_BIAS ? i : 0]);
          }
        }
      sumOver<K * BLOCK_ROWS, THREADS>(s, phase);
      phase ^= 1;
      if (BLOCK_ROWS * L * VEC > 16) // else there are registers enough
#pragma unroll
        for (int r = 0; r < BLOCK_ROWS; r++) t.row[r].packed(nothing);

#pragma unroll
      for (int i = 0; i < L; i++)
        if (inside(i)) {
          float wf[VEC];
          if (!KEEP_W) wraw[i] = kept<W_BYTES>((const char *)(w + column(i)));
          weights(wraw[i], wf);
#pragma unroll
          for (int r = 0; r < BLOCK_ROWS; r++)
            if (first + r < end)
              putDX(dx + (first + r) * COLS + column(i), t.row[r].x[i], t.row[r].dy[i], t.row[r].residual(i), wf, t.row[r].st,
                    s[K * r] * INV_COLS, LAYERNORM ? s[K * r + K - 1] * INV_COLS : 0.f);
        }
      t.fetch(in, first + STAGES * BLOCK_ROWS, end);
    }

  letNextStart();
#pragma unroll
  for (int i = 0; i < L; i++)
    if (inside(i)) {
      i64 out = (i64)blockIdx.x * COLS + column(i);
      putFloats(dw_partial + out, dw[i]);
#if HAS_BIAS
      putFloats(db_partial + out, db[i]);
#endif
    }
}
