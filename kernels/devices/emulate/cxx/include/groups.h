// Cooperative groups, as far as norms use them: blocks, tiles of a warp, their shuffles and reductions.
// The lanes of a tile meet by themselves: what other lanes of the warp do at the time does not count.
#ifndef EMULATE_GROUPS
#define EMULATE_GROUPS
#include <functional>

namespace cooperative_groups {

struct thread_block {
  static void sync() { __syncthreads(); }
  static unsigned thread_rank() { return emulate::running->thread; }
  static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
  static unsigned num_threads() { return size(); }
  static dim3 group_index() { return blockIdx; }
  static dim3 thread_index() { return threadIdx; }
  static dim3 group_dim() { return blockDim; }
  static dim3 dim_threads() { return blockDim; }
};
inline thread_block this_thread_block() { return {}; }

// A tile is the neighbouring SIZE lanes of a warp. One of more than a warp is refused.
template <unsigned SIZE, typename PARENT = void> struct thread_block_tile {
  static_assert(SIZE > 0 && SIZE <= 32 && (SIZE & (SIZE - 1)) == 0, "the emulator has no tiles of more than a warp");
  thread_block_tile() = default;
  template <typename OTHER> thread_block_tile(const thread_block_tile<SIZE, OTHER> &) {}
  static unsigned mask() { return (SIZE == 32 ? emulate::FULL : (1u << SIZE % 32) - 1) << emulate::laneOf() / SIZE * SIZE; }
  static unsigned thread_rank() { return emulate::running->thread % SIZE; }
  static constexpr unsigned size() { return SIZE; }
  static constexpr unsigned num_threads() { return SIZE; }
  static unsigned meta_group_rank() { return emulate::running->thread / SIZE; }
  static unsigned meta_group_size() { return (thread_block::size() + SIZE - 1) / SIZE; }
  static void sync() { __syncwarp(mask()); }
  template <typename T> static T shfl(T v, int from) { return __shfl_sync(mask(), v, from, SIZE); }
  template <typename T> static T shfl_down(T v, unsigned d) { return __shfl_down_sync(mask(), v, d, SIZE); }
  template <typename T> static T shfl_up(T v, unsigned d) { return __shfl_up_sync(mask(), v, d, SIZE); }
  template <typename T> static T shfl_xor(T v, unsigned d) { return __shfl_xor_sync(mask(), v, d, SIZE); }
  static int any(int v) { return __any_sync(mask(), v); }
  static int all(int v) { return __all_sync(mask(), v); }
  static unsigned ballot(int v) { return __ballot_sync(mask(), v) >> emulate::laneOf() / SIZE * SIZE; }
};
template <unsigned SIZE, typename PARENT> thread_block_tile<SIZE, PARENT> tiled_partition(const PARENT &) { return {}; }

template <typename T> struct plus { T operator()(T a, T b) const { return a + b; } };
template <typename T> struct less { T operator()(T a, T b) const { return b < a ? b : a; } };
template <typename T> struct greater { T operator()(T a, T b) const { return a < b ? b : a; } };
template <typename T> struct bit_and { T operator()(T a, T b) const { return a & b; } };
template <typename T> struct bit_or { T operator()(T a, T b) const { return a | b; } };
template <typename T> struct bit_xor { T operator()(T a, T b) const { return a ^ b; } };

// reduce gives all lanes of a tile the same.
template <unsigned SIZE, typename PARENT, typename T, typename F>
T reduce(const thread_block_tile<SIZE, PARENT> &tile, T v, F f) {
  for (unsigned d = SIZE / 2; d > 0; d /= 2) v = f(v, tile.shfl_xor(v, d));
  return v;
}
template <typename GROUP> void sync(const GROUP &group) { group.sync(); }

} // namespace cooperative_groups
#endif
