// k2: adds up the partial rows of a backward.
//
//   partial (P,N) fp32 -> out (N) in the weight's type, for dw and, in a second
//   row of the grid, for db
//
// Bytes: 4*P*N read, N written. A program of 32*REDUCE_ROWS threads owns
// REDUCE_COLS columns, 32 threads side by side on them; REDUCE_ROWS groups of
// threads take every REDUCE_ROWS-th partial row and meet in shared memory. The
// order of all sums is fixed.
#include "common.cuh"

constexpr int PER_THREAD = REDUCE_COLS / 32;
static_assert(PER_THREAD * 32 == REDUCE_COLS, "columns come in warps");

__device__ __forceinline__ void put(W *out, float v) {
#if W_TYPE == 0
  *out = v;
#else
  float one[1] = {v};
  *out = (W)pack<W_TYPE, 1>(one).word[0];
#endif
}

extern "C" __global__ void __launch_bounds__(32 * REDUCE_ROWS)
reduce(const float *dw_partial, const float *db_partial, W *dw, W *db, i64 partials, i64 cols) {
  __shared__ float part[REDUCE_ROWS][REDUCE_COLS];
  const float *in = blockIdx.y == 0 ? dw_partial : db_partial;
  W *out = blockIdx.y == 0 ? dw : db;
  int lane = threadIdx.x % 32, group = threadIdx.x / 32;
  i64 first = (i64)blockIdx.x * REDUCE_COLS;
  float s[PER_THREAD];
#pragma unroll
  for (int i = 0; i < PER_THREAD; i++) s[i] = 0.f;
#pragma unroll 4
  for (i64 p = group; p < partials; p += REDUCE_ROWS)
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
      i64 c = first + i * 32 + lane;
      if (c < cols) s[i] += __ldg(in + p * cols + c);
    }
#pragma unroll
  for (int i = 0; i < PER_THREAD; i++) part[group][i * 32 + lane] = s[i];
  __syncthreads();
  for (int i = threadIdx.x; i < REDUCE_COLS; i += 32 * REDUCE_ROWS) {
    float sum = 0.f;
#pragma unroll
    for (int g = 0; g < REDUCE_ROWS; g++) sum += part[g][i];
    if (first + i < cols) put(out + first + i, sum);
  }
}
