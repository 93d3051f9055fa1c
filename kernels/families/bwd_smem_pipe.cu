// Backward, persistent: rows of x and dy come to shared memory several tiles
// ahead, the weight gradient stays in registers.
//
//   x, dy (M,N), [dres (M,N)], w (N), rstd (M), [mean (M)] -> dx (M,N) and partial
//   sums of dw and db (clusters,N), which k2 (reduce.cu) adds up; or, fused, dw
//   and db (N) themselves
//
// plain_rms_bwd.cu and plain_ln_bwd.cu read x and dy twice, by rows for dx and by columns for dw.
// Here CTAs stay for many rows, whose copies to shared memory are under way while earlier rows are
// worked on, and keep their sums of dw in registers.
//
// Bytes: x, dy, dres and dx once; 8 bytes per partial element (4 with pt = 1).
// The design of quack's backward (main line and PR 101, Hopper). A tile of
// BLOCK_ROWS rows fills one of STAGES slots, rows of x first, rows of dy behind:
// by asynchronous copies of each thread's own vectors (COPY_PATH 1, no barrier
// for the data), or by bulk copies of whole rows on a barrier per slot (2, which
// needs neither registers nor instructions of the other threads). A slot is
// filled again as soon as all of its readers have it in registers: with
// COPY_PATH 2 right behind the reduction's barrier.
//
// BLOCK_ROWS/UNROLL groups of threads stand side by side, each on UNROLL rows of
// the tile, whose sums share one reduction. More rows per group share registers
// of w, dw and db; more groups have fewer threads meet. quack has UNROLL 1.
// RELOAD reads x (1) and dy (2) from shared memory again after the reduction,
// which frees their registers and holds the slot for longer; 4 keeps what was made of
// them, in three times the registers and a fifth less instructions. CLUSTER CTAs
// share the rows by columns; then the sums meet through distributed shared
// memory, and each CTA keeps its slice of a partial row.
//
// Sums of dw have no use for the reduction: in rmsnorm without a bias they take a tile before it
// (SUMS_FIRST). Where a slot has room for them they also leave while the last tile's dx is made
// (EARLY_SUMS).
//
// Rows of any length: COPY_PATH 2 copies the aligned vectors that a row has an element
// of (ragged.cuh). CTAs whose rows do not all start alike in their vectors
// (SHIFTS) add up each tile's sums in shared memory. How a row lies in vectors is all in
// AlignedRow (bwd_aligned.cuh) and RaggedRow (bwd_ragged.cuh).
//
// A skewed loop, which made the sums of tile t+1 before it took those of tile t, to
// hide the reduction, was slower by 2 to 10% at every shape (H200): tiles wait for
// memory, not for their sums, and it reads them from shared memory twice.
//
// FUSED_DW makes dw without k2: 1 and 2 by the last CTAs (fuse.cuh), 3 by
// bulk additions to zeroed fp32 sums, in any order. quack fuses without clusters
// and bias, N <= 2048; nothing here asks for that.
//
// The kernel is at the end of the file. The functions before it are its steps, in their order.
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
#define BLOCK_ROWS 1 // 1 to 64, powers of 2: rows of a CTA
#endif
#ifndef STAGES
#define STAGES 2 // 1 to 4: tiles in flight
#endif
#ifndef UNROLL
#define UNROLL 1 // 1 to 8, powers of 2: rows of a thread
#endif
#ifndef CLUSTER
#define CLUSTER 1 // 1 to 16, powers of 2: CTAs that share a row through distributed shared memory
#endif
#ifndef COPY_PATH
#define COPY_PATH 1 // 1 or 2: asynchronous copies of each thread, or bulk copies
#endif
#ifndef RELOAD
#define RELOAD 0 // 0 to 4: bits: x, dy are read again; what was made of them is kept
#endif
#ifndef STATS_AHEAD
#define STATS_AHEAD 0 // 0 or 1: whether the statistics of many tiles are loaded at once
#endif
#ifndef FUSED_DW
#define FUSED_DW 0 // 0 to 3: 0 leaves dw to k2
#endif
#ifndef SHIFTS
#define SHIFTS 0 // 0 or 1: whether a CTA's rows start differently in their vectors
#endif
#ifndef TAIL
#define TAIL 1 // 0 or 1: whether the last tile may have fewer rows
#endif

#include "common.cuh"
#include "pipe.cuh"
#include "reduce.cuh"
#include "fuse.cuh"
#include "ragged.cuh"
#include "bwd_pipe.cuh"
#include "bwd_aligned.cuh"
#include "bwd_ragged.cuh"

typedef Either<RAGGED, RaggedRow, AlignedRow>::type RowLayout; // of x, dy, dres and dx

// When a slot is filled again, which is as soon as its last reader has read it: behind the tile's
// reading, its reduction, or the writing of dx.
enum { READ, REDUCED, WRITTEN };
constexpr int REFILL = REREAD ? WRITTEN : BULK ? REDUCED : READ;

// Whether a tile's reduction needs a barrier that sumOver has only where a group is wider than a
// warp. Bulk copies need it behind the last reading, cluster.sum between its calls, EARLY_SUMS for
// the sums to be in shared memory, SHIFTS between the additions of two rows.
constexpr bool NEEDS_BARRIER = TPR <= 32 && (REFILL == REDUCED || CLUSTER > 1 || EARLY_SUMS || SHIFTS);

// Stats are the saved statistics of a group's rows.
//
// With STATS_AHEAD the lanes of a group's part of a warp have those of as many tiles, one
// each: BATCH tiles take one load, long before most of them are needed. Without STATS_AHEAD each
// tile's are loaded a tile ahead, and waited for at its end. That wait is 13% of the time of
// layernorm's warps at 4096x2048, 29% without a weight, and yet most CTAs need it: it keeps them
// from asking the memory for more than it serves well. STATS_AHEAD, which has no such wait, took
// 204 us at 16384x8192 and not 191 (H200, layernorm), 99.6 at 32768x2048 and not 97.1 (rmsnorm).
// It is better for rows up to 2 KiB, and without a weight: 15.5 us, not 19.5 (4096x2048).
constexpr int BATCH = STATS_AHEAD ? imin(TPR, 32) : 1;

struct Stats {
  float rs[UNROLL], mu[UNROLL];

  // fetch has the statistics of tile t (of tile t + lane in a batch), as far as there are
  // any, loaded.
  __device__ __forceinline__ void fetch(const Place &at, const Walk &walk, u32 t, const float *rstd, const float *mean) {
    t += at.lane % BATCH;
    u32 row = walk.first + t * walk.stride + at.group * UNROLL;
#pragma unroll
    for (int r = 0; r < UNROLL; r++) {
      bool in = t < walk.count && live(row, r, walk.end);
      rs[r] = in ? __ldg(rstd + row + r) : 0.f;
      mu[r] = LAYERNORM && in ? __ldg(mean + row + r) : 0.f;
    }
  }

  // makeRows begins the group's rows of tile t, which is of this batch.
  __device__ __forceinline__ void makeRows(Rows &rows, u32 t) const {
#pragma unroll
    for (int r = 0; r < UNROLL; r++) rows[r] = rowOf(ofTile(rs[r], t), LAYERNORM ? ofTile(mu[r], t) : 0.f);
  }

  // ofTile returns what the lane that has tile t has in v.
  static __device__ __forceinline__ float ofTile(float v, u32 t) { return BATCH > 1 ? __shfl_sync(0xffffffffu, v, t % BATCH, BATCH) : v; }
};

// ---- Tiles to shared memory ---------------------------------------------------

// copyOwn brings the thread's own vectors of the tile at row first. Ragged rows come by bulk copies alone.
__device__ __forceinline__ void copyOwn(const Place &at, unsigned char *slot, const X *x, const X *dy, u32 first, u32 end) {
  int rank = at.group * UNROLL;
  unsigned char *to = slot + rank * PITCH + at.vector(0) * VECTOR_BYTES;
  i64 own = (i64)(first + rank) * COLS + at.column(0);
  x += own;
  dy += own;
#pragma unroll
  for (int r = 0; r < UNROLL; r++)
    if (live(first, rank + r, end))
#pragma unroll
      for (int i = 0; i < L; i++)
        if (at.inside(i)) {
          unsigned char *dst = to + r * PITCH + i * TPR * VECTOR_BYTES;
          int src = r * COLS + i * TPR * VEC;
          copyRow<VECTOR_BYTES>(dst, x + src);
          copyRow<VECTOR_BYTES>(dst + HALF, dy + src);
        }
}

// makeBarriers returns a barrier for each slot, on which its bulk copies are waited for.
__device__ __forceinline__ Barrier *makeBarriers() {
  __shared__ Barrier full[STAGES];
  if (threadIdx.x == 0) {
#pragma unroll
    for (int s = 0; s < STAGES; s++) initBarrier(&full[s], 1);
    fenceBarriers();
  }
  __syncthreads();
  return full;
}

// A Pipe brings the CTA's tiles of x and dy to the slots, in turn.
struct Pipe {
  const Place &at;
  const Walk &walk;
  const X *x, *dy;
  i64 rows;      // of all CTAs
  Barrier *full; // of each slot; none without bulk copies

  // fill has a slot filled with tile t, if there is one.
  __device__ __forceinline__ void fill(int slot, u32 t) const {
    unsigned char *to = pipeline + slot * SLOT;
    if constexpr (BULK) {
      if (threadIdx.x < 32 && t < walk.count) RowLayout::bring(at, to, &full[slot], x, dy, walk.first + t * walk.stride, walk.end, rows);
    } else {
      if (t < walk.count) copyOwn(at, to, x, dy, walk.first + t * walk.stride, walk.end);
      commitCopies(); // in any case: waits count groups of copies
    }
  }

  // wait waits for a slot's tile, of which the thread then sees its own vectors. parity is odd if all
  // slots went round an odd number of times.
  __device__ __forceinline__ void wait(int slot, u32 parity) const {
    if constexpr (BULK) waitBarrier(&full[slot], parity);
    else waitCopies<STAGES - 1>();
  }
};

// ---- Tiles in registers -------------------------------------------------------

// A Source is where a group finds its rows of a tile in a slot: from row first on, those of x at x
// and those of dy HALF behind.
struct Source {
  const Place &at;
  const RowLayout &layout;
  const unsigned char *x;
  u32 first, end; // end is behind the last row of the CTA in ROW_ORDER 2, else of all rows

  __device__ __forceinline__ bool has(int r, int i) const { return live(first, r, end) && at.inside(i); }

  // readX and readDy read the thread's vector i of row r. Vectors past the end are zeros.
  __device__ __forceinline__ RowVec readX(int r, int i) const { return has(r, i) ? layout.read(x + r * PITCH, at, i) : zero<VECTOR_BYTES>(); }
  __device__ __forceinline__ RowVec readDy(int r, int i) const {
    return has(r, i) ? layout.read(x + HALF + r * PITCH, at, i) : zero<VECTOR_BYTES>();
  }
};

// A Tile is what a thread has of a tile: its vectors, packed, of the group's rows.
struct Tile {
  RowVec x[UNROLL][L], dy[UNROLL][L], dres[UNROLL][L];
  float factors[UNROLL][L][VEC], g[UNROLL][L][VEC]; // with KEEP, what was made of them: factors and dy*w

  __device__ __forceinline__ void read(const Source &from) {
#pragma unroll
    for (int r = 0; r < UNROLL; r++)
#pragma unroll
      for (int i = 0; i < L; i++) {
        x[r][i] = from.readX(r, i);
        dy[r][i] = from.readDy(r, i);
      }
  }

  // loadResidual has the residual's gradient loaded, which is under way during the reduction.
  __device__ __forceinline__ void loadResidual(const Source &from, const X *gradient) {
#pragma unroll
    for (int r = 0; r < UNROLL; r++)
#pragma unroll
      for (int i = 0; i < L; i++)
        dres[r][i] = from.has(r, i) ? from.layout.load(gradient + (i64)(from.first + r) * COLS, from.at, i) : zero<VECTOR_BYTES>();
  }

  // sumTerms makes the thread's part of the rows' sums and, with SUMS_FIRST, adds to those of the columns.
  __device__ __forceinline__ void sumTerms(float (&s)[SUMS], ColumnSums &dw, ColumnSums &db, const Rows &rows, const Weights &w, const Place &at) {
#pragma unroll
    for (int k = 0; k < SUMS; k++) s[k] = 0.f;
#pragma unroll
    for (int i = 0; i < L; i++)
      if (at.inside(i)) {
        float wf[VEC];
        weights(w[i], wf);
#pragma unroll
        for (int r = 0; r < UNROLL; r++) {
          float xf[VEC], dyf[VEC];
          unpackX(x[r][i], xf);
          unpackX(dy[r][i], dyf);
#pragma unroll
          for (int j = 0; j < VEC; j++) {
            float h = factor(xf[j], rows[r]);
            addTerms(s + r * K, h, dyf[j], wf[j]);
            if (SUMS_FIRST) addSums(dw[i][j], db[i][j], h, dyf[j], rows[r]);
            if (KEEP) factors[r][i][j] = h, g[r][i][j] = dyf[j] * wf[j];
          }
        }
      }
  }

  // writeDx writes dx and, without SUMS_FIRST, adds to the sums of the columns.
  __device__ __forceinline__ void writeDx(X *dx, ColumnSums &dw, ColumnSums &db, const Rows &rows, const Weights &w, const Source &from) {
    const Place &at = from.at;
    X *out = dx + ((i64)from.first * COLS + at.column(0) - from.layout.shift); // of vector 0, which may begin ahead of a ragged row
#pragma unroll
    for (int i = 0; i < L; i++) {
      if (!at.inside(i)) continue;
      float wf[VEC];
      if (!KEEP) weights(w[i], wf);
#pragma unroll
      for (int r = 0; r < UNROLL; r++) {
        float xf[VEC], dyf[VEC], d[VEC];
        if (REREAD & 1) x[r][i] = from.readX(r, i);
        if (REREAD & 2) dy[r][i] = from.readDy(r, i);
        if (!KEEP) unpackAgain(x[r][i], xf);
        if (!KEEP || !SUMS_FIRST) unpackAgain(dy[r][i], dyf);
#pragma unroll
        for (int j = 0; j < VEC; j++) {
          float h = KEEP ? factors[r][i][j] : factor(xf[j], rows[r]);
          d[j] = dxOf(h, KEEP ? g[r][i][j] : dyf[j] * wf[j], rows[r]);
          if (!SUMS_FIRST) addSums(dw[i][j], db[i][j], h, dyf[j], rows[r]);
        }
        if (RESIDUAL) {
          float res[VEC];
          unpackX(dres[r][i], res);
#pragma unroll
          for (int j = 0; j < VEC; j++) d[j] += res[j];
        }
        if (live(from.first, r, from.end)) from.layout.store(out + r * COLS, at, i, pack<X_TYPE, VEC>(d));
      }
    }
  }
};

// loadWeights loads the weights of the thread's columns.
__device__ __forceinline__ void loadWeights(Weights &weights, const W *w, const RowLayout &layout, const Place &at) {
#pragma unroll
  for (int i = 0; i < L; i++) weights[i] = HAS_WEIGHT && at.inside(i) ? layout.loadWeight(w, at, i) : zero<W_BYTES>();
}

// ---- The kernel -----------------------------------------------------------------

// smem_pipe fills all slots. Then it reads a tile at a time from its slot, makes the sums of its rows
// and writes dx. It fills the slot with the tile that comes STAGES later. At the end it writes the
// sums of dw and db.
extern "C" __global__ void BOUNDS(THREADS)
smem_pipe(const X *x, const X *dy, const X *dres, const W *w, const float *rstd, const float *mean, X *dx, P *dw_partial, P *db_partial, i64 rows
#if FUSED_DW == 1 || FUSED_DW == 2
          , LastCTAs last
#endif
) {
  Place at;
  int program = blockIdx.x / CLUSTER, programs = gridDim.x / CLUSTER; // clusters, in truth: one row is theirs together
  Walk walk(rows, program, programs);
  Pipe pipe = {at, walk, x, dy, rows, BULK ? makeBarriers() : nullptr};
  __shared__ ClusterSum<SUMS, GROUPS, CLUSTER> cluster; // unused without clusters
  if constexpr (CLUSTER > 1) cluster.begin();
  for (int s = 0; s < STAGES; s++) pipe.fill(s, s);
  letNextStart(); // k2, which waits

  u32 row = walk.first + at.group * UNROLL; // the group's first
  RowLayout layout(row);
  Weights weights;
  loadWeights(weights, w, layout, at);
  ColumnSums dw, db; // the latter unused without a bias
  clear(dw);
  clear(db);
  if constexpr (SHIFTS) clearSpans();
  i64 partial = FUSED_DW == 3 ? 0 : (i64)program * COLS;
  Stats stats, ahead;
  stats.fetch(at, walk, 0, rstd, mean);
  if constexpr (CLUSTER > 1) clusterWait();

  int slot = 0;
  u32 parity = 0; // of the slots' barriers
  for (u32 t = 0; t < walk.count; t++, row += walk.stride) {
    if (t % BATCH == 0) ahead.fetch(at, walk, t + BATCH, rstd, mean);

    Source from = {at, layout, pipeline + slot * SLOT + at.group * UNROLL * PITCH, row, walk.end};
    Tile tile;
    pipe.wait(slot, parity);
    tile.read(from);
    if (RESIDUAL) tile.loadResidual(from, dres);

    Rows of;
    float s[SUMS];
    stats.makeRows(of, t);
    tile.sumTerms(s, dw, db, of, weights, at);

    bool early = EARLY_SUMS && t + 1 == walk.count;
    float *beside = (float *)(pipeline + (slot + 1 == STAGES ? 0 : slot + 1) * SLOT); // in the last tile nobody fills it
    if (early) stageSums(beside, dw, at); // for the reduction's barrier
    // The thread has read its own vectors, all that it waits for with COPY_PATH 1.
    // (Filled before the sums above: 57.7 us, not 51.5, at 16384x2048.)
    if (REFILL == READ) pipe.fill(slot, t + STAGES);
    sumRows<SUMS, TPR>(s, t & 1);
    if (NEEDS_BARRIER) __syncthreads();
    if (early && threadIdx.x == 0) sendSums(dw_partial + partial, beside, at);
    if (REFILL == REDUCED) pipe.fill(slot, t + STAGES);
    if constexpr (CLUSTER > 1) cluster.sum(s, at.group, at.lane, t);
    if (REREAD) asm volatile("" ::: "memory"); // or the compiler keeps what it has read

    closeRows(of, s);
    tile.writeDx(dx, dw, db, of, weights, from);
    if (REFILL == WRITTEN) {
      if (BULK) __syncthreads();
      pipe.fill(slot, t + STAGES);
    }
    if constexpr (SHIFTS) { // the next row's shift is another: the sums' barrier is that of its reduction
      layout.moveSums<true>(dw, db, at);
      clear(dw);
      clear(db);
      layout = RowLayout(row + walk.stride);
      loadWeights(weights, w, layout, at);
    }
    if ((t + 1) % BATCH == 0) stats = ahead; // waits
    if (++slot == STAGES) {
      slot = 0;
      parity ^= 1;
    }
  }

  if constexpr (HAS_WEIGHT) {
    // A CTA without a tile has zeros to write.
    if (!EARLY_SUMS || walk.count == 0) layout.writeSums(dw_partial + partial, db_partial + partial, dw, db, at);
    if (threadIdx.x == 0) sumsSent();
#if FUSED_DW == 1 || FUSED_DW == 2
    int lo = at.rank * SLICE * VEC, hi = imin(lo + at.vecs * VEC, COLS);
    sumLast<FUSED_DW, SLICE * VEC>(last, dw_partial, db_partial, at.rank, program, programs, lo, hi, (float *)pipeline);
#endif
  }
  if constexpr (CLUSTER > 1 && RAGGED) clusterSync(); // nobody ends while others may still read its sums
}
