// A row of a forward, as a thread sees it. AlignedRow and RaggedRow know where the thread's vectors lie: a
// kernel's bodies call them and know of no shifts and no ends. RowLayout is the one of the two that a
// problem has. Parameters are w and b beside them.
// Included after ragged.cuh, ragged_fwd.cuh, and what the kernel says itself:
//
//   TPR    threads of a row
//   L      vectors that a thread has of a row
//   HOLD   whether a thread keeps w and b of its columns in registers; all its rows have one shift then
//   Place  which vectors a thread has: inside(i) says whether there is a vector i, column(i) where it
//          starts, and endOf(i) which column is behind vector i of all threads
//
// A row has its Place by value. Behind a reference the compiler does not know in time which vectors are
// inside, and asks at each. smem_pipe had 387 instructions then, not 334 (N = 1003, fp32, sm_90).

// AlignedRow is a row of whole vectors.
struct AlignedRow {
  Place at;
  i64 row;
  static constexpr int shift = 0; // elements that the row starts behind an aligned vector

  __device__ __forceinline__ AlignedRow(const Place &at, i64 row) : at(at), row(row) {}

  // inside says whether the thread has a vector i, column where it starts.
  __device__ __forceinline__ bool inside(int i) const { return at.inside(i); }
  __device__ __forceinline__ int column(int i) const { return at.column(i); }

  // load and store move vector i of the row of a tensor. own takes a vector that came to shared memory
  // whole, and returns what of it belongs to the row.
  __device__ __forceinline__ RowVec load(const X *tensor, int i) const { return loadRow<VECTOR_BYTES>(tensor + row * COLS + column(i)); }
  __device__ __forceinline__ RowVec own(const RowVec &v, int) const { return v; }
  template <typename T> __device__ __forceinline__ void store(T *tensor, int i, const Raw<VEC * sizeof(T)> &v) const {
    ::store<VEC * sizeof(T)>(tensor + row * COLS + column(i), v);
  }

  // loadColumns returns what w or b has for vector i.
  __device__ __forceinline__ Raw<W_BYTES> loadColumns(const W *w, int i) const { return ::load<W_BYTES>(w + column(i)); }

  // has says whether element j of vector i is one of the row; clear sets those that are not to a value.
  __device__ __forceinline__ bool has(int, int) const { return true; }
  __device__ __forceinline__ void clear(float (&)[VEC], int, float) const {}
};

// RaggedRow is a row of any length (ragged.cuh). Its first and last vectors may have elements of its
// neighbours. load and own return zeros for those, store leaves them out.
struct RaggedRow {
  Place at;
  i64 row;
  int shift;

  __device__ __forceinline__ RaggedRow(const Place &at, i64 row) : at(at), row(row), shift(shiftOf(row)) {}

  __device__ __forceinline__ bool inside(int i) const { return at.inside(i); }
  __device__ __forceinline__ int column(int i) const { // below 0 with elements ahead of the row
    int c = at.column(i) - shift;
    wholeBetween(c, i > 0, Place::endOf(i) <= COLS);
    return c;
  }

  __device__ __forceinline__ RowVec load(const X *tensor, int i) const { return loadOwn(tensor + row * COLS, column(i)); }
  __device__ __forceinline__ RowVec own(const RowVec &v, int i) const { return keepOwn(v, column(i)); }
  template <typename T> __device__ __forceinline__ void store(T *tensor, int i, const Raw<VEC * sizeof(T)> &v) const {
    int c = column(i);
    storeOwn<T>(tensor + row * COLS + c, c, v);
  }

  __device__ __forceinline__ Raw<W_BYTES> loadColumns(const W *w, int i) const {
    return ::loadColumns(w, column(i), i > 0, Place::endOf(i) + VEC <= COLS);
  }

  __device__ __forceinline__ bool has(int i, int j) const { return inRow(column(i) + j); }
  __device__ __forceinline__ void clear(float (&f)[VEC], int i, float to) const { clearOthers(f, column(i), to); }
};

// Either<FIRST, A, B>::type is A or, without FIRST, B.
template <bool FIRST, typename A, typename B> struct Either { typedef A type; };
template <typename A, typename B> struct Either<false, A, B> { typedef B type; };
typedef Either<RAGGED, RaggedRow, AlignedRow>::type RowLayout;

// keepPacked makes the compiler forget what a packed vector holds. Else it would widen what is used
// more than once, and keep that in twice the registers.
template <int BYTES> __device__ __forceinline__ void keepPacked(Raw<BYTES> &r) {
#pragma unroll
  for (int k = 0; k < (BYTES < 4 ? 1 : BYTES / 4); k++) asm volatile("" : "+r"(r.word[k]));
}

// Parameters are w and b of the thread's columns. With HOLD they are loaded at once and stay, packed,
// for all its rows; else they are loaded where they are used.
struct Parameters {
  static constexpr int HELD = HOLD ? L : 1;
  const W *w, *b;
  Raw<W_BYTES> weight[HELD], bias[HELD];

  __device__ __forceinline__ Parameters(const W *w, const W *b, const RowLayout &first) : w(w), b(b) {
    if (!HOLD) return;
#pragma unroll
    for (int i = 0; i < HELD; i++) {
      weight[i] = HAS_WEIGHT && first.inside(i) ? first.loadColumns(w, i) : zero<W_BYTES>();
      if (HAS_BIAS) bias[i] = first.inside(i) ? first.loadColumns(b, i) : zero<W_BYTES>();
    }
  }

  // stayPacked stands between two rows: the compiler keeps nothing that it widened for the first.
  __device__ __forceinline__ void stayPacked() {
    if (!HOLD) return;
#pragma unroll
    for (int i = 0; i < HELD; i++) {
      keepPacked(weight[i]);
      if (HAS_BIAS) keepPacked(bias[i]);
    }
  }

  // apply multiplies vector i by the weights, and adds the bias.
  __device__ __forceinline__ void apply(float (&f)[VEC], const RowLayout &row, int i) const {
    float wf[VEC];
    weights(HOLD ? weight[i % HELD] : HAS_WEIGHT ? row.loadColumns(w, i) : zero<W_BYTES>(), wf);
#pragma unroll
    for (int j = 0; j < VEC; j++) f[j] *= wf[j];
    if (!HAS_BIAS) return;
    float bf[VEC];
    unpack<W_TYPE, VEC>(HOLD ? bias[i % HELD] : row.loadColumns(b, i), bf);
#pragma unroll
    for (int j = 0; j < VEC; j++) f[j] += bf[j];
  }
};

// sumRow adds v over the threads of a row. phase alternates, as in sumOver.
__device__ __forceinline__ float sumRow(float v, int phase) {
  float s[1] = {v};
  sumOver<1, TPR>(s, phase);
  return s[0];
}

// addSquares adds the squares of f around mu to s.
__device__ __forceinline__ void addSquares(float &s, const float (&f)[VEC], float mu) {
#pragma unroll
  for (int j = 0; j < VEC; j++) s += (f[j] - mu) * (f[j] - mu);
}

// saveStatistics writes those of a row. One thread of the row calls it.
__device__ __forceinline__ void saveStatistics(float *rstd, float *mean, i64 row, float rs, float mu) {
  rstd[row] = rs;
  if (LAYERNORM) mean[row] = mu;
}
