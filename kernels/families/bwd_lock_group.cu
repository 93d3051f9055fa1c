// Backward, a CTA per row: groups of rows share partial rows under locks.
//
//   x, dy (M,N), [dres (M,N)], w (N), rstd (M), [mean (M)] -> dx (M,N), partial
//   sums of dw and db (GROUP_SIZE,N) fp32, which k2 (reduce.cu) adds up
//   locks (2*GROUP_SIZE) i32, zero at the start: the locks, then whether a group's
//   partial row has been written yet
//
// plain_rms_bwd.cu and plain_ln_bwd.cu read x and dy twice, by rows for dx and by columns for dw.
// Here a CTA has one row, reads it once, and adds its terms of dw to a partial row in memory.
//
// Bytes: x, dy and dx once; 8 bytes per element of every row for the partial rows,
// read and written in L2 (16 with db). The row is in registers, spread over all
// threads. A row's dw is added to partial row number row % GROUP_SIZE; the first
// to come stores it instead, so that the partial rows need not be cleared. The
// order of the sums is that in which CTAs get the lock.
//
// The layer norm of the Triton tutorials, and Tri-RMSNorm after it, whose dx has
// no correction term, whose buffers are smaller than its indices and whose last
// kernel is not launched: this one is the tutorial's, with fp32 partial rows
// where that has the weight's type.
//
// Who holds a lock waits for nothing but its own CTA, so the locks come free
// in any order of CTAs, however many of them run at a time.
#ifndef COLS
#define COLS 4096 // 1 to 16777216: N
#endif
#ifndef WARPS
#define WARPS 8 // 1 to 32, powers of 2: of a CTA
#endif
#ifndef VECTOR_BYTES
#define VECTOR_BYTES 16 // 2 to 16, powers of 2: of a thread's load or store
#endif
#ifndef GROUP_SIZE
#define GROUP_SIZE 128 // 1 to 1024: partial rows, which CTAs share under locks
#endif

#define ROW_THREADS THREADS
#include "common.cuh"
#include "bwd_row.cuh"

// lock is taken by one thread; what the CTA before wrote is visible to all
// threads of this one afterwards.
__device__ __forceinline__ void lock(int *l) {
  if (threadIdx.x == 0) {
    while (atomicCAS(l, 0, 1) != 0) __nanosleep(32);
    __threadfence();
  }
  __syncthreads();
}

// unlock: what any thread of the CTA wrote is visible to who locks next.
__device__ __forceinline__ void unlock(int *l) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) atomicExch(l, 0);
}

// Sums of this many vectors are on their way from L2 at a time.
constexpr int AHEAD = imin(L, 2);

// addTo adds the row's terms to a partial row, or stores them if it is the first.
// All of it goes past L1, which other CTAs' writes do not reach. which is 0
// for dw and 1 for db.
template <int WHICH> __device__ __forceinline__ void addTo(float *partial, const Row &r, bool first) {
#pragma unroll
  for (int from = 0; from < L; from += AHEAD) {
    float s[AHEAD][VEC];
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
      if (from + i < L && inside(from + i)) getFloats(partial + column(from + i), s[i], !first);
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
      if (from + i < L && inside(from + i)) {
        float other[VEC];
        if (WHICH == 0) addGradients(r.x[from + i], r.dy[from + i], r.st, s[i], other);
        else addGradients(r.x[from + i], r.dy[from + i], r.st, other, s[i]);
        putFloats(partial + column(from + i), s[i]);
      }
  }
}

extern "C" __global__ void BOUNDS(THREADS)
lock_group(const X *x, const X *dy, const X *dres, const W *w, const W *b, const float *rstd, const float *mean, X *dx,
           float *dw_partial, float *db_partial, i64 rows, int *locks) {
  In in = {x, dy, dres, rstd, mean};
  i64 row = blockIdx.x;
  u32 nothing = (u32)(rows >> 62); // no one has so many
  Row r;
  r.fetch(in, row, true);
  Raw<W_BYTES> wraw[L];
#pragma unroll
  for (int i = 0; i < L; i++) wraw[i] = inside(i) ? loadW(w, column(i)) : zero<W_BYTES>();

  float s[K], wf[VEC];
#pragma unroll
  for (int k = 0; k < K; k++) s[k] = 0.f;
#pragma unroll
  for (int i = 0; i < L; i++)
    if (inside(i)) {
      weights(wraw[i], wf);
      addSums(r.x[i], r.dy[i], wf, r.st, s[0], s[K - 1]);
    }
  sumOver<K, THREADS>(s, 0);
  r.packed(nothing);
#pragma unroll
  for (int i = 0; i < L; i++)
    if (inside(i)) {
      if (!KEEP_W) wraw[i] = loadW(w, column(i));
      weights(wraw[i], wf);
      putDX(dx + row * COLS + column(i), r.x[i], r.dy[i], r.residual(i), wf, r.st, s[0] * INV_COLS,
            LAYERNORM ? s[K - 1] * INV_COLS : 0.f);
    }
  r.packed(nothing);

  letNextStart();
  i64 group = row % GROUP_SIZE;
  int *written = locks + GROUP_SIZE + group;
  lock(locks + group);
  bool first = __ldcg(written) == 0;
  addTo<0>(dw_partial + group * COLS, r, first);
#if HAS_BIAS
  addTo<1>(db_partial + group * COLS, r, first);
#endif
  __syncthreads(); // all have read it
  if (threadIdx.x == 0 && first) __stcg(written, 1);
  unlock(locks + group);
}
