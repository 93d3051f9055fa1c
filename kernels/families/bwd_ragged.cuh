// RaggedRow does for rows of any length what AlignedRow (bwd_aligned.cuh) does for rows of whole
// vectors. ragged.cuh says how such rows lie in vectors. Included after both and bwd_pipe.cuh.

// The sums of ragged rows meet in shared memory: a group's sums, for a gradient, of its CTA's columns,
// which begin up to VEC-1 ahead of the slice. A float more after every eighth leaves
// neighbours, who write columns eight apart, in different banks.
constexpr int SPAN = SLICE * VEC + VEC - 1;
constexpr int SPAN_FLOATS = SPAN + SPAN / 8 + 1;
__device__ __forceinline__ int spot(int k) { return k + k / 8; }

// spanOf returns the group's sums of the n-th gradient. With SHIFTS a CTA's rows have not all the
// same shift: a row's sums are added there before the next shift, in room of their own behind the
// slots. Else they go there once, at the end.
__device__ __forceinline__ float *spanOf(int n, int group) {
  return (float *)(pipeline + (SHIFTS ? STAGES * SLOT : 0)) + (n * GROUPS + group) * SPAN_FLOATS;
}

// clearSpans sets all groups' sums to zero.
__device__ __forceinline__ void clearSpans() {
  for (int i = threadIdx.x; i < (1 + HAS_BIAS) * GROUPS * SPAN_FLOATS; i += THREADS) spanOf(0, 0)[i] = 0.f;
}

// loadRank reads what another CTA of the cluster has where p is here.
__device__ __forceinline__ float loadRank(const float *p, u32 rank) {
  float v = 0.f;
  if constexpr (CLUSTER > 1) asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(onRank(p, rank)) : "memory");
  return v;
}

struct RaggedRow {
  int shift; // elements that the row starts behind an aligned vector

  __device__ __forceinline__ explicit RaggedRow(u32 row) : shift(shiftOf(row)) {}

  // column returns where the thread's vector i starts: below 0 if it has elements ahead of the row.
  __device__ __forceinline__ int column(const Place &at, int i) const { return at.column(i) - shift; }

  // read and load return zeros for what a vector has of other rows; store leaves that out.
  __device__ __forceinline__ RowVec read(const unsigned char *row, const Place &at, int i) const {
    return keepOwn(loadShared<VECTOR_BYTES>(row + at.vector(i) * VECTOR_BYTES), column(at, i));
  }
  __device__ __forceinline__ RowVec load(const X *row, const Place &at, int i) const { return loadOwn(row, column(at, i)); }
  __device__ __forceinline__ void store(X *own, const Place &at, int i, const RowVec &v) const {
    storeOwn<X>(own + i * TPR * VEC, column(at, i), v);
  }
  __device__ __forceinline__ Raw<W_BYTES> loadWeight(const W *w, const Place &at, int i) const {
    return loadColumns(w, column(at, i), i > 0, ((CLUSTER - 1) * SLICE + (i + 1) * TPR + 1) * VEC <= COLS);
  }

  // bring copies row by row the CTA's slice of the aligned vectors. It does not read past the end of
  // the tensors, of all rows: their last bytes are copied by hand.
  static __device__ __forceinline__ void bring(const Place &at, unsigned char *slot, Barrier *full, const X *x, const X *dy, u32 first, u32 end,
                                               i64 all) {
    int rows = TAIL && end - first < BLOCK_ROWS ? end - first : BLOCK_ROWS, lane = threadIdx.x % 32;
    int bytes = at.vecs * VECTOR_BYTES;
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
  }

  // moveSums adds the thread's sums to its group's, or puts them there. Between two calls with rows
  // of different shifts the group has a barrier.
  template <bool ADD> __device__ __forceinline__ void moveSums(const ColumnSums &dw, const ColumnSums &db, const Place &at) const {
    if (HAS_WEIGHT) moveToSpan<ADD>(spanOf(0, at.group), dw, at);
    if (HAS_BIAS) moveToSpan<ADD>(spanOf(1, at.group), db, at);
  }
  template <bool ADD> __device__ __forceinline__ void moveToSpan(float *span, const ColumnSums &acc, const Place &at) const {
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

  // writeSums writes the CTA's sums to its slice of partial rows of dw and db. What a CTA of a
  // cluster has ahead of its slice, the one before it fetches.
  __device__ __forceinline__ void writeSums(P *dw_out, P *db_out, const ColumnSums &dw, const ColumnSums &db, const Place &at) const {
    if (!SHIFTS) {
      __syncthreads(); // all have left the last tile
#pragma unroll
      for (int n = 0; n < 1 + HAS_BIAS; n++)
        for (int e = at.lane; e < 2 * (VEC - 1); e += TPR) spanOf(n, at.group)[spot(e < VEC - 1 ? e : SLICE * VEC + e - (VEC - 1))] = 0.f;
      __syncthreads();
      moveSums<false>(dw, db, at);
    }
    if constexpr (CLUSTER > 1) clusterSync(); // and nobody ends before another, behind the sums
    else __syncthreads();
    int first = at.rank * SLICE * VEC, cols = imin(at.vecs * VEC, COLS - first);
#pragma unroll
    for (int n = 0; n < 1 + HAS_BIAS; n++) {
      const float *spans = spanOf(n, 0);
      for (int c = threadIdx.x; c < cols; c += THREADS) {
        int k = c + VEC - 1;
        float s = 0.f;
#pragma unroll
        for (int g = 0; g < GROUPS; g++) s += spans[g * SPAN_FLOATS + spot(k)];
        if (CLUSTER > 1 && k >= SLICE * VEC && at.rank < CLUSTER - 1)
#pragma unroll
          for (int g = 0; g < GROUPS; g++) s += loadRank(spans + g * SPAN_FLOATS + spot(k - SLICE * VEC), at.rank + 1);
        put<P_TYPE>((n ? db_out : dw_out) + first + c, s);
      }
    }
  }
};
