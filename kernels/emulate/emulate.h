// CUDA C++ on a processor, as far as the kernels here need it: what a translation unit
// includes ahead of their source, whose inline PTX emulate.go has replaced by calls of the
// functions here.
//
// Each thread of a program is a fiber, each program a thread of the operating system, so
// that what is __shared__ is thread_local. Fibers change where a real thread could wait:
// at barriers, at shuffles, and where they look for something that another is to do. Warps
// are taken in random order, and each runs until it waits for another: what a barrier is
// missing for shows. If all wait and nothing happens the process says so and ends.
//
// Copies to shared memory arrive as late as they may: those of a thread when it waits for
// them, bulk copies when everybody has had a turn. Memory is otherwise the same for all at
// once: what a fence is missing for does not show.
#include <ucontext.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#define __CUDA_ARCH__ 900
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static thread_local
#define __builtin_assume(condition) ((condition) ? void() : emulate::fail("an assumption does not hold"))

struct uint2 { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };
struct float4 { float x, y, z, w; };
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

namespace emulate {

struct Index { unsigned x, y, z; };

[[noreturn]] inline void fail(const char *what) {
  fprintf(stderr, "%s\n", what);
  _exit(3);
}

// A Copy is one that a thread has begun (cp.async), with zeros behind it.
struct Copy { void *to; const void *from; int bytes, zeros; };

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  bool done = false;
  std::deque<std::vector<Copy>> groups{1}; // the last is open
};

// A Warp's lanes meet in generations; values of shuffles take turns.
struct Warp {
  int arrived = 0, live = 32;
  unsigned generation = 0, value[2][32];
};

struct Program {
  Index block;
  int rank = 0, arrived = 0, live = 0, running = 0;
  unsigned generation = 0;
  long moved = 0; // what its threads waited for and got
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  ucontext_t scheduler;
};

inline thread_local Program *program;
inline thread_local char anchor; // shared addresses count from here
inline Index gridSize, blockSize;
inline std::atomic<long> progress;

// Cluster is programs that run at a time, and can reach each other's shared memory if they
// are one.
struct Cluster {
  std::vector<std::atomic<char *>> anchors; // null where a program has ended
  std::atomic<int> arrived{0}, live{0};
  std::atomic<unsigned> generation{0};
};
inline Cluster *cluster;

inline int thread() { return program->running; }
inline void yield() {
  Program &p = *program;
  swapcontext(&p.fibers[p.running].context, &p.scheduler);
}
template <typename F> void until(F done) {
  while (!done()) yield();
  program->moved++;
  progress++;
}

// ---- Barriers and shuffles ----------------------------------------------------

inline void release(Program &p) {
  if (p.arrived > 0 && p.arrived == p.live) p.arrived = 0, p.generation++;
}
inline void release(Warp &w) {
  if (w.arrived > 0 && w.arrived == w.live) w.arrived = 0, w.generation++;
}
inline void syncProgram() {
  Program &p = *program;
  unsigned g = p.generation;
  p.arrived++;
  release(p);
  until([&] { return p.generation != g; });
}
inline void syncWarp() {
  Warp &w = program->warps[thread() / 32];
  unsigned g = w.generation;
  w.arrived++;
  release(w);
  until([&] { return w.generation != g; });
}
template <typename T> T shuffle(T v, int from) {
  static_assert(sizeof(T) == 4);
  Warp &w = program->warps[thread() / 32];
  unsigned *values = w.value[w.generation & 1];
  memcpy(values + thread() % 32, &v, 4);
  syncWarp();
  memcpy(&v, values + from % 32, 4);
  return v;
}
inline void syncCluster() {
  syncProgram();
  if (thread() == 0) {
    unsigned g = cluster->generation;
    if (++cluster->arrived == cluster->live) cluster->arrived = 0, cluster->generation++;
    until([&] { return cluster->generation != g; });
  }
  syncProgram();
}

// ---- Shared addresses, barriers in memory, copies ---------------------------------

constexpr unsigned MIDDLE = 1 << 23; // of the 24 bits of an address below its program's rank
inline unsigned addressOf(const void *p) {
  long off = (const char *)p - &anchor;
  if (off <= -(long)MIDDLE || off >= (long)MIDDLE) fail("an address that is not in shared memory");
  return (unsigned)program->rank << 24 | (unsigned)(off + MIDDLE);
}
inline void *at(unsigned address) {
  char *a = cluster->anchors[address >> 24];
  if (a == nullptr) fail("shared memory of a program that has ended");
  return a + (long)(address & 0xffffff) - MIDDLE;
}

struct Barrier { int pending, count; long bytes; unsigned phase; };
inline std::mutex barriersLock;
inline std::map<void *, Barrier> barriers;

template <typename F> void onBarrier(unsigned address, F f) {
  std::lock_guard<std::mutex> hold(barriersLock);
  auto it = barriers.find(at(address));
  if (it == barriers.end()) fail("a barrier that was not initialized");
  Barrier &b = it->second;
  f(b);
  if (b.pending < 0) fail("more arrivals on a barrier than it counts");
  if (b.pending == 0 && b.bytes == 0) b.pending = b.count, b.phase++;
}

struct Bulk { void *to; const void *from; unsigned bytes, barrier; bool add, counts; int owner; };
inline thread_local std::deque<Bulk> bulks; // of the program
inline void finish(const Bulk &b) {
  if (b.add)
    for (unsigned i = 0; i < b.bytes / 4; i++) ((float *)b.to)[i] += ((const float *)b.from)[i];
  else memcpy(b.to, b.from, b.bytes);
  if (b.counts) onBarrier(b.barrier, [&](Barrier &s) { s.bytes -= b.bytes; });
}

// ---- PTX: emulate.go names these -----------------------------------------------

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
  if ((uintptr_t)p % 8) fail("a load of 8 bytes is not aligned");
  memcpy(&a, (const char *)p, 4), memcpy(&b, (const char *)p + 4, 4);
}
template <typename P> void load128(unsigned &a, unsigned &b, unsigned &c, unsigned &d, P p, unsigned long long = 0) {
  if ((uintptr_t)p % 16) fail("a load of 16 bytes is not aligned");
  const char *q = (const char *)p;
  memcpy(&a, q, 4), memcpy(&b, q + 4, 4), memcpy(&c, q + 8, 4), memcpy(&d, q + 12, 4);
}
inline void addFloat(float *p, float v) {
  unsigned *u = (unsigned *)p, old = __atomic_load_n(u, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(u, &old, bits(number(old) + v), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
}
inline void addFloats(float *p, float a, float b, float c, float d) { addFloat(p, a), addFloat(p + 1, b), addFloat(p + 2, c), addFloat(p + 3, d); }
inline void addRelease(unsigned *p) { __atomic_fetch_add(p, 1, __ATOMIC_RELEASE), progress++; }
inline void storeRelaxed(unsigned *p, unsigned v) { __atomic_store_n(p, v, __ATOMIC_RELAXED), progress++; }
inline void loadAcquire(unsigned &r, const unsigned *p) {
  yield();
  r = __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

inline void copy(unsigned to, const void *from, int size, int bytes) {
  if (addressOf(&anchor) >> 24 != to >> 24) fail("a copy to another program");
  if ((uintptr_t)at(to) % size || bytes > 0 && (uintptr_t)from % size) fail("a copy is not aligned");
  program->fibers[thread()].groups.back().push_back({at(to), from, bytes, size - bytes});
}
inline void copy16(unsigned to, const void *from, int bytes) { copy(to, from, 16, bytes); }
inline void copy16Once(unsigned to, const void *from, unsigned long long) { copy(to, from, 16, 16); }
inline void copyOnce(unsigned to, const void *from, int size, unsigned long long) { copy(to, from, size, size); }
inline void commitCopies() { program->fibers[thread()].groups.emplace_back(); }
inline void waitCopies(int left) {
  auto &g = program->fibers[thread()].groups;
  while ((int)g.size() > left + 1) {
    for (const Copy &c : g.front()) {
      memcpy(c.to, c.from, c.bytes);
      memset((char *)c.to + c.bytes, 0, c.zeros);
    }
    g.pop_front();
  }
}

inline void barrierInit(unsigned b, int count) {
  std::lock_guard<std::mutex> hold(barriersLock);
  barriers[at(b)] = {count, count, 0, 0};
}
inline void barrierArrive(unsigned b, unsigned bytes) {
  onBarrier(b, [&](Barrier &s) { s.bytes += bytes, s.pending--; });
}
inline void barrierCount(unsigned b) { barrierArrive(b, 0); }
inline void barrierExpect(unsigned b, unsigned bytes) {
  onBarrier(b, [&](Barrier &s) { s.bytes += bytes; });
}
inline void barrierWait(unsigned b, unsigned parity) {
  until([&] {
    bool done;
    onBarrier(b, [&](Barrier &s) { done = (s.phase & 1) != parity; });
    return done;
  });
}
inline void bulkLoad(unsigned to, const void *from, unsigned bytes, unsigned barrier, unsigned long long = 0) {
  if (bytes % 16 || (uintptr_t)at(to) % 16 || (uintptr_t)from % 16) fail("a bulk copy is not of whole 16 bytes");
  bulks.push_back({at(to), from, bytes, barrier, false, true, thread()});
}
inline void bulkStore(void *to, unsigned from, unsigned bytes) { bulks.push_back({to, at(from), bytes, 0, false, false, thread()}); }
inline void bulkAdd(void *to, unsigned from, unsigned bytes) { bulks.push_back({to, at(from), bytes, 0, true, false, thread()}); }
inline void waitBulk(int) {
  for (auto it = bulks.begin(); it != bulks.end();)
    if (it->owner == thread() && !it->counts) {
      finish(*it);
      it = bulks.erase(it);
    } else ++it;
}
inline void rank(unsigned &r) { r = program->rank; }
inline void onRank(unsigned &r, unsigned address, unsigned rank) { r = (address & 0xffffff) | rank << 24; }
inline void sendFloat(unsigned to, unsigned v, unsigned barrier) {
  *(unsigned *)at(to) = v;
  onBarrier(barrier, [&](Barrier &s) { s.bytes -= 4; });
}
inline void loadRank(float &v, unsigned from) { v = *(const float *)at(from); }

// ---- Launches -------------------------------------------------------------------

inline void (*kernel)();
inline void enter(int) {
  Program &p = *program;
  int t = p.running;
  kernel();
  Warp &w = p.warps[t / 32];
  p.live--, w.live--;
  release(p), release(w);
  p.fibers[t].done = true;
  progress++;
  swapcontext(&p.fibers[t].context, &p.scheduler);
}

// run takes turns with a program's fibers until all have ended.
inline void run(Index block, int rank, int threads) {
  Program p;
  program = &p;
  p.block = block, p.rank = rank, p.live = threads;
  p.fibers = std::vector<Fiber>(threads);
  p.warps.resize((threads + 31) / 32);
  if (threads % 32) p.warps.back().live = threads % 32;
  constexpr int STACK = 256 << 10;
  for (int t = 0; t < threads; t++) {
    Fiber &f = p.fibers[t];
    f.stack.reset(new char[STACK]);
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.get();
    f.context.uc_stack.ss_size = STACK;
    f.context.uc_link = nullptr;
    makecontext(&f.context, (void (*)())enter, 1, 0);
  }
  long seen = -1, rounds = 0;
  auto since = std::chrono::steady_clock::now();
  unsigned dice = block.x * 2654435761u + 1;
  std::vector<int> order(p.warps.size());
  for (size_t w = 0; w < order.size(); w++) order[w] = (int)w;
  while (p.live > 0) {
    // A warp runs ahead as far as it can: what a barrier is missing for shows.
    for (size_t w = order.size(); w > 1; w--) {
      dice = dice * 1664525 + 1013904223;
      std::swap(order[w - 1], order[(dice >> 8) % w]);
    }
    for (int w : order)
      for (long before = -1; before != p.moved && p.warps[w].live > 0;) {
        before = p.moved;
        for (int t = 32 * w; t < threads && t < 32 * w + 32; t++) {
          if (p.fibers[t].done) continue;
          p.running = t;
          swapcontext(&p.scheduler, &p.fibers[t].context);
        }
      }
    for (int n = p.live > 0 ? (int)bulks.size() : 0; n > 0; n--) {
      Bulk b = bulks.front();
      bulks.pop_front();
      if (b.counts) finish(b), progress++;
      else bulks.push_back(b);
    }
    if (seen != progress) {
      seen = progress, rounds = 0, since = std::chrono::steady_clock::now();
      continue;
    }
    // A program alone has nobody to wait for. Others may only not have had the processor.
    if (++rounds > 100 && (cluster->live == 1 || std::chrono::steady_clock::now() - since > std::chrono::minutes(1)))
      fail("all threads wait, and nothing happens");
    if (rounds > 10) std::this_thread::yield();
  }
  if (!bulks.empty()) fail("a program has ended before its bulk copies");
  cluster->anchors[rank] = nullptr;
}

// launch runs a grid: a cluster at a time or, of programs that wait for each other, all.
inline void launch(Index grid, int threads, int together) {
  gridSize = grid, blockSize = {(unsigned)threads, 1, 1};
  unsigned programs = grid.x * grid.y * grid.z;
  for (unsigned first = 0; first < programs; first += together) {
    Cluster c;
    c.anchors = std::vector<std::atomic<char *>>(together);
    c.live = together;
    cluster = &c;
    barriers.clear();
    std::atomic<int> started{0};
    std::vector<std::thread> ts;
    for (int r = 0; r < together; r++) {
      unsigned n = first + r;
      ts.emplace_back([=, &c, &started] {
        c.anchors[r] = &anchor;
        started++;
        while (started < together) std::this_thread::yield();
        Index at = {n % grid.x, n / grid.x % grid.y, n / grid.x / grid.y};
        run(at, r, threads);
      });
    }
    for (auto &t : ts) t.join();
  }
}

// ---- Arguments: a file of grid, buffers and values, which goes back with what became of
// the buffers. A buffer ends, but for what makes its start a multiple of 16, where nothing is
// mapped, and starts behind such a place too.

struct File {
  FILE *f;
  template <typename T> T get() {
    T v;
    if (fread(&v, sizeof v, 1, f) != 1) fail("the arguments end early");
    return v;
  }
};

struct Buffer {
  char *p;
  size_t n;
};
inline char *guarded(size_t n) {
  size_t page = sysconf(_SC_PAGESIZE), room = (n + 15) / 16 * 16, pages = (room + page - 1) / page;
  char *m = (char *)mmap(nullptr, (pages + 2) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (m == MAP_FAILED || (pages > 0 && mprotect(m + page, pages * page, PROT_READ | PROT_WRITE))) fail("no memory");
  return m + (pages + 1) * page - room;
}

template <typename... A, size_t... I> void bind(void (*f)(A...), const std::vector<uint64_t> &args, std::index_sequence<I...>) {
  if (args.size() != sizeof...(A)) fail("another number of arguments than the entry has");
  static std::tuple<A...> values;
  ((void)memcpy(&std::get<I>(values), &args[I], sizeof(std::get<I>(values))), ...);
  static void (*entry)(A...) = f;
  kernel = [] { std::apply(entry, values); };
}

template <typename... A> int main(void (*f)(A...)) {
  File in{stdin};
  Index grid;
  grid.x = in.get<uint32_t>(), grid.y = in.get<uint32_t>(), grid.z = in.get<uint32_t>();
  int threads = in.get<uint32_t>(), together = in.get<uint32_t>(), count = in.get<uint32_t>();
  std::vector<Buffer> buffers;
  for (int i = 0; i < count; i++) {
    size_t n = in.get<uint64_t>();
    Buffer b{guarded(n), n};
    if (n > 0 && fread(b.p, 1, n, stdin) != n) fail("the arguments end early");
    buffers.push_back(b);
  }
  std::vector<uint64_t> args(in.get<uint32_t>());
  for (uint64_t &a : args) {
    uint32_t kind = in.get<uint32_t>();
    a = in.get<uint64_t>();
    if (kind == 1) a = (uint64_t)buffers[a].p;
  }
  bind(f, args, std::index_sequence_for<A...>());
  launch(grid, threads, together);
  for (const Buffer &b : buffers)
    if (b.n > 0 && fwrite(b.p, 1, b.n, stdout) != b.n) fail("what became of the buffers cannot be written");
  return fflush(stdout) ? 3 : 0;
}
} // namespace emulate

#define threadIdx (emulate::Index{(unsigned)emulate::program->running, 0, 0})
#define blockIdx (emulate::program->block)
#define gridDim (emulate::gridSize)
#define blockDim (emulate::blockSize)

inline void __syncthreads() { emulate::syncProgram(); }
inline void __syncwarp() { emulate::syncWarp(); }
inline void __threadfence() {}
inline void __nanosleep(unsigned) { emulate::yield(); }
template <typename T> T __shfl_xor_sync(unsigned, T v, int d) { return emulate::shuffle(v, emulate::thread() % 32 ^ d); }
template <typename T> T __shfl_sync(unsigned, T v, int lane, int width = 32) {
  return emulate::shuffle(v, emulate::thread() % 32 / width * width + lane % width);
}
inline unsigned __reduce_max_sync(unsigned, unsigned v) {
  for (int d = 16; d > 0; d /= 2) {
    unsigned o = emulate::shuffle(v, emulate::thread() % 32 ^ d);
    v = o > v ? o : v;
  }
  return v;
}
template <typename T> const T &aligned(const T *p) {
  if ((uintptr_t)p % sizeof(T)) emulate::fail("an access is not aligned");
  return *p;
}
template <typename T> T __ldg(const T *p) { return aligned(p); }
template <typename T> T __ldcg(const T *p) { return aligned(p); }
template <typename T> void __stcg(T *p, T v) { const_cast<T &>(aligned(p)) = v; }
template <typename T> void __stcs(T *p, T v) { const_cast<T &>(aligned(p)) = v; }
inline float __uint_as_float(unsigned u) { return emulate::number(u); }
inline unsigned __float_as_uint(float f) { return emulate::bits(f); }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float f) { return 1.0f / sqrtf(f); }
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
inline int atomicCAS(int *p, int was, int v) {
  __atomic_compare_exchange_n(p, &was, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  emulate::progress++;
  return was;
}
inline int atomicExch(int *p, int v) { return emulate::progress++, __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST); }
template <typename T> T atomicAdd(T *p, T v) { return emulate::progress++, __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); }
inline unsigned atomicMax(unsigned *p, unsigned v) {
  unsigned old = __atomic_load_n(p, __ATOMIC_SEQ_CST);
  while (old < v && !__atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}
  return old;
}
