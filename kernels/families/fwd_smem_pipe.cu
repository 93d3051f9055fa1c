// Forward, one pass: rows come to shared memory by asynchronous copies, a row may
// be spread over a cluster.
//
//   x (M,N), [res (M,N)], [w (N)], [b (N)] ->
//     y (M,N), [resout (M,N)], rstd (M) fp32, [mean (M) fp32]
//
// fwd_cta_reg.cu loads rows into registers, which are taken while the rows are on their way. Here rows
// are copied to slots in shared memory, so that up to four tiles are under way without a register. There
// are no fp8 outputs. fwd_row.cuh knows how rows lie in memory, fwd_copy.cuh how they come to a slot.
// fwd_pipe.cuh knows what a slot has, and how a cluster adds up.
//
// Bytes: x (and res) once, y (and resout) once. With HOLD a thread reads its w and b once, else for each
// row, from L1 or L2. RELOAD 2 reads x (and res) again, mostly from L2.
//
// The design of quack's forward (quack/rmsnorm.py, its main line). A CTA of
// WARPS warps handles BLOCK_ROWS rows at a time, WARPS*32/BLOCK_ROWS threads to a
// row; with CLUSTER > 1 each CTA of a cluster has a slice of the row's
// columns, and the sums meet in the CTAs' shared memory. Layernorm takes the mean first
// and then the squares around it. A CTA of a cluster does so for its slice alone, and
// the means and squares of all slices are exchanged once, and merged.
//
// After a reduction a thread reads its part of the row again: from registers (RELOAD 0), from shared
// memory (1) or from memory (2). With a residual it adds x and res again, and has the same fp32 sums.
//
// RAGGED rows come by the aligned vectors around them (ragged.cuh); what those have of
// other rows is left out when they are read.
//
// Each thread copies what it will read itself (COPY_PATH 1), so that it waits for nobody, or one thread
// brings whole rows by bulk copies on barriers (2). Vectors of 2 bytes, of odd rows that are not RAGGED,
// go through registers, as cp.async moves no less than 4: the design's copies, but not its overlap.
//
// Three things are not in quack:
// - persistent CTAs with STAGES tiles ahead;
// - slices that are equal but for the rounding up to whole 128-byte lines, where quack rounds up to
//   a vector for each thread of a row;
// - values that stay packed as they came, where quack keeps fp32 copies, at twice the registers.
#ifndef COLS
#define COLS 4096 // 1 to 16777216: N
#endif
#ifndef WARPS
#define WARPS 4 // 1 to 32, powers of 2: of a CTA
#endif
#ifndef VECTOR_BYTES
#define VECTOR_BYTES 16 // 2 to 16, powers of 2: of a thread's load or store
#endif
#ifndef BLOCK_ROWS
#define BLOCK_ROWS 2 // 1 to 64, powers of 2: rows of a CTA
#endif
#ifndef STAGES
#define STAGES 1 // 1 to 4: tiles in flight
#endif
#ifndef CLUSTER
#define CLUSTER 1 // 1 to 16, powers of 2: CTAs that share a row through distributed shared memory
#endif
#ifndef COPY_PATH
#define COPY_PATH 1 // 1 or 2: asynchronous copies of each thread, or bulk copies
#endif
#ifndef RELOAD
#define RELOAD 1 // 0 to 2: rows come again from registers, shared memory, memory
#endif
#ifndef PERSISTENT
#define PERSISTENT 0 // 0 or 1: whether CTAs have several tiles
#endif
#ifndef SHIFTS
#define SHIFTS 0 // 0 or 1: whether a thread's rows start differently in their vectors
#endif

#include "common.cuh"
#include "pipe.cuh"
#include "ragged.cuh"
#include "ragged_fwd.cuh"
#include "fwd_pipe.cuh"
#include "fwd_row.cuh"
#include "fwd_copy.cuh"

constexpr int KEPT = RELOAD == 0 ? L : 1;
// Arrays in registers (the row's, or w and b with HOLD) ask for unrolled loops. Else a loop is unrolled
// for as many vectors as should be in flight: 4 from shared memory, 8 from memory.
constexpr int UNROLLED = RELOAD == 0 || HOLD ? L : imin(L, RELOAD == 1 ? 4 : 8);

// When a slot is filled again, which only persistent CTAs do: as soon as its last reader has read it.
// READ: after the thread's first reading, as nobody else reads what it copies. REDUCED: after the first
// sum's barrier, as one thread's bulk copies fill the slot for all. WRITTEN: after y, for which RELOAD 1 reads
// the slot again.
enum { NEVER, READ, REDUCED, WRITTEN };
constexpr int REFILL = !PERSISTENT ? NEVER : RELOAD == 1 ? WRITTEN : COPY_PATH == 2 ? REDUCED : READ;
// A sum within a warp has no barrier. A refill by one thread asks for one, and so does Cluster::merge.
constexpr bool NEEDS_BARRIER = TPR <= 32 && (REFILL == REDUCED || CLUSTER > 1);

// A Row is a thread's part of a row: where it is in shared memory and in memory, and what of it is kept
// in registers. RELOAD says where it comes from when it is read again.
struct Row {
  RowLayout layout;
  const char *part; // the slot's start: rows of x, then PART bytes later those of res; offset finds this row
  const X *x, *res; // the whole tensors
  RowVec xs[KEPT], ress[RESIDUAL ? KEPT : 1];

  __device__ __forceinline__ Row(const RowLayout &layout, const char *part, const X *x, const X *res) : layout(layout), part(part), x(x), res(res) {}

  // read widens vector i of what is normalized, x or x + res. With FIRST it reads the slot, later what
  // RELOAD names. vector reads it of one tensor, packed.
  template <bool FIRST> __device__ __forceinline__ void read(int i, float (&f)[VEC]) {
    unpackX(vector<FIRST>(xs[i % KEPT], part, x, i), f);
    if (!RESIDUAL) return;
    float g[VEC];
    unpackX(vector<FIRST>(ress[RESIDUAL ? i % KEPT : 0], part + PART, res, i), g);
#pragma unroll
    for (int j = 0; j < VEC; j++) f[j] += g[j];
  }
  template <bool FIRST> __device__ __forceinline__ RowVec vector(RowVec &kept, const char *part, const X *tensor, int i) const {
    if (FIRST || RELOAD == 1) {
      RowVec v = layout.own(loadShared<VECTOR_BYTES>(part + layout.at.offset(i)), i);
      if (RELOAD == 0) kept = v;
      return v;
    }
    return RELOAD == 2 ? layout.load(tensor, i) : kept;
  }

  // forget stands between two readings. Else the compiler would keep the floats of the first for the
  // second, in as many registers as RELOAD is there to save.
  __device__ __forceinline__ void forget() {
    if (RELOAD != 0) asm volatile("" ::: "memory");
    else
#pragma unroll
      for (int i = 0; i < KEPT; i++) {
        keepPacked(xs[i]);
        if (RESIDUAL) keepPacked(ress[RESIDUAL ? i : 0]);
      }
  }

  // sumFirst adds up what the thread has: its values in layernorm, else their squares. It writes resout.
  // Elements that are none of the row are zeros, by own.
  __device__ __forceinline__ float sumFirst(X *resout) {
    float s = 0.f, f[VEC];
#pragma unroll UNROLLED
    for (int i = 0; i < L; i++)
      if (layout.inside(i)) {
        read<true>(i, f);
        if (RESIDUAL) layout.store(resout, i, pack<X_TYPE, VEC>(f));
#pragma unroll
        for (int j = 0; j < VEC; j++) s += LAYERNORM ? f[j] : f[j] * f[j];
      }
    return s;
  }

  // sumSquares, in layernorm, adds up squares around mu. Zeros would add mu², so clear sets them to mu.
  __device__ __forceinline__ float sumSquares(float mu) {
    float s = 0.f, f[VEC];
#pragma unroll UNROLLED
    for (int i = 0; i < L; i++)
      if (layout.inside(i)) {
        read<false>(i, f);
        layout.clear(f, i, mu);
        addSquares(s, f, mu);
      }
    return s;
  }
};

// smem_pipe fills all slots. Then it takes a tile at a time from its slot, makes the sums of its rows and
// writes y. It fills the slot with the tile that comes STAGES later, at the place that REFILL says. What a
// group without a row (not live) finds in its slot is undefined, and not read.
extern "C" __global__ void BOUNDS(THREADS)
smem_pipe(const X *x, const X *res, const W *w, const W *b, X *y, X *resout, float *rstd, float *mean, i64 rows, float eps) {
  Place at;
  Tiles tiles = clusterTiles<CLUSTER>(rows);
  Pipe pipe = {at, x, res, tiles.end, rows};
  pipe.begin();
#pragma unroll
  for (int s = 0; s < STAGES; s++) pipe.fill(s, tiles.first + s * tiles.stride);
  Cluster cluster;
  cluster.begin(); // while the rows are on their way
  Parameters parameters(w, b, RowLayout(at, tiles.first + at.group));
  cluster.wait();

  int slot = 0, phase = 0, round = 0;
  u32 parity = 0; // of the slots' barriers
  for (i64 first = tiles.first; first < tiles.end; first += tiles.stride) {
    i64 n = first + at.group, ahead = first + STAGES * tiles.stride;
    RowLayout layout(at, n);
    Row row(layout, slots + slot * SLOT, x, res);
    bool live = BLOCK_ROWS == 1 || n < tiles.end;
    pipe.wait(slot, parity);

    float sum = live ? row.sumFirst(resout) : 0.f, mu = 0.f; // sum: of values in layernorm, then of squares
    row.forget();
    if (REFILL == READ) pipe.fill(slot, ahead);
    sum = sumRow(sum, phase++ & 1);
    if (NEEDS_BARRIER) __syncthreads();
    if (REFILL == REDUCED) pipe.fill(slot, ahead);
    if (LAYERNORM) {
      mu = cluster.average(sum, layout); // of the CTA's columns; merge makes it the row's
      sum = live ? row.sumSquares(mu) : 0.f;
      row.forget();
      sum = sumRow(sum, phase++ & 1);
    }
    cluster.merge(sum, mu, layout, round++);
    float rs = 1.0f / sqrtf(sum * INV_COLS + eps);

    if (live) {
      if (at.lane == 0 && at.first == 0) saveStatistics(rstd, mean, n, rs, mu); // of a cluster CTA 0
      if (PERSISTENT) parameters.stayPacked();
#pragma unroll UNROLLED
      for (int i = 0; i < L; i++)
        if (layout.inside(i)) {
          float f[VEC];
          row.read<false>(i, f);
#pragma unroll
          for (int j = 0; j < VEC; j++) f[j] = (f[j] - mu) * rs;
          parameters.apply(f, layout, i);
          layout.store(y, i, pack<X_TYPE, VEC>(f));
        }
    }
    if (!PERSISTENT) break;
    if (REFILL == WRITTEN) {
      if (COPY_PATH == 2) __syncthreads(); // one thread fills it for all
      pipe.fill(slot, ahead);
    }
    if (++slot == STAGES) {
      slot = 0;
      parity ^= 1;
    }
  }
  // No clusterSync is needed before the end: all that others send to this CTA has arrived. An earlier form
  // had one at the start and one here, and exchanged the mean and the squares apart. A cluster of two took
  // 26.2 us then, not 21.7, at 256x65536 (H200, layernorm, 16 warps).
}
