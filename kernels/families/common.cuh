// Element types, vectors and row reductions shared by every kernel.
//
// Compile-time parameters, given as -D: X_TYPE (x, y, dy, dx) and W_TYPE
// (w, b) as 0 fp32, 1 bf16, 2 fp16; COLS = N; LAYERNORM, HAS_BIAS,
// ZERO_CENTERED as 0 or 1; and the knobs of the family. No CUDA header is
// included: cuda_bf16.h alone would make each compile several times slower.

typedef long long i64;
typedef unsigned int u32;

enum { FP32 = 0, BF16 = 1, FP16 = 2 };

constexpr int cdiv(int a, int b) { return (a + b - 1) / b; }
constexpr int imin(int a, int b) { return a < b ? a : b; }

// ---- Elements -------------------------------------------------------------

template <int TYPE> struct Elem { typedef unsigned short bits; };
template <> struct Elem<FP32> { typedef float bits; };

typedef Elem<X_TYPE>::bits X;
typedef Elem<W_TYPE>::bits W;

__device__ __forceinline__ u32 packBF16(float lo, float hi) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}

__device__ __forceinline__ u32 packFP16(float lo, float hi) {
  u32 r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}

__device__ __forceinline__ void unpackFP16(u32 r, float &lo, float &hi) {
  asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"
      : "=f"(lo), "=f"(hi) : "r"(r));
}

// ---- Vectors --------------------------------------------------------------

// Raw is BYTES of memory in registers, still packed. A vector of 2 bytes takes
// half a word.
template <int BYTES> struct Raw { u32 word[BYTES < 4 ? 1 : BYTES / 4]; };

template <int BYTES> __device__ __forceinline__ Raw<BYTES> zero() {
  Raw<BYTES> r;
#pragma unroll
  for (int i = 0; i < (BYTES < 4 ? 1 : BYTES / 4); i++) r.word[i] = 0;
  return r;
}

// load reads BYTES through the read-only path; wider vectors than 16 bytes
// (fp32 weights beside 16-bit rows) take several loads.
template <int BYTES> __device__ __forceinline__ Raw<BYTES> load(const void *p) {
  Raw<BYTES> r;
  if constexpr (BYTES == 2) {
    r.word[0] = __ldg((const unsigned short *)p);
  } else if constexpr (BYTES == 4) {
    r.word[0] = __ldg((const u32 *)p);
  } else if constexpr (BYTES == 8) {
    uint2 v = __ldg((const uint2 *)p);
    r.word[0] = v.x; r.word[1] = v.y;
  } else {
#pragma unroll
    for (int i = 0; i < BYTES / 16; i++) {
      uint4 v = __ldg((const uint4 *)p + i);
      r.word[4 * i] = v.x; r.word[4 * i + 1] = v.y;
      r.word[4 * i + 2] = v.z; r.word[4 * i + 3] = v.w;
    }
  }
  return r;
}

// store writes BYTES with the streaming hint: no kernel reads its output again.
template <int BYTES> __device__ __forceinline__ void store(void *p, Raw<BYTES> r) {
  if constexpr (BYTES == 2) {
    __stcs((unsigned short *)p, (unsigned short)r.word[0]);
  } else if constexpr (BYTES == 4) {
    __stcs((u32 *)p, r.word[0]);
  } else if constexpr (BYTES == 8) {
    __stcs((uint2 *)p, make_uint2(r.word[0], r.word[1]));
  } else {
#pragma unroll
    for (int i = 0; i < BYTES / 16; i++)
      __stcs((uint4 *)p + i, make_uint4(r.word[4 * i], r.word[4 * i + 1], r.word[4 * i + 2], r.word[4 * i + 3]));
  }
}

// unpack widens COUNT elements of TYPE.
template <int TYPE, int COUNT>
__device__ __forceinline__ void unpack(const Raw<COUNT * sizeof(typename Elem<TYPE>::bits)> &r, float (&v)[COUNT]) {
  if constexpr (TYPE == FP32) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) v[i] = __uint_as_float(r.word[i]);
  } else if constexpr (COUNT == 1) {
    float unused;
    if constexpr (TYPE == BF16) v[0] = __uint_as_float(r.word[0] << 16);
    else unpackFP16(r.word[0], v[0], unused);
  } else {
#pragma unroll
    for (int i = 0; i < COUNT / 2; i++) {
      if constexpr (TYPE == BF16) {
        v[2 * i] = __uint_as_float(r.word[i] << 16);
        v[2 * i + 1] = __uint_as_float(r.word[i] & 0xffff0000u);
      } else {
        unpackFP16(r.word[i], v[2 * i], v[2 * i + 1]);
      }
    }
  }
}

// pack rounds COUNT floats to TYPE, to nearest even.
template <int TYPE, int COUNT>
__device__ __forceinline__ Raw<COUNT * sizeof(typename Elem<TYPE>::bits)> pack(const float (&v)[COUNT]) {
  Raw<COUNT * sizeof(typename Elem<TYPE>::bits)> r;
  if constexpr (TYPE == FP32) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) r.word[i] = __float_as_uint(v[i]);
  } else if constexpr (COUNT == 1) {
    r.word[0] = TYPE == BF16 ? packBF16(v[0], 0.f) : packFP16(v[0], 0.f);
  } else {
#pragma unroll
    for (int i = 0; i < COUNT / 2; i++)
      r.word[i] = TYPE == BF16 ? packBF16(v[2 * i], v[2 * i + 1]) : packFP16(v[2 * i], v[2 * i + 1]);
  }
  return r;
}

#ifdef COLS
// The vector of a row: VEC elements in VECTOR_BYTES, VECS of them in a row.
constexpr int VEC = VECTOR_BYTES / sizeof(X);
constexpr int VECS = COLS / VEC;
constexpr int THREADS = WARPS * 32;
constexpr int W_BYTES = VEC * sizeof(W);
static_assert(COLS % VEC == 0, "a row is a whole number of vectors");
constexpr float INV_COLS = 1.0f / COLS;

typedef Raw<VECTOR_BYTES> RowVec;

__device__ __forceinline__ void unpackX(const RowVec &r, float (&v)[VEC]) { unpack<X_TYPE, VEC>(r, v); }

// weights returns the factors of vector c of a row.
__device__ __forceinline__ void weights(const Raw<W_BYTES> &r, float (&v)[VEC]) {
  unpack<W_TYPE, VEC>(r, v);
#if ZERO_CENTERED
#pragma unroll
  for (int i = 0; i < VEC; i++) v[i] += 1.0f;
#endif
}

// ---- Reductions -----------------------------------------------------------

// sumOver adds K values over each group of GROUP neighbouring threads of the
// program (a power of two); every thread of the group gets the sums, always in
// the same order. A group within a warp needs no barrier. A wider one needs
// one: callers alternate phase between 0 and 1, so that the next call's writes
// cannot meet this call's reads.
template <int K, int GROUP>
__device__ __forceinline__ void sumOver(float (&v)[K], int phase) {
#pragma unroll
  for (int k = 0; k < K; k++)
#pragma unroll
    for (int d = imin(GROUP, 32) / 2; d > 0; d /= 2) v[k] += __shfl_xor_sync(0xffffffffu, v[k], d);
  if constexpr (GROUP > 32) {
    constexpr int SPAN = GROUP / 32;
    __shared__ float part[2][K][WARPS];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (lane == 0)
#pragma unroll
      for (int k = 0; k < K; k++) part[phase][k][warp] = v[k];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < K; k++) {
      v[k] = part[phase][k][warp / SPAN * SPAN + lane % SPAN];
#pragma unroll
      for (int d = SPAN / 2; d > 0; d /= 2) v[k] += __shfl_xor_sync(0xffffffffu, v[k], d);
    }
  }
}
#endif
