// CUDA C++ on a processor, as far as the kernels here need it: what a translation unit
// includes ahead of their source, whose inline PTX ptx.go has replaced by calls of the
// functions here. What needs more of C++'s library is in runtime.cpp, compiled once: with it
// here each launch's program took twice as long to compile.
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>

#define __CUDA_ARCH__ 900
#define __CUDACC__ 1
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define __host__
#define __device__
#define __global__
#define __forceinline__ inline
#define __grid_constant__
#define __constant__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
// A variable that is used has no value that the compiler knows, though nobody stores one.
#define __shared__ __attribute__((used)) static thread_local
#define __builtin_assume(condition) ((condition) ? void() : emulate::fail("an assumption does not hold"))
#define printf(...) emulate::printed(__VA_ARGS__) // standard output has the buffers

// A vector has the alignment of CUDA's.
#define EMULATE_VECTORS(T, name, two, four)                                                                    \
  struct name##1 { T x; };                                                                                     \
  struct alignas(two) name##2 { T x, y; };                                                                     \
  struct name##3 { T x, y, z; };                                                                               \
  struct alignas(four) name##4 { T x, y, z, w; };                                                              \
  inline name##1 make_##name##1(T x) { return {x}; }                                                           \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }                                                   \
  inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                                           \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
EMULATE_VECTORS(signed char, char, 2, 4)
EMULATE_VECTORS(unsigned char, uchar, 2, 4)
EMULATE_VECTORS(short, short, 4, 8)
EMULATE_VECTORS(unsigned short, ushort, 4, 8)
EMULATE_VECTORS(int, int, 8, 16)
EMULATE_VECTORS(unsigned, uint, 8, 16)
EMULATE_VECTORS(long, long, 16, 16)
EMULATE_VECTORS(unsigned long, ulong, 16, 16)
EMULATE_VECTORS(long long, longlong, 16, 16)
EMULATE_VECTORS(unsigned long long, ulonglong, 16, 16)
EMULATE_VECTORS(float, float, 8, 16)
EMULATE_VECTORS(double, double, 16, 16)

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

namespace emulate {

using Index = uint3;

// Running is where the thread that has its turn is.
struct Running {
  Index block, at;  // of the CTA in the grid, of the thread in the CTA
  int rank, thread; // of the CTA in its cluster, of the thread in the CTA, which has x the fastest
  unsigned cta;     // in the grid, from 1 on
  bool atomic, met; // whether an access is an atomic one, and whether the CTA may know what others have done
};
extern __thread Running *running;
extern dim3 gridSize, blockSize;

[[noreturn]] void fail(const char *what);
// lacks says what the emulator does not have, where a thread comes to it.
[[noreturn]] void lacks(const char *what);
// poison fills memory with NaN of four or two bytes, as kernels.Memory.PoisonScratch does.
inline void poison(void *p, size_t n) {
  for (size_t i = 0; i < n; i++) ((unsigned char *)p)[i] = i % 2 ? 0xff : 0xfe;
}
// Anything converts to whatever a function of CUDA's that the emulator lacks would return, if it returned.
struct Anything {
  template <typename T> operator T() const;
};
inline int printed(...) { return 0; }

// The memory of a buffer or of dynamic shared memory is beyond what checkRead and checkWrite let pass.
// misaligned fails of an access to n bytes.
void checkRead(const void *p, size_t n);
void checkWrite(const void *p, size_t n);
[[noreturn]] void misaligned(const void *p, size_t n, const char *what);

// yield lets others have a turn; happened says that somebody may have waited for what the
// thread did.
void yield();
void happened();

// ---- Barriers and shuffles ----------------------------------------------------

constexpr unsigned FULL = 0xffffffff;
void syncCTA();
int countCTA(bool yes); // syncCTA, and of how many threads yes is true
void syncWarp(unsigned mask = FULL);
void syncCluster();
unsigned liveLanes(); // of the warp, as a mask
// Values are what the lanes of a mask have met with. A lane that does not exist has none.
struct Values {
  unsigned of[32], there;
};
// meet waits for the lanes of a mask, and returns their values, which stay until a lane meets them again.
const Values &meet(unsigned mask, unsigned v);
// exchange is the v of a lane of the mask. Of any other it is NaN in each type, and not what outputs are poisoned with.
inline unsigned exchange(unsigned mask, unsigned v, int from) {
  const Values &all = meet(mask, v);
  return all.there >> (from % 32) & 1 ? all.of[from % 32] : 0xfffefffe;
}
template <typename T> T shuffle(unsigned mask, T v, int from) {
  unsigned words[(sizeof(T) + 3) / 4] = {};
  memcpy(words, &v, sizeof(T));
  for (unsigned &u : words) u = exchange(mask, u, from);
  memcpy((void *)&v, words, sizeof(T));
  return v;
}
inline int laneOf() { return running->thread % 32; }

// ---- PTX: ptx.go names these ---------------------------------------------------

inline unsigned half2(float lo, float hi) {
  _Float16 h[2] = {(_Float16)lo, (_Float16)hi};
  unsigned r;
  memcpy(&r, h, 4);
  return r;
}
inline unsigned bits(float f) {
  unsigned u;
  memcpy(&u, &f, 4);
  return u;
}
inline float number(unsigned u) {
  float f;
  memcpy(&f, &u, 4);
  return f;
}
inline unsigned bf16(float f) {
  unsigned u = bits(f);
  return (u & 0x7fffffff) > 0x7f800000 ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16;
}
inline unsigned e4m3(float f) { // kernels.Float32ToE4M3
  unsigned u = bits(f), sign = u >> 24 & 0x80;
  u &= 0x7fffffff;
  if (u > 0x7f800000) return 0x7f;
  if (u >= 0x43e00000) return sign | 0x7e;
  if (u < 0x3c800000) return sign | (bits(number(u) + 0x1p14f) - 0x46800000);
  return sign | ((u + 0xc407ffff + (u >> 20 & 1)) >> 20 & 0x7f);
}

template <typename... A> void nothing(A &&...) {}
inline void keep(...) {}
inline void bf16x1(unsigned short &r, float f) { r = (unsigned short)bf16(f); }
inline void f16x1(unsigned short &r, float f) {
  _Float16 h = (_Float16)f;
  memcpy(&r, &h, 2);
}
inline void f16wide(float &f, unsigned short r) {
  _Float16 h;
  memcpy(&h, &r, 2);
  f = h;
}
inline void bf16x2(unsigned &r, float hi, float lo) { r = bf16(lo) | bf16(hi) << 16; }
inline void f16x2(unsigned &r, float hi, float lo) { r = half2(lo, hi); }
inline void e4m3x2(unsigned short &r, float hi, float lo) { r = (unsigned short)(e4m3(lo) | e4m3(hi) << 8); }
inline void halves(float &lo, float &hi, unsigned r) {
  _Float16 h[2];
  memcpy(h, &r, 4);
  lo = h[0], hi = h[1];
}
template <unsigned SELECT> void permute(unsigned &r, unsigned a) {
  unsigned v = 0;
  for (int i = 0; i < 4; i++) {
    unsigned n = SELECT >> 4 * i & 7;
    v |= (n < 4 ? a >> 8 * n & 0xff : 0) << 8 * i;
  }
  r = v;
}
inline void maxNaN(float &a, float b) { a = a != a || b != b ? NAN : fmaxf(a, b); }
inline void notNegative(float &a) { maxNaN(a, 0.f); }
inline void rsqrtApprox(float &r, float f) { r = (float)(1.0 / sqrt((double)f)); }
inline void rcpApprox(float &r, float f) { r = 1.0f / f; }
inline void exp2Approx(float &r, float f) { r = exp2f(f); }
inline void log2Approx(float &r, float f) { r = log2f(f); }
template <typename T> void butterfly(T &r, T v, int d) { r = shuffle(FULL, v, laneOf() ^ d); }
inline void policy(unsigned long long &p) { p = 0; }
// Loads and stores of one, two or four values, whatever their type is.
template <typename P> void load16(auto &r, P p) { memcpy(&r, (const void *)p, 2); }
template <typename P> void load32(auto &r, P p, unsigned long long = 0) { memcpy(&r, (const void *)p, 4); }
template <typename P> void load64(auto &a, auto &b, P p, unsigned long long = 0) {
  if ((uintptr_t)p % 8) misaligned((const void *)p, 8, "a load");
  memcpy(&a, (const char *)p, 4), memcpy(&b, (const char *)p + 4, 4);
}
template <typename P> void load128(auto &a, auto &b, auto &c, auto &d, P p, unsigned long long = 0) {
  if ((uintptr_t)p % 16) misaligned((const void *)p, 16, "a load");
  const char *q = (const char *)p;
  memcpy(&a, q, 4), memcpy(&b, q + 4, 4), memcpy(&c, q + 8, 4), memcpy(&d, q + 12, 4);
}
// The same with a predicate; without it the values are 0.
template <typename P> void load16If(auto &r, P p, int yes) { r = 0; if (yes) load16(r, p); }
template <typename P> void load32If(auto &r, P p, int yes) { r = 0; if (yes) load32(r, p); }
template <typename P> void load64If(auto &a, auto &b, P p, int yes) { a = b = 0; if (yes) load64(a, b, p); }
template <typename P> void load128If(auto &a, auto &b, auto &c, auto &d, P p, int yes) { a = b = c = d = 0; if (yes) load128(a, b, c, d, p); }
template <typename P> void store16(P p, const auto &v) { memcpy((void *)p, &v, 2); }
template <typename P> void store32(P p, const auto &v) { memcpy((void *)p, &v, 4); }
template <typename P> void store64(P p, const auto &a, const auto &b) {
  if ((uintptr_t)p % 8) misaligned((const void *)p, 8, "a store");
  memcpy((char *)p, &a, 4), memcpy((char *)p + 4, &b, 4);
}
template <typename P> void store128(P p, const auto &a, const auto &b, const auto &c, const auto &d) {
  if ((uintptr_t)p % 16) misaligned((const void *)p, 16, "a store");
  char *q = (char *)p;
  memcpy(q, &a, 4), memcpy(q + 4, &b, 4), memcpy(q + 8, &c, 4), memcpy(q + 12, &d, 4);
}
// An Atomic stands around an atomic access, which orders what its CTA does behind what others did.
void atomically(const void *p, size_t n);
struct Atomic {
  template <typename T> explicit Atomic(const T *p) { atomically((const void *)p, sizeof *p), running->atomic = true; }
  ~Atomic() { running->atomic = false; }
};
template <typename T, typename F> auto withAtomic(const T *p, F f) {
  Atomic a(p);
  return f();
}
inline void addFloat(float *p, float v) {
  Atomic a(p);
  unsigned *u = (unsigned *)p, old = __atomic_load_n(u, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(u, &old, bits(number(old) + v), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
}
inline void addFloats(float *p, float a, float b, float c, float d) {
  if ((uintptr_t)p % 16) misaligned(p, 16, "an addition");
  addFloat(p, a), addFloat(p + 1, b), addFloat(p + 2, c), addFloat(p + 3, d);
}
inline void addRelease(unsigned *p) { Atomic a(p); __atomic_fetch_add(p, 1, __ATOMIC_RELEASE), happened(); }
inline void storeRelaxed(unsigned *p, unsigned v) { Atomic a(p); __atomic_store_n(p, v, __ATOMIC_RELAXED), happened(); }
inline void loadAcquire(unsigned &r, const unsigned *p) {
  yield();
  Atomic a(p);
  r = __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

// Shared addresses have 24 bits below their CTA's rank.
unsigned addressOf(const void *p);
void *at(unsigned address);
void *dynamicShared(); // the CTA's

void copy(unsigned to, const void *from, int size, int bytes);
inline void copy16(unsigned to, const void *from, int bytes) { copy(to, from, 16, bytes); }
inline void copy16Once(unsigned to, const void *from, unsigned long long) { copy(to, from, 16, 16); }
inline void copyOnce(unsigned to, const void *from, int size, unsigned long long) { copy(to, from, size, size); }
void commitCopies();
void waitCopies(int left);

void barrierInit(unsigned b, int count);
void barrierArrive(unsigned b, unsigned bytes);
inline void barrierCount(unsigned b) { barrierArrive(b, 0); }
void barrierExpect(unsigned b, unsigned bytes);
void barrierWait(unsigned b, unsigned parity);
void bulkLoad(unsigned to, const void *from, unsigned bytes, unsigned barrier, unsigned long long = 0);
void bulkStore(void *to, unsigned from, unsigned bytes);
void bulkAdd(void *to, unsigned from, unsigned bytes);
void waitBulk(int);
inline void rank(unsigned &r) { r = running->rank; }
inline void onRank(unsigned &r, unsigned address, unsigned rank) { r = (address & 0xffffff) | rank << 24; }
void sendFloat(unsigned to, unsigned v, unsigned barrier);
inline void loadRank(float &v, unsigned from) { v = *(const float *)at(from); }

// ---- Launches -------------------------------------------------------------------

// An Argument is the bytes of one, at a multiple of 16.
struct Argument {
  const void *p;
  size_t n;
};
// launch reads a grid, buffers and as many arguments as have these sizes from standard input, gives take
// the arguments, has each thread call kernel, and writes what became of the buffers.
int launch(size_t count, const size_t *sizes, void (*take)(const Argument *), void (*kernel)());

// Entry keeps arguments as bytes: a struct may have no constructor without arguments.
template <typename... A> struct Entry {
  static inline void (*function)(A...);
  static inline const Argument *values;

  template <size_t... I> static void call(std::index_sequence<I...>) {
    function(*(std::remove_reference_t<A> *)values[I].p...);
  }
  static void take(const Argument *args) { values = args; }
  static void call() { call(std::index_sequence_for<A...>()); }
};
template <typename... A> int main(void (*f)(A...)) {
  Entry<A...>::function = f;
  static const size_t sizes[] = {sizeof(A)..., 0};
  return launch(sizeof...(A), sizes, Entry<A...>::take, Entry<A...>::call);
}
} // namespace emulate

#define threadIdx (emulate::running->at)
#define blockIdx (emulate::running->block)
#define gridDim (emulate::gridSize)
#define blockDim (emulate::blockSize)
constexpr int warpSize = 32;

inline void __syncthreads() { emulate::syncCTA(); }
inline int __syncthreads_count(int v) { return emulate::countCTA(v != 0); }
inline int __syncthreads_or(int v) { return emulate::countCTA(v != 0) > 0; }
inline int __syncthreads_and(int v) { return emulate::countCTA(v == 0) == 0; }
inline void __syncwarp(unsigned mask = emulate::FULL) { emulate::syncWarp(mask); }
[[noreturn]] inline void __trap() { emulate::fail("__trap() is called"); }
inline void __threadfence() {}
inline long long clock64() { return 0; }
inline void __nanosleep(unsigned) { emulate::yield(); }
// segment is the first lane of those that a shuffle of this width exchanges values with.
inline int segment(int lane, int width) {
  if (width <= 0 || width > 32 || width & (width - 1)) emulate::fail("the width of a shuffle is no power of two from 1 to 32");
  return lane / width * width;
}
template <typename T> T __shfl_xor_sync(unsigned mask, T v, int d, int width = 32) {
  int lane = emulate::laneOf(), from = lane ^ d;
  return emulate::shuffle(mask, v, from < segment(lane, width) + width ? from : lane);
}
template <typename T> T __shfl_down_sync(unsigned mask, T v, unsigned d, int width = 32) {
  int lane = emulate::laneOf(), from = lane + (int)d;
  return emulate::shuffle(mask, v, from < segment(lane, width) + width ? from : lane);
}
template <typename T> T __shfl_up_sync(unsigned mask, T v, unsigned d, int width = 32) {
  int lane = emulate::laneOf(), from = lane - (int)d;
  return emulate::shuffle(mask, v, from >= segment(lane, width) ? from : lane);
}
template <typename T> T __shfl_sync(unsigned mask, T v, int lane, int width = 32) {
  return emulate::shuffle(mask, v, segment(emulate::laneOf(), width) + (lane & (width - 1)));
}
inline unsigned __activemask() { return emulate::liveLanes(); }
inline unsigned __ballot_sync(unsigned mask, int v) {
  const emulate::Values &all = emulate::meet(mask, v != 0);
  unsigned yes = 0;
  for (int i = 0; i < 32; i++) yes |= (all.there >> i & 1 & all.of[i]) << i;
  return yes;
}
inline int __any_sync(unsigned mask, int v) { return __ballot_sync(mask, v) != 0; }
inline int __all_sync(unsigned mask, int v) { return __ballot_sync(mask, v == 0) == 0; }
// reduceLanes goes through the values of a mask's lanes, from the first to the last.
template <typename T, typename F> T reduceLanes(unsigned mask, T v, F f) {
  static_assert(sizeof(T) == 4);
  unsigned u;
  memcpy(&u, &v, 4);
  const emulate::Values &all = emulate::meet(mask, u);
  bool any = false;
  for (int i = 0; i < 32; i++) {
    if (!(all.there >> i & 1)) continue;
    T one;
    memcpy((void *)&one, &all.of[i], 4);
    v = any ? f(v, one) : one;
    any = true;
  }
  return v;
}
template <typename T> T __reduce_add_sync(unsigned mask, T v) { return reduceLanes(mask, v, [](T a, T b) { return a + b; }); }
template <typename T> T __reduce_max_sync(unsigned mask, T v) { return reduceLanes(mask, v, [](T a, T b) { return b > a ? b : a; }); }
template <typename T> T __reduce_min_sync(unsigned mask, T v) { return reduceLanes(mask, v, [](T a, T b) { return b < a ? b : a; }); }
template <typename T> T __reduce_or_sync(unsigned mask, T v) { return reduceLanes(mask, v, [](T a, T b) { return a | b; }); }
template <typename T> T __reduce_and_sync(unsigned mask, T v) { return reduceLanes(mask, v, [](T a, T b) { return a & b; }); }
template <typename T> T __reduce_xor_sync(unsigned mask, T v) { return reduceLanes(mask, v, [](T a, T b) { return a ^ b; }); }
template <typename T> const T &aligned(const T *p) {
  if ((uintptr_t)p % sizeof(T)) emulate::misaligned(p, sizeof(T), "an access");
  return *p;
}
template <typename T> T __ldg(const T *p) { return aligned(p); }
template <typename T> T __ldcg(const T *p) { return aligned(p); }
template <typename T> T __ldcs(const T *p) { return aligned(p); }
template <typename T> T __ldca(const T *p) { return aligned(p); }
template <typename T> T __ldlu(const T *p) { return aligned(p); }
template <typename T> T __ldcv(const T *p) { return aligned(p); }
template <typename T> void __stcg(T *p, T v) { const_cast<T &>(aligned(p)) = v; }
template <typename T> void __stcs(T *p, std::type_identity_t<T> v) { const_cast<T &>(aligned(p)) = v; }
template <typename T> void __stwt(T *p, std::type_identity_t<T> v) { const_cast<T &>(aligned(p)) = v; }
template <typename T> void __stwb(T *p, std::type_identity_t<T> v) { const_cast<T &>(aligned(p)) = v; }
inline float __uint_as_float(unsigned u) { return emulate::number(u); }
inline unsigned __float_as_uint(float f) { return emulate::bits(f); }
inline float __int_as_float(int i) { return emulate::number((unsigned)i); }
inline int __float_as_int(float f) { return (int)emulate::bits(f); }
inline float __fdividef(float a, float b) { return a / b; }
inline float fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float f) { return 1.0f / sqrtf(f); }
inline double rsqrt(double f) { return 1.0 / sqrt(f); }
inline float rsqrt(float f) { return rsqrtf(f); }
inline float __frsqrt_rn(float f) { return (float)(1.0 / sqrt((double)f)); }
inline float __fsqrt_rn(float f) { return sqrtf(f); }
inline float __frcp_rn(float f) { return 1.0f / f; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __expf(float f) { return expf(f); }
inline float __exp2f(float f) { return exp2f(f); }
inline float __logf(float f) { return logf(f); }
inline float __log2f(float f) { return log2f(f); }
inline float __powf(float a, float b) { return powf(a, b); }
inline float __saturatef(float f) { return f > 0 ? f < 1 ? f : 1 : 0; }
// Conversions of numbers, as __float2int_rn: one for each way to round. Those to floating point take the nearest
// whatever their name says.
#define EMULATE_TO_WHOLE(from, F, to, T) \
  inline T __##from##2##to##_rn(F f) { return (T)rint((double)f); } \
  inline T __##from##2##to##_rz(F f) { return (T)f; } \
  inline T __##from##2##to##_rd(F f) { return (T)floor((double)f); } \
  inline T __##from##2##to##_ru(F f) { return (T)ceil((double)f); }
#define EMULATE_FROM_WHOLE(from, F, to, T) \
  inline T __##from##2##to##_rn(F i) { return (T)i; }
#define EMULATE_WHOLES(DO, a, A) DO(a, A, int, int) DO(a, A, uint, unsigned) DO(a, A, ll, long long) DO(a, A, ull, unsigned long long)
EMULATE_WHOLES(EMULATE_TO_WHOLE, float, float)
EMULATE_WHOLES(EMULATE_TO_WHOLE, double, double)
#define EMULATE_FLOATS(DO, a, A) DO(a, A, float, float) DO(a, A, double, double)
EMULATE_FLOATS(EMULATE_FROM_WHOLE, int, int)
EMULATE_FLOATS(EMULATE_FROM_WHOLE, uint, unsigned)
EMULATE_FLOATS(EMULATE_FROM_WHOLE, ll, long long)
EMULATE_FLOATS(EMULATE_FROM_WHOLE, ull, unsigned long long)
EMULATE_FROM_WHOLE(double, double, float, float)
inline int __popc(unsigned u) { return __builtin_popcount(u); }
inline int __popcll(unsigned long long u) { return __builtin_popcountll(u); }
inline int __ffs(int i) { return __builtin_ffs(i); }
inline int __clz(int i) { return i ? __builtin_clz((unsigned)i) : 32; }
inline int __mul24(int a, int b) { return a * b; }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
inline void __threadfence_block() {}
inline void __threadfence_system() {}
#define EMULATE_EXTREMES(T) \
  inline T min(T a, T b) { return a < b ? a : b; } \
  inline T max(T a, T b) { return a > b ? a : b; }
EMULATE_EXTREMES(int)
EMULATE_EXTREMES(unsigned)
EMULATE_EXTREMES(long)
EMULATE_EXTREMES(unsigned long)
EMULATE_EXTREMES(long long)
EMULATE_EXTREMES(unsigned long long)
inline unsigned min(int a, unsigned b) { return min((unsigned)a, b); }
inline unsigned min(unsigned a, int b) { return min(a, (unsigned)b); }
inline unsigned max(int a, unsigned b) { return max((unsigned)a, b); }
inline unsigned max(unsigned a, int b) { return max(a, (unsigned)b); }
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
using std::abs;
using std::isfinite;
using std::isinf;
using std::isnan;
using std::signbit;
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
  uint64_t both = (uint64_t)b << 32 | a;
  unsigned r = 0;
  for (int i = 0; i < 4; i++) r |= (unsigned)(both >> 8 * (s >> 4 * i & 7) & 0xff) << 8 * i;
  return r;
}
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned n) { return (unsigned)(((uint64_t)hi << 32 | lo) >> (n & 31)); }
inline unsigned __funnelshift_rc(unsigned lo, unsigned hi, unsigned n) { return (unsigned)(((uint64_t)hi << 32 | lo) >> (n < 32 ? n : 32)); }
inline size_t __cvta_generic_to_shared(const void *p) { return emulate::addressOf(p); }
// changed says that an atomic operation has changed memory, for which others may wait. One that has
// not may be a turn of a loop that waits.
template <typename T> T changed(T was, bool yes) {
  yes ? emulate::happened() : emulate::yield();
  return was;
}
template <typename T> using Same = std::type_identity_t<T>;
template <typename T> T atomicCAS(T *p, Same<T> was, Same<T> v) {
  bool did = emulate::withAtomic(p, [&] { return __atomic_compare_exchange_n(p, &was, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); });
  return changed(was, did && was != v);
}
template <typename T> T atomicExch(T *p, Same<T> v) {
  T was = emulate::withAtomic(p, [&] { return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST); });
  return changed(was, was != v);
}
template <typename T> T atomicAdd(T *p, Same<T> v) {
  return changed(emulate::withAtomic(p, [&] { return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); }), v != 0);
}
template <typename W, typename T> T addAtomic(T *p, T v) {
  emulate::Atomic a(p);
  W *u = (W *)p, old = __atomic_load_n(u, __ATOMIC_SEQ_CST), want;
  T was, sum;
  do {
    memcpy(&was, &old, sizeof was);
    sum = was + v;
    memcpy(&want, &sum, sizeof want);
  } while (!__atomic_compare_exchange_n(u, &old, want, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  emulate::happened();
  return was;
}
inline float atomicAdd(float *p, float v) { return addAtomic<unsigned>(&const_cast<float &>(aligned(p)), v); }
inline double atomicAdd(double *p, double v) { return addAtomic<unsigned long long>(&const_cast<double &>(aligned(p)), v); }
template <typename T> T atomicSub(T *p, Same<T> v) { return atomicAdd(p, (T)-v); }
template <typename T> T atomicBest(T *p, T v, bool largest) {
  emulate::Atomic a(p);
  T old = __atomic_load_n(p, __ATOMIC_SEQ_CST);
  while ((largest ? old < v : v < old) && !__atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}
  return old;
}
// atomicInc counts up to a limit and from there to 0, atomicDec down to 0 and from there to the limit.
inline unsigned countAtomic(unsigned *p, unsigned limit, bool up) {
  unsigned old, want;
  {
    emulate::Atomic a(p);
    old = __atomic_load_n(p, __ATOMIC_SEQ_CST);
    do want = up ? (old >= limit ? 0 : old + 1) : (old == 0 || old > limit ? limit : old - 1);
    while (!__atomic_compare_exchange_n(p, &old, want, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  }
  return changed(old, want != old);
}
inline unsigned atomicInc(unsigned *p, unsigned limit) { return countAtomic(p, limit, true); }
inline unsigned atomicDec(unsigned *p, unsigned limit) { return countAtomic(p, limit, false); }
template <typename T> T atomicMax(T *p, Same<T> v) { return atomicBest(p, v, true); }
template <typename T> T atomicMin(T *p, Same<T> v) { return atomicBest(p, v, false); }
template <typename T> T atomicOr(T *p, Same<T> v) {
  return changed(emulate::withAtomic(p, [&] { return __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST); }), v != 0);
}
template <typename T> T atomicAnd(T *p, Same<T> v) {
  return changed(emulate::withAtomic(p, [&] { return __atomic_fetch_and(p, v, __ATOMIC_SEQ_CST); }), ~v != 0);
}
