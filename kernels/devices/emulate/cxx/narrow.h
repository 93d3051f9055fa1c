// The types of CUDA's cuda_bf16.h and cuda_fp16.h, for both of these names, with the functions
// that most kernels use. Arithmetic rounds to the type after each operation, as a GPU's does.
#ifndef EMULATE_NARROW
#define EMULATE_NARROW

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
  friend Narrow operator-(Narrow a) { return -float(a); }
  friend Narrow &operator+=(Narrow &a, Narrow b) { return a = a + b; }
  friend Narrow &operator-=(Narrow &a, Narrow b) { return a = a - b; }
  friend Narrow &operator*=(Narrow &a, Narrow b) { return a = a * b; }
  friend Narrow &operator/=(Narrow &a, Narrow b) { return a = a / b; }
};
template <typename T> struct alignas(4) Pair {
  T x, y;
  friend Pair operator+(Pair a, Pair b) { return {a.x + b.x, a.y + b.y}; }
  friend Pair operator-(Pair a, Pair b) { return {a.x - b.x, a.y - b.y}; }
  friend Pair operator*(Pair a, Pair b) { return {a.x * b.x, a.y * b.y}; }
  friend Pair operator/(Pair a, Pair b) { return {a.x / b.x, a.y / b.y}; }
  friend Pair operator-(Pair a) { return {-a.x, -a.y}; }
  friend Pair &operator+=(Pair &a, Pair b) { return a = a + b; }
  friend Pair &operator-=(Pair &a, Pair b) { return a = a - b; }
  friend Pair &operator*=(Pair &a, Pair b) { return a = a * b; }
};
} // namespace emulate

using __nv_bfloat16 = emulate::Narrow<emulate::roundBF16, emulate::widenBF16>;
using __half = emulate::Narrow<emulate::roundHalf, emulate::widenHalf>;
using nv_bfloat16 = __nv_bfloat16;
using half = __half;
using __nv_bfloat162 = emulate::Pair<__nv_bfloat16>;
using __half2 = emulate::Pair<__half>;
using nv_bfloat162 = __nv_bfloat162;
using half2 = __half2;

// Bits by another name: these become what they are bits of, and are made of it.
namespace emulate {
template <typename T> struct Raw {
  unsigned short x;
  Raw() = default;
  Raw(unsigned short x) : x(x) {}
  Raw(const T &v) : x(v.bits) {}
  operator T() const {
    T v;
    v.bits = x;
    return v;
  }
};
template <typename T> struct alignas(4) Raw2 {
  unsigned short x, y;
  Raw2() = default;
  Raw2(unsigned short x, unsigned short y) : x(x), y(y) {}
  Raw2(const Pair<T> &v) : x(v.x.bits), y(v.y.bits) {}
  operator Pair<T>() const { return {Raw<T>{x}, Raw<T>{y}}; }
};
} // namespace emulate
using __half_raw = emulate::Raw<__half>;
using __half2_raw = emulate::Raw2<__half>;
using __nv_bfloat16_raw = emulate::Raw<__nv_bfloat16>;
using __nv_bfloat162_raw = emulate::Raw2<__nv_bfloat16>;

inline float __bfloat162float(__nv_bfloat16 v) { return v; }
inline __nv_bfloat16 __float2bfloat16(float f) { return f; }
inline __nv_bfloat16 __float2bfloat16_rn(float f) { return f; }
inline __nv_bfloat16 __double2bfloat16(double f) { return (float)f; }
inline float2 __bfloat1622float2(__nv_bfloat162 v) { return {v.x, v.y}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {x, y}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 v) { return {v.x, v.y}; }
inline __nv_bfloat162 __float2bfloat162_rn(float f) { return {f, f}; }
inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 v) { return {v, v}; }
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 v) { return v.x; }
inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 v) { return v.y; }
inline __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 v) { return v.bits; }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short u) {
  __nv_bfloat16 v;
  v.bits = u;
  return v;
}
inline float __half2float(__half v) { return v; }
inline __half __float2half(float f) { return f; }
inline __half __float2half_rn(float f) { return f; }
inline __half __double2half(double f) { return (float)f; }
inline float2 __half22float2(__half2 v) { return {v.x, v.y}; }
inline __half2 __floats2half2_rn(float x, float y) { return {x, y}; }
inline __half2 __float22half2_rn(float2 v) { return {v.x, v.y}; }
inline __half2 __float2half2_rn(float f) { return {f, f}; }
inline __half2 __half2half2(__half v) { return {v, v}; }
inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
inline __half __low2half(__half2 v) { return v.x; }
inline __half __high2half(__half2 v) { return v.y; }
inline __half2 make_half2(__half x, __half y) { return {x, y}; }
inline unsigned short __half_as_ushort(__half v) { return v.bits; }
inline __half __ushort_as_half(unsigned short u) {
  __half v;
  v.bits = u;
  return v;
}
#define EMULATE_NARROW_WHOLE(name, T, to, I) \
  inline I __##name##2##to##_rn(T v) { return (I)rintf(float(v)); } \
  inline I __##name##2##to##_rz(T v) { return (I)float(v); } \
  inline I __##name##2##to##_rd(T v) { return (I)floorf(float(v)); } \
  inline I __##name##2##to##_ru(T v) { return (I)ceilf(float(v)); } \
  inline T __##to##2##name##_rn(I i) { return (float)i; }
#define EMULATE_NARROW_WHOLES(name, T) \
  EMULATE_WHOLES(EMULATE_NARROW_WHOLE, name, T) \
  EMULATE_NARROW_WHOLE(name, T, short, short) EMULATE_NARROW_WHOLE(name, T, ushort, unsigned short)
EMULATE_NARROW_WHOLES(half, __half)
EMULATE_NARROW_WHOLES(bfloat16, __nv_bfloat16)
template <typename T> float __low2float(emulate::Pair<T> v) { return v.x; }
template <typename T> float __high2float(emulate::Pair<T> v) { return v.y; }
template <typename T> emulate::Pair<T> __low2half2(emulate::Pair<T> v) { return {v.x, v.x}; }
template <typename T> emulate::Pair<T> __high2half2(emulate::Pair<T> v) { return {v.y, v.y}; }

// A function of one value, with the one of pairs.
#define EMULATE_NARROW_1(name, pair, body)                                                                     \
  template <unsigned short R(float), float W(unsigned short)> emulate::Narrow<R, W> name(emulate::Narrow<R, W> v) { \
    float a = v;                                                                                               \
    return (float)(body);                                                                                      \
  }                                                                                                            \
  template <typename T> emulate::Pair<T> pair(emulate::Pair<T> v) { return {name(v.x), name(v.y)}; }
#define EMULATE_NARROW_2(name, pair, body)                                                                     \
  template <unsigned short R(float), float W(unsigned short)>                                                  \
  emulate::Narrow<R, W> name(emulate::Narrow<R, W> v, emulate::Narrow<R, W> w) {                               \
    float a = v, b = w;                                                                                        \
    return (float)(body);                                                                                      \
  }                                                                                                            \
  template <typename T> emulate::Pair<T> pair(emulate::Pair<T> v, emulate::Pair<T> w) {                        \
    return {name(v.x, w.x), name(v.y, w.y)};                                                                   \
  }
EMULATE_NARROW_1(__hneg, __hneg2, -a)
EMULATE_NARROW_1(__habs, __habs2, fabsf(a))
EMULATE_NARROW_1(hsqrt, h2sqrt, sqrtf(a))
EMULATE_NARROW_1(hrsqrt, h2rsqrt, 1.0 / sqrt((double)a))
EMULATE_NARROW_1(hrcp, h2rcp, 1.0 / (double)a)
EMULATE_NARROW_1(hexp, h2exp, expf(a))
EMULATE_NARROW_2(__hadd, __hadd2, a + b)
EMULATE_NARROW_2(__hadd_rn, __hadd2_rn, a + b)
EMULATE_NARROW_2(__hsub, __hsub2, a - b)
EMULATE_NARROW_2(__hmul, __hmul2, a *b)
EMULATE_NARROW_2(__hmul_rn, __hmul2_rn, a *b)
EMULATE_NARROW_2(__hdiv, __h2div, a / b)
EMULATE_NARROW_2(__hmax, __hmax2, fmaxf(a, b))
EMULATE_NARROW_2(__hmin, __hmin2, fminf(a, b))
EMULATE_NARROW_2(__hmax_nan, __hmax2_nan, a != a || b != b ? NAN : fmaxf(a, b))
EMULATE_NARROW_2(__hmin_nan, __hmin2_nan, a != a || b != b ? NAN : fminf(a, b))
template <unsigned short R(float), float W(unsigned short)>
emulate::Narrow<R, W> __hfma(emulate::Narrow<R, W> a, emulate::Narrow<R, W> b, emulate::Narrow<R, W> c) {
  return (float)((double)float(a) * float(b) + float(c));
}
template <typename T> emulate::Pair<T> __hfma2(emulate::Pair<T> a, emulate::Pair<T> b, emulate::Pair<T> c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
#define EMULATE_NARROW_TEST(name, op)                                                                          \
  template <unsigned short R(float), float W(unsigned short)>                                                  \
  bool name(emulate::Narrow<R, W> a, emulate::Narrow<R, W> b) { return float(a) op float(b); }
EMULATE_NARROW_TEST(__hgt, >)
EMULATE_NARROW_TEST(__hge, >=)
EMULATE_NARROW_TEST(__hlt, <)
EMULATE_NARROW_TEST(__hle, <=)
EMULATE_NARROW_TEST(__heq, ==)
EMULATE_NARROW_TEST(__hne, !=)
template <unsigned short R(float), float W(unsigned short)> bool __hisnan(emulate::Narrow<R, W> v) { return float(v) != float(v); }

inline __half atomicAdd(__half *p, __half v) { return addAtomic<unsigned short>(&const_cast<__half &>(aligned(p)), v); }
inline __nv_bfloat16 atomicAdd(__nv_bfloat16 *p, __nv_bfloat16 v) { return addAtomic<unsigned short>(&const_cast<__nv_bfloat16 &>(aligned(p)), v); }
inline __half2 atomicAdd(__half2 *p, __half2 v) { return addAtomic<unsigned>(&const_cast<__half2 &>(aligned(p)), v); }
inline __nv_bfloat162 atomicAdd(__nv_bfloat162 *p, __nv_bfloat162 v) { return addAtomic<unsigned>(&const_cast<__nv_bfloat162 &>(aligned(p)), v); }

#endif
