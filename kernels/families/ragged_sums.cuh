// The rows and the sums of a backward whose rows may be ragged (ragged.cuh), for
// bwd_pipe.cuh.

// readRow is the thread's vector i of a row in a slot.
__device__ __forceinline__ RowVec readRow(const unsigned char *row, int shift, const Place &at, int i) {
  return keepOwn(loadShared<VECTOR_BYTES>(row + at.vector(i) * VECTOR_BYTES), at.column(i) - shift);
}

// ownWeights are the weights of vector i.
__device__ __forceinline__ Raw<W_BYTES> ownWeights(const W *w, int shift, const Place &at, int i) {
  return HAS_WEIGHT ? loadColumns(w, at.column(i) - shift, i > 0, ((CLUSTER - 1) * SLICE + (i + 1) * TPR + 1) * VEC <= COLS) : zero<W_BYTES>();
}

// The sums of ragged rows meet in shared memory: a group's sums, for a gradient, of its CTA's columns,
// which begin up to VEC-1 ahead of the slice. A float more after every eighth leaves
// neighbours, who write columns eight apart, in different banks.
constexpr int SPAN = SLICE * VEC + VEC - 1;
constexpr int SPAN_FLOATS = SPAN + SPAN / 8 + 1;
__device__ __forceinline__ int spot(int k) { return k + k / 8; }

// With SHIFTS a CTA's rows have not all the same shift: a row's sums are added
// there before the next shift, in room of their own behind the slots. Else they go
// there once, at the end.
__device__ __forceinline__ float *spanOf(int n, int group) {
  return (float *)(pipeline + (SHIFTS ? STAGES * SLOT : 0)) + (n * GROUPS + group) * SPAN_FLOATS;
}

// moveToSpan adds the thread's sums to its group's, or puts them there. Between two calls
// with rows of different shifts the group has a barrier.
template <bool ADD> __device__ __forceinline__ void moveToSpan(float *span, const float (&acc)[L][VEC], int shift, const Place &at) {
#pragma unroll
  for (int i = 0; i < L; i++)
    if (at.inside(i)) {
      int k = at.vector(i) * VEC - shift + VEC - 1;
#pragma unroll
      for (int j = 0; j < VEC; j++) {
        float *p = span + spot(k + j);
        *p = ADD ? *p + acc[i][j] : acc[i][j];
      }
    }
}

// loadRank reads what another CTA of the cluster has where p is here.
__device__ __forceinline__ float loadRank(const float *p, u32 rank) {
  float v = 0.f;
#if __CUDA_ARCH__ >= 900
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(onRank(p, rank)) : "memory");
#endif
  return v;
}

// emitRagged writes the CTA's slice of partial rows of dw and db: emit for ragged
// rows. What a CTA of a cluster has ahead of its slice, the one before it fetches.
__device__ __forceinline__ void emitRagged(P *dw_out, P *db_out, const float (&dw)[L][VEC], const float (&db)[L][VEC], int shift, const Place &at) {
  if (!SHIFTS) {
    __syncthreads(); // all have left the last tile
#pragma unroll
    for (int n = 0; n < 1 + HAS_BIAS; n++)
      for (int e = at.lane; e < 2 * (VEC - 1); e += TPR) spanOf(n, at.group)[spot(e < VEC - 1 ? e : SLICE * VEC + e - (VEC - 1))] = 0.f;
    __syncthreads();
    moveToSpan<false>(spanOf(0, at.group), dw, shift, at);
    if (HAS_BIAS) moveToSpan<false>(spanOf(1, at.group), db, shift, at);
  }
#if CLUSTER > 1
  clusterSync(); // and nobody ends before another, behind the sums
#else
  __syncthreads();
#endif
  int first = at.rank * SLICE * VEC, cols = imin(at.vecs * VEC, COLS - first);
#pragma unroll
  for (int n = 0; n < 1 + HAS_BIAS; n++) {
    const float *spans = spanOf(n, 0);
    for (int c = threadIdx.x; c < cols; c += THREADS) {
      int k = c + VEC - 1;
      float s = 0.f;
#pragma unroll
      for (int g = 0; g < GROUPS; g++) s += spans[g * SPAN_FLOATS + spot(k)];
#if CLUSTER > 1
      if (k >= SLICE * VEC && at.rank < CLUSTER - 1)
#pragma unroll
        for (int g = 0; g < GROUPS; g++) s += loadRank(spans + g * SPAN_FLOATS + spot(k - SLICE * VEC), at.rank + 1);
#endif
      put<P_TYPE>((n ? db_out : dw_out) + first + c, s);
    }
  }
}
