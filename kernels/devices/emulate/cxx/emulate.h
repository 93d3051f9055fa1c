// CUDA C++ on a processor, as far as the kernels here need it: what a translation unit
// includes ahead of their source, whose inline PTX ptx.go has replaced by calls of the
// functions here. What needs more of C++'s library is in runtime.cpp, compiled once: with it
// here each launch's program took twice as long to compile.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>

#define __CUDA_ARCH__ 900
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
// A variable that is used has no value that the compiler knows, though nobody stores one.
#define __shared__ __attribute__((used)) static thread_local
#define __builtin_assume(condition) ((condition) ? void() : emulate::fail("an assumption does not hold"))

struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) float4 { float x, y, z, w; };
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

namespace emulate {

struct Index { unsigned x, y, z; };

// Running is where the thread that has its turn is.
struct Running {
  Index block;
  int rank, thread; // of the CTA in its cluster, in the CTA
};
extern __thread Running *running;
extern Index gridSize, blockSize;

[[noreturn]] void fail(const char *what);

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

void syncCTA();
void syncWarp();
void syncCluster();
unsigned exchange(unsigned v, int from); // the v of that lane of the warp
template <typename T> T shuffle(T v, int from) {
  static_assert(sizeof(T) == 4);
  unsigned u;
  memcpy(&u, &v, 4);
  u = exchange(u, from);
  memcpy(&v, &u, 4);
  return v;
}

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
inline void policy(unsigned long long &p) { p = 0; }
template <typename P> void load16(unsigned short &r, P p) { memcpy(&r, (const void *)p, 2); }
template <typename P> void load32(unsigned &r, P p, unsigned long long = 0) { memcpy(&r, (const void *)p, 4); }
template <typename P> void load64(unsigned &a, unsigned &b, P p, unsigned long long = 0) {
  if ((uintptr_t)p % 8) misaligned((const void *)p, 8, "a load");
  memcpy(&a, (const char *)p, 4), memcpy(&b, (const char *)p + 4, 4);
}
template <typename P> void load128(unsigned &a, unsigned &b, unsigned &c, unsigned &d, P p, unsigned long long = 0) {
  if ((uintptr_t)p % 16) misaligned((const void *)p, 16, "a load");
  const char *q = (const char *)p;
  memcpy(&a, q, 4), memcpy(&b, q + 4, 4), memcpy(&c, q + 8, 4), memcpy(&d, q + 12, 4);
}
inline void addFloat(float *p, float v) {
  unsigned *u = (unsigned *)p, old = __atomic_load_n(u, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(u, &old, bits(number(old) + v), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
}
inline void addFloats(float *p, float a, float b, float c, float d) {
  if ((uintptr_t)p % 16) misaligned(p, 16, "an addition");
  addFloat(p, a), addFloat(p + 1, b), addFloat(p + 2, c), addFloat(p + 3, d);
}
inline void addRelease(unsigned *p) { __atomic_fetch_add(p, 1, __ATOMIC_RELEASE), happened(); }
inline void storeRelaxed(unsigned *p, unsigned v) { __atomic_store_n(p, v, __ATOMIC_RELAXED), happened(); }
inline void loadAcquire(unsigned &r, const unsigned *p) {
  yield();
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

// launch reads a grid, buffers and count arguments from standard input, gives take the
// arguments, has each thread call kernel, and writes what became of the buffers.
int launch(size_t count, void (*take)(const uint64_t *), void (*kernel)());

template <typename... A> struct Entry {
  static inline void (*function)(A...);
  static inline std::tuple<A...> values;

  template <size_t... I> static void take(const uint64_t *args, std::index_sequence<I...>) {
    ((void)memcpy(&std::get<I>(values), args + I, sizeof(std::get<I>(values))), ...);
  }
  static void take(const uint64_t *args) { take(args, std::index_sequence_for<A...>()); }
  static void call() { std::apply(function, values); }
};
template <typename... A> int main(void (*f)(A...)) {
  Entry<A...>::function = f;
  return launch(sizeof...(A), Entry<A...>::take, Entry<A...>::call);
}
} // namespace emulate

#define threadIdx (emulate::Index{(unsigned)emulate::running->thread, 0, 0})
#define blockIdx (emulate::running->block)
#define gridDim (emulate::gridSize)
#define blockDim (emulate::blockSize)

inline void __syncthreads() { emulate::syncCTA(); }
inline void __syncwarp() { emulate::syncWarp(); }
inline void __threadfence() {}
inline void __nanosleep(unsigned) { emulate::yield(); }
// segment is the first lane of those that a shuffle of this width exchanges values with.
inline int segment(int lane, int width) { return lane / width * width; }
template <typename T> T __shfl_xor_sync(unsigned, T v, int d, int width = 32) {
  int lane = emulate::running->thread % 32, from = lane ^ d;
  return emulate::shuffle(v, from < segment(lane, width) + width ? from : lane);
}
template <typename T> T __shfl_down_sync(unsigned, T v, int d, int width = 32) {
  int lane = emulate::running->thread % 32, from = lane + d;
  return emulate::shuffle(v, from < segment(lane, width) + width ? from : lane);
}
template <typename T> T __shfl_up_sync(unsigned, T v, int d, int width = 32) {
  int lane = emulate::running->thread % 32, from = lane - d;
  return emulate::shuffle(v, from >= segment(lane, width) ? from : lane);
}
template <typename T> T __shfl_sync(unsigned, T v, int lane, int width = 32) {
  return emulate::shuffle(v, segment(emulate::running->thread % 32, width) + lane % width);
}
inline unsigned __reduce_max_sync(unsigned, unsigned v) {
  for (int d = 16; d > 0; d /= 2) {
    unsigned o = emulate::shuffle(v, emulate::running->thread % 32 ^ d);
    v = o > v ? o : v;
  }
  return v;
}
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
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float f) { return 1.0f / sqrtf(f); }
inline float __frsqrt_rn(float f) { return (float)(1.0 / sqrt((double)f)); }
inline float __fsqrt_rn(float f) { return sqrtf(f); }
inline float __frcp_rn(float f) { return 1.0f / f; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
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
  bool did = __atomic_compare_exchange_n(p, &was, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return changed(was, did && was != v);
}
template <typename T> T atomicExch(T *p, Same<T> v) {
  T was = __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);
  return changed(was, was != v);
}
template <typename T> T atomicAdd(T *p, Same<T> v) {
  return changed(__atomic_fetch_add(p, v, __ATOMIC_SEQ_CST), v != 0);
}
inline float atomicAdd(float *p, float v) {
  unsigned *u = (unsigned *)p, old = __atomic_load_n(u, __ATOMIC_SEQ_CST);
  while (!__atomic_compare_exchange_n(u, &old, emulate::bits(emulate::number(old) + v), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}
  emulate::happened();
  return emulate::number(old);
}
template <typename T> T atomicSub(T *p, Same<T> v) { return atomicAdd(p, (T)-v); }
template <typename T> T atomicBest(T *p, T v, bool largest) {
  T old = __atomic_load_n(p, __ATOMIC_SEQ_CST);
  while ((largest ? old < v : v < old) && !__atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}
  return old;
}
template <typename T> T atomicMax(T *p, Same<T> v) { return atomicBest(p, v, true); }
template <typename T> T atomicMin(T *p, Same<T> v) { return atomicBest(p, v, false); }
template <typename T> T atomicOr(T *p, Same<T> v) { return changed(__atomic_fetch_or(p, v, __ATOMIC_SEQ_CST), v != 0); }
template <typename T> T atomicAnd(T *p, Same<T> v) { return changed(__atomic_fetch_and(p, v, __ATOMIC_SEQ_CST), ~v != 0); }
