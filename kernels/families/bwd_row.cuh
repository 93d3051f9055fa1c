// What backward designs do with a vector of a row and, with ROW_THREADS, with
// rows in the registers of a group of threads. Included after common.cuh. With
// g = dy*w and xhat = (x-mean)*rstd,
//
//   dx = rstd*(g - xhat*c1 - c2) [+ dres],  c1 = sum(g*xhat)/N,  c2 = sum(g)/N
//
// (rmsnorm: no c2), and the row adds dy*xhat to dw and dy to db.

constexpr int K = LAYERNORM ? 2 : 1; // sums of a row: of g*xhat and of g

// Stats are the saved statistics of a row.
struct Stats { float rs, mu; };

// An In is what a backward reads of every row.
struct In {
  const X *x, *dy, *dres;
  const float *rstd, *mean;

  // stats are zeros where there is no row.
  __device__ __forceinline__ Stats stats(i64 row, bool live) const {
    return {live ? __ldg(rstd + row) : 0.f, LAYERNORM && live ? __ldg(mean + row) : 0.f};
  }
};

// keepPacked makes the compiler unpack a vector again for what follows: it would
// rather keep the floats, in twice as many registers, and spill. nothing is zero,
// but must not be known to be.
__device__ __forceinline__ void keepPacked(RowVec &r, u32 nothing) {
#pragma unroll
  for (int k = 0; k < (VECTOR_BYTES < 4 ? 1 : VECTOR_BYTES / 4); k++) r.word[k] ^= nothing;
}

// addSums adds a vector's terms to the sums of its row; s2 stays what it is in
// rmsnorm.
__device__ __forceinline__ void addSums(const RowVec &x, const RowVec &dy, const float (&wf)[VEC], Stats st, float &s1, float &s2) {
  float xf[VEC], g[VEC];
  unpackX(x, xf);
  unpackX(dy, g);
#pragma unroll
  for (int j = 0; j < VEC; j++) {
    g[j] *= wf[j];
    s1 += g[j] * ((xf[j] - st.mu) * st.rs);
    if (LAYERNORM) s2 += g[j];
  }
}

// addGradients adds a vector's terms to dw and, where there is one, db.
__device__ __forceinline__ void addGradients(const RowVec &x, const RowVec &dy, Stats st, float (&dw)[VEC], float (&db)[VEC]) {
  float xf[VEC], g[VEC];
  unpackX(x, xf);
  unpackX(dy, g);
#pragma unroll
  for (int j = 0; j < VEC; j++) {
    dw[j] += g[j] * ((xf[j] - st.mu) * st.rs);
    if (HAS_BIAS) db[j] += g[j];
  }
}

// putDX stores dx of a vector, which lies at out.
__device__ __forceinline__ void putDX(X *out, const RowVec &x, const RowVec &dy, const RowVec &res, const float (&wf)[VEC], Stats st, float c1, float c2) {
  float xf[VEC], g[VEC];
  unpackX(x, xf);
  unpackX(dy, g);
#pragma unroll
  for (int j = 0; j < VEC; j++) g[j] = st.rs * (g[j] * wf[j] - (xf[j] - st.mu) * st.rs * c1 - c2);
#if RESIDUAL
  unpackX(res, xf);
#pragma unroll
  for (int j = 0; j < VEC; j++) g[j] += xf[j];
#endif
  store<VECTOR_BYTES>(out, pack<X_TYPE, VEC>(g));
}

// Floats of partial rows move four at a time where a vector holds as many, past
// L1: other CTAs write or read them.
constexpr bool BY_FOUR = VEC % 4 == 0;

// getFloats loads a vector of a partial row, zeros if it is not there.
__device__ __forceinline__ void getFloats(const float *in, float (&v)[VEC], bool there) {
  if constexpr (BY_FOUR) {
#pragma unroll
    for (int j = 0; j < VEC; j += 4) {
      float4 f = there ? __ldcg((const float4 *)(in + j)) : make_float4(0.f, 0.f, 0.f, 0.f);
      v[j] = f.x; v[j + 1] = f.y; v[j + 2] = f.z; v[j + 3] = f.w;
    }
  } else {
#pragma unroll
    for (int j = 0; j < VEC; j++) v[j] = there ? __ldcg(in + j) : 0.f;
  }
}

// putFloats stores a vector of a partial row.
__device__ __forceinline__ void putFloats(float *out, const float (&v)[VEC]) {
  if constexpr (BY_FOUR) {
#pragma unroll
    for (int j = 0; j < VEC; j += 4) __stcg((float4 *)(out + j), make_float4(v[j], v[j + 1], v[j + 2], v[j + 3]));
  } else {
#pragma unroll
    for (int j = 0; j < VEC; j++) __stcg(out + j, v[j]);
  }
}

#ifdef ROW_THREADS

// The vectors of a row are dealt to ROW_THREADS neighbouring threads in turn, L
// to each.
constexpr int L = cdiv(VECS, ROW_THREADS);

// The weights of up to two vectors are held over a row's reduction; more are
// read again after it.
constexpr bool KEEP_W = L <= 2;

__device__ __forceinline__ bool inside(int i) {
  return VECS % (ROW_THREADS) == 0 || threadIdx.x % (ROW_THREADS) + i * (ROW_THREADS) < VECS;
}

__device__ __forceinline__ i64 column(int i) { return (i64)(threadIdx.x % (ROW_THREADS) + i * (ROW_THREADS)) * VEC; }

// A Row is a thread's part of one, packed as it came. What is not inside is zero.
struct Row {
  RowVec x[L], dy[L], res[RESIDUAL ? L : 1];
  Stats st;

  __device__ __forceinline__ const RowVec &residual(int i) const { return res[RESIDUAL ? i : 0]; }

  __device__ __forceinline__ void fetch(const In &in, i64 row, bool live) {
#pragma unroll
    for (int i = 0; i < L; i++) {
      bool here = live && inside(i);
      i64 at = row * COLS + column(i);
      x[i] = here ? loadRow<VECTOR_BYTES>(in.x + at) : zero<VECTOR_BYTES>();
      dy[i] = here ? loadRow<VECTOR_BYTES>(in.dy + at) : zero<VECTOR_BYTES>();
#if RESIDUAL
      res[i] = here ? loadRow<VECTOR_BYTES>(in.dres + at) : zero<VECTOR_BYTES>();
#endif
    }
    st = in.stats(row, live);
  }

  __device__ __forceinline__ void packed(u32 nothing) {
#pragma unroll
    for (int i = 0; i < L; i++) {
      keepPacked(x[i], nothing);
      keepPacked(dy[i], nothing);
    }
  }
};
#endif
