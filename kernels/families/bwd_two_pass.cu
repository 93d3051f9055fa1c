// Backward in tiles of BLOCK_ROWS rows by BLOCK_COLS columns, which all threads
// of a CTA span: in one pass where a tile holds whole rows, else in two.
//
//   x, dy (M,N), [dres (M,N)], [w (N)], rstd (M), [mean (M)] -> dx (M,N), partial
//   sums of dw and db (CTAs,N) of P_TYPE, which k2 (reduce.cu) adds up
//
// plain_rms_bwd.cu and plain_ln_bwd.cu read x and dy twice, by rows for dx and by columns for dw.
// Here CTAs take tiles of rows and keep the sums of dw of a tile's columns.
//
// A thread holds its columns of all rows of the tile, so the rows of a CTA
// need no merging. Row sums of the whole tile meet in one reduction; dx and its
// terms are those of bwd_reg_persist.cu, SAVED_OUTPUT too.
//
// SINGLE_PASS (Fast-LLM PR 546): x, dy, [dres] and dx once. The tile stays packed
// in registers, and the sums of dw and db stay there over all tiles of the
// CTA, which stores its partial row at the end.
//
// Two passes, any N whatever the registers: one over the chunks of columns for
// the row sums, and one that reads x and dy again, where they have left the
// caches from memory, and writes dx. Partial sums go to memory chunk by chunk.
// With one tile per CTA (Fast-LLM's wide kernel; with one row to a tile the
// (M,N) buffer of TransformerEngine before PR 593) they are only stored; else
// the CTA reads and writes its own partial row for every tile after its
// first (that PR).
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
#define BLOCK_ROWS 4 // 1 to 32, powers of 2: rows of a CTA
#endif
#ifndef BLOCK_COLS
#define BLOCK_COLS 4096 // 1 to 32768: of a chunk
#endif
#ifndef SINGLE_PASS
#define SINGLE_PASS 1 // 0 or 1: whether x and dy are read once
#endif
#ifndef SAVED_OUTPUT
#define SAVED_OUTPUT 0 // 0 or 1: whether y is read in place of x
#endif

#include "common.cuh"
#include "bwd_reg.cuh"

constexpr int U = cdiv(BLOCK_COLS, THREADS * VEC); // vectors per thread, row and chunk
static_assert(U * THREADS * VEC == BLOCK_COLS || COLS <= BLOCK_COLS, "a chunk is a whole number of vectors per thread");
constexpr int K = LAYERNORM ? 2 : 1;

__device__ __forceinline__ int column(int chunk, int u) { return chunk + (u * THREADS + (int)threadIdx.x) * VEC; }

struct In { const X *x, *dy, *dres; const W *w, *b; const float *rstd, *mean; };

// A Tile is a CTA's rows of one chunk, packed as they came. All loads of a
// chunk are issued before the first is used: loading vector by vector, as the
// first version did, left it at a third of the speed.
struct Tile {
  RowVec x[BLOCK_ROWS][U], dy[BLOCK_ROWS][U], res[RESIDUAL ? BLOCK_ROWS : 1][RESIDUAL ? U : 1];

  template <bool LAST> __device__ __forceinline__ void fetch(const In &in, i64 first, i64 end, int chunk) {
#pragma unroll
    for (int u = 0; u < U; u++) {
      int c = column(chunk, u);
#pragma unroll
      for (int r = 0; r < BLOCK_ROWS; r++) {
        bool live = first + r < end && c < COLS;
        i64 at = (first + r) * COLS + c;
        x[r][u] = live ? loadRow<VECTOR_BYTES>(in.x + at) : zero<VECTOR_BYTES>();
        dy[r][u] = live ? loadRow<VECTOR_BYTES>(in.dy + at) : zero<VECTOR_BYTES>();
        if (RESIDUAL && LAST) res[r][u] = live ? loadRow<VECTOR_BYTES>(in.dres + at) : zero<VECTOR_BYTES>();
      }
    }
  }
};

// Weights are those of a column, loaded where they are needed: they stay in L1,
// and serve all rows of a tile.
struct Weights {
  Raw<W_BYTES> w, b;

  __device__ __forceinline__ Weights(const In &in, int c) {
    w = loadW(in.w, c);
    if (NEEDS_BIAS) b = load<W_BYTES>(in.b + c);
  }
};

// Rows are the statistics and sums of a tile's rows.
struct Rows {
  float rs[BLOCK_ROWS], mu[BLOCK_ROWS], s[K * BLOCK_ROWS];

  __device__ __forceinline__ Rows(const In &in, i64 first, i64 end) {
#pragma unroll
    for (int r = 0; r < BLOCK_ROWS; r++) {
      bool live = first + r < end;
      rs[r] = live ? __ldg(in.rstd + first + r) : 0.f;
      mu[r] = NEEDS_MEAN && live ? __ldg(in.mean + first + r) : 0.f;
    }
#pragma unroll
    for (int i = 0; i < K * BLOCK_ROWS; i++) s[i] = 0.f;
  }

  // addSums takes the row sums of column u of a tile.
  __device__ __forceinline__ void addSums(const Tile &t, int u, const Weights &c) {
    float wf[VEC];
    weightsBy(First(), c.w, wf);
#pragma unroll
    for (int r = 0; r < BLOCK_ROWS; r++) {
      float xm[VEC], g[VEC];
      centred(First(), t.x[r][u], mu[r], c.b, wf, xm);
      unpackX(t.dy[r][u], g);
#pragma unroll
      for (int j = 0; j < VEC; j++) {
        g[j] *= wf[j];
        s[K * r] += g[j] * (xm[j] * factor(rs[r]));
        if (LAYERNORM) s[K * r + K - 1] += g[j];
      }
    }
  }

  // finishVector writes dx of column u of a tile, by the sums over all columns, and adds
  // to the sums of dw and db.
  __device__ __forceinline__ void finishVector(const Tile &t, int u, const Weights &c, i64 first, i64 end, int chunk, X *dx, float (&dw)[VEC], float (&db)[VEC]) {
    Again again(first);
    float wf[VEC];
    weightsBy(again, c.w, wf);
#pragma unroll
    for (int r = 0; r < BLOCK_ROWS; r++) {
      if (first + r >= end) continue;
      float xm[VEC], g[VEC], f = factor(rs[r]);
      float c1 = f * s[K * r] * INV_COLS, c2 = LAYERNORM ? s[K * r + K - 1] * INV_COLS : 0.f;
      centred(again, t.x[r][u], mu[r], c.b, wf, xm);
      unpackBy<X_TYPE, VEC>(again, t.dy[r][u], g);
#pragma unroll
      for (int j = 0; j < VEC; j++) {
        if (HAS_WEIGHT) dw[j] += g[j] * (xm[j] * f);
        if (HAS_BIAS) db[j] += g[j];
        g[j] = rs[r] * (g[j] * wf[j] - xm[j] * c1 - c2);
      }
      if (RESIDUAL) {
        float add[VEC];
        unpackX(t.res[RESIDUAL ? r : 0][RESIDUAL ? u : 0], add);
#pragma unroll
        for (int j = 0; j < VEC; j++) g[j] += add[j];
      }
      store<VECTOR_BYTES>(dx + (first + r) * COLS + column(chunk, u), pack<X_TYPE, VEC>(g));
    }
  }
};

// partial keeps a vector of sums in the CTA's partial row, added to what it
// kept for earlier tiles.
__device__ __forceinline__ void partial(P *p, int c, float (&v)[VEC], bool add) {
  p += (i64)blockIdx.x * COLS + c;
  if (add) addKept<P_TYPE, VEC>(p, v);
  keepPartial<P_TYPE, VEC>(p, v);
}

__device__ __forceinline__ void clearSums(float (&v)[VEC]) {
#pragma unroll
  for (int j = 0; j < VEC; j++) v[j] = 0.f;
}

extern "C" __global__ void BOUNDS(THREADS)
two_pass(const X *x, const X *dy, const X *dres, const W *w, const W *b, const float *rstd, const float *mean, X *dx,
         P *dw_partial, P *db_partial, i64 rows) {
  In in = {x, dy, dres, w, b, rstd, mean};
  Tiles tiles(rows);
  int phase = 0;
#if SINGLE_PASS
  float dw[U][VEC], db[U][VEC];
#pragma unroll
  for (int u = 0; u < U; u++) {
    clearSums(dw[u]);
    clearSums(db[u]);
  }
#endif
  for (i64 first = tiles.first; first < tiles.end; first += tiles.stride) {
    asm volatile("" : "+l"(in.w), "+l"(in.b)); // or the compiler keeps what it loads
    Tile t;
    Rows sums(in, first, tiles.end);
    for (int chunk = 0; chunk < COLS; chunk += BLOCK_COLS) {
      t.fetch<SINGLE_PASS>(in, first, tiles.end, chunk);
#pragma unroll
      for (int u = 0; u < U; u++)
        if (column(chunk, u) < COLS) sums.addSums(t, u, Weights(in, column(chunk, u)));
    }
    sumOver<K * BLOCK_ROWS, THREADS>(sums.s, phase);
    phase ^= 1;
    asm volatile("" : "+l"(in.w), "+l"(in.b));
#if SINGLE_PASS
#pragma unroll
    for (int u = 0; u < U; u++)
      if (column(0, u) < COLS) sums.finishVector(t, u, Weights(in, column(0, u)), first, tiles.end, 0, dx, dw[u], db[u]);
#else
    asm volatile("" : "+l"(in.x), "+l"(in.dy)); // or it keeps a row of one chunk
    for (int chunk = 0; chunk < COLS; chunk += BLOCK_COLS) {
      t.fetch<true>(in, first, tiles.end, chunk);
#pragma unroll
      for (int u = 0; u < U; u++) {
        int c = column(chunk, u);
        if (c >= COLS) continue;
        float dw[VEC], db[VEC];
        clearSums(dw);
        clearSums(db);
        sums.finishVector(t, u, Weights(in, c), first, tiles.end, chunk, dx, dw, db);
        if (HAS_WEIGHT) partial(dw_partial, c, dw, first > tiles.first);
        if (HAS_BIAS) partial(db_partial, c, db, first > tiles.first);
      }
    }
#endif
  }
  letNextStart();
#if SINGLE_PASS
#pragma unroll
  for (int u = 0; u < U; u++) {
    int c = column(0, u);
    if (c >= COLS) continue;
    if (HAS_WEIGHT) partial(dw_partial, c, dw[u], false);
    if (HAS_BIAS) partial(db_partial, c, db[u], false);
  }
#endif
}
