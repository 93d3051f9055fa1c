// What backward designs share whose CTAs, alone or in clusters, take tiles of
// rows through slots of shared memory and keep the sums of dw and db in registers.
// Included after common.cuh, pipe.cuh, reduce.cuh, fuse.cuh and ragged.cuh.
//
// BLOCK_ROWS/UNROLL groups of threads stand side by side, each on UNROLL rows of a
// tile. CLUSTER CTAs share the rows by columns.

// Either<FIRST, A, B>::type is A or, without FIRST, B.
template <bool FIRST, typename A, typename B> struct Either { typedef A type; };
template <typename A, typename B> struct Either<false, A, B> { typedef B type; };

constexpr bool HOPPER = __CUDA_ARCH__ >= 900; // bulk copies, their barriers, clusters
constexpr bool BULK = COPY_PATH == 2;

#if __CUDA_ARCH__ < 900
// Stand-ins for what pipe.cuh has from sm_90 on. No config uses it before, but the kernel names it.
typedef u64 Barrier;
__device__ inline void initBarrier(Barrier *, int) {}
__device__ inline void fenceBarriers() {}
__device__ inline void expectBytes(Barrier *, u32) {}
__device__ inline void expectMore(Barrier *, u32) {}
__device__ inline void waitBarrier(Barrier *, u32) {}
__device__ inline void bulkRow(void *, const void *, u32, Barrier *) {}
__device__ inline void bulkStore(void *, const void *, u32) {}
__device__ inline void bulkAdd(float *, const float *, u32) {}
__device__ inline void fenceShared() {}
__device__ inline void commitBulk() {}
template <int LEFT> __device__ inline void waitBulkRead() {}
template <int LEFT> __device__ inline void waitBulk() {}
__device__ inline void clusterSync() {}
__device__ inline void clusterWait() {}
__device__ inline u32 onRank(const void *, u32) { return 0; }
template <int K, int GROUPS, int SIZE> struct ClusterSum {
  __device__ inline void begin() {}
  __device__ inline void sum(float (&)[K], int, int, int) {}
};
#endif

// The bits of RELOAD: what is read again after the reduction, or that what was made of
// both is kept.
constexpr int REREAD = RELOAD & 3;
constexpr bool KEEP = RELOAD & 4;

constexpr int GROUPS = BLOCK_ROWS / UNROLL;
constexpr int TPR = THREADS / GROUPS; // threads of a group
constexpr int K = LAYERNORM ? 2 : 1;  // sums of a row
constexpr int SUMS = K * UNROLL;      // sums of a group

// A CTA's slice of columns, in vectors. Slices are multiples of 16 bytes; the
// last one may be shorter.
constexpr int GRAIN = 16 / VECTOR_BYTES;
constexpr int SLICE = cdiv(cdiv(ROW_VECS, CLUSTER), GRAIN) * GRAIN;
constexpr int LEAST = ROW_VECS - (CLUSTER - 1) * SLICE;
constexpr int L = cdiv(imin(SLICE, ROW_VECS), TPR); // vectors of a thread in a row
static_assert(LEAST > 0, "no program of a cluster is without columns");

// A slot: BLOCK_ROWS rows of x, then as many of dy, PITCH bytes apart.
constexpr int PITCH = SLICE * VECTOR_BYTES;
constexpr int HALF = BLOCK_ROWS * PITCH, SLOT = 2 * HALF;

extern __shared__ __align__(128) unsigned char pipeline[];

// ---- Places -------------------------------------------------------------------

// A Place is what a thread works on: vectors lane, lane + TPR, ... of its
// CTA's slice, in the rows of its group.
struct Place {
  int rank, lane, group, vecs;

  __device__ __forceinline__ Place()
      : rank(blockIdx.x % CLUSTER), lane(threadIdx.x % TPR), group(threadIdx.x / TPR),
        vecs(CLUSTER == 1 ? ROW_VECS : rank == CLUSTER - 1 ? LEAST : SLICE) {}

  __device__ __forceinline__ bool inside(int i) const { return (i + 1) * TPR <= LEAST || lane + i * TPR < vecs; }
  __device__ __forceinline__ int vector(int i) const { return lane + i * TPR; }                 // in the slice
  __device__ __forceinline__ int column(int i) const { return (rank * SLICE + vector(i)) * VEC; } // in the row
};

// live says whether a group's row r of the tile is one of the matrix. Rows past
// the end are read as zeros and take part in every barrier. Without TAIL there are
// none: the rows are whole tiles.
__device__ __forceinline__ bool live(u32 row, int r, u32 end) { return !TAIL || BLOCK_ROWS == 1 || row + r < end; }

// A Walk is the CTA's tiles, as in common.cuh's Tiles, but dealt to clusters
// and counted in 32 bits, which saves registers: tile t begins at row
// first + t*stride, and ends before row end. In row order 2 a CTA's range is of
// rows, not of tiles, so that none has a row more than another has and one.
struct Walk {
  u32 first, stride, count, end;

  __device__ __forceinline__ Walk(i64 rows, u32 program, u32 programs) {
    u32 tiles = (rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
    end = rows;
    if (ROW_ORDER == 2) {
      first = rows * program / programs;
      end = rows * (program + 1) / programs;
      stride = BLOCK_ROWS;
      count = (end - first + BLOCK_ROWS - 1) / BLOCK_ROWS;
    } else if (ROW_ORDER == 0) {
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

// ---- A row's numbers --------------------------------------------------------------

// A Row is what the elements of a row are computed with. Of 16-bit x, xhat is
// rs*x - rs*mu in one instruction: what cancels there is far below x's own
// rounding. Of fp32 x nothing may cancel, and mu is subtracted first. (Layernorm's
// sums of g*x instead of g*xhat would save one more, and make NaN of an infinite dy
// where everybody else has an infinity. In rmsnorm they do not.)
struct Row { float rs, mu, shift, c1, c2; };
typedef Row Rows[UNROLL]; // of a group

__device__ __forceinline__ Row rowOf(float rs, float mu) { return {rs, mu, -mu * rs, 0.f, 0.f}; }

__device__ __forceinline__ float xhatOf(float x, const Row &row) {
  return X_TYPE == FP32 ? (x - row.mu) * row.rs : x * row.rs + row.shift;
}

// factor is what an element of x brings to the sums and to dx: xhat in layernorm.
__device__ __forceinline__ float factor(float x, const Row &row) { return LAYERNORM ? xhatOf(x, row) : x; }

// addTerms adds the terms of an element, g being dy*w, to the K sums of its row: of
// g*x in rmsnorm, of g*xhat and g in layernorm.
__device__ __forceinline__ void addTerms(float *s, float h, float dy, float w) {
  if constexpr (LAYERNORM) {
    s[0] += dy * w * h;
    s[K - 1] += dy * w;
  } else {
    s[0] += dy * h * w;
  }
}

// addSums adds an element to dw and db of its column.
__device__ __forceinline__ void addSums(float &dw, float &db, float h, float dy, const Row &row) {
  if (HAS_WEIGHT) dw += LAYERNORM ? dy * h : dy * h * row.rs;
  if (HAS_BIAS) db += dy;
}

// closeRow makes the row's factors of its sums. With a = sum(g*xhat)/N and b = sum(g)/N,
// dx is rs*(g - a*xhat - b): in layernorm rs*(g - c1*xhat) - c2, in rmsnorm rs*g - c1*x.
__device__ __forceinline__ void closeRow(Row &row, float gx, float g) {
  row.c1 = gx * INV_COLS;
  row.c2 = LAYERNORM ? row.rs * (g * INV_COLS) : 0.f;
  if (!LAYERNORM) row.c1 *= row.rs, row.c1 *= row.rs, row.c1 *= row.rs; // from the left: of tiny rows rs*rs is nothing
}

// closeRows closes the group's rows.
__device__ __forceinline__ void closeRows(Rows &rows, const float (&s)[SUMS]) {
#pragma unroll
  for (int r = 0; r < UNROLL; r++) closeRow(rows[r], s[r * K], s[r * K + K - 1]);
}

__device__ __forceinline__ float dxOf(float h, float g, const Row &row) {
  return LAYERNORM ? row.rs * (g - row.c1 * h) - row.c2 : row.rs * g - row.c1 * h;
}

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

// sumRows is sumOver for COUNT values, with fewer instructions: the lanes of a warp
// halve the values among them before they add up, and each gets all of them only at the
// end. Of 4 values over 8 warps that takes 35 instructions and not 76, of 440 that a
// tile of layernorm took at N = 2048.
template <int COUNT, int GROUP> __device__ __forceinline__ void sumRows(float (&v)[COUNT], int phase) {
  constexpr int LANES = imin(GROUP, 32);
  if constexpr (COUNT == 1 || COUNT > LANES) {
    sumOver<COUNT, GROUP>(v, phase);
  } else {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = COUNT / 2; n > 0; n /= 2) {
      int d = LANES * n / COUNT;
      bool upper = lane & d;
#pragma unroll
      for (int k = 0; k < n; k++) {
        float sent = upper ? v[k] : v[k + n];
        v[k] = (upper ? v[k + n] : v[k]) + __shfl_xor_sync(0xffffffffu, sent, d);
      }
    }
    constexpr int EACH = LANES / COUNT; // lanes k*EACH and on have value k
    float s = v[0];
#pragma unroll
    for (int d = EACH / 2; d > 0; d /= 2) s += __shfl_xor_sync(0xffffffffu, s, d);
    if constexpr (GROUP <= 32) {
#pragma unroll
      for (int k = 0; k < COUNT; k++) v[k] = __shfl_sync(0xffffffffu, s, k * EACH, LANES);
    } else {
      constexpr int SPAN = GROUP / 32, TOTAL = COUNT * SPAN;
      __shared__ float part[2][WARPS * COUNT];
      int warp = threadIdx.x / 32;
      if (lane % EACH == 0) part[phase][warp * COUNT + lane / EACH] = s;
      __syncthreads();
      const float *mine = part[phase] + warp / SPAN * TOTAL + lane % imin(TOTAL, 32); // of value lane % COUNT
      s = mine[0];
#pragma unroll
      for (int i = 32; i < TOTAL; i += 32) s += mine[i];
#pragma unroll
      for (int d = imin(TOTAL, 32) / 2; d >= COUNT; d /= 2) s += __shfl_xor_sync(0xffffffffu, s, d);
#pragma unroll
      for (int k = 0; k < COUNT; k++) v[k] = __shfl_sync(0xffffffffu, s, k);
    }
  }
}

// ---- The CTA's sums ---------------------------------------------------------

constexpr int SUM_FLOATS = SLICE * VEC; // of a gradient

// ColumnSums are a thread's sums of dw or db, Weights its weights: of the columns of its vectors.
typedef float ColumnSums[L][VEC];
typedef Raw<W_BYTES> Weights[L];

__device__ __forceinline__ void clear(ColumnSums &sums) {
#pragma unroll
  for (int i = 0; i < L; i++)
#pragma unroll
    for (int j = 0; j < VEC; j++) sums[i][j] = 0.f;
}

// Whether a CTA's sums leave by bulk stores: it has one group, whose vectors lie
// side by side in shared memory as in the partial row, and the pipeline has room. At
// 1024x8192 (H200, layernorm) its 64 KiB took 2.7 us that way and 3.7 by each
// thread's own stores, which write half a sector of 32 bytes at a time; 3.4 when
// neighbours changed halves first.
constexpr bool BULK_SUMS = HOPPER && HAS_WEIGHT && GROUPS == 1 && FUSED_DW == 0 && !RAGGED && P_TYPE == FP32 && VEC % 4 == 0 &&
                           SLOT * STAGES >= (1 + HAS_BIAS) * SUM_FLOATS * 4;

// Whether a tile's terms are added to them before its reduction, and whether they are
// then on their way while the last tile's dx is made: from the slot beside that tile's
// (which others may still read with COPY_PATH 1 and REREAD). Together they give 1 to
// 4% in rmsnorm where a slot is 32 KiB (H200: 32.9 to 31.8 us at 256x65536) and take or
// give 1 elsewhere. In layernorm, where there is twice as much to do before the slot is
// free, they took 1 to 7% (2048x4096).
constexpr bool SUMS_FIRST = !LAYERNORM && !HAS_BIAS;
constexpr bool EARLY_SUMS = BULK_SUMS && SUMS_FIRST && (COPY_PATH == 2 || !REREAD) && STAGES >= 2 && SUM_FLOATS * 4 <= SLOT;

// stageSums puts the CTA's sums to shared memory, for others to see after
// __syncthreads; sendSums has them stored from there, by one thread.
__device__ __forceinline__ void stageSums(float *sums, const ColumnSums &acc, const Place &at) {
#pragma unroll
  for (int i = 0; i < L; i++)
    if (at.inside(i)) storeShared<VEC * 4>(sums + at.vector(i) * VEC, pack<FP32, VEC>(acc[i]));
  fenceShared();
}
__device__ __forceinline__ void sendSums(P *out, const float *sums, const Place &at) {
  bulkStore(out + at.rank * SUM_FLOATS, sums, at.vecs * VEC * 4);
  commitBulk();
}

// sumsSent waits until shared memory has been read: a CTA that has ended has none.
__device__ __forceinline__ void sumsSent() {
  if (BULK_SUMS) waitBulkRead<0>();
}

// emitSums writes the CTA's sums, its slice of a partial row, to out: those of
// the groups, in their order. They meet in the pipeline's memory, when no copy is
// under way any more, the n-th gradient's in its n-th part. FUSED_DW 3 adds them to
// out from there.
__device__ __forceinline__ void emitSums(P *out, const ColumnSums &acc, const Place &at, int n) {
  if constexpr (BULK_SUMS) {
    float *sums = (float *)pipeline + n * SUM_FLOATS;
    if (n == 0) __syncthreads(); // all have left the last tile
    stageSums(sums, acc, at);
    __syncthreads();
    if (threadIdx.x == 0) sendSums(out, sums, at);
  } else if constexpr (GROUPS == 1 && FUSED_DW != 3) {
#pragma unroll
    for (int i = 0; i < L; i++)
      if (at.inside(i)) keepSums<VEC * sizeof(P)>(out + at.column(i), pack<P_TYPE, VEC>(acc[i]));
  } else {
    float *merged = (float *)pipeline;
    __syncthreads(); // all have left the last tile, or the last call's sums
    stageSums(merged + at.group * SUM_FLOATS, acc, at);
    __syncthreads();
    int first = at.rank * SUM_FLOATS, cols = imin(at.vecs * VEC, COLS - first);
    for (int c = threadIdx.x; c < cols; c += THREADS) {
      float s = merged[c];
#pragma unroll
      for (int g = 1; g < GROUPS; g++) s += merged[g * SUM_FLOATS + c];
      if (FUSED_DW == 3) merged[c] = s;
      else put<P_TYPE>(out + first + c, s);
    }
    if constexpr (FUSED_DW == 3) {
      fenceShared();
      __syncthreads();
      if (threadIdx.x == 0) {
        bulkAdd((float *)out + first, merged, cols * 4);
        commitBulk();
        waitBulk<0>(); // before the next call's barrier lets anybody write there
      }
    }
  }
}
