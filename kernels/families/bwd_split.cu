// Backward in parts: dx by rows, and dw and db by columns, which read x and dy
// again.
//
//   split_dx: x, dy (M,N), [dres (M,N)], [w (N)], rstd (M), [mean (M)] -> dx (M,N)
//   split_dw: x, dy (M,N), rstd (M), [mean (M)], [dw_in, db_in (N)] -> dw, db (N),
//             or with several groups of rows partial sums (groups,N) fp32, which
//             k2 (reduce.cu) adds up
//
// The two kernels of plain_rms_bwd.cu and plain_ln_bwd.cu, with vectors, rows in registers where
// they fit, and several CTAs to a column of dw.
//
// Bytes: x and dy twice (the second time from L2 where they fit), dx once; 8
// bytes per partial element, and there are at most 64 partial rows. What a
// compiler does that does not fuse the two sums (PyTorch Inductor), Liger's
// fallback, TransformerEngine's layernorm for M <= 512 (dw in one group, without
// partial rows), and with 16 groups, 32 columns and single elements apex's three
// kernels. In all of them dx and dw do not depend on each other.
//
// Unlike apex's, split_dw's threads take whole vectors of a row.
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
#define BLOCK_ROWS 1 // 1 to 64, powers of 2: rows of a CTA in split_dx
#endif
#ifndef IN_REGISTERS
#define IN_REGISTERS 1 // 0 or 1: whether split_dx reads a row once
#endif
#ifndef DW_COLS
#define DW_COLS 0 // 0 to 256, powers of 2: columns of a CTA in split_dw; 0 is split_dx
#endif
#ifndef UNROLL
#define UNROLL 4 // 1 to 16, powers of 2: rows of a thread of split_dw
#endif

#if DW_COLS == 0
#define ROW_THREADS (THREADS / BLOCK_ROWS)
#endif
#include "common.cuh"
#include "bwd_row.cuh"

#if DW_COLS == 0

// split_dx handles BLOCK_ROWS rows per CTA. With IN_REGISTERS each thread
// holds its part of a row, which is read once; otherwise the row comes in chunks
// of CHUNK vectors per thread, once for the sums and once for dx.
constexpr int CHUNK = imin(4, L);

// inChunk is inside for vectors of chunks, of which the last may have some that no thread has.
__device__ __forceinline__ bool inChunk(int i) { return (L % CHUNK == 0 || i < L) && inside(i); }

struct Chunk {
  RowVec x[CHUNK], dy[CHUNK], res[RESIDUAL ? CHUNK : 1];

  // fetch reads vectors from, from + 1, ... of the thread.
  __device__ __forceinline__ void fetch(const In &in, i64 row, bool live, int from, bool residual) {
#pragma unroll
    for (int i = 0; i < CHUNK; i++) {
      bool here = live && inChunk(from + i);
      i64 at = row * COLS + column(from + i);
      x[i] = here ? loadRow<VECTOR_BYTES>(in.x + at) : zero<VECTOR_BYTES>();
      dy[i] = here ? loadRow<VECTOR_BYTES>(in.dy + at) : zero<VECTOR_BYTES>();
#if RESIDUAL
      if (residual) res[i] = here ? loadRow<VECTOR_BYTES>(in.dres + at) : zero<VECTOR_BYTES>();
#endif
    }
  }
};

extern "C" __global__ void BOUNDS(THREADS)
split_dx(const X *x, const X *dy, const X *dres, const W *w, const float *rstd, const float *mean, X *dx, i64 rows) {
  In in = {x, dy, dres, rstd, mean};
  i64 row = (i64)blockIdx.x * BLOCK_ROWS + threadIdx.x / (ROW_THREADS);
  bool live = row < rows;
  float s[K], wf[VEC];
#pragma unroll
  for (int k = 0; k < K; k++) s[k] = 0.f;

#if IN_REGISTERS
  Row r;
  r.fetch(in, row, live);
  Raw<W_BYTES> wraw[L];
#pragma unroll
  for (int i = 0; i < L; i++) wraw[i] = inside(i) ? loadW(w, column(i)) : zero<W_BYTES>();
#pragma unroll
  for (int i = 0; i < L; i++)
    if (inside(i)) {
      weights(wraw[i], wf);
      addSums(r.x[i], r.dy[i], wf, r.st, s[0], s[K - 1]);
    }
  sumOver<K, ROW_THREADS>(s, 0);
  r.packed((u32)(rows >> 62));
  float c1 = s[0] * INV_COLS, c2 = LAYERNORM ? s[K - 1] * INV_COLS : 0.f;
#pragma unroll
  for (int i = 0; i < L; i++)
    if (live && inside(i)) {
      if (!KEEP_W) wraw[i] = loadW(w, column(i));
      weights(wraw[i], wf);
      putDX(dx + row * COLS + column(i), r.x[i], r.dy[i], r.residual(i), wf, r.st, c1, c2);
    }
#else
  Stats st = in.stats(row, live);
  Chunk t;
  for (int from = 0; from < L; from += CHUNK) {
    t.fetch(in, row, live, from, false);
#pragma unroll
    for (int i = 0; i < CHUNK; i++)
      if (inChunk(from + i)) {
        weights(loadW(w, column(from + i)), wf);
        addSums(t.x[i], t.dy[i], wf, st, s[0], s[K - 1]);
      }
  }
  sumOver<K, ROW_THREADS>(s, 0);
  float c1 = s[0] * INV_COLS, c2 = LAYERNORM ? s[K - 1] * INV_COLS : 0.f;
  for (int from = 0; from < L; from += CHUNK) {
    t.fetch(in, row, live, from, true);
#pragma unroll
    for (int i = 0; i < CHUNK; i++)
      if (live && inChunk(from + i)) {
        weights(loadW(w, column(from + i)), wf);
        putDX(dx + row * COLS + column(from + i), t.x[i], t.dy[i], t.res[RESIDUAL ? i : 0], wf, st, c1, c2);
      }
  }
#endif
}

#else // split_dw

// A CTA owns DW_COLS columns of one group of rows, gridDim.y of which have
// neighbouring rows each. ACROSS threads stand side by side on the columns, DOWN
// of those one below the other; each has UNROLL rows in flight.
constexpr int ACROSS = DW_COLS / VEC;
constexpr int DOWN = THREADS / ACROSS;
static_assert(ACROSS * VEC == DW_COLS && DOWN * ACROSS == THREADS, "columns and threads divide each other");

// addUp stores the sum over the threads that stand one below the other, in their
// order: to out with what was before there, or to the group's partial row.
__device__ __forceinline__ void addUp(float (&part)[DOWN][DW_COLS], const float (&v)[VEC], const W *before, W *out, float *partial) {
  int place = threadIdx.x % ACROSS, down = threadIdx.x / ACROSS;
  __syncthreads(); // the last call's sums are read
#pragma unroll
  for (int j = 0; j < VEC; j++) part[down][place * VEC + j] = v[j];
  __syncthreads();
  for (int i = threadIdx.x; i < DW_COLS; i += THREADS) {
    i64 c = (i64)blockIdx.x * DW_COLS + i;
    float s = 0.f;
#pragma unroll
    for (int d = 0; d < DOWN; d++) s += part[d][i];
    if (c >= COLS) continue;
    if (gridDim.y > 1) {
      __stcg(partial + (i64)blockIdx.y * COLS + c, s);
    } else {
      if (before) s += at<W_TYPE>(before + c);
      put<W_TYPE>(out + c, s);
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
split_dw(const X *x, const X *dy, const float *rstd, const float *mean, const W *dw_in, const W *db_in, W *dw, W *db,
         float *dw_partial, float *db_partial, i64 rows) {
  __shared__ float part[DOWN][DW_COLS];
  In in = {x, dy, nullptr, rstd, mean};
  i64 c = (i64)blockIdx.x * DW_COLS + threadIdx.x % ACROSS * VEC;
  i64 share = (rows + gridDim.y - 1) / gridDim.y;
  i64 begin = blockIdx.y * share, end = begin + share < rows ? begin + share : rows;
  float dws[VEC], dbs[VEC];
#pragma unroll
  for (int j = 0; j < VEC; j++) dws[j] = dbs[j] = 0.f;
  if (c < COLS)
    for (i64 row = begin + threadIdx.x / ACROSS; row < end; row += UNROLL * DOWN) {
      RowVec xv[UNROLL], dyv[UNROLL];
      Stats st[UNROLL];
#pragma unroll
      for (int u = 0; u < UNROLL; u++) {
        i64 r = row + u * DOWN;
        bool live = r < end;
        xv[u] = live ? loadRow<VECTOR_BYTES>(x + r * COLS + c) : zero<VECTOR_BYTES>();
        dyv[u] = live ? loadRow<VECTOR_BYTES>(dy + r * COLS + c) : zero<VECTOR_BYTES>();
        st[u] = in.stats(r, live);
      }
#pragma unroll
      for (int u = 0; u < UNROLL; u++) addGradients(xv[u], dyv[u], st[u], dws, dbs);
    }
  letNextStart();
  addUp(part, dws, dw_in, dw, dw_partial);
#if HAS_BIAS
  addUp(part, dbs, db_in, db, db_partial);
#endif
}
#endif
