// Rows of any length. Where a row is a whole number of vectors, all of this is a plain
// load or store. A RAGGED row's vectors are the aligned ones that it has an element of:
// of the first and the last it may have some only, the rest counts as zeros and is not
// written. Every tensor of the row's shape is at the same place of a vector then. What has
// one value per column (w, b, the sums of dw and db) is shifted against it. The shift is how
// many elements the row starts behind an aligned address, the same for every PHASES-th row.
// (The phases of sumOver are something else.)
//
// An earlier version's vectors started where the row does. Each was cut out of two aligned ones,
// and put together again by neighbours for the output: 43 to 69% of the stream (H200, bf16, N
// odd, backward).

constexpr int phases() {
  int n = 1;
  while (n * COLS % VEC) n *= 2;
  return RAGGED ? n : 1;
}
constexpr int PHASES = phases();

// The vectors of a row, at the most so many.
constexpr int ROW_VECS = RAGGED ? cdiv(COLS + VEC - 1, VEC) : VECS;

// shiftOf is how many elements a row starts behind an aligned vector.
__device__ __forceinline__ int shiftOf(u32 row) { return RAGGED ? (int)(row % PHASES * COLS % VEC) : 0; }

// A vector that starts at column c (below 0 for elements ahead of the row) is whole, or
// has elements of the row from first to before last.
__device__ __forceinline__ bool whole(int c) { return !RAGGED || (c >= 0 && c + VEC <= COLS); }
__device__ __forceinline__ bool inRow(int c) { return !RAGGED || (c >= 0 && c < COLS); }

// keepOwn keeps what a vector at column c has of the row.
__device__ __forceinline__ RowVec keepOwn(RowVec v, int c) {
  if (whole(c)) return v;
#pragma unroll
  for (int j = 0; j < VEC; j++)
    if (!inRow(c + j)) {
      if constexpr (sizeof(X) == 4) v.word[j] = 0;
      else v.word[j / 2] &= j % 2 ? 0xffffu : 0xffff0000u;
    }
  return v;
}

// clearOthers sets the elements of a vector at column c that are none of the row.
__device__ __forceinline__ void clearOthers(float (&f)[VEC], int c, float to) {
  if (whole(c)) return;
#pragma unroll
  for (int j = 0; j < VEC; j++)
    if (!inRow(c + j)) f[j] = to;
}

// storeOwn stores a vector, that of the row's column c, at p.
template <typename T> __device__ __forceinline__ void storeOwn(T *p, int c, const Raw<VEC * sizeof(T)> &v) {
  if (whole(c)) {
    store<VEC * sizeof(T)>(p, v);
    return;
  }
#pragma unroll
  for (int j = 0; j < VEC; j++)
    if (inRow(c + j)) {
      constexpr int PER_WORD = 4 / sizeof(T);
      Raw<sizeof(T)> e;
      e.word[0] = v.word[j / PER_WORD] >> (j % PER_WORD * sizeof(T) * 8 & 31);
      store<sizeof(T)>(p + j, e);
    }
}

// loadSome reads the elements of the row that a vector at column c has.
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

// loadOwn is the vector at column c of a row of memory.
__device__ __forceinline__ RowVec loadOwn(const X *row, int c) {
  return whole(c) ? loadRow<VECTOR_BYTES>(row + c) : loadSome<X>(row, c);
}

// columnsAt is a vector of w or b (N) from an aligned column on, with zeros where there is no column.
// With begins it is known not to begin below column 0, with ends to end within the N columns.
__device__ __forceinline__ Raw<W_BYTES> columnsAt(const W *w, int at, bool begins, bool ends) {
  constexpr int END = COLS / VEC * VEC, REST = COLS - END, PER_WORD = 4 / sizeof(W);
  Raw<W_BYTES> v = zero<W_BYTES>();
  if ((begins || at >= 0) && (ends || at < END)) v = load<W_BYTES>(w + at);
  if (REST > 0 && !ends && at == END) { // the last columns: whole words, and half a one
#pragma unroll
    for (int k = 0; k < REST / PER_WORD; k++) v.word[k] = load<4>(w + END + k * PER_WORD).word[0];
    if constexpr (REST % PER_WORD != 0) v.word[REST / PER_WORD] = load<sizeof(W)>(w + END + REST / PER_WORD * PER_WORD).word[0];
  }
  return v;
}

// loadColumns is what w or b (N) has for the vector at column c: in ragged rows cut out of two
// aligned vectors, at the same place for all vectors of a row. With begins c is known not to be below
// 0. With ends the vector behind c's is known to end in the row too: the second of the two reaches there.
//
// (With a check at each element, a row of 9999 columns was 2112 instructions in layernorm, with 156
// loads in branches, one behind the other. One of 10000 is 784.)
__device__ __forceinline__ Raw<W_BYTES> loadColumns(const W *w, int c, bool begins, bool ends) {
#if RAGGED
  constexpr int WORDS = W_BYTES / 4, PER_WORD = 4 / sizeof(W);
  int o = c & VEC - 1, first = c - o; // also below 0
  Raw<W_BYTES> a = columnsAt(w, first, begins, ends), b = columnsAt(w, first + VEC, true, ends);
  u32 t[2 * WORDS];
#pragma unroll
  for (int i = 0; i < WORDS; i++) t[i] = a.word[i], t[WORDS + i] = b.word[i];
  int words = o / PER_WORD;
#pragma unroll
  for (int by = WORDS / 2; by > 0; by /= 2)
#pragma unroll
    for (int i = 0; i < WORDS + by; i++) t[i] = words & by ? t[i + by] : t[i];
#pragma unroll
  for (int i = 0; i < WORDS; i++) a.word[i] = PER_WORD == 2 ? __funnelshift_r(t[i], t[i + 1], 16 * (o & 1)) : t[i];
  return a;
#else
  return load<W_BYTES>(w + c);
#endif
}
