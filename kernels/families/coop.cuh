// What the designs share that spread a row over CTAs: the part of a row
// that a CTA has, and the exchange of its sums through global memory.
// Included after common.cuh, with CTAS_PER_ROW and BLOCK_ROWS.

constexpr int RANKS = CTAS_PER_ROW;
constexpr int TPR = THREADS / BLOCK_ROWS;   // threads of a row in one CTA
constexpr int SLICE = cdiv(VECS, RANKS);    // vectors of a row in one CTA; the last may have fewer
constexpr int L = cdiv(SLICE, TPR);         // vectors of a row in one thread
static_assert(TPR >= 32 && TPR * BLOCK_ROWS == THREADS, "whole warps to a row");
static_assert(RANKS == 1 || BLOCK_ROWS == 1, "rows side by side only where programs hold whole rows");
static_assert(SLICE * (RANKS - 1) < VECS, "a program has none of the row");

// The CTAs of a row are neighbours, and walk over the same rows: row after
// row for the whole group, groups() rows apart.
__device__ __forceinline__ int rank() { return RANKS == 1 ? 0 : blockIdx.x % RANKS; }
__device__ __forceinline__ i64 group() { return blockIdx.x / RANKS; }
__device__ __forceinline__ i64 groups() { return gridDim.x / RANKS; }
__device__ __forceinline__ int lane() { return threadIdx.x % TPR; }

// inside says whether the thread's i-th vector is one of the row, column where
// it stands there.
__device__ __forceinline__ bool inside(int i) {
  int at = lane() + i * TPR;
  return (SLICE % TPR == 0 || at < SLICE) && (VECS % RANKS == 0 || rank() * SLICE + at < VECS);
}
__device__ __forceinline__ i64 column(int i) { return (i64)(rank() * SLICE + lane() + i * TPR) * VEC; }

// sliceCols is how many columns CTA r has of a row, sliceMean the mean of its
// sum over them.
constexpr int LAST = VECS - SLICE * (RANKS - 1);
__device__ __forceinline__ float sliceCols(int r) { return r < RANKS - 1 ? (float)(SLICE * VEC) : (float)(LAST * VEC); }
__device__ __forceinline__ float sliceMean(float sum, int r) {
  return sum * (r < RANKS - 1 ? 1.0f / (SLICE * VEC) : 1.0f / (LAST * VEC));
}

// A group of CTAs has a counter of its own, COUNTER words apart so that
// groups do not meet in a cache line, and two slots of SLOT floats, used in
// turns: the plans say so.
constexpr int COUNTER = 32, SLOT = 16;

// Exchange brings K sums of each CTA of a row to all of them.
//
// Counters start at zero and only grow: round after round each CTA adds one
// and waits for RANKS more, so nothing is reset. (apex and TransformerEngine
// count up and down again, and so need two counters in turns. Differences are
// taken modulo 2^32.) Two slots are enough: who writes a slot again has seen all
// of the group arrive in the round between, which none does before it has read.
struct Exchange {
#if CTAS_PER_ROW > 1
  float *slots;
  u32 *arrived, target;
  int slot;

  __device__ __forceinline__ Exchange(float *exchange, u32 *counters)
      : slots(exchange + group() * 2 * SLOT), arrived(counters + group() * COUNTER), target(0), slot(0) {}
#else
  __device__ __forceinline__ Exchange(float *, u32 *) {}
#endif

  // gather: mine is the same in all threads; all of them call it. With one
  // CTA of K sums it costs nothing.
  template <int K> __device__ __forceinline__ void gather(const float (&mine)[K], float (&all)[K][RANKS]) {
#if CTAS_PER_ROW > 1
    static_assert(K * RANKS <= SLOT, "a slot holds the sums of all");
    float *at = slots + slot * SLOT;
    target += RANKS;
    slot ^= 1;
    // Groups beyond a warp have had sumOver's barrier since the last round.
    if (THREADS == 32) __syncwarp();
    if (threadIdx.x == 0) {
#pragma unroll
      for (int k = 0; k < K; k++) __stcg(at + k * RANKS + rank(), mine[k]);
      asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(arrived) : "memory");
      u32 n;
      do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(n) : "l"(arrived) : "memory");
      while ((int)(n - target) < 0);
    }
    __syncthreads();
    // One request per warp, past L1, which other CTAs' stores do not reach.
    int from = threadIdx.x % 32;
    float got = from < K * RANKS ? __ldcg(at + from) : 0.f;
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
      for (int r = 0; r < RANKS; r++) all[k][r] = __shfl_sync(0xffffffffu, got, k * RANKS + r);
#else
#pragma unroll
    for (int k = 0; k < K; k++) all[k][0] = mine[k];
#endif
  }

  // sum adds the K sums of the CTAs in the order of their ranks.
  template <int K> __device__ __forceinline__ void sum(float (&v)[K]) {
    float all[K][RANKS];
    gather(v, all);
#pragma unroll
    for (int k = 0; k < K; k++) {
      v[k] = all[k][0];
#pragma unroll
      for (int r = 1; r < RANKS; r++) v[k] += all[k][r];
    }
  }
};
