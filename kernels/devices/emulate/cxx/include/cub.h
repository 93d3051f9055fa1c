// CUB's reductions over a block and a warp. As there, the result is the first thread's alone: others get
// what no arithmetic makes. Temporary storage is the caller's, and one reduction after another in the same
// needs a barrier between them.
#ifndef EMULATE_CUB
#define EMULATE_CUB
#include <functional>

namespace cub {

struct Sum { template <typename T, typename U> auto operator()(T a, U b) const { return a + b; } };
struct Max { template <typename T, typename U> auto operator()(T a, U b) const { return a < b ? b : a; } };
struct Min { template <typename T, typename U> auto operator()(T a, U b) const { return b < a ? b : a; } };
enum BlockReduceAlgorithm {
  BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_RAKING, BLOCK_REDUCE_WARP_REDUCTIONS,
  BLOCK_REDUCE_WARP_REDUCTIONS_NONDETERMINISTIC
};

template <typename T> T poison() {
  T v;
  emulate::poison((void *)&v, sizeof v);
  return v;
}

// WarpReduce has one storage for each logical warp.
template <typename T, int WIDTH = 32, int ARCH = 0> struct WarpReduce {
  struct TempStorage {};
  explicit WarpReduce(TempStorage &) {}

  template <typename F> T Reduce(T v, F f, int valid = WIDTH) {
    int rank = emulate::laneOf() % WIDTH;
    unsigned first = emulate::laneOf() / WIDTH * WIDTH;
    unsigned mask = (WIDTH == 32 ? emulate::FULL : (1u << WIDTH % 32) - 1) << first;
    for (int d = 1; d < WIDTH; d *= 2) {
      T other = __shfl_down_sync(mask, v, d, WIDTH);
      if (rank + d < valid && rank % (2 * d) == 0) v = f(v, other);
    }
    return rank == 0 ? v : poison<T>();
  }
  T Sum(T v, int valid = WIDTH) { return Reduce(v, cub::Sum(), valid); }
  T Max(T v, int valid = WIDTH) { return Reduce(v, cub::Max(), valid); }
  T Min(T v, int valid = WIDTH) { return Reduce(v, cub::Min(), valid); }
};

template <typename T, int X, BlockReduceAlgorithm ALGORITHM = BLOCK_REDUCE_WARP_REDUCTIONS, int Y = 1, int Z = 1, int ARCH = 0>
struct BlockReduce {
  static constexpr int THREADS = X * Y * Z, WARPS = (THREADS + 31) / 32;
  struct TempStorage { alignas(T) unsigned char warps[WARPS][sizeof(T)]; };
  TempStorage &storage;
  int rank;

  // Without a storage of the caller's it is one of the block's.
  static TempStorage &own() {
    __shared__ TempStorage storage;
    return storage;
  }
  BlockReduce() : BlockReduce(own()) {}
  explicit BlockReduce(TempStorage &storage) : storage(storage), rank(emulate::running->thread) {}

  template <typename F> T Reduce(T v, F f, int valid = THREADS) {
    if (rank >= THREADS) emulate::fail("cub::BlockReduce is for fewer threads than the block has");
    int warp = rank / 32, left = valid - 32 * warp;
    for (int d = 1; d < 32; d *= 2) {
      T other = __shfl_down_sync(emulate::FULL, v, d);
      if (rank % 32 + d < left && rank % (2 * d) == 0) v = f(v, other);
    }
    if (rank % 32 == 0) memcpy(storage.warps[warp], (void *)&v, sizeof v);
    __syncthreads();
    if (rank > 0) return poison<T>();
    for (int w = 1; w < WARPS && 32 * w < valid; w++) {
      T other;
      memcpy((void *)&other, storage.warps[w], sizeof other);
      v = f(v, other);
    }
    return v;
  }
  template <int N, typename F> T Reduce(T (&v)[N], F f) {
    T all = v[0];
    for (int i = 1; i < N; i++) all = f(all, v[i]);
    return Reduce(all, f);
  }
  T Sum(T v) { return Reduce(v, cub::Sum()); }
  T Sum(T v, int valid) { return Reduce(v, cub::Sum(), valid); }
  template <int N> T Sum(T (&v)[N]) { return Reduce(v, cub::Sum()); }
};

} // namespace cub
#endif
