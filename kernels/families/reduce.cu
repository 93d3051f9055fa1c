// k2: adds up the partial rows of a backward.
//
//   partial (P,N) of P_TYPE, [dw_in (N)] -> out (N) in the weight's type, for dw
//   and, in a second row of the grid, for db
//
// Bytes: P*N partials read, N written. A program of REDUCE_WARPS warps owns
// REDUCE_COLS columns; its threads stand side by side on them, REDUCE_VECTOR
// neighbours each, in as many groups of rows as there are threads, and meet in
// shared memory. REDUCE_ROWS partial rows are in flight at a time. The order of all
// sums is fixed. Fast-LLM's k2 (64 columns by 8 rows) and the six tiles of
// TransformerEngine PR 593 are points of these knobs.
#include "common.cuh"
#include "reduce.cuh"

constexpr int RTHREADS = 32 * REDUCE_WARPS;
constexpr int RVEC = REDUCE_COLS % REDUCE_VECTOR == 0 ? REDUCE_VECTOR : 1;
constexpr int ACROSS = imin(REDUCE_COLS / RVEC, RTHREADS); // threads side by side
constexpr int EACH = REDUCE_COLS / RVEC / ACROSS;          // vectors of a thread
constexpr int GROUPS = RTHREADS / ACROSS;
constexpr int DEPTH = REDUCE_ROWS / GROUPS > 0 ? REDUCE_ROWS / GROUPS : 1;
constexpr int MEET = ACROSS < 32 ? REDUCE_WARPS : GROUPS; // groups that meet in shared memory
static_assert(EACH * ACROSS * RVEC == REDUCE_COLS && GROUPS * ACROSS == RTHREADS, "columns and threads divide each other");

extern "C" __global__ void __launch_bounds__(RTHREADS)
reduce(const P *dw_partial, const P *db_partial, const W *dw_in, const W *db_in, W *dw, W *db, i64 partials, i64 cols) {
  __shared__ float part[MEET][REDUCE_COLS];
  const P *in = blockIdx.y == 0 ? dw_partial : db_partial;
  const W *before = blockIdx.y == 0 ? dw_in : db_in;
  W *out = blockIdx.y == 0 ? dw : db;
  if (EARLY_REDUCE) waitForPrevious();
  int place = threadIdx.x % ACROSS, group = threadIdx.x / ACROSS;
  i64 first = (i64)blockIdx.x * REDUCE_COLS;
  float s[EACH][RVEC];
#pragma unroll
  for (int i = 0; i < EACH; i++)
#pragma unroll
    for (int j = 0; j < RVEC; j++) s[i][j] = 0.f;
  for (i64 p = group; p < partials; p += GROUPS * DEPTH) {
    float v[DEPTH][EACH][RVEC];
#pragma unroll
    for (int d = 0; d < DEPTH; d++)
#pragma unroll
      for (int i = 0; i < EACH; i++) {
        i64 row = p + d * GROUPS, c = first + (i * ACROSS + place) * RVEC;
        bool in_range = row < partials && c < cols;
        loadPartials<RVEC>(in_range ? in + row * cols + c : nullptr, v[d][i]);
      }
#pragma unroll
    for (int d = 0; d < DEPTH; d++)
#pragma unroll
      for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < RVEC; j++) s[i][j] += v[d][i][j];
  }
  // The groups of a warp meet by shuffles, which leaves fewer for shared memory.
#pragma unroll
  for (int d = ACROSS; d < 32; d *= 2)
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
      for (int j = 0; j < RVEC; j++) s[i][j] += __shfl_xor_sync(0xffffffffu, s[i][j], d);
  if (threadIdx.x % 32 < ACROSS)
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
      for (int j = 0; j < RVEC; j++) part[ACROSS < 32 ? threadIdx.x / 32 : group][(i * ACROSS + place) * RVEC + j] = s[i][j];
  __syncthreads();
  for (int i = threadIdx.x; i < REDUCE_COLS; i += RTHREADS) {
    float sum = 0.f;
#pragma unroll
    for (int g = 0; g < MEET; g++) sum += part[g][i];
    if (first + i < cols) {
      if (before) sum += at<W_TYPE>(before + first + i);
      put<W_TYPE>(out + first + i, sum);
    }
  }
}
