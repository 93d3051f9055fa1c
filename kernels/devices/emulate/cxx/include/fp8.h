// The types of cuda_fp8.h.
#ifndef EMULATE_FP8
#define EMULATE_FP8
#include <cuda_bf16.h>

namespace emulate {
inline unsigned char roundE4M3(float f) { return (unsigned char)e4m3(f); }
inline float widenE4M3(unsigned char u) {
  int e = u >> 3 & 15, m = u & 7;
  float v = (u & 0x7f) == 0x7f ? NAN : e ? ldexpf(8 + m, e - 10) : ldexpf(m, -9);
  return u & 0x80 ? -v : v;
}
// E5M2 is the upper byte of a half.
inline unsigned char roundE5M2(float f) {
  if (f != f) return 0x7f;
  unsigned u = roundHalf(f);
  u = (u + 0x7f + (u >> 8 & 1)) >> 8;
  return (u & 0x7f) >= 0x7c ? u & 0x80 | 0x7b : u; // the largest number instead of an infinity
}
inline float widenE5M2(unsigned char u) { return widenHalf((unsigned short)(u << 8)); }
template <unsigned char ROUND(float), float WIDEN(unsigned char)> struct Byte {
  unsigned char __x;
  Byte() = default;
  explicit Byte(float f) : __x(ROUND(f)) {}
  explicit operator float() const { return WIDEN(__x); }
  explicit operator __half() const { return WIDEN(__x); }
  explicit operator __nv_bfloat16() const { return WIDEN(__x); }
};
template <typename T> struct alignas(2) Bytes2 { unsigned short __x; };
template <typename T> struct alignas(4) Bytes4 { unsigned __x; };
} // namespace emulate

enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };
using __nv_fp8_storage_t = unsigned char;
using __nv_fp8x2_storage_t = unsigned short;
using __nv_fp8x4_storage_t = unsigned;
using __nv_fp8_e4m3 = emulate::Byte<emulate::roundE4M3, emulate::widenE4M3>;
using __nv_fp8_e5m2 = emulate::Byte<emulate::roundE5M2, emulate::widenE5M2>;
using __nv_fp8x2_e4m3 = emulate::Bytes2<__nv_fp8_e4m3>;
using __nv_fp8x4_e4m3 = emulate::Bytes4<__nv_fp8_e4m3>;
using __nv_fp8x2_e5m2 = emulate::Bytes2<__nv_fp8_e5m2>;
using __nv_fp8x4_e5m2 = emulate::Bytes4<__nv_fp8_e5m2>;

inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float f, __nv_saturation_t, __nv_fp8_interpretation_t kind) {
  return kind == __NV_E4M3 ? emulate::roundE4M3(f) : emulate::roundE5M2(f);
}
inline __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 v, __nv_saturation_t s, __nv_fp8_interpretation_t kind) {
  return (unsigned short)(__nv_cvt_float_to_fp8(v.x, s, kind) | __nv_cvt_float_to_fp8(v.y, s, kind) << 8);
}
inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t v, __nv_fp8_interpretation_t kind) {
  return {emulate::roundHalf(kind == __NV_E4M3 ? emulate::widenE4M3(v) : emulate::widenE5M2(v))};
}
inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t v, __nv_fp8_interpretation_t kind) {
  return {__nv_cvt_fp8_to_halfraw(v & 0xff, kind).x, __nv_cvt_fp8_to_halfraw(v >> 8, kind).x};
}
inline __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw v, __nv_saturation_t s, __nv_fp8_interpretation_t kind) {
  return __nv_cvt_float_to_fp8(__half(v), s, kind);
}
inline __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw v, __nv_saturation_t s, __nv_fp8_interpretation_t kind) {
  return __nv_cvt_float_to_fp8(__nv_bfloat16(v), s, kind);
}

#endif
