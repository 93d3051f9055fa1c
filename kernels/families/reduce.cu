// k2: adds up the partial rows of a backward.
//
//   partial (P,N) of P_TYPE, [dw_in (N)] -> out (N) in the weight's type, for dw
//   and, in a second row of the grid, for db
//
// Bytes: P*N partials read, N written. A CTA of REDUCE_WARPS warps owns
// REDUCE_COLS columns; its threads stand side by side on them, REDUCE_VECTOR
// neighbours each, in as many groups of rows as there are threads, and meet in
// shared memory. REDUCE_ROWS partial rows are in flight at a time. The order of all
// sums is fixed. PARTIALS = P and PARTIAL_COLS = N are known when it is compiled: with both as
// arguments it took 600 instructions for 9 rows of a thread, and this is the end of
// the way, when nothing else runs. Fast-LLM's k2 (64 columns by 8 rows) and the six tiles of
// TransformerEngine PR 593 are points of these knobs.
#ifndef PARTIALS
#define PARTIALS 132 // 1 to 2147483647: P
#endif
#ifndef PARTIAL_COLS
#define PARTIAL_COLS 4096 // 1 to 16777216: N
#endif
#ifndef REDUCE_COLS
#define REDUCE_COLS 32 // 8 to 1024, powers of 2: columns of a CTA
#endif
#ifndef REDUCE_ROWS
#define REDUCE_ROWS 128 // 1 to 16384: partial rows in flight
#endif
#ifndef REDUCE_WARPS
#define REDUCE_WARPS 8 // 1 to 32, powers of 2: of a CTA
#endif
#ifndef REDUCE_VECTOR
#define REDUCE_VECTOR 4 // 1 or 4: columns that a thread reads at once
#endif
#ifndef EARLY_REDUCE
#define EARLY_REDUCE 0 // 0 or 1: whether it starts while k1 ends
#endif

#include "common.cuh"
#include "reduce.cuh"

constexpr int RTHREADS = 32 * REDUCE_WARPS;
constexpr int RVEC = REDUCE_COLS % REDUCE_VECTOR == 0 ? REDUCE_VECTOR : 1;
constexpr int ACROSS = imin(REDUCE_COLS / RVEC, RTHREADS); // threads side by side
constexpr int EACH = REDUCE_COLS / RVEC / ACROSS;          // vectors of a thread
constexpr int GROUPS = RTHREADS / ACROSS;
constexpr int ROWS = cdiv(PARTIALS, GROUPS); // of a group; the last of them only some groups have
constexpr int DEPTH = imin(REDUCE_ROWS / GROUPS > 0 ? REDUCE_ROWS / GROUPS : 1, ROWS);
constexpr int MEET = ACROSS < 32 ? REDUCE_WARPS : GROUPS; // groups that meet in shared memory
static_assert(EACH * ACROSS * RVEC == REDUCE_COLS && GROUPS * ACROSS == RTHREADS, "columns and threads divide each other");

extern "C" __global__ void __launch_bounds__(RTHREADS)
reduce(const P *dw_partial, const P *db_partial, const W *dw_in, const W *db_in, W *dw, W *db) {
  __shared__ float part[MEET][REDUCE_COLS];
  const P *in = blockIdx.y == 0 ? dw_partial : db_partial;
  const W *before = blockIdx.y == 0 ? dw_in : db_in;
  W *out = blockIdx.y == 0 ? dw : db;
  int place = threadIdx.x % ACROSS, group = threadIdx.x / ACROSS;
  int first = blockIdx.x * REDUCE_COLS, mine = first + place * RVEC;
  const P *own = in + ((i64)group * PARTIAL_COLS + mine);
  if (EARLY_REDUCE) waitForPrevious();
  float s[EACH][RVEC];
#pragma unroll
  for (int i = 0; i < EACH; i++)
#pragma unroll
    for (int j = 0; j < RVEC; j++) s[i][j] = 0.f;
#pragma unroll 8
  for (int p = 0; p < ROWS; p += DEPTH) {
    float v[DEPTH][EACH][RVEC];
#pragma unroll
    for (int d = 0; d < DEPTH; d++)
#pragma unroll
      for (int i = 0; i < EACH; i++) {
        bool in_rows = (p + d + 1) * GROUPS <= PARTIALS || group + (p + d) * GROUPS < PARTIALS;
        bool in_cols = PARTIAL_COLS % REDUCE_COLS == 0 || mine + i * ACROSS * RVEC < PARTIAL_COLS;
        loadPartials<RVEC>(in_rows && in_cols ? own + ((i64)(p + d) * GROUPS * PARTIAL_COLS + i * ACROSS * RVEC) : nullptr, v[d][i]);
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
    if (first + i < PARTIAL_COLS) {
      if (before) sum += at<W_TYPE>(before + first + i);
      put<W_TYPE>(out + first + i, sum);
    }
  }
}
