// What backward designs with rows in registers share: unpacking a row twice
// without keeping it unpacked, xhat from x or from the saved output, and vectors
// of partial sums. Included after common.cuh; knob SAVED_OUTPUT.

// ---- Unpacking twice --------------------------------------------------------

// A row is needed before and after the reduction of its sums. In between it
// should lie packed, but the compiler recognises the second unpacking as the
// first and keeps the floats, at twice the registers, and a row's weights over
// all rows. So the second one is done by other instructions, whose selector the
// compiler does not know: 80 registers where there were 127, at N = 1024.
struct First {};
struct Again {
  u32 zero;
  // Rows are fewer than 2^31, which only we know.
  __device__ __forceinline__ explicit Again(i64 row) : zero((u32)(row >> 41)) {}
};

template <int TYPE, int COUNT>
__device__ __forceinline__ void unpackBy(First, const Raw<COUNT * sizeof(typename Elem<TYPE>::bits)> &r, float (&v)[COUNT]) {
  unpack<TYPE, COUNT>(r, v);
}

template <int TYPE, int COUNT>
__device__ __forceinline__ void unpackBy(Again a, const Raw<COUNT * sizeof(typename Elem<TYPE>::bits)> &r, float (&v)[COUNT]) {
  if constexpr (TYPE == BF16 && COUNT > 1) {
#pragma unroll
    for (int i = 0; i < COUNT / 2; i++) {
      v[2 * i] = __uint_as_float(__byte_perm(r.word[i], 0, 0x1044 + a.zero));
      v[2 * i + 1] = __uint_as_float(__byte_perm(r.word[i], 0, 0x3244 + a.zero));
    }
  } else if constexpr (TYPE == FP32) {
    unpack<TYPE, COUNT>(r, v);
  } else {
    auto other = r;
#pragma unroll
    for (int i = 0; i < cdiv(COUNT, 2); i++) other.word[i] ^= a.zero;
    unpack<TYPE, COUNT>(other, v);
  }
}

// weightsBy is weights of common.cuh.
template <class WHEN> __device__ __forceinline__ void weightsBy(WHEN when, const Raw<W_BYTES> &r, float (&v)[VEC]) {
  if constexpr (HAS_WEIGHT) {
    unpackBy<W_TYPE, VEC>(when, r, v);
#pragma unroll
    for (int j = 0; j < VEC; j++)
      if (ZERO_CENTERED) v[j] += 1.f;
  } else {
    weights(r, v);
  }
}

// ---- xhat -------------------------------------------------------------------

constexpr bool NEEDS_MEAN = LAYERNORM && !SAVED_OUTPUT;
constexpr bool NEEDS_BIAS = HAS_BIAS && SAVED_OUTPUT;

// centred turns a vector of x, or of y, into xhat without its factor: x - mean,
// whose factor is rstd, or (y - b)/w, whose factor is one. The divisor is at
// least kernels.Eps, its sign kept, so that y = b where a weight is zero gives
// zero and not NaN (Fast-LLM PR 546, apex's general kernel). __fdividef errs by
// 2 ulp, far below the rounding of y to 16 bits.
template <class WHEN>
__device__ __forceinline__ void centred(WHEN when, const RowVec &r, float mu, const Raw<W_BYTES> &b, const float (&w)[VEC], float (&v)[VEC]) {
  unpackBy<X_TYPE, VEC>(when, r, v);
  if constexpr (NEEDS_MEAN) {
#pragma unroll
    for (int j = 0; j < VEC; j++) v[j] -= mu;
  }
  if constexpr (NEEDS_BIAS) {
    float bf[VEC];
    unpackBy<W_TYPE, VEC>(when, b, bf);
#pragma unroll
    for (int j = 0; j < VEC; j++) v[j] -= bf[j];
  }
  if constexpr (SAVED_OUTPUT && HAS_WEIGHT) {
#pragma unroll
    for (int j = 0; j < VEC; j++) {
      float least = w[j] < 0.f ? -1e-5f : 1e-5f;
      v[j] = __fdividef(v[j], fabsf(w[j]) < 1e-5f ? least : w[j]);
    }
  }
}

__device__ __forceinline__ float factor(float rstd) { return SAVED_OUTPUT ? 1.f : rstd; }

// ---- Partial sums -----------------------------------------------------------

// keepPartial rounds a vector to TYPE and stores it for k2, or this thread, to read
// soon: no streaming hint.
template <int TYPE, int COUNT> __device__ __forceinline__ void keepPartial(typename Elem<TYPE>::bits *p, const float (&v)[COUNT]) {
  constexpr int BYTES = COUNT * sizeof(*p);
  Raw<BYTES> r = pack<TYPE, COUNT>(v);
  if constexpr (BYTES == 2) *(unsigned short *)p = (unsigned short)r.word[0];
  else if constexpr (BYTES == 4) *(u32 *)p = r.word[0];
  else if constexpr (BYTES == 8) *(uint2 *)p = make_uint2(r.word[0], r.word[1]);
  else
#pragma unroll
    for (int i = 0; i < BYTES / 16; i++) ((uint4 *)p)[i] = make_uint4(r.word[4 * i], r.word[4 * i + 1], r.word[4 * i + 2], r.word[4 * i + 3]);
}

// addKept adds to a vector what was kept before, by this thread or ahead of a
// barrier: not through the read-only path that load takes.
template <int TYPE, int COUNT> __device__ __forceinline__ void addKept(const typename Elem<TYPE>::bits *p, float (&v)[COUNT]) {
  constexpr int BYTES = COUNT * sizeof(*p);
  Raw<BYTES> r;
  if constexpr (BYTES == 2) {
    r.word[0] = *(const unsigned short *)p;
  } else if constexpr (BYTES == 4) {
    r.word[0] = *(const u32 *)p;
  } else if constexpr (BYTES == 8) {
    uint2 u = *(const uint2 *)p;
    r.word[0] = u.x; r.word[1] = u.y;
  } else {
#pragma unroll
    for (int i = 0; i < BYTES / 16; i++) {
      uint4 u = ((const uint4 *)p)[i];
      r.word[4 * i] = u.x; r.word[4 * i + 1] = u.y; r.word[4 * i + 2] = u.z; r.word[4 * i + 3] = u.w;
    }
  }
  float before[COUNT];
  unpack<TYPE, COUNT>(r, before);
#pragma unroll
  for (int i = 0; i < COUNT; i++) v[i] += before[i];
}
