// The types of CUDA's cuda_bf16.h and cuda_fp16.h, for both of these names, with the functions
// that most kernels use. Arithmetic rounds to the type after each operation, as a GPU's does.
#ifndef EMULATE_NARROW
#define EMULATE_NARROW

struct alignas(8) float2 { float x, y; };
inline float2 make_float2(float x, float y) { return {x, y}; }

namespace emulate {
inline unsigned short roundHalf(float f) {
  _Float16 h = (_Float16)f;
  unsigned short u;
  memcpy(&u, &h, 2);
  return u;
}
inline float widenHalf(unsigned short u) {
  _Float16 h;
  memcpy(&h, &u, 2);
  return h;
}
inline unsigned short roundBF16(float f) { return (unsigned short)bf16(f); }
inline float widenBF16(unsigned short u) { return number((unsigned)u << 16); }

template <unsigned short ROUND(float), float WIDEN(unsigned short)> struct Narrow {
  unsigned short bits;
  Narrow() = default;
  Narrow(float f) : bits(ROUND(f)) {}
  operator float() const { return WIDEN(bits); }
  friend Narrow operator+(Narrow a, Narrow b) { return float(a) + float(b); }
  friend Narrow operator-(Narrow a, Narrow b) { return float(a) - float(b); }
  friend Narrow operator*(Narrow a, Narrow b) { return float(a) * float(b); }
  friend Narrow operator/(Narrow a, Narrow b) { return float(a) / float(b); }
};
template <typename T> struct alignas(4) Pair { T x, y; };
} // namespace emulate

using __nv_bfloat16 = emulate::Narrow<emulate::roundBF16, emulate::widenBF16>;
using __half = emulate::Narrow<emulate::roundHalf, emulate::widenHalf>;
using nv_bfloat16 = __nv_bfloat16;
using half = __half;
using __nv_bfloat162 = emulate::Pair<__nv_bfloat16>;
using __half2 = emulate::Pair<__half>;
using nv_bfloat162 = __nv_bfloat162;
using half2 = __half2;

inline float __bfloat162float(__nv_bfloat16 v) { return v; }
inline __nv_bfloat16 __float2bfloat16(float f) { return f; }
inline __nv_bfloat16 __float2bfloat16_rn(float f) { return f; }
inline float2 __bfloat1622float2(__nv_bfloat162 v) { return {v.x, v.y}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {x, y}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 v) { return {v.x, v.y}; }
inline float __half2float(__half v) { return v; }
inline __half __float2half(float f) { return f; }
inline __half __float2half_rn(float f) { return f; }
inline float2 __half22float2(__half2 v) { return {v.x, v.y}; }
inline __half2 __floats2half2_rn(float x, float y) { return {x, y}; }
inline __half2 __float22half2_rn(float2 v) { return {v.x, v.y}; }

#endif
