// Forward, one pass: rows come to shared memory by asynchronous copies, a row may
// be spread over a cluster.
//
//   x (M,N), [res (M,N)], [w (N)], [b (N)] ->
//     y (M,N), [resout (M,N)], rstd (M) fp32, [mean (M) fp32]
//
// plain_rms_fwd.cu and plain_ln_fwd.cu read a row again for each sum and for y, one element at a
// time. Here the row is copied to shared memory, by CTAs or clusters that may have the next one
// under way.
//
// Bytes: x (and res) once, y (and resout) once, w and b once per CTA and then
// from L1/L2; RELOAD 2 reads x (and res) again, mostly from L2.
//
// The design of quack's forward (quack/rmsnorm.py, its main line). A CTA of
// WARPS warps handles BLOCK_ROWS rows at a time, WARPS*32/BLOCK_ROWS threads to a
// row; with CLUSTER > 1 each CTA of a cluster has a slice of the row's
// columns, and the sums meet in the CTAs' shared memory. Layernorm takes the
// mean first and then the centred squares; of a slice, whose two are exchanged
// together. After a reduction a thread has its part of the row from registers
// (RELOAD 0), from shared memory (1) or from memory (2).
//
// RAGGED rows come by the aligned vectors around them (ragged.cuh); what those have of
// other rows is left out when they are read.
//
// Each thread copies what it will read itself (COPY_PATH 1), so that it waits for
// nobody, or one thread brings whole rows by bulk copies on barriers (2). Rows
// that start at odd multiples of 2 bytes are loaded and stored by each thread,
// as cp.async moves no less than 4: the design's copies, but not its overlap.
//
// Not in quack: persistent CTAs with STAGES tiles ahead; slices that are
// equal but for the rounding to whole 128-byte lines, where quack's last CTA
// has what the others leave; and values that stay packed as they came, where
// quack keeps fp32 copies, at twice the registers.
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
#define SHIFTS 0 // 0 or 1: whether a CTA's rows start differently in their vectors
#endif

#include "common.cuh"
#include "pipe.cuh"
#include "ragged.cuh"
#include "ragged_fwd.cuh"

constexpr int TPR = THREADS / BLOCK_ROWS;
constexpr int LINE = 128 / VECTOR_BYTES;
constexpr int SLICE = CLUSTER == 1 ? ROW_VECS : cdiv(cdiv(ROW_VECS, CLUSTER), LINE) * LINE; // vectors of a CTA
constexpr int L = cdiv(SLICE, TPR);
constexpr bool WHOLE = L * TPR * CLUSTER == ROW_VECS; // no thread has fewer than L vectors
constexpr int PART = cdiv(BLOCK_ROWS * SLICE * VECTOR_BYTES, 16) * 16;
constexpr int SLOT = PART * (1 + RESIDUAL); // bytes of a tile: x, then res
constexpr int KEPT = RELOAD == 0 ? L : 1;
// Up to 32 words of weight and bias are read ahead of the row. More would cost
// CTAs; they are read where they are used, and so they are where a thread's rows
// start differently in their vectors (SHIFTS).
constexpr bool EARLY = !SHIFTS && L * cdiv(W_BYTES, 4) * (HAS_WEIGHT + HAS_BIAS) <= (RELOAD == 1 ? 64 : 32);
constexpr int AHEAD = EARLY ? L : 1;
// Arrays in registers ask for loops without a counter; else as many vectors are
// in flight as the way to shared memory or to memory asks for.
constexpr int UNROLLED = RELOAD == 0 || EARLY ? L : imin(L, RELOAD == 1 ? 4 : 8);
// A reduction beyond a warp has a __syncthreads: all have then read their slot.
constexpr bool MEETS = TPR > 32 || CLUSTER > 1;

extern __shared__ __align__(128) char slots[];

#if COPY_PATH == 2
__shared__ Barrier full[STAGES];
#endif
#if CLUSTER > 1
__shared__ ClusterSum<1 + LAYERNORM, BLOCK_ROWS, CLUSTER> across;
#endif

// A Place is where a thread stands: row group of the tile; vectors lane, lane+TPR
// and so on of the CTA's slice, which has count of them from first on.
struct Place {
  int group, lane, first, count;

  __device__ __forceinline__ Place() {
    group = threadIdx.x / TPR;
    lane = threadIdx.x % TPR;
    first = CLUSTER == 1 ? 0 : (int)(blockIdx.x % CLUSTER) * SLICE;
    count = CLUSTER == 1 ? ROW_VECS : imin(SLICE, ROW_VECS - first);
  }
  __device__ __forceinline__ bool inside(int i) const { return WHOLE || lane + i * TPR < count; }
  // column is that of vector i in a row that starts shift elements behind an aligned vector.
  __device__ __forceinline__ int column(int i, int shift) const {
    int c = (first + lane + i * TPR) * VEC - shift;
    wholeBetween(c, i > 0, ((CLUSTER - 1) * SLICE + (i + 1) * TPR) * VEC <= COLS);
    return c;
  }
  // nextIsWhole says that a row has another whole vector behind vector i, of any thread.
  __device__ __forceinline__ bool nextIsWhole(int i) const { return ((CLUSTER - 1) * SLICE + (i + 1) * TPR + 1) * VEC <= COLS; }
  // offset is where vector i stands in its part of a slot.
  __device__ __forceinline__ int offset(int i) const { return (group * SLICE + lane + i * TPR) * VECTOR_BYTES; }
};

// keepPacked makes the compiler forget what packed vectors hold: else it would widen
// them once and keep twice the registers.
template <int BYTES, int COUNT> __device__ __forceinline__ void keepPacked(Raw<BYTES> (&r)[COUNT]) {
#pragma unroll
  for (int i = 0; i < COUNT; i++)
#pragma unroll
    for (int k = 0; k < (BYTES < 4 ? 1 : BYTES / 4); k++) asm volatile("" : "+r"(r[i].word[k]));
}

// ---- Copies -----------------------------------------------------------------

#if COPY_PATH == 2
// copyRows begins the copies of n rows of the CTA's slice; one thread calls it.
__device__ __forceinline__ void copyRows(char *part, const X *x, const Place &at, i64 first, int n, Barrier *b) {
  u32 bytes = at.count * VECTOR_BYTES;
  if (CLUSTER == 1) {
    bulkRow(part, x + first * COLS, n * bytes, b); // whole rows stand one after the other in memory too
    return;
  }
  for (int r = 0; r < n; r++)
    bulkRow(part + r * SLICE * VECTOR_BYTES, x + (first + r) * COLS + at.first * VEC, bytes, b);
}
#elif VECTOR_BYTES >= 4
// copyRows begins the copies of the thread's own vectors of a row: whole ones, but for what
// would be past the end of the tensor.
__device__ __forceinline__ void copyRows(char *part, const X *x, const Place &at, i64 row, i64 rows) {
  int shift = shiftOf(row);
  i64 left = (rows - row) * COLS;
  x += row * COLS;
#pragma unroll 8
  for (int i = 0; i < L; i++)
    if (at.inside(i)) {
      int c = at.column(i, shift);
      if (!RAGGED || at.nextIsWhole(i) || c + VEC <= left) copyRow<VECTOR_BYTES>(part + at.offset(i), x + c);
      else storeShared<VECTOR_BYTES>(part + at.offset(i), loadSome<X>(x, c));
    }
}
#else
__device__ __forceinline__ void copyRows(char *part, const X *x, const Place &at, i64 row, i64 rows) {
  constexpr int BATCH = imin(L, 8); // loads in flight
  x += row * COLS;
  for (int first = 0; first < L; first += BATCH) {
    RowVec v[BATCH];
#pragma unroll
    for (int i = 0; i < BATCH; i++)
      if (first + i < L && at.inside(first + i)) v[i] = loadRow<VECTOR_BYTES>(x + at.column(first + i, 0));
#pragma unroll
    for (int i = 0; i < BATCH; i++)
      if (first + i < L && at.inside(first + i)) storeShared(part + at.offset(first + i), v[i]);
  }
}
#endif

// fetch begins to bring the tile at row first to a slot, where there is one.
__device__ __forceinline__ void fetch(int slot, const X *x, const X *res, const Place &at, i64 first, i64 end, i64 rows) {
  char *part = slots + slot * SLOT;
#if COPY_PATH == 2
  if (threadIdx.x == 0 && first < end) {
    int n = end - first < BLOCK_ROWS ? (int)(end - first) : BLOCK_ROWS;
    expectBytes(&full[slot], n * at.count * VECTOR_BYTES * (1 + RESIDUAL));
    copyRows(part, x, at, first, n, &full[slot]);
    if (RESIDUAL) copyRows(part + PART, res, at, first, n, &full[slot]);
  }
#else
  i64 row = first + at.group;
  if (row < end) {
    copyRows(part, x, at, row, rows);
    if (RESIDUAL) copyRows(part + PART, res, at, row, rows);
  }
  commitCopies();
#endif
}

// awaitSlot waits for a slot's tile: for the thread's own copies or for all.
__device__ __forceinline__ void awaitSlot(int slot, u32 parity) {
#if COPY_PATH == 2
  waitBarrier(&full[slot], parity);
#else
  waitCopies<STAGES - 1>();
#endif
}

// ---- Values -------------------------------------------------------------------

// A Row is a thread's part of a row: its parts in shared memory, in memory, and
// what of it is kept in registers.
struct Row {
  const char *part;
  const X *x, *res;
  int shift;
  RowVec xs[KEPT], ress[RESIDUAL ? KEPT : 1];
};

template <bool FIRST>
__device__ __forceinline__ RowVec packed(RowVec &kept, const char *part, const X *x, const Place &at, int i, int c) {
  if (FIRST || RELOAD == 1) {
    RowVec v = keepOwn(loadShared<VECTOR_BYTES>(part + at.offset(i)), c);
    if (RELOAD == 0) kept = v;
    return v;
  }
  return RELOAD == 2 ? loadOwn(x, c) : kept;
}

// readValues widens vector i of what is normalized, x or x + res: the first time from
// the slot, then from wherever RELOAD says.
template <bool FIRST> __device__ __forceinline__ void readValues(Row &r, const Place &at, int i, float (&f)[VEC]) {
  int c = at.column(i, r.shift);
  unpackX(packed<FIRST>(r.xs[i % KEPT], r.part, r.x, at, i, c), f);
#if RESIDUAL
  float g[VEC];
  unpackX(packed<FIRST>(r.ress[i % KEPT], r.part + PART, r.res, at, i, c), g);
#pragma unroll
  for (int j = 0; j < VEC; j++) f[j] += g[j];
#endif
}

// unpackAgain stands between two readings of a row.
__device__ __forceinline__ void unpackAgain(Row &r) {
  if (RELOAD == 0) {
    keepPacked(r.xs);
    if (RESIDUAL) keepPacked(r.ress);
  } else {
    asm volatile("" ::: "memory"); // what was read is not kept
  }
}

// programSum adds v over the CTA's threads of a row. phase counts these sums.
__device__ __forceinline__ float programSum(float v, int &phase) {
  float s[1] = {v};
  sumOver<1, TPR>(s, phase & 1);
  phase++;
  return s[0];
}

// ---- The kernel -----------------------------------------------------------------

extern "C" __global__ void BOUNDS(THREADS)
smem_pipe(const X *x, const X *res, const W *w, const W *b, X *y, X *resout, float *rstd, float *mean, i64 rows, float eps) {
  Place at;
  Tiles t = clusterTiles<CLUSTER>(rows);
#if COPY_PATH == 2
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; s++) initBarrier(&full[s], 1);
    fenceBarriers();
  }
  __syncthreads();
#endif
#pragma unroll
  for (int s = 0; s < STAGES; s++) fetch(s, x, res, at, t.first + s * t.stride, t.end, rows);
#if CLUSTER > 1
  across.begin(); // while the rows are on their way
#endif
  Raw<W_BYTES> wraw[AHEAD], braw[AHEAD];
  if (EARLY)
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
      int c = at.column(i, shiftOf(t.first + at.group));
      wraw[i] = HAS_WEIGHT && at.inside(i) ? loadColumns(w, c, i > 0, at.nextIsWhole(i)) : zero<W_BYTES>();
      if (HAS_BIAS) braw[i] = at.inside(i) ? loadColumns(b, c, i > 0, at.nextIsWhole(i)) : zero<W_BYTES>();
    }

#if CLUSTER > 1
  clusterWait();
#endif

  int slot = 0, phase = 0, tile = 0;
  u32 parity = 0;
  for (i64 first = t.first; first < t.end; first += t.stride) {
    i64 row = first + at.group;
    bool in = BLOCK_ROWS == 1 || row < t.end;
    Row r;
    r.part = slots + slot * SLOT;
    r.x = x + row * COLS;
    r.res = res + row * COLS;
    r.shift = shiftOf(row);
    awaitSlot(slot, parity);

    float sum = 0.f, mu = 0.f, f[VEC];
    if (in)
#pragma unroll UNROLLED
      for (int i = 0; i < L; i++)
        if (at.inside(i)) {
          readValues<true>(r, at, i, f);
#if RESIDUAL
          int c = at.column(i, r.shift);
          storeOwn<X>(resout + row * COLS + c, c, pack<X_TYPE, VEC>(f));
#endif
#pragma unroll
          for (int j = 0; j < VEC; j++) sum += LAYERNORM ? f[j] : f[j] * f[j];
        }
    unpackAgain(r);
    // The slot is free as soon as nobody reads it again: the thread's own part of
    // it at once, all of it after a barrier.
    if (PERSISTENT && RELOAD != 1 && COPY_PATH == 1) fetch(slot, x, res, at, first + STAGES * t.stride, t.end, rows);
    sum = programSum(sum, phase);
    if (PERSISTENT && RELOAD != 1 && COPY_PATH == 2) {
      if (!MEETS) __syncthreads();
      fetch(slot, x, res, at, first + STAGES * t.stride, t.end, rows);
    }
#if LAYERNORM
#if CLUSTER > 1
    mu = sum / sliceCols<SLICE>(at.first / SLICE, r.shift);
#else
    mu = sum * INV_COLS;
#endif
    sum = 0.f;
    if (in)
#pragma unroll UNROLLED
      for (int i = 0; i < L; i++)
        if (at.inside(i)) {
          readValues<false>(r, at, i, f);
          clearOthers(f, at.column(i, r.shift), mu);
#pragma unroll
          for (int j = 0; j < VEC; j++) sum += (f[j] - mu) * (f[j] - mu);
        }
    unpackAgain(r);
    sum = programSum(sum, phase);
#endif
#if CLUSTER > 1
    if (TPR <= 32) __syncthreads(); // programSum had none; see ClusterSum
    exchangeSums<SLICE>(across, sum, mu, at.group, at.lane, r.shift, tile++);
#endif
    float rs = 1.0f / sqrtf(sum * INV_COLS + eps);

    if (in) {
      if (at.lane == 0 && at.first == 0) {
        rstd[row] = rs;
#if LAYERNORM
        mean[row] = mu;
#endif
      }
      if (EARLY && PERSISTENT) {
        keepPacked(wraw);
        if (HAS_BIAS) keepPacked(braw);
      }
#pragma unroll UNROLLED
      for (int i = 0; i < L; i++)
        if (at.inside(i)) {
          int c = at.column(i, r.shift);
          float wf[VEC];
          readValues<false>(r, at, i, f);
          weights(EARLY ? wraw[i % AHEAD] : HAS_WEIGHT ? loadColumns(w, c, i > 0, at.nextIsWhole(i)) : zero<W_BYTES>(), wf);
#pragma unroll
          for (int j = 0; j < VEC; j++) f[j] = (f[j] - mu) * rs * wf[j];
#if HAS_BIAS
          float bf[VEC];
          unpack<W_TYPE, VEC>(EARLY ? braw[i % AHEAD] : loadColumns(b, c, i > 0, at.nextIsWhole(i)), bf);
#pragma unroll
          for (int j = 0; j < VEC; j++) f[j] += bf[j];
#endif
          storeOwn<X>(y + row * COLS + c, c, pack<X_TYPE, VEC>(f));
        }
    }
    if (!PERSISTENT) break;
    if (RELOAD == 1) {
      if (COPY_PATH == 2) __syncthreads();
      fetch(slot, x, res, at, first + STAGES * t.stride, t.end, rows);
    }
    if (++slot == STAGES) {
      slot = 0;
      parity ^= 1;
    }
  }
  // A CTA of a cluster may end: it has got all that is sent to it. With a clusterSync
  // here, another at once at the start, and an exchange for the mean and one for the squares,
  // a cluster of two took 26.2 us and not 21.7 at 256x65536 (H200, layernorm, 16 warps).
}
