// Element types, vectors and row reductions shared by every kernel.
//
// Each macro of a .cu has its default and its range in a block at the head of the file, or here
// where designs share it, so that the file compiles by itself; a launch gives them as -D. COLS
// stands for N, and says that there are rows of vectors. No CUDA header is included: cuda_bf16.h
// alone would make each compile several times slower.
#ifndef X_TYPE
#define X_TYPE 1 // 0 to 2: x, dy, dx are fp32, bf16 or fp16
#endif
#ifndef W_TYPE
#define W_TYPE X_TYPE // 0 to 2: w, b, dw, db
#endif
#ifndef Y_TYPE
#define Y_TYPE X_TYPE // 0 to 3: y, yt; 3 is e4m3
#endif
#ifndef P_TYPE
#define P_TYPE 0 // 0 to 2: partial sums
#endif
#ifndef LAYERNORM
#define LAYERNORM 0 // 0 or 1: 0 is rmsnorm
#endif
#ifndef HAS_WEIGHT
#define HAS_WEIGHT 1 // 0 or 1: whether there is w
#endif
#ifndef HAS_BIAS
#define HAS_BIAS 0 // 0 or 1: whether there is b
#endif
#ifndef ZERO_CENTERED
#define ZERO_CENTERED 0 // 0 or 1: whether the weight is stored as w-1
#endif
#ifndef RESIDUAL
#define RESIDUAL 0 // 0 or 1: whether x + res is normalized
#endif
#ifndef TRANSPOSED
#define TRANSPOSED 0 // 0 or 1: whether yt is written
#endif
#ifndef RAGGED
#define RAGGED 0 // 0 or 1: whether rows are no whole vectors
#endif
#ifndef ROW_ORDER
#define ROW_ORDER 0 // 0 to 2: how tiles of rows are dealt to CTAs
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 0 // 0 to 32: CTAs per SM that registers are limited for; 0 sets no limit
#endif
#ifndef CACHE_HINT
#define CACHE_HINT 0 // 0 to 6: bits 1 and 4 are rowPolicy's, bit 2 is store's
#endif

typedef long long i64;
typedef unsigned int u32;
typedef unsigned long long u64;

enum { FP32 = 0, BF16 = 1, FP16 = 2, E4M3 = 3 };

// BOUNDS are the launch bounds of so many threads.
#if MIN_BLOCKS > 0
#define BOUNDS(threads) __launch_bounds__(threads, MIN_BLOCKS)
#else
#define BOUNDS(threads) __launch_bounds__(threads)
#endif

constexpr int cdiv(int a, int b) { return (a + b - 1) / b; }
constexpr int imin(int a, int b) { return a < b ? a : b; }

// ---- Elements -------------------------------------------------------------

template <int TYPE> struct Elem { typedef unsigned short bits; };
template <> struct Elem<FP32> { typedef float bits; };
template <> struct Elem<E4M3> { typedef unsigned char bits; };

typedef Elem<X_TYPE>::bits X;
typedef Elem<Y_TYPE>::bits Y;
typedef Elem<W_TYPE>::bits W;
typedef Elem<P_TYPE>::bits P;

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

// packE4M3 rounds to nearest even and saturates at 448; a NaN stays one.
__device__ __forceinline__ u32 packE4M3(float lo, float hi) {
#if __CUDA_ARCH__ >= 890
  unsigned short r;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(hi), "f"(lo));
  return r;
#else
  auto one = [](float f) -> u32 { // kernels.Float32ToE4M3
    u32 u = __float_as_uint(f), sign = u >> 24 & 0x80;
    u &= 0x7fffffffu;
    if (u > 0x7f800000u) return 0x7f;
    if (u >= 0x43e00000u) return sign | 0x7e;
    if (u < 0x3c800000u) return sign | (__float_as_uint(__uint_as_float(u) + 0x1p14f) - 0x46800000u);
    return sign | (u + 0xc407ffffu + (u >> 20 & 1)) >> 20 & 0x7f;
  };
  return one(lo) | one(hi) << 8;
#endif
}

// ---- Launches that follow each other ---------------------------------------

// letNextStart says that the next launch may take what is free of the device, if
// it is one that may start early (Launch.Early). waitForPrevious, there, waits
// until the launch ahead has ended and what it wrote is visible.
__device__ __forceinline__ void letNextStart() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
__device__ __forceinline__ void waitForPrevious() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// ---- Vectors --------------------------------------------------------------

// Raw is BYTES of memory in registers, still packed. Fewer than 4 bytes are the
// low ones of a word.
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
  if constexpr (BYTES == 1) {
    r.word[0] = __ldg((const unsigned char *)p);
  } else if constexpr (BYTES == 2) {
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

// rowPolicy is what CACHE_HINT asks of L2 for rows, which are read once: bit 1 that they
// leave it first, bit 4 that they leave it last. (Without a policy, PTX has such priorities
// for wider vectors only.)
//
// The latter is what torch.compile's forwards do, though it is meant for rows that are read
// twice. Where x is several times the L2 it is 2 to 3% faster: y is what leaves it meanwhile.
__device__ __forceinline__ u64 rowPolicy() {
  u64 policy;
#if CACHE_HINT & 4
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
#else
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
#endif
  return policy;
}

// loadRow is load for what is read once: under the rows' policy past L1.
template <int BYTES> __device__ __forceinline__ Raw<BYTES> loadRow(const void *p) {
#if CACHE_HINT & 5
  u64 policy = rowPolicy();
  Raw<BYTES> r;
  if constexpr (BYTES == 4) {
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.b32 %0, [%1], %2;" : "=r"(r.word[0]) : "l"(p), "l"(policy));
    return r;
  } else if constexpr (BYTES == 8) {
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v2.b32 {%0, %1}, [%2], %3;" : "=r"(r.word[0]), "=r"(r.word[1]) : "l"(p), "l"(policy));
    return r;
  } else if constexpr (BYTES == 16) {
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.b32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(r.word[0]), "=r"(r.word[1]), "=r"(r.word[2]), "=r"(r.word[3]) : "l"(p), "l"(policy));
    return r;
  }
#endif
  return load<BYTES>(p);
}

// store writes BYTES with the streaming hint: no kernel reads its output again.
// Bit 2 of CACHE_HINT leaves the hint out.
template <int BYTES> __device__ __forceinline__ void store(void *p, Raw<BYTES> r) {
#if CACHE_HINT & 2
#define PUT(type, value) *(type *)p = value
#else
#define PUT(type, value) __stcs((type *)p, value)
#endif
  if constexpr (BYTES == 1) {
    PUT(unsigned char, (unsigned char)r.word[0]);
  } else if constexpr (BYTES == 2) {
    PUT(unsigned short, (unsigned short)r.word[0]);
  } else if constexpr (BYTES == 4) {
    PUT(u32, r.word[0]);
  } else if constexpr (BYTES == 8) {
    PUT(uint2, make_uint2(r.word[0], r.word[1]));
  } else {
#pragma unroll
    for (int i = 0; i < BYTES / 16; i++, p = (char *)p + 16)
      PUT(uint4, make_uint4(r.word[4 * i], r.word[4 * i + 1], r.word[4 * i + 2], r.word[4 * i + 3]));
  }
#undef PUT
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
  } else if constexpr (TYPE == E4M3 && COUNT <= 2) {
    r.word[0] = packE4M3(v[0], COUNT == 2 ? v[COUNT - 1] : 0.f);
  } else if constexpr (TYPE == E4M3) {
#pragma unroll
    for (int i = 0; i < COUNT / 4; i++)
      r.word[i] = packE4M3(v[4 * i], v[4 * i + 1]) | packE4M3(v[4 * i + 2], v[4 * i + 3]) << 16;
  } else if constexpr (COUNT == 1) {
    r.word[0] = TYPE == BF16 ? packBF16(v[0], 0.f) : packFP16(v[0], 0.f);
  } else {
#pragma unroll
    for (int i = 0; i < COUNT / 2; i++)
      r.word[i] = TYPE == BF16 ? packBF16(v[2 * i], v[2 * i + 1]) : packFP16(v[2 * i], v[2 * i + 1]);
  }
  return r;
}

// at widens one element.
template <int TYPE> __device__ __forceinline__ float at(const typename Elem<TYPE>::bits *p) {
  float v[1];
  unpack<TYPE, 1>(load<sizeof(*p)>(p), v);
  return v[0];
}

// put rounds one float to an element. It may be read again, so no hint.
template <int TYPE> __device__ __forceinline__ void put(typename Elem<TYPE>::bits *p, float v) {
  if constexpr (TYPE == FP32) {
    *p = v;
  } else {
    float one[1] = {v};
    *p = (typename Elem<TYPE>::bits)pack<TYPE, 1>(one).word[0];
  }
}

#ifdef COLS
// The vector of a row: VEC elements in VECTOR_BYTES, VECS of them in a row. In a
// RAGGED row the last one is shorter, and no vector need be aligned.
constexpr int VEC = VECTOR_BYTES / sizeof(X);
constexpr int VECS = cdiv(COLS, VEC);
constexpr int THREADS = WARPS * 32;
constexpr int W_BYTES = VEC * sizeof(W);
static_assert(RAGGED || COLS % VEC == 0, "a row is a whole number of vectors");
constexpr float INV_COLS = 1.0f / COLS;

typedef Raw<VECTOR_BYTES> RowVec;

__device__ __forceinline__ void unpackX(const RowVec &r, float (&v)[VEC]) { unpack<X_TYPE, VEC>(r, v); }

constexpr int Y_BYTES = VEC * sizeof(Y);

// loadW reads the weights of the vector at column c.
__device__ __forceinline__ Raw<W_BYTES> loadW(const W *w, i64 c) {
#if HAS_WEIGHT
  return load<W_BYTES>(w + c);
#else
  return zero<W_BYTES>();
#endif
}

// weights returns the factors of a vector: what loadW read, plus one if
// zero-centered; ones where there is no weight.
__device__ __forceinline__ void weights(const Raw<W_BYTES> &r, float (&v)[VEC]) {
#if HAS_WEIGHT
  unpack<W_TYPE, VEC>(r, v);
#else
#pragma unroll
  for (int i = 0; i < VEC; i++) v[i] = 1.0f;
#endif
#if ZERO_CENTERED
#pragma unroll
  for (int i = 0; i < VEC; i++) v[i] += 1.0f;
#endif
}

// ---- Reductions -----------------------------------------------------------

// sumOver adds K values over each group of GROUP neighbouring threads of the
// CTA (a power of two); every thread of the group gets the sums, always in
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

// ---- Rows -----------------------------------------------------------------

// Tiles are the rows of a CTA, BLOCK_ROWS at a time: first, first + stride
// and so on before end. In strides (ROW_ORDER 0) neighbouring CTAs work on
// neighbouring tiles; in contiguous ranges (1) each has its own part of memory.
#ifdef BLOCK_ROWS
struct Tiles {
  i64 first, stride, end;

  __device__ __forceinline__ explicit Tiles(i64 rows) {
    if (ROW_ORDER == 0) {
      first = (i64)blockIdx.x * BLOCK_ROWS;
      stride = (i64)gridDim.x * BLOCK_ROWS;
      end = rows;
    } else {
      i64 tiles = (rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
      i64 share = (tiles + gridDim.x - 1) / gridDim.x * BLOCK_ROWS;
      first = blockIdx.x * share;
      stride = BLOCK_ROWS;
      end = first + share < rows ? first + share : rows;
    }
  }
};
#endif

// ---- fp8 ------------------------------------------------------------------

// magnitude is |v| as bits, which have the order of the numbers, NaN on top.
__device__ __forceinline__ u32 magnitude(float v) { return __float_as_uint(v) & 0x7fffffffu; }

// amaxOver raises *amax, zero or a float, to the CTA's largest magnitude: one
// atomic operation per CTA (TransformerEngine), whose order does not matter.
// All threads call it once, at the end.
__device__ __forceinline__ void amaxOver(float *amax, u32 most) {
  __shared__ u32 warps[32];
  most = __reduce_max_sync(0xffffffffu, most);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = most;
  __syncthreads();
  if (threadIdx.x < 32) {
    most = __reduce_max_sync(0xffffffffu, threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : 0);
    if (threadIdx.x == 0) atomicMax((u32 *)amax, most);
  }
}
#endif
