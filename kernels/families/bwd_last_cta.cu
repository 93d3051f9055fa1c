// Backward in one kernel: a warp per row, dw and db in shared memory, and the last
// CTA to end adds up the partial rows.
//
//   x, dy (M,N), [dres (M,N)], w (N), rstd (M), [mean (M)], [dw_in, db_in (N)] ->
//   dx (M,N), dw, db (N), by way of partial sums (CTAs,N) fp32 and a counter
//   that is zero at the start
//
// plain_rms_bwd.cu and plain_ln_bwd.cu read x and dy twice, by rows for dx and by columns for dw.
// Here a warp has a row and adds its terms of dw to its CTA's sums in shared memory.
//
// Bytes: x and dy once for rows up to 512 16-bit columns, which stay in registers,
// and otherwise twice (the second time from L2, as far as the rows of all warps
// fit there); dx once; 8 bytes per partial element. With two CTAs of 512
// threads per SM it is llm.c's layernorm_backward_kernel10.
//
// The warps of a CTA take neighbouring rows side by side and go through the
// columns together, a chunk at a time: each warp leaves its row's terms of the
// chunk in its own part of shared memory, and after a barrier each thread adds up
// one column over the warps, always in their order. (llm.c adds to the sums of one
// warp after the other.) Two sets of those parts take turns, so that one barrier
// per chunk is enough. As there, a chunk lies in shared memory in an order that
// keeps the lanes of a warp on different banks.
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
#define BLOCK_ROWS 16 // 1 to 32, powers of 2: rows that are summed apart, one per warp
#endif

#include "common.cuh"
#include "bwd_row.cuh"
#include "reduce.cuh"

constexpr int EACH = VECTOR_BYTES < 4 ? 4 : 16 / VECTOR_BYTES; // vectors of a lane in a chunk: 4 words of x
constexpr int SPAN = 32 * VEC;                                 // columns of a warp's vectors side by side
constexpr int CHUNK = SPAN * EACH;
constexpr int CHUNKS = cdiv(COLS, CHUNK);
constexpr int GRADS = HAS_BIAS ? 2 : 1; // dw and db

// The chunks of a row that are in registers at a time, for which 64 of them are
// enough. A row of no more stays there.
constexpr int PIECES = 2;
constexpr bool HELD = CHUNKS <= PIECES;

// place is where element j of a lane's vector lies among SPAN in shared memory,
// and columnOf what lies at a place: four elements of each lane after four of the
// lane before, or one.
__device__ __forceinline__ int place(int lane, int j) { return BY_FOUR ? j / 4 * 128 + lane * 4 + j % 4 : j * 32 + lane; }
__device__ __forceinline__ int columnOf(int q) {
  return BY_FOUR ? q % 128 / 4 * VEC + q / 128 * 4 + q % 4 : q % 32 * VEC + q / 32;
}

__device__ __forceinline__ int column(int chunk, int i) { return chunk * CHUNK + i * SPAN + (int)threadIdx.x % 32 * VEC; }

// A Piece is a lane's part of a chunk of its row.
struct Piece {
  RowVec x[EACH], dy[EACH], res[RESIDUAL ? EACH : 1];

  __device__ __forceinline__ void fetch(const In &in, i64 row, bool live, int chunk, bool residual) {
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      bool here = live && column(chunk, i) < COLS;
      i64 at = row * COLS + column(chunk, i);
      x[i] = here ? loadRow<VECTOR_BYTES>(in.x + at) : zero<VECTOR_BYTES>();
      dy[i] = here ? loadRow<VECTOR_BYTES>(in.dy + at) : zero<VECTOR_BYTES>();
#if RESIDUAL
      if (residual) res[i] = here ? loadRow<VECTOR_BYTES>(in.dres + at) : zero<VECTOR_BYTES>();
#endif
    }
  }

  __device__ __forceinline__ void addTo(float (&s)[K], const W *w, Stats st, int chunk) const {
#pragma unroll
    for (int i = 0; i < EACH; i++)
      if (column(chunk, i) < COLS) {
        float wf[VEC];
        weights(loadW(w, column(chunk, i)), wf);
        addSums(x[i], dy[i], wf, st, s[0], s[K - 1]);
      }
  }
};

// Shared is the CTA's shared memory: the sums so far, and what each warp's
// row adds to a chunk of them.
struct Shared {
  float sums[GRADS][CHUNKS * CHUNK];
  float terms[2][GRADS][WARPS][CHUNK];
};

// storeTerms puts the terms of the warp's row there.
__device__ __forceinline__ void storeTerms(float (&terms)[GRADS][WARPS][CHUNK], const Piece &p, Stats st) {
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    float v[2][VEC];
#pragma unroll
    for (int j = 0; j < VEC; j++) v[0][j] = v[1][j] = 0.f;
    addGradients(p.x[i], p.dy[i], st, v[0], v[1]);
#pragma unroll
    for (int g = 0; g < GRADS; g++) {
      float *to = terms[g][warp] + i * SPAN;
      if constexpr (BY_FOUR) {
#pragma unroll
        for (int j = 0; j < VEC; j += 4) *(float4 *)(to + place(lane, j)) = make_float4(v[g][j], v[g][j + 1], v[g][j + 2], v[g][j + 3]);
      } else {
#pragma unroll
        for (int j = 0; j < VEC; j++) to[place(lane, j)] = v[g][j];
      }
    }
  }
}

// gather adds the terms of a chunk to the sums: a thread per column.
__device__ __forceinline__ void gather(Shared &sh, int turn, int chunk) {
#pragma unroll
  for (int e = threadIdx.x; e < GRADS * CHUNK; e += THREADS) {
    int g = e / CHUNK, q = e % CHUNK;
    float t[WARPS], s = sh.sums[g][chunk * CHUNK + q];
#pragma unroll
    for (int w = 0; w < WARPS; w++) t[w] = sh.terms[turn][g][w][q];
#pragma unroll
    for (int w = 0; w < WARPS; w++) s += t[w];
    sh.sums[g][chunk * CHUNK + q] = s;
  }
}

extern "C" __global__ void BOUNDS(THREADS)
last_cta(const X *x, const X *dy, const X *dres, const W *w, const float *rstd, const float *mean, const W *dw_in, const W *db_in,
         X *dx, W *dw, W *db, float *dw_partial, float *db_partial, i64 rows, int *counter) {
  extern __shared__ __align__(16) char memory[];
  Shared &sh = *(Shared *)memory;
  In in = {x, dy, dres, rstd, mean};
  // The first barrier of the loop below stands between this and gather.
  for (int g = 0; g < GRADS; g++)
    for (int i = threadIdx.x; i < CHUNKS * CHUNK; i += THREADS) sh.sums[g][i] = 0.f;

  u32 nothing = (u32)(rows >> 62); // no one has so many
  Tiles t(rows);
  int turn = 0;
  for (i64 first = t.first; first < t.end; first += t.stride) {
    i64 row = first + threadIdx.x / 32;
    bool live = row < t.end;
    Stats st = in.stats(row, live);
    Piece p[PIECES];
    float s[K];
#pragma unroll
    for (int k = 0; k < K; k++) s[k] = 0.f;
#pragma unroll 1
    for (int from = 0; from < CHUNKS; from += PIECES) {
#pragma unroll
      for (int i = 0; i < PIECES; i++)
        if (from + i < CHUNKS) p[i].fetch(in, row, live, from + i, HELD);
#pragma unroll
      for (int i = 0; i < PIECES; i++)
        if (from + i < CHUNKS) p[i].addTo(s, w, st, from + i);
    }
    sumOver<K, 32>(s, 0);
    float c1 = s[0] * INV_COLS, c2 = LAYERNORM ? s[K - 1] * INV_COLS : 0.f;

    auto finishChunk = [&](const Piece &piece, int chunk) {
      storeTerms(sh.terms[turn], piece, st);
#pragma unroll
      for (int i = 0; i < EACH; i++)
        if (live && column(chunk, i) < COLS) {
          float wf[VEC];
          weights(loadW(w, column(chunk, i)), wf);
          putDX(dx + row * COLS + column(chunk, i), piece.x[i], piece.dy[i], piece.res[RESIDUAL ? i : 0], wf, st, c1, c2);
        }
      __syncthreads();
      gather(sh, turn, chunk);
      turn ^= 1;
    };
    if constexpr (HELD) {
#pragma unroll
      for (int chunk = 0; chunk < CHUNKS; chunk++) {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
          keepPacked(p[chunk].x[i], nothing);
          keepPacked(p[chunk].dy[i], nothing);
        }
        finishChunk(p[chunk], chunk);
      }
    } else {
      // The chunk after next is on its way while one is worked on.
      p[0].fetch(in, row, live, 0, true);
      p[1].fetch(in, row, live, 1, true);
#pragma unroll 1
      for (int chunk = 0; chunk < CHUNKS; chunk += 2) {
        finishChunk(p[0], chunk);
        p[0].fetch(in, row, live, chunk + 2, true);
        if (chunk + 1 < CHUNKS) {
          finishChunk(p[1], chunk + 1);
          p[1].fetch(in, row, live, chunk + 3, true);
        }
      }
    }
  }

  // Each thread stores the sums that it added up.
  for (int chunk = 0; chunk < CHUNKS; chunk++)
    for (int e = threadIdx.x; e < GRADS * CHUNK; e += THREADS) {
      int g = e / CHUNK, q = e % CHUNK, c = chunk * CHUNK + q / SPAN * SPAN + columnOf(q % SPAN);
      if (c < COLS) __stcg((g == 0 ? dw_partial : db_partial) + (i64)blockIdx.x * COLS + c, sh.sums[g][chunk * CHUNK + q]);
    }
  if (lastOf(counter, gridDim.x)) {
    finish<W_TYPE>(dw_partial, 0, gridDim.x, COLS, dw_in, dw);
#if HAS_BIAS
    finish<W_TYPE>(db_partial, 0, gridDim.x, COLS, db_in, db);
#endif
  }
}
