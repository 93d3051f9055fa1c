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
// Sums of dw have no use for the reduction: in rmsnorm they take a tile before it, and
// leave while the last tile's dx is made (EARLY_SUMS).
//
// Rows of any length: COPY_PATH 2 copies the aligned vectors that a row has an element
// of (ragged.cuh). CTAs whose rows do not all start alike in their vectors
// (SHIFTS) add up each tile's sums in shared memory.
//
// A skewed loop, which made the sums of tile t+1 before it took those of tile t, to
// hide the reduction, was slower by 2 to 10% at every shape (H200): tiles wait for
// memory, not for their sums, and it reads them from shared memory twice.
//
// FUSED_DW makes dw without k2: 1 and 2 by the last CTAs (fuse.cuh), 3 by
// bulk additions to zeroed fp32 sums, in any order. quack fuses without clusters
// and bias, N <= 2048; nothing here asks for that.
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
#include "ragged_sums.cuh"

constexpr bool BULK = COPY_PATH == 2;

// Stats are the saved statistics of a group's rows.
//
// With STATS_AHEAD the lanes of a group's part of a warp have those of as many tiles, one
// each: BATCH tiles take one load, long before most of them are needed. Without, each tile's
// are loaded a tile ahead, and waited for at its end. That wait is 13% of the time of
// layernorm's warps at 4096x2048, 29% without a weight, and yet most CTAs need it: it
// keeps them from asking the memory for more than it serves well. Without it 16384x8192 took
// 204 us and not 191 (H200, layernorm), 32768x2048 99.6 and not 97.1 (rmsnorm). Rows up to 2
// KiB, and no weight, are better off without it: 19.5 us became 15.5 (4096x2048, no weight).
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

  // row is the group's row r of tile t, of this batch.
  __device__ __forceinline__ Row row(int r, u32 t) const {
    auto mine = [&](float v) { return BATCH > 1 ? __shfl_sync(0xffffffffu, v, t % BATCH, BATCH) : v; };
    return rowOf(mine(rs[r]), LAYERNORM ? mine(mu[r]) : 0.f);
  }
};

// ---- Copies -------------------------------------------------------------------

// copyOwn brings the thread's own vectors of the tile at row first.
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

#if COPY_PATH == 2
// bringTile has the tile at row first, which has at least one row, brought to a
// slot: by the first warp, behind a barrier after the slot was read. Whole rows of a
// tile lie side by side, so one copy brings them; slices are copied row by row, and
// so are ragged rows.
__device__ __forceinline__ void bringTile(const Place &at, unsigned char *slot, Barrier *full, const X *x, const X *dy, u32 first, u32 end, i64 all) {
  int rows = TAIL && end - first < BLOCK_ROWS ? end - first : BLOCK_ROWS, lane = threadIdx.x % 32;
  int bytes = at.vecs * VECTOR_BYTES;
#if RAGGED
  // The slice of the row's aligned vectors, but not past the end of the tensor, whose
  // last bytes are copied by hand.
  i64 total = all * COLS * sizeof(X);
  for (int r = lane; r < rows; r += 32) {
    i64 row = (i64)(first + r) * COLS * sizeof(X), end = row + COLS * (i64)sizeof(X);
    i64 start = (row & ~15ll) + (i64)at.rank * SLICE * VECTOR_BYTES;
    i64 to = start + bytes < end ? start + bytes : end;
    i64 stop = (to + 15) & ~15ll, whole = stop <= total ? stop : total & ~15ll;
    u32 n = whole > start ? (u32)(whole - start) : 0;
    unsigned char *dst = slot + r * PITCH;
    for (i64 b = start + n; b < to; b += sizeof(X)) {
      *(X *)(dst + (b - start)) = *(const X *)((const char *)x + b);
      *(X *)(dst + HALF + (b - start)) = *(const X *)((const char *)dy + b);
    }
    if (n) {
      expectMore(full, 2 * n);
      bulkRow(dst, (const char *)x + start, n, full);
      bulkRow(dst + HALF, (const char *)dy + start, n, full);
    }
  }
  __syncwarp();
  if (lane == 0) expectBytes(full, 0);
#else
  if (lane == 0) expectBytes(full, 2 * rows * bytes);
  __syncwarp();
  if constexpr (CLUSTER == 1) { // whole rows lie side by side
    if (lane < 2) bulkRow(slot + lane * HALF, (lane ? dy : x) + (i64)first * COLS, rows * bytes, full);
  } else {
    for (int c = lane; c < 2 * rows; c += 32) {
      int r = c >> 1;
      bulkRow(slot + (c & 1) * HALF + r * PITCH, (c & 1 ? dy : x) + (i64)(first + r) * COLS + at.rank * SLICE * VEC, bytes, full);
    }
  }
#endif
}
#endif

// ---- The kernel -----------------------------------------------------------------

extern "C" __global__ void BOUNDS(THREADS)
smem_pipe(const X *x, const X *dy, const X *dres, const W *w, const W *b, const float *rstd, const float *mean, X *dx, P *dw_partial, P *db_partial,
          i64 rows, const W *dw_in, const W *db_in, W *dw_out, W *db_out, float *dw_leaders, float *db_leaders, int *counters, i64 group_size) {
  Place at;
  int program = blockIdx.x / CLUSTER, programs = gridDim.x / CLUSTER; // clusters, in truth: one row is theirs together
  Walk walk(rows, program, programs);
  u32 end = walk.end;

#if COPY_PATH == 2
  __shared__ Barrier full[STAGES];
  if (threadIdx.x == 0) {
#pragma unroll
    for (int s = 0; s < STAGES; s++) initBarrier(&full[s], 1);
    fenceBarriers();
  }
  __syncthreads();
#endif
#if CLUSTER > 1
  __shared__ ClusterSum<SUMS, GROUPS, CLUSTER> cluster;
  cluster.begin();
#endif

  // fill has a slot filled with tile t, if there is one.
  auto fill = [&](int slot, u32 t) {
    unsigned char *to = pipeline + slot * SLOT;
#if COPY_PATH == 2
    if (threadIdx.x < 32 && t < walk.count) bringTile(at, to, &full[slot], x, dy, walk.first + t * walk.stride, end, rows);
#else
    if (t < walk.count) copyOwn(at, to, x, dy, walk.first + t * walk.stride, end);
    commitCopies(); // in any case: waits count groups of copies
#endif
  };
  for (int s = 0; s < STAGES; s++) fill(s, s);
  letNextStart(); // k2, which waits

  u32 row = walk.first + at.group * UNROLL; // the group's first
  int shift = shiftOf(row);
  Raw<W_BYTES> wraw[L];
  float dw[L][VEC], db[L][VEC]; // the latter unused without a bias
  auto readWeights = [&] {
#pragma unroll
    for (int i = 0; i < L; i++) wraw[i] = at.inside(i) ? ownWeights(w, shift, at, i) : zero<W_BYTES>();
  };
  auto clearSums = [&] {
#pragma unroll
    for (int i = 0; i < L; i++)
#pragma unroll
      for (int j = 0; j < VEC; j++) {
        dw[i][j] = 0.f;
        if (HAS_BIAS) db[i][j] = 0.f;
      }
  };
  readWeights();
  clearSums();
#if SHIFTS
  for (int i = threadIdx.x; i < (1 + HAS_BIAS) * GROUPS * SPAN_FLOATS; i += THREADS) spanOf(0, 0)[i] = 0.f;
#endif
  i64 partial = FUSED_DW == 3 ? 0 : (i64)program * COLS;
  Stats stats, ahead;
  stats.fetch(at, walk, 0, rstd, mean);
#if CLUSTER > 1
  clusterWait();
#endif

  int slot = 0;
  u32 parity = 0; // of the slots' barriers: how many times all slots went round
  for (u32 t = 0; t < walk.count; t++, row += walk.stride) {
    if (t % BATCH == 0) ahead.fetch(at, walk, t + BATCH, rstd, mean);

    // What the thread has of the tile. Vectors past the end are zeros.
    const unsigned char *tile = pipeline + slot * SLOT + at.group * UNROLL * PITCH;
    auto read = [&](int half, int r, int i) {
      return live(row, r, end) && at.inside(i) ? readRow(tile + half * HALF + r * PITCH, shift, at, i) : zero<VECTOR_BYTES>();
    };
#if COPY_PATH == 2
    waitBarrier(&full[slot], parity);
#else
    waitCopies<STAGES - 1>();
#endif
    RowVec xraw[UNROLL][L], graw[UNROLL][L];
#pragma unroll
    for (int r = 0; r < UNROLL; r++)
#pragma unroll
      for (int i = 0; i < L; i++) {
        xraw[r][i] = read(0, r, i);
        graw[r][i] = read(1, r, i);
      }
#if RESIDUAL
    RowVec resraw[UNROLL][L]; // under way during the reduction
#pragma unroll
    for (int r = 0; r < UNROLL; r++)
#pragma unroll
      for (int i = 0; i < L; i++)
        resraw[r][i] = live(row, r, end) && at.inside(i) ? loadOwn(dres + (i64)(row + r) * COLS, at.column(i) - shift) : zero<VECTOR_BYTES>();
#endif

    float s[SUMS];
#pragma unroll
    for (int k = 0; k < SUMS; k++) s[k] = 0.f;
    Row of[UNROLL];
#pragma unroll
    for (int r = 0; r < UNROLL; r++) of[r] = stats.row(r, t);
    float kept[2][KEEP ? UNROLL : 1][KEEP ? L : 1][VEC]; // factors and dy*w
#pragma unroll
    for (int i = 0; i < L; i++)
      if (at.inside(i)) {
        float wf[VEC];
        weights(wraw[i], wf);
#pragma unroll
        for (int r = 0; r < UNROLL; r++) {
          float xf[VEC], g[VEC];
          unpackX(xraw[r][i], xf);
          unpackX(graw[r][i], g);
#pragma unroll
          for (int j = 0; j < VEC; j++) {
            float h = factor(xf[j], of[r]);
            addTerms(s + r * K, h, g[j], wf[j]);
            if (SUMS_FIRST) addSums(dw[i][j], db[i][j], h, g[j], of[r]);
            if (KEEP) kept[0][r][i][j] = h, kept[1][r][i][j] = g[j] * wf[j];
          }
        }
      }
    bool early = EARLY_SUMS && t + 1 == walk.count;
    float *beside = (float *)(pipeline + (slot + 1 == STAGES ? 0 : slot + 1) * SLOT);
    if (early) stageSums(beside, dw, at); // for the reduction's barrier
    // The thread has read its own vectors, all that it waits for with COPY_PATH 1.
    // (Filled before the sums above: 57.7 us, not 51.5, at 16384x2048.)
    if (!BULK && !REREAD) fill(slot, t + STAGES);
    sumRows<SUMS, TPR>(s, t & 1);
    // sumOver has this barrier where a group is wider than a warp. Bulk copies
    // need it behind the last reading, cluster.sum between its calls.
    if (TPR <= 32 && (BULK && !REREAD || CLUSTER > 1 || EARLY_SUMS || SHIFTS)) __syncthreads();
    if (early && threadIdx.x == 0) sendSums(dw_partial + partial, beside, at);
    if (BULK && !REREAD) fill(slot, t + STAGES);
#if CLUSTER > 1
    cluster.sum(s, at.group, at.lane, t);
#endif
    if (REREAD) asm volatile("" ::: "memory"); // or the compiler keeps what it has read
#pragma unroll
    for (int r = 0; r < UNROLL; r++) closeRow(of[r], s[r * K], s[r * K + K - 1]);

    X *out = dx + ((i64)row * COLS + at.column(0) - shift);
#pragma unroll
    for (int i = 0; i < L; i++) {
      if (!at.inside(i)) continue;
      float wf[VEC];
      if (!KEEP) weights(wraw[i], wf);
#pragma unroll
      for (int r = 0; r < UNROLL; r++) {
        float xf[VEC], g[VEC], d[VEC];
        if (REREAD & 1) xraw[r][i] = read(0, r, i);
        if (REREAD & 2) graw[r][i] = read(1, r, i);
        if (!KEEP) unpackAgain(xraw[r][i], xf);
        if (!KEEP || !SUMS_FIRST) unpackAgain(graw[r][i], g);
#pragma unroll
        for (int j = 0; j < VEC; j++) {
          float h = KEEP ? kept[0][r][i][j] : factor(xf[j], of[r]);
          d[j] = dxOf(h, KEEP ? kept[1][r][i][j] : g[j] * wf[j], of[r]);
          if (!SUMS_FIRST) addSums(dw[i][j], db[i][j], h, g[j], of[r]);
        }
#if RESIDUAL
        float res[VEC];
        unpackX(resraw[r][i], res);
#pragma unroll
        for (int j = 0; j < VEC; j++) d[j] += res[j];
#endif
        if (live(row, r, end)) storeOwn<X>(out + r * COLS + i * TPR * VEC, at.column(i) - shift, pack<X_TYPE, VEC>(d));
      }
    }
    if (REREAD) {
      if (BULK) __syncthreads();
      fill(slot, t + STAGES);
    }
#if SHIFTS // the next row's shift is another: the sums' barrier is that of its reduction
    if (HAS_WEIGHT) moveToSpan<true>(spanOf(0, at.group), dw, shift, at);
    if (HAS_BIAS) moveToSpan<true>(spanOf(1, at.group), db, shift, at);
    clearSums();
    shift = shiftOf(row + walk.stride);
    readWeights();
#endif
    if ((t + 1) % BATCH == 0) stats = ahead; // waits
    if (++slot == STAGES) {
      slot = 0;
      parity ^= 1;
    }
  }
#if HAS_WEIGHT
#if RAGGED
  emitRagged(dw_partial + partial, HAS_BIAS ? db_partial + partial : nullptr, dw, db, shift, at);
#else
  if (!EARLY_SUMS || walk.count == 0) {
    emitSums(dw_partial + partial, dw, at, 0);
#if HAS_BIAS
    emitSums(db_partial + partial, db, at, 1);
#endif
  }
#endif
  if (threadIdx.x == 0) sumsSent();
#if FUSED_DW == 1 || FUSED_DW == 2
  Gradient gw = {dw_partial, dw_leaders, dw_in, dw_out}, gb = {db_partial, db_leaders, db_in, db_out};
  int lo = at.rank * SLICE * VEC, hi = imin(lo + at.vecs * VEC, COLS);
#if FUSED_DW == 1
  sumLast<SLICE * VEC>(gw, gb, counters + at.rank, programs, lo, hi, (float *)pipeline);
#else
  int groups = (programs + (int)group_size - 1) / (int)group_size;
  sumLastOfGroups<SLICE * VEC>(gw, gb, counters + at.rank * (groups + 1), program, programs, (int)group_size, lo, hi, (float *)pipeline);
#endif
#endif
#endif
#if CLUSTER > 1 && RAGGED
  clusterSync(); // nobody ends while others may still read its sums
#endif
}
