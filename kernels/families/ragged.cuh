// Rows that are no whole number of aligned vectors, for bwd_pipe.cuh: their places in
// shared memory hold the aligned superset of the row's slice, a vector is cut out of
// two, and dx is put together from neighbouring threads' vectors. Where a row is a
// whole number of vectors, all of this is a plain load or store.

constexpr int WIDTH = imin(TPR, 32); // threads of a warp that share a row

// offset is how far behind a multiple of 16 bytes a row starts, and so each slice.
__device__ __forceinline__ int offset(u32 row) { return RAGGED ? (int)((u32)row * (u32)(COLS * sizeof(X)) & 15) : 0; }

// cut is a vector out of two aligned ones, shift bytes behind the first's start.
__device__ __forceinline__ RowVec cut(const Raw<16> &a, const Raw<16> &b, int shift) {
  u32 w[8] = {a.word[0], a.word[1], a.word[2], a.word[3], b.word[0], b.word[1], b.word[2], b.word[3]};
#pragma unroll
  for (int i = 0; i < 6; i++) w[i] = shift & 8 ? w[i + 2] : w[i];
#pragma unroll
  for (int i = 0; i < 5; i++) w[i] = shift & 4 ? w[i + 1] : w[i];
  RowVec r;
#pragma unroll
  for (int i = 0; i < 4; i++) r.word[i] = __funnelshift_r(w[i], w[i + 1], (shift & 2) * 8);
  return r;
}

// The last vector of a ragged row has LAST elements.
constexpr int LAST = COLS % VEC ? COLS % VEC : VEC;
__device__ __forceinline__ bool isLast(const Place &at, int i) { return RAGGED && LAST < VEC && at.column(i) + VEC > COLS; }

// readRow is the thread's vector i of a row in a slot; what is past the end of the
// row is zeros.
__device__ __forceinline__ RowVec readRow(const unsigned char *row, int shift, const Place &at, int i) {
  const unsigned char *p = row + at.vector(i) * VECTOR_BYTES;
#if RAGGED
  RowVec v = cut(loadShared<16>(p), loadShared<16>(p + 16), shift);
  if (isLast(at, i)) {
#pragma unroll
    for (int j = 0; j < VEC; j++)
      if (j >= LAST) v.word[j * sizeof(X) / 4] &= sizeof(X) == 4 ? 0u : j % 2 ? 0xffffu : 0xffff0000u;
  }
  return v;
#else
  return loadShared<VECTOR_BYTES>(p);
#endif
}

__device__ __forceinline__ X element(const RowVec &v, int j) {
  if constexpr (sizeof(X) == 4) return (X)__uint_as_float(v.word[j]);
  else return (X)(v.word[j / 2] >> 16 * (j & 1));
}

// writeRow stores the thread's vector at its column of a row. In a ragged row a
// thread completes the 16 bytes that its vector starts in with the end of its
// neighbour's; all threads of the warp call it.
__device__ __forceinline__ void writeRow(X *row, int shift, const Place &at, int i, const RowVec &v, bool inside) {
#if RAGGED
  RowVec before;
#pragma unroll
  for (int k = 0; k < 4; k++) before.word[k] = __shfl_up_sync(0xffffffffu, v.word[k], 1, WIDTH);
  if (!inside) return;
  X *own = row + at.column(i);
  int count = isLast(at, i) ? LAST : VEC, head = shift ? (16 - shift) / (int)sizeof(X) : VEC; // elements in the first 16 bytes
  bool left = at.lane % WIDTH > 0, right = at.lane % WIDTH < WIDTH - 1 && at.vector(i) + 1 < at.vecs;
  if (shift == 0 && count == VEC) {
    store<16>(own, v);
    return;
  }
  if (left && count >= head && shift) {
    Raw<16> a, b;
#pragma unroll
    for (int k = 0; k < 4; k++) a.word[k] = before.word[k], b.word[k] = v.word[k];
    store<16>((char *)own - shift, cut(a, b, 16 - shift));
  } else {
#pragma unroll
    for (int j = 0; j < VEC; j++) {
      if (left && shift && j >= head) own[j - VEC] = element(before, j); // the neighbour's last, where they end the row
      if (j < head && j < count) own[j] = element(v, j);
    }
  }
  if (!right)
#pragma unroll
    for (int j = 0; j < VEC; j++)
      if (j >= head && j < count) own[j] = element(v, j);
#else
  if (inside) store<VECTOR_BYTES>(row + at.column(i), v);
#endif
}

// loadGlobal is a vector of a row in memory.
__device__ __forceinline__ RowVec loadGlobal(const X *row, const Place &at, int i) {
#if RAGGED
  RowVec v = zero<16>();
#pragma unroll
  for (int j = 0; j < VEC; j++)
    if (at.column(i) + j < COLS) {
      u32 e = load<sizeof(X)>(row + at.column(i) + j).word[0];
      if constexpr (sizeof(X) == 4) v.word[j] = e;
      else v.word[j / 2] |= e << 16 * (j & 1);
    }
  return v;
#else
  return loadRow<VECTOR_BYTES>(row + at.column(i));
#endif
}

// ownWeights are the weights of vector i.
__device__ __forceinline__ Raw<W_BYTES> ownWeights(const W *w, const Place &at, int i) {
#if RAGGED && HAS_WEIGHT
  if (isLast(at, i)) {
    Raw<W_BYTES> v = zero<W_BYTES>();
#pragma unroll
    for (int j = 0; j < LAST; j++) {
      u32 e = load<sizeof(W)>(w + at.column(i) + j).word[0];
      if constexpr (sizeof(W) == 4) v.word[j] = e;
      else v.word[j / 2] |= e << 16 * (j & 1);
    }
    return v;
  }
#endif
  return loadW(w, at.column(i));
}
