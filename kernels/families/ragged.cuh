// Rows of any length, for bwd_pipe.cuh. Where a row is a whole number of vectors, all
// of this is a plain load or store. A RAGGED row's vectors are the aligned ones that it
// has an element of: of the first and the last it may have some only, the rest counts
// as zeros and is not written. x, dy and dx are at the same place of a vector then; w
// and the sums of dw and db are shifted against it, by as much as the row starts behind
// an aligned address, and that is the same for every PHASES-th row.
//
// Before, vectors started where the row does, each cut out of two aligned ones and put
// together again by neighbours for dx: 43 to 69% of the stream (H200, bf16, N odd).

constexpr int phases() {
  int n = 1;
  while (n * COLS % VEC) n *= 2;
  return RAGGED ? n : 1;
}
constexpr int PHASES = phases();

// shiftOf is how many elements a row starts behind an aligned vector.
__device__ __forceinline__ int shiftOf(u32 row) { return RAGGED ? (int)(row % PHASES * COLS % VEC) : 0; }

// A vector that starts at column c (below 0 for elements ahead of the row) is whole, or
// has elements of the row from first to before last.
__device__ __forceinline__ bool whole(int c) { return !RAGGED || (c >= 0 && c + VEC <= COLS); }
__device__ __forceinline__ bool inRow(int c) { return !RAGGED || (c >= 0 && c < COLS); }

// only keeps what a vector at column c has of the row.
__device__ __forceinline__ RowVec only(RowVec v, int c) {
  if (whole(c)) return v;
#pragma unroll
  for (int j = 0; j < VEC; j++)
    if (!inRow(c + j)) {
      if constexpr (sizeof(X) == 4) v.word[j] = 0;
      else v.word[j / 2] &= j % 2 ? 0xffffu : 0xffff0000u;
    }
  return v;
}

// readRow is the thread's vector i of a row in a slot.
__device__ __forceinline__ RowVec readRow(const unsigned char *row, int shift, const Place &at, int i) {
  return only(loadShared<VECTOR_BYTES>(row + at.vector(i) * VECTOR_BYTES), at.column(i) - shift);
}

// writeRow stores the thread's vector i of a row of memory.
__device__ __forceinline__ void writeRow(X *row, int shift, const Place &at, int i, const RowVec &v) {
  int c = at.column(i) - shift;
  if (whole(c)) {
    store<VECTOR_BYTES>(row + c, v);
    return;
  }
#pragma unroll
  for (int j = 0; j < VEC; j++)
    if (inRow(c + j)) {
      if constexpr (sizeof(X) == 4) row[c + j] = (X)__uint_as_float(v.word[j]);
      else row[c + j] = (X)(v.word[j / 2] >> 16 * (j & 1));
    }
}

// each reads COUNT neighbours of which some are no elements of the row.
template <typename T> __device__ __forceinline__ Raw<VEC * sizeof(T)> loadSome(const T *row, int c) {
  Raw<VEC * sizeof(T)> v = zero<VEC * sizeof(T)>();
#pragma unroll
  for (int j = 0; j < VEC; j++)
    if (inRow(c + j)) {
      u32 e = load<sizeof(T)>(row + c + j).word[0];
      if constexpr (sizeof(T) == 4) v.word[j] = e;
      else v.word[j / 2] |= e << 16 * (j & 1);
    }
  return v;
}

// loadGlobal is the thread's vector i of a row of memory.
__device__ __forceinline__ RowVec loadGlobal(const X *row, int shift, const Place &at, int i) {
  int c = at.column(i) - shift;
  if (!whole(c)) return loadSome<X>(row, c);
  return loadRow<VECTOR_BYTES>(row + c);
}

// ownWeights are the weights of vector i.
__device__ __forceinline__ Raw<W_BYTES> ownWeights(const W *w, int shift, const Place &at, int i) {
#if RAGGED && HAS_WEIGHT
  return loadSome<W>(w, at.column(i) - shift);
#else
  return loadW(w, at.column(i));
#endif
}

// ---- The program's sums of ragged rows -----------------------------------------

// They meet in shared memory: a group's sums, for a gradient, of its program's columns,
// which begin up to VEC-1 ahead of the slice. A float more after every eighth leaves
// neighbours, who write columns eight apart, in different banks.
constexpr int SPAN = SLICE * VEC + VEC - 1;
constexpr int SPAN_FLOATS = SPAN + SPAN / 8 + 1;
__device__ __forceinline__ int spot(int k) { return k + k / 8; }

// With SHIFTS a program's rows have not all the same shift: a row's sums are added
// there before the next shift, in room of their own behind the slots. Else they go
// there once, at the end.
#ifndef SHIFTS
#define SHIFTS 0
#endif
__device__ __forceinline__ float *spanOf(int n, int group) {
  return (float *)(pipeline + (SHIFTS ? STAGES * SLOT : 0)) + (n * GROUPS + group) * SPAN_FLOATS;
}

// settle adds the thread's sums to its group's, or puts them there. Between two calls
// with rows of different shifts the group has a barrier.
template <bool ADD> __device__ __forceinline__ void settle(float *span, const float (&acc)[L][VEC], int shift, const Place &at) {
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

// loadRank reads what another program of the cluster has where p is here.
__device__ __forceinline__ float loadRank(const float *p, u32 rank) {
  float v = 0.f;
#if __CUDA_ARCH__ >= 900
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(onRank(p, rank)) : "memory");
#endif
  return v;
}

// emitRagged writes the program's slice of partial rows of dw and db: emit for ragged
// rows. What a program of a cluster has ahead of its slice, the one before it fetches.
__device__ __forceinline__ void emitRagged(P *dw_out, P *db_out, const float (&dw)[L][VEC], const float (&db)[L][VEC], int shift, const Place &at) {
  if (!SHIFTS) {
    __syncthreads(); // all have left the last tile
#pragma unroll
    for (int n = 0; n < 1 + HAS_BIAS; n++)
      for (int e = at.lane; e < 2 * (VEC - 1); e += TPR) spanOf(n, at.group)[spot(e < VEC - 1 ? e : SLICE * VEC + e - (VEC - 1))] = 0.f;
    __syncthreads();
    settle<false>(spanOf(0, at.group), dw, shift, at);
    if (HAS_BIAS) settle<false>(spanOf(1, at.group), db, shift, at);
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
