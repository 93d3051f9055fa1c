// Backward, persistent: rows of x and dy come to shared memory several tiles
// ahead, the weight gradient stays in registers.
//
//   x, dy (M,N), [dres (M,N)], w (N), rstd (M), [mean (M)] -> dx (M,N) and partial
//   sums of dw and db (clusters,N), which k2 (reduce.cu) adds up; or, fused, dw
//   and db (N) themselves
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
// which frees their registers and holds the slot for longer. CLUSTER programs
// share the rows by columns; then the sums meet through distributed shared
// memory, and each program keeps its slice of a partial row. With g = dy*w and
// c = rstd*sum(g*xhat)/N once per row,
//
//   dx = rstd*(g - c*(x-mean) - sum(g)/N)    (rmsnorm: no mean, no last term)
//
// FUSED_DW makes dw without k2: 1 and 2 by the last programs (fuse.cuh), 3 by
// bulk additions to zeroed fp32 sums, in any order. quack fuses without clusters
// and bias, N <= 2048; nothing here asks for that.
#include "common.cuh"
#include "pipe.cuh"
#include "reduce.cuh"
#include "fuse.cuh"

constexpr bool BULK = COPY_PATH == 2;
constexpr int GROUPS = BLOCK_ROWS / UNROLL;
constexpr int TPR = THREADS / GROUPS; // threads of a group
constexpr int K = LAYERNORM ? 2 : 1;  // sums of a row
constexpr int SUMS = K * UNROLL;      // sums of a group

// A program's slice of columns, in vectors. Slices are multiples of 16 bytes; the
// last one may be shorter.
constexpr int GRAIN = 16 / VECTOR_BYTES;
constexpr int SLICE = cdiv(cdiv(VECS, CLUSTER), GRAIN) * GRAIN;
constexpr int LEAST = VECS - (CLUSTER - 1) * SLICE;
constexpr int L = cdiv(imin(SLICE, VECS), TPR); // vectors of a thread in a row
static_assert(LEAST > 0, "no program of a cluster is without columns");

// A slot: BLOCK_ROWS rows of x, then as many of dy, PITCH bytes apart.
constexpr int PITCH = SLICE * VECTOR_BYTES;
constexpr int HALF = BLOCK_ROWS * PITCH;

extern __shared__ __align__(128) unsigned char pipeline[];

// ---- Places -------------------------------------------------------------------

// A Place is what a thread works on: vectors lane, lane + TPR, ... of its
// program's slice, in the rows of its group.
struct Place {
  int rank, lane, group, vecs;

  __device__ __forceinline__ Place()
      : rank(blockIdx.x % CLUSTER), lane(threadIdx.x % TPR), group(threadIdx.x / TPR),
        vecs(CLUSTER == 1 ? VECS : rank == CLUSTER - 1 ? LEAST : SLICE) {}

  __device__ __forceinline__ bool inside(int i) const { return (i + 1) * TPR <= LEAST || lane + i * TPR < vecs; }
  __device__ __forceinline__ int vector(int i) const { return lane + i * TPR; }                 // in the slice
  __device__ __forceinline__ int column(int i) const { return (rank * SLICE + vector(i)) * VEC; } // in the row
};

// live says whether a group's row r of the tile is one of the matrix. Rows past
// the end are read as zeros and take part in every barrier.
__device__ __forceinline__ bool live(u32 row, int r, u32 end) { return BLOCK_ROWS == 1 || row + r < end; }

// Stats are the saved statistics of a group's rows.
struct Stats { float rs[UNROLL], mu[UNROLL]; };

__device__ __forceinline__ void fetch(Stats &s, const float *rstd, const float *mean, u32 row, u32 end) {
#pragma unroll
  for (int r = 0; r < UNROLL; r++) {
    s.rs[r] = live(row, r, end) ? __ldg(rstd + row + r) : 0.f;
    s.mu[r] = LAYERNORM && live(row, r, end) ? __ldg(mean + row + r) : 0.f;
  }
}

// A Walk is the program's tiles, as in common.cuh's Tiles, but dealt to clusters
// and counted in 32 bits, which saves registers: tile t begins at row
// first + t*stride.
struct Walk {
  u32 first, stride, count;

  __device__ __forceinline__ Walk(i64 rows, u32 program, u32 programs) {
    u32 tiles = (rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
    if (ROW_ORDER == 0) {
      first = program * BLOCK_ROWS;
      stride = programs * BLOCK_ROWS;
      count = (tiles - program + programs - 1) / programs;
    } else {
      u32 share = (tiles + programs - 1) / programs, before = program * share;
      first = before * BLOCK_ROWS;
      stride = BLOCK_ROWS;
      count = before >= tiles ? 0 : tiles - before < share ? tiles - before : share;
    }
  }
};

// ---- Copies -------------------------------------------------------------------

// copyOwn brings the thread's own vectors of the tile at row first.
__device__ __forceinline__ void copyOwn(const Place &at, unsigned char *slot, const X *x, const X *dy, u32 first, u32 end) {
#pragma unroll
  for (int r = 0; r < UNROLL; r++) {
    int rank = at.group * UNROLL + r;
    if (live(first, rank, end))
#pragma unroll
      for (int i = 0; i < L; i++)
        if (at.inside(i)) {
          unsigned char *dst = slot + rank * PITCH + at.vector(i) * VECTOR_BYTES;
          i64 src = (i64)(first + rank) * COLS + at.column(i);
          copyRow<VECTOR_BYTES>(dst, x + src);
          copyRow<VECTOR_BYTES>(dst + HALF, dy + src);
        }
  }
}

#if COPY_PATH == 2
// bringTile has the tile at row first, which has at least one row, brought to a
// slot: by one thread, behind a barrier after the slot was read. Whole rows of a
// tile lie side by side, so one copy brings them; slices are copied row by row.
__device__ __forceinline__ void bringTile(const Place &at, unsigned char *slot, Barrier *full, const X *x, const X *dy, u32 first, u32 end) {
  int rows = end - first < BLOCK_ROWS ? end - first : BLOCK_ROWS;
  int bytes = at.vecs * VECTOR_BYTES;
  expectBytes(full, 2 * rows * bytes);
  if constexpr (CLUSTER == 1) {
    bulkRow(slot, x + (i64)first * COLS, rows * bytes, full);
    bulkRow(slot + HALF, dy + (i64)first * COLS, rows * bytes, full);
  } else {
    for (int r = 0; r < rows; r++) {
      i64 src = (i64)(first + r) * COLS + at.rank * SLICE * VEC;
      bulkRow(slot + r * PITCH, x + src, bytes, full);
      bulkRow(slot + HALF + r * PITCH, dy + src, bytes, full);
    }
  }
}
#endif

// unpackAgain is unpackX by other instructions. By the same ones, what was
// unpacked before the reduction, and its products, are kept over it, in twice the
// registers of the vector: at N = 16384 with 512 threads that spilled 228 bytes.
__device__ __forceinline__ void unpackAgain(const RowVec &v, float (&f)[VEC]) {
  if constexpr (X_TYPE == FP32) {
    unpackX(v, f);
  } else {
#pragma unroll
    for (int i = 0; i < VEC / 2; i++) {
      u32 lo, hi;
      if constexpr (X_TYPE == BF16) {
        asm("prmt.b32 %0, %1, 0, 0x1044;" : "=r"(lo) : "r"(v.word[i]));
        asm("prmt.b32 %0, %1, 0, 0x3244;" : "=r"(hi) : "r"(v.word[i]));
        f[2 * i] = __uint_as_float(lo);
        f[2 * i + 1] = __uint_as_float(hi);
      } else {
        asm("prmt.b32 %0, %1, 0, 0x1032;" : "=r"(hi) : "r"(v.word[i])); // the halves change places
        unpackFP16(hi, f[2 * i + 1], f[2 * i]);
      }
    }
  }
}

// ---- The program's sums ---------------------------------------------------------

// emit writes the program's sums, its slice of a partial row, to out: those of
// the groups, in their order. They meet in the pipeline's memory, when no copy is
// under way any more. FUSED_DW 3 adds them to out from there.
__device__ __forceinline__ void emit(P *out, const float (&acc)[L][VEC], const Place &at) {
  if constexpr (GROUPS == 1 && FUSED_DW != 3) {
#pragma unroll
    for (int i = 0; i < L; i++)
      if (at.inside(i)) keep<VEC * sizeof(P)>(out + at.column(i), pack<P_TYPE, VEC>(acc[i]));
  } else {
    float *merged = (float *)pipeline;
    __syncthreads(); // all have left the last tile, or the last call's sums
#pragma unroll
    for (int i = 0; i < L; i++)
      if (at.inside(i)) storeShared<VEC * 4>(merged + (at.group * SLICE + at.vector(i)) * VEC, pack<FP32, VEC>(acc[i]));
    __syncthreads();
    int first = at.rank * SLICE * VEC, cols = at.vecs * VEC;
    for (int c = threadIdx.x; c < cols; c += THREADS) {
      float s = merged[c];
#pragma unroll
      for (int g = 1; g < GROUPS; g++) s += merged[g * SLICE * VEC + c];
      if (FUSED_DW == 3) merged[c] = s;
      else put<P_TYPE>(out + first + c, s);
    }
#if FUSED_DW == 3
    fenceShared();
    __syncthreads();
    if (threadIdx.x == 0) {
      bulkAdd(out + first, merged, cols * 4);
      commitBulk();
      waitBulk<0>(); // before the next call's barrier lets anybody write there
    }
#endif
  }
}

// ---- The kernel -----------------------------------------------------------------

extern "C" __global__ void BOUNDS(THREADS)
smem_pipe(const X *x, const X *dy, const X *dres, const W *w, const W *b, const float *rstd, const float *mean, X *dx, P *dw_partial, P *db_partial,
          i64 rows, const W *dw_in, const W *db_in, W *dw_out, W *db_out, float *dw_leaders, float *db_leaders, int *counters, i64 group_size) {
  Place at;
  int program = blockIdx.x / CLUSTER, programs = gridDim.x / CLUSTER; // clusters, in truth: one row is theirs together
  Walk walk(rows, program, programs);
  u32 end = rows;

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
  cluster.init();
#endif

  // fill has a slot filled with tile t, if there is one.
  auto fill = [&](int slot, u32 t) {
    unsigned char *to = pipeline + slot * (2 * HALF);
#if COPY_PATH == 2
    if (threadIdx.x == 0 && t < walk.count) bringTile(at, to, &full[slot], x, dy, walk.first + t * walk.stride, end);
#else
    if (t < walk.count) copyOwn(at, to, x, dy, walk.first + t * walk.stride, end);
    commitCopies(); // in any case: waits count groups of copies
#endif
  };
  for (int s = 0; s < STAGES; s++) fill(s, s);
  letNextStart(); // k2, which waits

  Raw<W_BYTES> wraw[L];
  float dw[L][VEC], db[HAS_BIAS ? L : 1][VEC];
#pragma unroll
  for (int i = 0; i < L; i++) {
    wraw[i] = at.inside(i) ? loadW(w, at.column(i)) : zero<W_BYTES>();
#pragma unroll
    for (int j = 0; j < VEC; j++) {
      dw[i][j] = 0.f;
      if (HAS_BIAS) db[i][j] = 0.f;
    }
  }
  u32 row = walk.first + at.group * UNROLL; // the group's first
  Stats now, next;
  if (walk.count > 0) fetch(now, rstd, mean, row, end);

  int slot = 0;
  u32 parity = 0; // of the slots' barriers: how many times all slots went round
  for (u32 t = 0; t < walk.count; t++, row += walk.stride) {
    if (t + 1 < walk.count) fetch(next, rstd, mean, row + walk.stride, end);

    // What the thread has of the tile. Vectors past the end are zeros.
    const unsigned char *tile = pipeline + slot * (2 * HALF) + at.group * UNROLL * PITCH + at.lane * VECTOR_BYTES;
    auto read = [&](int half, int r, int i) {
      return live(row, r, end) && at.inside(i) ? loadShared<VECTOR_BYTES>(tile + half * HALF + r * PITCH + i * (TPR * VECTOR_BYTES)) : zero<VECTOR_BYTES>();
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
        resraw[r][i] = live(row, r, end) && at.inside(i) ? loadRow<VECTOR_BYTES>(dres + (i64)(row + r) * COLS + at.column(i)) : zero<VECTOR_BYTES>();
#endif

    float s[SUMS];
#pragma unroll
    for (int k = 0; k < SUMS; k++) s[k] = 0.f;
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
            g[j] *= wf[j];
            s[r * K] += g[j] * ((xf[j] - now.mu[r]) * now.rs[r]);
            if (LAYERNORM) s[r * K + K - 1] += g[j];
          }
        }
      }
    // The thread has read its own vectors, all that it waits for with COPY_PATH 1.
    if (!BULK && RELOAD == 0) fill(slot, t + STAGES);
    sumOver<SUMS, TPR>(s, t & 1);
    // sumOver has this barrier where a group is wider than a warp. Bulk copies
    // need it behind the last reading, cluster.sum between its calls.
    if (TPR <= 32 && (BULK && RELOAD == 0 || CLUSTER > 1)) __syncthreads();
    if (BULK && RELOAD == 0) fill(slot, t + STAGES);
#if CLUSTER > 1
    cluster.sum(s, at.group, at.lane == 0, t);
#endif
    if (RELOAD) asm volatile("" ::: "memory"); // or the compiler keeps what it has read

#pragma unroll
    for (int i = 0; i < L; i++)
      if (at.inside(i)) {
        float wf[VEC];
        weights(wraw[i], wf);
#pragma unroll
        for (int r = 0; r < UNROLL; r++) {
          float xf[VEC], g[VEC], out[VEC];
          float c1 = s[r * K] * INV_COLS * now.rs[r], c2 = LAYERNORM ? s[r * K + K - 1] * INV_COLS : 0.f;
          if (RELOAD & 1) xraw[r][i] = read(0, r, i);
          if (RELOAD & 2) graw[r][i] = read(1, r, i);
          unpackAgain(xraw[r][i], xf);
          unpackAgain(graw[r][i], g);
#pragma unroll
          for (int j = 0; j < VEC; j++) {
            xf[j] -= now.mu[r];
            out[j] = now.rs[r] * (g[j] * wf[j] - c1 * xf[j] - c2);
            if (HAS_WEIGHT) dw[i][j] += g[j] * (xf[j] * now.rs[r]);
            if (HAS_BIAS) db[i][j] += g[j];
          }
#if RESIDUAL
          float res[VEC];
          unpackX(resraw[r][i], res);
#pragma unroll
          for (int j = 0; j < VEC; j++) out[j] += res[j];
#endif
          if (live(row, r, end)) store<VECTOR_BYTES>(dx + (i64)(row + r) * COLS + at.column(i), pack<X_TYPE, VEC>(out));
        }
      }
    if (RELOAD) {
      if (BULK) __syncthreads();
      fill(slot, t + STAGES);
    }
    now = next;
    if (++slot == STAGES) {
      slot = 0;
      parity ^= 1;
    }
  }
#if CLUSTER > 1
  clusterSync(); // nobody ends while others may still send to it
#endif

#if HAS_WEIGHT
  i64 partial = FUSED_DW == 3 ? 0 : (i64)program * COLS;
  emit(dw_partial + partial, dw, at);
#if HAS_BIAS
  emit(db_partial + partial, db, at);
#endif
#if FUSED_DW == 1 || FUSED_DW == 2
  Gradient gw = {dw_partial, dw_leaders, dw_in, dw_out}, gb = {db_partial, db_leaders, db_in, db_out};
  int lo = at.rank * SLICE * VEC, hi = lo + at.vecs * VEC;
#if FUSED_DW == 1
  sumLast<SLICE * VEC>(gw, gb, counters + at.rank, programs, lo, hi, (float *)pipeline);
#else
  int groups = (programs + (int)group_size - 1) / (int)group_size;
  sumLastOfGroups<SLICE * VEC>(gw, gb, counters + at.rank * (groups + 1), program, programs, (int)group_size, lo, hi, (float *)pipeline);
#endif
#endif
#endif
}
