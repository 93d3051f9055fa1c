// How threads, CTAs and clusters run, and what they wait for: the part of emulate.h that
// is the same for all launches.
//
// Each thread of a CTA is a fiber, each CTA a thread of the operating system, so
// that what is __shared__ is thread_local. Fibers change where a real thread could wait:
// at barriers, at shuffles, and where they look for something that another is to do. Warps
// are taken in random order, and each runs until it waits for another: what a barrier is
// missing for shows. If all wait and nothing happens the process says so and ends.
//
// Copies to shared memory arrive as late as they may: those of a thread when it waits for
// them, bulk copies when everybody has had a turn. Memory is otherwise the same for all at
// once: what a fence is missing for does not show.
#include "emulate.h"

#include <setjmp.h>
#include <ucontext.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

namespace emulate {

void fail(const char *what) {
  fprintf(stderr, "%s\n", what);
  _exit(3);
}

// A Copy is one that a thread has begun (cp.async), with zeros behind it.
struct Copy { void *to; const void *from; int bytes, zeros; };

// A Fiber starts in a context of its own. After that turns change by jumps, which unlike
// swapcontext ask nothing of the kernel.
struct Fiber {
  ucontext_t start;
  jmp_buf state;
  std::unique_ptr<char[]> stack;
  bool begun = false, done = false;
  std::deque<std::vector<Copy>> groups{1}; // the last is open
};

// A Warp's lanes meet in generations; values of shuffles take turns.
struct Warp {
  int arrived = 0, live = 32;
  unsigned generation = 0, value[2][32];
};

struct CTA {
  Running running;
  int arrived = 0, live = 0;
  unsigned generation = 0;
  long moved = 0; // what its threads waited for and got
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  jmp_buf scheduler;
};

static thread_local CTA *cta;
__thread Running *running; // the CTA's
static thread_local char anchor; // shared addresses count from here
Index gridSize, blockSize;
static std::atomic<long> progress;

// Cluster is CTAs that run at a time, and can reach each other's shared memory if they
// are one.
struct Cluster {
  std::vector<std::atomic<char *>> anchors; // null where a CTA has ended
  std::atomic<int> arrived{0}, live{0};
  std::atomic<unsigned> generation{0};
};
static Cluster *cluster;

// resume gives a fiber its turn, which yield or its end ends.
static void resume(CTA &p, Fiber &f) {
  if (_setjmp(p.scheduler)) return;
  if (f.begun) _longjmp(f.state, 1);
  f.begun = true;
  setcontext(&f.start);
}
void yield() {
  CTA &p = *cta;
  if (!_setjmp(p.fibers[running->thread].state)) _longjmp(p.scheduler, 1);
}
void happened() { progress++; }
template <typename F> static void until(F done) {
  while (!done()) yield();
  cta->moved++;
  progress++;
}

// ---- Barriers and shuffles ----------------------------------------------------

static void release(CTA &p) {
  if (p.arrived > 0 && p.arrived == p.live) p.arrived = 0, p.generation++;
}
static void release(Warp &w) {
  if (w.arrived > 0 && w.arrived == w.live) w.arrived = 0, w.generation++;
}
void syncCTA() {
  CTA &p = *cta;
  unsigned g = p.generation;
  p.arrived++;
  release(p);
  until([&] { return p.generation != g; });
}
void syncWarp() {
  Warp &w = cta->warps[running->thread / 32];
  unsigned g = w.generation;
  w.arrived++;
  release(w);
  until([&] { return w.generation != g; });
}
unsigned exchange(unsigned v, int from) {
  Warp &w = cta->warps[running->thread / 32];
  unsigned *values = w.value[w.generation & 1];
  values[running->thread % 32] = v;
  syncWarp();
  return values[from % 32];
}
void syncCluster() {
  syncCTA();
  if (running->thread == 0) {
    unsigned g = cluster->generation;
    if (++cluster->arrived == cluster->live) cluster->arrived = 0, cluster->generation++;
    until([&] { return cluster->generation != g; });
  }
  syncCTA();
}

// ---- Shared addresses, barriers in memory, copies ---------------------------------

static constexpr unsigned MIDDLE = 1 << 23; // of the 24 bits of an address below its CTA's rank
unsigned addressOf(const void *p) {
  long off = (const char *)p - &anchor;
  if (off <= -(long)MIDDLE || off >= (long)MIDDLE) fail("an address that is not in shared memory");
  return (unsigned)running->rank << 24 | (unsigned)(off + MIDDLE);
}
void *at(unsigned address) {
  char *a = cluster->anchors[address >> 24];
  if (a == nullptr) fail("shared memory of a CTA that has ended");
  return a + (long)(address & 0xffffff) - MIDDLE;
}

struct Barrier { int pending, count; long bytes; unsigned phase; };
static std::mutex barriersLock;
static std::map<void *, Barrier> barriers;

template <typename F> static void onBarrier(unsigned address, F f) {
  std::lock_guard<std::mutex> hold(barriersLock);
  auto it = barriers.find(at(address));
  if (it == barriers.end()) fail("a barrier that was not initialized");
  Barrier &b = it->second;
  f(b);
  if (b.pending < 0) fail("more arrivals on a barrier than it counts");
  if (b.pending == 0 && b.bytes == 0) b.pending = b.count, b.phase++;
}

struct Bulk { void *to; const void *from; unsigned bytes, barrier; bool add, counts; int owner; };
static thread_local std::deque<Bulk> bulks; // of the CTA
static void finish(const Bulk &b) {
  if (b.add)
    for (unsigned i = 0; i < b.bytes / 4; i++) ((float *)b.to)[i] += ((const float *)b.from)[i];
  else memcpy(b.to, b.from, b.bytes);
  if (b.counts) onBarrier(b.barrier, [&](Barrier &s) { s.bytes -= b.bytes; });
}

// ---- Copies and barriers of PTX ---------------------------------------------------

void copy(unsigned to, const void *from, int size, int bytes) {
  if (addressOf(&anchor) >> 24 != to >> 24) fail("a copy to another CTA");
  if ((uintptr_t)at(to) % size || bytes > 0 && (uintptr_t)from % size) fail("a copy is not aligned");
  cta->fibers[running->thread].groups.back().push_back({at(to), from, bytes, size - bytes});
}
void commitCopies() { cta->fibers[running->thread].groups.emplace_back(); }
void waitCopies(int left) {
  auto &g = cta->fibers[running->thread].groups;
  while ((int)g.size() > left + 1) {
    for (const Copy &c : g.front()) {
      memcpy(c.to, c.from, c.bytes);
      memset((char *)c.to + c.bytes, 0, c.zeros);
    }
    g.pop_front();
  }
}

void barrierInit(unsigned b, int count) {
  std::lock_guard<std::mutex> hold(barriersLock);
  barriers[at(b)] = {count, count, 0, 0};
}
void barrierArrive(unsigned b, unsigned bytes) {
  onBarrier(b, [&](Barrier &s) { s.bytes += bytes, s.pending--; });
}
void barrierExpect(unsigned b, unsigned bytes) {
  onBarrier(b, [&](Barrier &s) { s.bytes += bytes; });
}
void barrierWait(unsigned b, unsigned parity) {
  until([&] {
    bool done;
    onBarrier(b, [&](Barrier &s) { done = (s.phase & 1) != parity; });
    return done;
  });
}
void bulkLoad(unsigned to, const void *from, unsigned bytes, unsigned barrier, unsigned long long) {
  if (bytes % 16 || (uintptr_t)at(to) % 16 || (uintptr_t)from % 16) fail("a bulk copy is not of whole 16 bytes");
  bulks.push_back({at(to), from, bytes, barrier, false, true, running->thread});
}
void bulkStore(void *to, unsigned from, unsigned bytes) { bulks.push_back({to, at(from), bytes, 0, false, false, running->thread}); }
void bulkAdd(void *to, unsigned from, unsigned bytes) { bulks.push_back({to, at(from), bytes, 0, true, false, running->thread}); }
void waitBulk(int) {
  for (auto it = bulks.begin(); it != bulks.end();)
    if (it->owner == running->thread && !it->counts) {
      finish(*it);
      it = bulks.erase(it);
    } else ++it;
}
void sendFloat(unsigned to, unsigned v, unsigned barrier) {
  *(unsigned *)at(to) = v;
  onBarrier(barrier, [&](Barrier &s) { s.bytes -= 4; });
}

// ---- Launches -------------------------------------------------------------------

static void (*kernel)();
static void enter(int) {
  CTA &p = *cta;
  int t = running->thread;
  kernel();
  Warp &w = p.warps[t / 32];
  p.live--, w.live--;
  release(p), release(w);
  p.fibers[t].done = true;
  progress++;
  _longjmp(p.scheduler, 1);
}

// run takes turns with a CTA's fibers until all have ended.
static void run(Index block, int rank, int threads) {
  CTA p;
  cta = &p, running = &p.running;
  p.running = {block, rank, 0}, p.live = threads;
  p.fibers = std::vector<Fiber>(threads);
  p.warps.resize((threads + 31) / 32);
  if (threads % 32) p.warps.back().live = threads % 32;
  constexpr int STACK = 256 << 10;
  for (int t = 0; t < threads; t++) {
    Fiber &f = p.fibers[t];
    f.stack.reset(new char[STACK]);
    getcontext(&f.start);
    f.start.uc_stack.ss_sp = f.stack.get();
    f.start.uc_stack.ss_size = STACK;
    f.start.uc_link = nullptr;
    makecontext(&f.start, (void (*)())enter, 1, 0);
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
          running->thread = t;
          resume(p, p.fibers[t]);
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
    // A CTA alone has nobody to wait for. Others may only not have had the processor.
    if (++rounds > 100 && (cluster->live == 1 || std::chrono::steady_clock::now() - since > std::chrono::minutes(1)))
      fail("all threads wait, and nothing happens");
    if (rounds > 10) std::this_thread::yield();
  }
  if (!bulks.empty()) fail("a CTA has ended before its bulk copies");
  cluster->anchors[rank] = nullptr;
}

// runGrid runs a grid: a cluster at a time or, of CTAs that wait for each other, all.
static void runGrid(Index grid, int threads, int together) {
  gridSize = grid, blockSize = {(unsigned)threads, 1, 1};
  unsigned ctas = grid.x * grid.y * grid.z;
  for (unsigned first = 0; first < ctas; first += together) {
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
static char *guarded(size_t n) {
  size_t page = sysconf(_SC_PAGESIZE), room = (n + 15) / 16 * 16, pages = (room + page - 1) / page;
  char *m = (char *)mmap(nullptr, (pages + 2) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (m == MAP_FAILED || (pages > 0 && mprotect(m + page, pages * page, PROT_READ | PROT_WRITE))) fail("no memory");
  return m + (pages + 1) * page - room;
}

int launch(size_t expected, void (*take)(const uint64_t *), void (*entry)()) {
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
  if (args.size() != expected) fail("another number of arguments than the entry has");
  take(args.data());
  kernel = entry;
  runGrid(grid, threads, together);
  for (const Buffer &b : buffers)
    if (b.n > 0 && fwrite(b.p, 1, b.n, stdout) != b.n) fail("what became of the buffers cannot be written");
  return fflush(stdout) ? 3 : 0;
}
} // namespace emulate
