// How threads, CTAs and clusters run, and what they wait for: the part of emulate.h that
// is the same for all launches.
//
// Each thread of a CTA is a fiber, each CTA a thread of the operating system, so
// that what is __shared__ is thread_local. Fibers change where a real thread could wait:
// at barriers, at shuffles, and where they look for something that another is to do. Warps
// are taken in random order, each CTA's in its own, and each warp runs until it waits for
// another. Backward, warps and their lanes take turns in the opposite order. So of two threads
// that a barrier is missing between each is the first in one of two runs: what the barrier is
// missing for shows. If all wait and nothing happens the process says so and ends.
//
// Copies to shared memory arrive as late as they may: those of a thread when it waits for
// them, bulk copies when everybody has had a turn. Memory is otherwise the same for all at
// once: what a fence is missing for does not show.
//
// The compiler calls what stands in the section on checks here at each access of a kernel to memory
// (-fsanitize=kernel-address), and where a pointer is not aligned or an index is beyond its array
// (-fsanitize=alignment,bounds). This file is compiled without, and checks its copies itself.
#include "emulate.h"

#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

namespace emulate {

static const char STUCK[] =
    "all threads wait, and nothing happens (scratch starts as NaN, its whole numbers as -1: a lock or "
    "a counter is cleared by a launch ahead)";

// stop says why, once: other threads may stop for it too.
[[noreturn]] static void stop(const char *ahead, const char *what) {
  static std::atomic<bool> stopped{false};
  if (stopped.exchange(true)) pause();
  fprintf(stderr, "%s%s\n", ahead, what);
  fflush(stderr);
  _exit(3);
}
// fail says what is wrong.
void fail(const char *what) { stop("", what); }
void lacks(const char *what) { stop("not run: the emulator has no ", what); }

// A Copy is one that a thread has begun (cp.async), with zeros behind it.
struct Copy { void *to; const void *from; int bytes, zeros; };

// A Fiber starts in a context of its own. After that turns change by jumps, which unlike
// swapcontext ask nothing of the kernel.
struct Fiber {
  ucontext_t start;
  jmp_buf state;
  bool begun = false, done = false;
  Index at;
  std::deque<std::vector<Copy>> groups{1}; // the last is open
};

// A Meeting is of the lanes of a mask, in generations; their values take turns.
struct Meeting {
  unsigned mask, arrived = 0, generation = 0;
  Values values[2] = {};
};
struct Warp {
  unsigned live = FULL;
  std::deque<Meeting> meetings{{FULL}}; // by mask
};

// A Bulk is a bulk copy that a thread of the CTA has begun.
struct Bulk { void *to; const void *from; unsigned bytes, barrier; bool add, counts; int owner; };

struct CTA {
  Running running;
  int arrived = 0, live = 0;
  unsigned generation = 0;
  int counts[2] = {}; // of countCTA, by turns
  long moved = 0; // what its threads waited for and got
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  std::deque<Bulk> bulks;
  jmp_buf scheduler;
};

static thread_local CTA *cta;
__thread Running *running; // the CTA's
static thread_local char anchor; // shared addresses count from here
dim3 gridSize, blockSize;
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
  if (p.arrived > 0 && p.arrived == p.live) p.arrived = 0, p.counts[++p.generation & 1] = 0;
}
static void release(const Warp &w, Meeting &m) {
  if (m.arrived && m.arrived == (m.mask & w.live)) m.arrived = 0, m.values[++m.generation & 1].there = 0;
}
static std::string whose();
void syncCTA() {
  CTA &p = *cta;
  unsigned g = p.generation;
  p.arrived++;
  release(p);
  until([&] { return p.generation != g; });
}
int countCTA(bool yes) {
  int &count = cta->counts[cta->generation & 1];
  count += yes;
  syncCTA();
  return count;
}
unsigned liveLanes() { return cta->warps[running->thread / 32].live; }
const Values &meet(unsigned mask, unsigned v) {
  int lane = laneOf();
  if (!(mask >> lane & 1)) {
    char text[100];
    snprintf(text, sizeof text, "a mask of 0x%08x, which lacks its own lane %d", mask, lane);
    fail((text + whose()).c_str());
  }
  Warp &w = cta->warps[running->thread / 32];
  Meeting *m = nullptr;
  for (Meeting &other : w.meetings)
    if (other.mask == mask) m = &other;
  if (!m) m = &w.meetings.emplace_back(Meeting{mask});
  unsigned g = m->generation;
  Values &all = m->values[g & 1];
  all.of[lane] = v, all.there |= 1u << lane;
  m->arrived |= 1u << lane;
  release(w, *m);
  until([&] { return m->generation != g; });
  return all;
}
void syncWarp(unsigned mask) { meet(mask, 0); }
void syncCluster() {
  syncCTA();
  if (running->thread == 0) {
    unsigned g = cluster->generation;
    if (++cluster->arrived == cluster->live) cluster->arrived = 0, cluster->generation++;
    until([&] { return cluster->generation != g; });
  }
  syncCTA();
}

// ---- Checks of accesses ------------------------------------------------------------
//
// Buffers, and the dynamic shared memory of each CTA that runs at a time, lie in slots of one range of
// addresses, far from each other: an address tells its buffer, and how far from it an access is.

struct Buffer {
  std::string name;
  size_t element; // bytes
  char *p;
  size_t n;
  // The CTA that has written each element, ATOMIC, or 0, and the last that has read it; empty where CTAs run side by side.
  std::vector<unsigned> by, readBy;
};
static constexpr unsigned ATOMIC = ~0u;
// The compiler has one check for a load and a store to one place. So what the CTA that runs has read is looked at
// when it has ended: where it is another value the CTA has written to it.
struct Read { Buffer *buffer; size_t i; uint64_t value; };
static std::vector<Read> reads;
static uint64_t valueOf(const Buffer &b, size_t i) {
  uint64_t v = 0;
  memcpy(&v, b.p + i * b.element, std::min(sizeof v, b.element));
  return v;
}
static void noteWrites(unsigned cta) {
  for (const Read &r : reads)
    if (unsigned &by = r.buffer->by[r.i]; by != ATOMIC && valueOf(*r.buffer, r.i) != r.value) by = cta;
  reads.clear();
}
static std::vector<Buffer> buffers; // those of the launch first
static size_t dynamics;             // the index of the first CTA's dynamic shared memory
static char *slots;
static int slotBits;
static size_t slotsSize;

static bool isGuarded(const void *p) { return (size_t)((const char *)p - slots) < slotsSize; }
static const Buffer &dynamicOf(int rank) { return buffers[dynamics + rank]; }

static std::string count(size_t n, const char *what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}
// elements is a number of bytes for people.
static std::string elements(const Buffer &b, size_t bytes) {
  if (b.element <= 1 || bytes % b.element) return count(bytes, "byte");
  return count(bytes / b.element, "element") + " (" + count(bytes, "byte") + ")";
}
static std::string whose() {
  if (!running) return "";
  Index b = running->block;
  std::string at = std::to_string(b.x);
  if (b.y || b.z) at = "(" + at + ", " + std::to_string(b.y) + ", " + std::to_string(b.z) + ")";
  std::string thread = std::to_string(running->thread);
  if (Index t = running->at; blockSize.y > 1 || blockSize.z > 1)
    thread = "(" + std::to_string(t.x) + ", " + std::to_string(t.y) + ", " + std::to_string(t.z) + ")";
  return ", by thread " + thread + " of CTA " + at;
}
[[noreturn]] static void beyond(const Buffer &b, const char *p, size_t n, const char *how) {
  std::string text = b.name + " is " + how + " ";
  text += p < b.p ? elements(b, b.p - p) + " ahead of its start" : elements(b, p + n - b.p - b.n) + " beyond its end";
  fail((text + whose()).c_str());
}
// unordered says that a CTA reads what another has written in this launch, and nothing orders the two.
[[noreturn]] static void unordered(const Buffer &b, size_t i) {
  fail(("element " + std::to_string(i) + " of " + b.name + " is read, which CTA " + std::to_string(b.by[i] - 1) +
        " writes in the same launch: no atomic and no lock orders the two" + whose()).c_str());
}
// check holds an access to its buffer, and to what other CTAs have done. A CTA that has come to an atomic access may
// know that they are done.
static inline void check(const void *at, size_t n, bool write) {
  const char *p = (const char *)at;
  if (!isGuarded(p)) return;
  size_t slot = (size_t)(p - slots) >> slotBits;
  Buffer &b = buffers[slot < buffers.size() ? slot : buffers.size() - 1];
  if (p < b.p || p + n > b.p + b.n) beyond(b, p, n, write ? "written" : "read");
  if (b.by.empty() || n == 0 || !running || running->atomic) return;
  for (size_t i = (p - b.p) / b.element, last = (p - b.p + n - 1) / b.element; i <= last; i++)
    if (unsigned &by = b.by[i]; write) by = running->cta;
    else if (by == ATOMIC) running->met = true;
    else if (by && by != running->cta && !running->met) unordered(b, i);
    else if (b.readBy[i] != running->cta) b.readBy[i] = running->cta, reads.push_back({&b, i, valueOf(b, i)});
}
void atomically(const void *at, size_t n) {
  check(at, n, true);
  running->met = true;
  const char *p = (const char *)at;
  if (!isGuarded(p)) return;
  if (Buffer &b = buffers[(size_t)(p - slots) >> slotBits]; !b.by.empty())
    for (size_t i = (p - b.p) / b.element, last = (p - b.p + n - 1) / b.element; i <= last; i++) b.by[i] = ATOMIC;
}
void checkRead(const void *p, size_t n) { check(p, n, false); }
void checkWrite(const void *p, size_t n) { check(p, n, true); }

// place says where an address is, in words that go on from "at".
static std::string place(const void *at) {
  const char *p = (const char *)at;
  if (!isGuarded(p)) return "an address";
  const Buffer &b = buffers[(size_t)(p - slots) >> slotBits];
  return "byte " + std::to_string(p - b.p) + " of " + b.name;
}
void misaligned(const void *p, size_t n, const char *what) {
  fail((std::string(what) + " at " + place(p) + " is not aligned to " + std::to_string(n) + " bytes" + whose()).c_str());
}

// plain is the name of a type without what the compiler has around it.
static std::string plain(std::string type) {
  for (const char *word : {"'", "const ", "volatile ", "struct "})
    for (size_t at; (at = type.find(word)) != std::string::npos;) type.erase(at, strlen(word));
  return type;
}

// A signal tells of an access that no check has seen: by a null pointer, or far from all.
static void onSignal(int, siginfo_t *info, void *) {
  const char *p = (const char *)info->si_addr;
  if (isGuarded(p)) {
    const Buffer &b = buffers[(size_t)(p - slots) >> slotBits];
    if (p < b.p || p >= b.p + b.n) beyond(b, p, 1, "accessed");
  }
  if ((size_t)p < 65536) fail(("a null pointer is read or written" + whose()).c_str());
  fail(("an address far from every buffer is read or written" + whose()).c_str());
}
// catchSignals has a thread run onSignal on a stack of its own.
static void catchSignals() {
  constexpr size_t SIZE = 64 << 10;
  stack_t s{};
  s.ss_sp = new char[SIZE], s.ss_size = SIZE;
  sigaltstack(&s, nullptr);
}

// ---- Shared addresses, barriers in memory, copies ---------------------------------

// The 24 bits of an address below its CTA's rank are a distance from the anchor or, from DYNAMIC on,
// from the start of dynamic shared memory.
static constexpr unsigned MIDDLE = 1 << 23, DYNAMIC = 3 << 22;
unsigned addressOf(const void *p) {
  const char *start = dynamicOf(running->rank).p;
  if (isGuarded(p)) {
    long off = (const char *)p - start;
    if (off < 0 || off >= (long)(1 << 24) - (long)DYNAMIC) fail("an address that is not in shared memory");
    return (unsigned)running->rank << 24 | (unsigned)(off + DYNAMIC);
  }
  long off = (const char *)p - &anchor;
  if (off <= -(long)MIDDLE || off >= (long)DYNAMIC - (long)MIDDLE) fail("an address that is not in shared memory");
  return (unsigned)running->rank << 24 | (unsigned)(off + MIDDLE);
}
void *at(unsigned address) {
  unsigned rank = address >> 24, low = address & 0xffffff;
  char *a = rank < cluster->anchors.size() ? (char *)cluster->anchors[rank] : nullptr;
  if (a == nullptr) fail("shared memory of a CTA that has ended, or of none");
  return low < DYNAMIC ? a + (long)low - MIDDLE : dynamicOf(rank).p + (low - DYNAMIC);
}
void *dynamicShared() { return dynamicOf(running->rank).p; }

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

static void finish(const Bulk &b) {
  if (b.add)
    for (unsigned i = 0; i < b.bytes / 4; i++) ((float *)b.to)[i] += ((const float *)b.from)[i];
  else memcpy(b.to, b.from, b.bytes);
  if (b.counts) onBarrier(b.barrier, [&](Barrier &s) { s.bytes -= b.bytes; });
}

// ---- Copies and barriers of PTX ---------------------------------------------------

void copy(unsigned to, const void *from, int size, int bytes) {
  if (bytes > 0) checkRead(from, bytes);
  checkWrite(at(to), size);
  if (addressOf(&anchor) >> 24 != to >> 24) fail("a copy to another CTA");
  if ((uintptr_t)at(to) % size || bytes > 0 && (uintptr_t)from % size) fail(("an asynchronous copy from " + place(from) + " is not aligned to " + std::to_string(size) + " bytes" + whose()).c_str());
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
  checkRead(from, bytes), checkWrite(at(to), bytes);
  cta->bulks.push_back({at(to), from, bytes, barrier, false, true, running->thread});
}
static void checkBulk(void *to, unsigned from, unsigned bytes) {
  if (bytes % 16 || (uintptr_t)at(from) % 16 || (uintptr_t)to % 16) fail("a bulk copy is not of whole 16 bytes");
  checkRead(at(from), bytes), checkWrite(to, bytes);
}
void bulkStore(void *to, unsigned from, unsigned bytes) {
  checkBulk(to, from, bytes);
  cta->bulks.push_back({to, at(from), bytes, 0, false, false, running->thread});
}
void bulkAdd(void *to, unsigned from, unsigned bytes) {
  checkBulk(to, from, bytes);
  cta->bulks.push_back({to, at(from), bytes, 0, true, false, running->thread});
}
void waitBulk(int) {
  auto &bulks = cta->bulks;
  for (auto it = bulks.begin(); it != bulks.end();)
    if (it->owner == running->thread && !it->counts) {
      finish(*it);
      it = bulks.erase(it);
    } else ++it;
}
void sendFloat(unsigned to, unsigned v, unsigned barrier) {
  checkWrite(at(to), 4);
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
  p.live--, w.live &= ~(1u << t % 32);
  release(p);
  for (Meeting &m : w.meetings) release(w, m);
  p.fibers[t].done = true;
  progress++;
  _longjmp(p.scheduler, 1);
}

// Stacks are those of a CTA's fibers. They go from CTA to CTA: to map and clear new ones took as long as
// the kernels.
constexpr int STACK = 256 << 10;
struct Stacks {
  std::vector<std::unique_ptr<char[]>> of;
  static inline std::mutex lock;
  static inline std::vector<std::unique_ptr<char[]>> unused;

  explicit Stacks(int n) {
    std::lock_guard<std::mutex> hold(lock);
    for (; n > 0 && !unused.empty(); n--) {
      of.push_back(std::move(unused.back()));
      unused.pop_back();
    }
    for (; n > 0; n--) of.emplace_back(new char[STACK]);
  }
  ~Stacks() {
    std::lock_guard<std::mutex> hold(lock);
    for (auto &s : of) unused.push_back(std::move(s));
  }
};

// run takes turns with a CTA's fibers until all have ended. The CTA is the grid's nth.
static void run(Index block, unsigned n, int rank, int threads, bool backward) {
  CTA p;
  cta = &p, running = &p.running;
  p.running = {block, {}, rank, 0, n + 1, false, false}, p.live = threads;
  p.fibers = std::vector<Fiber>(threads);
  p.warps.resize((threads + 31) / 32);
  if (threads % 32) p.warps.back().live = (1u << threads % 32) - 1;
  Stacks stacks(threads);
  for (int t = 0; t < threads; t++) {
    Fiber &f = p.fibers[t];
    f.at = {t % blockSize.x, t / blockSize.x % blockSize.y, t / blockSize.x / blockSize.y};
    getcontext(&f.start);
    f.start.uc_stack.ss_sp = stacks.of[t].get();
    f.start.uc_stack.ss_size = STACK;
    f.start.uc_link = nullptr;
    makecontext(&f.start, (void (*)())enter, 1, 0);
  }
  long seen = -1, rounds = 0;
  auto since = std::chrono::steady_clock::now();
  unsigned dice = n * 2654435761u + 1;
  std::vector<int> order(p.warps.size());
  for (size_t w = 0; w < order.size(); w++) order[w] = (int)w;
  while (p.live > 0) {
    // A warp runs ahead as far as it can: what a barrier is missing for shows.
    for (size_t w = order.size(); w > 1; w--) {
      dice = dice * 1664525 + 1013904223;
      std::swap(order[w - 1], order[(dice >> 8) % w]);
    }
    for (size_t i = 0; i < order.size(); i++)
      for (long w = order[backward ? order.size() - 1 - i : i], before = -1; before != p.moved && p.warps[w].live;) {
        before = p.moved;
        for (int lane = 0; lane < 32; lane++) {
          int t = 32 * w + (backward ? 31 - lane : lane);
          if (t >= threads || p.fibers[t].done) continue;
          running->thread = t, running->at = p.fibers[t].at;
          resume(p, p.fibers[t]);
        }
      }
    for (int n = p.live > 0 ? (int)p.bulks.size() : 0; n > 0; n--) {
      Bulk b = p.bulks.front();
      p.bulks.pop_front();
      if (b.counts) finish(b), progress++;
      else p.bulks.push_back(b);
    }
    if (seen != progress) {
      seen = progress, rounds = 0, since = std::chrono::steady_clock::now();
      continue;
    }
    // A CTA alone has nobody to wait for. Others may only not have had the processor.
    if (++rounds > 100 && (cluster->live == 1 || std::chrono::steady_clock::now() - since > std::chrono::minutes(1)))
      fail(STUCK);
    if (rounds > 10) std::this_thread::yield();
  }
  if (!p.bulks.empty()) fail("a CTA has ended before its bulk copies");
  noteWrites(p.running.cta);
  cluster->anchors[rank] = nullptr;
}

// poisonShared fills the shared memory of the CTA that this thread runs: static shared memory is all
// that is thread_local in the program, but for what the runtime has there, which run sets behind it.
static void poisonShared(int rank) {
  dl_iterate_phdr([](dl_phdr_info *info, size_t, void *) {
    for (int i = 0; i < info->dlpi_phnum; i++)
      if (info->dlpi_phdr[i].p_type == PT_TLS && info->dlpi_tls_data)
        poison(info->dlpi_tls_data, info->dlpi_phdr[i].p_memsz);
    return 1; // the program itself comes first
  }, nullptr);
  const Buffer &b = dynamicOf(rank);
  poison(b.p, b.n);
}

// runGrid runs a grid: a cluster at a time or, of CTAs that wait for each other, all. Backward, the
// last comes first.
static void runGrid(Index grid, int together, bool backward) {
  int threads = blockSize.x * blockSize.y * blockSize.z;
  gridSize = grid;
  unsigned ctas = grid.x * grid.y * grid.z;
  for (unsigned begun = 0; begun < ctas; begun += together) {
    unsigned first = backward ? ctas - together - begun : begun;
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
        poisonShared(r);
        running = nullptr;
        catchSignals();
        c.anchors[r] = &anchor;
        started++;
        while (started < together) std::this_thread::yield();
        Index at = {n % grid.x, n / grid.x % grid.y, n / grid.x / grid.y};
        run(at, n, r, threads, backward);
      });
    }
    for (auto &t : ts) t.join();
  }
}

// ---- Arguments: a file of grid, buffers and values, which goes back with what became of the buffers.

struct File {
  FILE *f;
  template <typename T> T get() {
    T v;
    if (fread(&v, sizeof v, 1, f) != 1) fail("the arguments end early");
    return v;
  }
};

// makeSlots finds addresses for n buffers, which need no memory.
static void makeSlots(size_t n) {
  for (slotBits = 33; slotBits >= 24; slotBits--) {
    slotsSize = n << slotBits;
    slots = (char *)mmap(nullptr, slotsSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (slots != MAP_FAILED) return;
  }
  fail("no memory");
}
// add makes a buffer of n bytes in the middle of the next slot. It ends, but for what makes its start
// a multiple of 16 or, of shared memory, of 1024, where nothing is mapped.
static Buffer &add(std::string name, size_t element, size_t n, size_t align) {
  size_t page = sysconf(_SC_PAGESIZE), room = (n + align - 1) / align * align, bytes = (room + page - 1) / page * page;
  if (bytes >> (slotBits - 1)) fail("no memory");
  char *end = slots + (buffers.size() << slotBits) + ((size_t)1 << (slotBits - 1));
  if (bytes > 0 && mprotect(end - bytes, bytes, PROT_READ | PROT_WRITE)) fail("no memory");
  buffers.push_back({name, element, end - room, n, {}, {}});
  return buffers.back();
}

int launch(size_t expected, const size_t *sizes, void (*take)(const Argument *), void (*entry)()) {
  File in{stdin};
  Index grid;
  grid.x = in.get<uint32_t>(), grid.y = in.get<uint32_t>(), grid.z = in.get<uint32_t>();
  blockSize.x = in.get<uint32_t>(), blockSize.y = in.get<uint32_t>(), blockSize.z = in.get<uint32_t>();
  int together = in.get<uint32_t>();
  size_t shared = in.get<uint32_t>();
  bool backward = in.get<uint32_t>();
  dynamics = in.get<uint32_t>();
  makeSlots(dynamics + together);
  for (size_t i = 0; i < dynamics; i++) {
    std::string name(in.get<uint32_t>(), 0);
    if (fread(name.data(), 1, name.size(), stdin) != name.size()) fail("the arguments end early");
    size_t element = in.get<uint32_t>(), n = in.get<uint64_t>();
    Buffer &b = add(name, element, n, 16);
    if (n > 0 && fread(b.p, 1, n, stdin) != n) fail("the arguments end early");
    if (together == 1) b.by.resize(n / element), b.readBy.resize(n / element);
  }
  for (int i = 0; i < together; i++) add("dynamic shared memory", 1, shared, 1024);
  // An argument is its bytes, in whole slots, with the places of pointers to buffers in them.
  std::vector<Argument> args(in.get<uint32_t>());
  for (Argument &a : args) {
    a.n = in.get<uint32_t>();
    size_t slots = (a.n + 7) / 8;
    uint64_t *p = (uint64_t *)aligned_alloc(16, slots * 8 + 15 & ~(size_t)15);
    for (size_t i = 0; i < slots; i++) p[i] = in.get<uint64_t>();
    for (uint32_t pointers = in.get<uint32_t>(); pointers > 0; pointers--) {
      uint32_t at = in.get<uint32_t>();
      p[at] = (uint64_t)buffers[in.get<uint32_t>()].p;
    }
    a.p = p;
  }
  if (args.size() != expected) fail(("the entry takes " + count(expected, "argument") + ", and is given " + std::to_string(args.size())).c_str());
  for (size_t i = 0; i < expected; i++)
    if (args[i].n != sizes[i])
      fail(("argument " + std::to_string(i + 1) + " has " + count(sizes[i], "byte") + ", and is given " + std::to_string(args[i].n)).c_str());
  take(args.data());
  kernel = entry;
  struct sigaction action{};
  action.sa_sigaction = onSignal, action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, nullptr), sigaction(SIGBUS, &action, nullptr);
  runGrid(grid, together, backward);
  for (size_t i = 0; i < dynamics; i++)
    if (buffers[i].n > 0 && fwrite(buffers[i].p, 1, buffers[i].n, stdout) != buffers[i].n)
      fail("what became of the buffers cannot be written");
  return fflush(stdout) ? 3 : 0;
}
} // namespace emulate

// What the compiler calls ahead of an access, of so many bytes.
extern "C" {
#define EMULATE_ACCESS(bytes) \
  void __asan_load##bytes##_noabort(void *p) { emulate::check(p, bytes, false); } \
  void __asan_store##bytes##_noabort(void *p) { emulate::check(p, bytes, true); }
EMULATE_ACCESS(1)
EMULATE_ACCESS(2)
EMULATE_ACCESS(4)
EMULATE_ACCESS(8)
EMULATE_ACCESS(16)
void __asan_loadN_noabort(void *p, size_t n) { emulate::check(p, n, false); }
void __asan_storeN_noabort(void *p, size_t n) { emulate::check(p, n, true); }
void __asan_handle_no_return() {}
void __asan_before_dynamic_init(const char *) {}
void __asan_after_dynamic_init() {}

// What it calls where a pointer is not aligned, or an index is not in its array.
struct SourceLocation { const char *file; unsigned line, column; };
struct TypeDescriptor { unsigned short kind, info; char name[1]; };
struct TypeMismatch { SourceLocation at; const TypeDescriptor *type; unsigned char align, access; };
struct OutOfBounds { SourceLocation at; const TypeDescriptor *array, *index; };
void __ubsan_handle_type_mismatch_v1(const TypeMismatch *m, void *p) {
  std::string how = m->access == 1 ? "a store of " : "a load of ";
  emulate::misaligned(p, (size_t)1 << m->align, (how + emulate::plain(m->type->name)).c_str());
}
void __ubsan_handle_out_of_bounds(const OutOfBounds *o, size_t index) {
  emulate::fail(("index " + std::to_string((long)index) + " is beyond an array of type " + emulate::plain(o->array->name) + emulate::whose()).c_str());
}
}
