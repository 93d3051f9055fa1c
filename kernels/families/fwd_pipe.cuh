// What a forward through shared memory is made of: the slots, the threads' places, and sums over a
// cluster. Included after pipe.cuh and ragged_fwd.cuh, and before fwd_row.cuh. How the slots are filled
// is in fwd_copy.cuh.

constexpr int TPR = THREADS / BLOCK_ROWS; // threads of a row in a CTA
constexpr int LINE = 128 / VECTOR_BYTES; // vectors of a cache line
constexpr int SLICE = CLUSTER == 1 ? ROW_VECS : cdiv(cdiv(ROW_VECS, CLUSTER), LINE) * LINE; // vectors of a CTA
constexpr int L = cdiv(SLICE, TPR);                                                         // of a thread
constexpr bool WHOLE = L * TPR * CLUSTER == ROW_VECS; // no thread has fewer than L vectors

// Up to 32 words of weight and bias are read ahead of the row, 64 with RELOAD 1, whose rows take no
// registers. More would cost CTAs: then they are read where they are used. So they are where a
// thread's rows start differently in their vectors (SHIFTS), as each row cuts them at another place.
constexpr bool HOLD = !SHIFTS && L * cdiv(W_BYTES, 4) * (HAS_WEIGHT + HAS_BIAS) <= (RELOAD == 1 ? 64 : 32);

// A slot has BLOCK_ROWS slices of rows of x, then as many of res, PART bytes behind.
constexpr int PART = cdiv(BLOCK_ROWS * SLICE * VECTOR_BYTES, 16) * 16;
constexpr int SLOT = PART * (1 + RESIDUAL);
extern __shared__ __align__(128) char slots[];

// A Place says where a thread stands: row group of the tile; vectors lane, lane + TPR
// and so on of the CTA's slice. That has count vectors, from the row's vector first on. count is above 0:
// the manifest refuses clusters in which a CTA has none.
struct Place {
  int group = threadIdx.x / TPR, lane = threadIdx.x % TPR;
  int first = CLUSTER == 1 ? 0 : (int)(blockIdx.x % CLUSTER) * SLICE;
  int count = CLUSTER == 1 ? ROW_VECS : imin(SLICE, ROW_VECS - first);

  __device__ __forceinline__ bool inside(int i) const { return WHOLE || lane + i * TPR < count; }
  __device__ __forceinline__ int column(int i) const { return (first + lane + i * TPR) * VEC; }
  static constexpr int endOf(int i) { return ((CLUSTER - 1) * SLICE + (i + 1) * TPR) * VEC; } // in the last CTA
  // offset returns where vector i stands in its part of a slot.
  __device__ __forceinline__ int offset(int i) const { return (group * SLICE + lane + i * TPR) * VECTOR_BYTES; }
};

// A Cluster adds up what its CTAs have of a row. A CTA without others has nothing to add.
#if CLUSTER > 1
struct Cluster {
  ClusterSum<1 + LAYERNORM, BLOCK_ROWS, CLUSTER> &across;

  __device__ __forceinline__ Cluster() : across(shared()) {}
  static __device__ __forceinline__ ClusterSum<1 + LAYERNORM, BLOCK_ROWS, CLUSTER> &shared() {
    __shared__ ClusterSum<1 + LAYERNORM, BLOCK_ROWS, CLUSTER> across;
    return across;
  }

  // begin and wait stand before the first merge: no CTA may send to another before that has begun. What
  // stands between the two is done while it waits.
  __device__ __forceinline__ void begin() { across.begin(); }
  __device__ __forceinline__ void wait() { clusterWait(); }

  // average returns the mean of the CTA's columns of a row, from their sum.
  template <class Layout> __device__ __forceinline__ float average(float sum, const Layout &row) const {
    return sum / sliceCols<SLICE>(row.at.first / SLICE, row.shift);
  }

  // merge turns the CTA's squares and mean into the row's. round counts the calls. Between two stands a
  // __syncthreads (ClusterSum::gather).
  template <class Layout> __device__ __forceinline__ void merge(float &squares, float &mu, const Layout &row, int round) {
    exchangeSums<SLICE>(across, squares, mu, row.at.group, row.at.lane, row.shift, round);
  }
};
#else
struct Cluster {
  __device__ __forceinline__ void begin() {}
  __device__ __forceinline__ void wait() {}
  template <class Layout> __device__ __forceinline__ float average(float sum, const Layout &) const { return sum * INV_COLS; }
  template <class Layout> __device__ __forceinline__ void merge(float &, float &, const Layout &, int) {}
};
#endif
