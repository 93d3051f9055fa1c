// Forward, one pass: a group of threads holds a whole row in registers.
//
//   x (M,N), [res (M,N)], [w (N)], [b (N)], [scale] ->
//     y (M,N), [resout (M,N)], rstd (M) fp32, [mean (M) fp32], [amax, scale_inv, yt (N,M)]
//
// Read fwd_one_row.cu first: one CTA holds one row in registers, in vectors. Here a CTA may have several
// rows at a time, and may load the next ones before it finishes these. Layernorm, a residual, rows of
// any length and fp8 are here too. fwd_row.cuh knows how rows lie in memory, fwd_output.cuh how y is
// written.
//
// Bytes: x (and res) once, y (and resout) once; w stays in L1/L2. A CTA of
// WARPS warps handles BLOCK_ROWS rows at a time, WARPS*32/BLOCK_ROWS threads to
// a row; each thread holds L vectors of it, packed as they came. Layernorm takes
// the mean first and then the centred squares, as the row is at hand. With fewer
// CTAs than tiles of rows, CTAs stride over the tiles; STAGES = 2 then
// loads the next tile's rows before it finishes this one's.
//
// With HOIST the weight and the bias are read once per CTA, while its first rows are on their way.
// Without, they are read for each row, after the reduction. ROCm TransformerEngine did the latter
// before its PR 593, and does the former since. It hoists the weight widened, with the one of
// zero-centered weights added. Here it stays packed, at half the registers, and is widened per row.
//
// With a residual the statistics and y come from the fp32 sum x + res; only
// resout is rounded.
//
// A RAGGED row is read by the aligned vectors around it (ragged.cuh), and its weights are cut out of
// two vectors each, by the row's shift. HOIST cuts them once, by that of the thread's first row.
// fwd_cta_reg.yaml rounds the number of CTAs so that a thread's rows have one shift, or refuses HOIST.
#ifndef COLS
#define COLS 4096 // 1 to 16777216: N
#endif
#ifndef WARPS
#define WARPS 4 // 1 to 32, powers of 2: of a CTA
#endif
#ifndef VECTOR_BYTES
#define VECTOR_BYTES 16 // 2 to 16, powers of 2: of a thread's load or store
#endif
#ifndef BLOCK_ROWS
#define BLOCK_ROWS 1 // 1 to 64, powers of 2: rows of a CTA
#endif
#ifndef STAGES
#define STAGES 1 // 1 or 2: tiles in flight
#endif
#ifndef HOIST
#define HOIST 1 // 0 or 1: whether the weight is read once per CTA
#endif
#ifndef TRANSPOSE_PATH
#define TRANSPOSE_PATH 0 // 0 or 1: 0 writes yt here, 1 leaves it to transpose.cu
#endif

#include "common.cuh"
#include "ragged.cuh"
#include "ragged_fwd.cuh"

constexpr int TPR = THREADS / BLOCK_ROWS; // threads of a row
constexpr int L = cdiv(ROW_VECS, TPR);    // vectors of a thread
constexpr bool HOLD = HOIST;              // its name in fwd_row.cuh

// A Place says where a thread stands: row group of the CTA's tile, and vectors lane, lane + TPR and so
// on of that row.
struct Place {
  u32 group = threadIdx.x / TPR;
  int lane = threadIdx.x % TPR;

  // threadIdx.x in place of lane, as it is unsigned: 2005 columns with a residual take 1256
  // instructions, and took 1334 with lane (sm_90).
  __device__ __forceinline__ bool inside(int i) const { return ROW_VECS % TPR == 0 || threadIdx.x % TPR + i * TPR < ROW_VECS; }
  __device__ __forceinline__ int column(int i) const { return (lane + i * TPR) * VEC; }
  static constexpr int endOf(int i) { return (i + 1) * TPR * VEC; }
};

#include "fwd_row.cuh"
#include "fwd_output.cuh"

typedef Either<Y_TYPE != E4M3, PlainOutput, Either<TRANSPOSED && TRANSPOSE_PATH == 0, TransposedOutput, FP8Output>::type>::type Output;

// A Row holds the part of a row that a thread has. x and res are its vectors, packed as they came. With a residual
// addResidual makes their fp32 sums, and x and res are not used any more. Of 16 bits, two packed vectors
// take as many registers as their sum. The methods' argument row is the same row's place in memory.
struct Row {
  RowVec x[L], res[RESIDUAL ? L : 1];
  float sum[RESIDUAL ? L : 1][VEC];

  // fetch loads the row, or zeros where there is none.
  __device__ __forceinline__ void fetch(const X *from, const X *residual, const RowLayout &row, bool live) {
#pragma unroll
    for (int i = 0; i < L; i++) {
      bool there = live && row.inside(i);
      x[i] = there ? row.load(from, i) : zero<VECTOR_BYTES>();
      if (RESIDUAL) res[i] = there ? row.load(residual, i) : zero<VECTOR_BYTES>();
    }
  }

  // addResidual makes the sums, and writes them to resout where the row is live.
  __device__ __forceinline__ void addResidual(X *resout, const RowLayout &row, bool live) {
#pragma unroll
    for (int i = 0; i < L; i++) {
      float g[VEC];
      unpackX(x[i], sum[i]);
      unpackX(res[i], g);
#pragma unroll
      for (int j = 0; j < VEC; j++) sum[i][j] += g[j];
      if (live && row.inside(i)) row.store(resout, i, pack<X_TYPE, VEC>(sum[i]));
    }
  }

  // read returns the values of vector i that are normalized.
  __device__ __forceinline__ void read(int i, float (&f)[VEC]) const {
    if (RESIDUAL)
#pragma unroll
      for (int j = 0; j < VEC; j++) f[j] = sum[i][j];
    else unpackX(x[i], f);
  }

  // sumValues and sumSquares add up what the thread has: its values, or their squares around mu. Zeros
  // that are none of the row (vectors behind its end, neighbours' elements) add nothing to values. Around
  // a mean they would, so sumSquares leaves such vectors out, and clear sets such elements to mu.
  __device__ __forceinline__ float sumValues() const {
    float s = 0.f, f[VEC];
#pragma unroll
    for (int i = 0; i < L; i++) {
      read(i, f);
#pragma unroll
      for (int j = 0; j < VEC; j++) s += f[j];
    }
    return s;
  }
  __device__ __forceinline__ float sumSquares(const RowLayout &row, float mu) const {
    float s = 0.f, f[VEC];
#pragma unroll
    for (int i = 0; i < L; i++)
      if (row.inside(i)) {
        read(i, f);
        if (LAYERNORM) row.clear(f, i, mu);
        addSquares(s, f, mu);
      }
    return s;
  }
};

// cta_reg has a tile of rows in registers, a row for each group of threads. It makes their sums, writes y
// and loads the next tile into the registers that are free then. With STAGES 2 it has a second Row, and
// begins to load that before the sums. All threads of a CTA take
// part in a sum, so all groups go round equally often. A group without a row has zeros, and is not live.
extern "C" __global__ void BOUNDS(THREADS)
cta_reg(const X *x, const X *res, const W *w, const W *b, OutputTensors to, X *resout, float *rstd, float *mean, i64 rows, float eps) {
  Place at;
  Tiles tiles(rows);
  i64 n = tiles.first + at.group; // the number of the thread's row; first, below, is that of the tile's first
  Output output(to, rows);
  Row row;
  row.fetch(x, res, RowLayout(at, n), n < tiles.end);
  Parameters parameters(w, b, RowLayout(at, n));
  int phase = 0;
  for (i64 first = tiles.first; first < tiles.end; first += tiles.stride, n += tiles.stride) {
    RowLayout layout(at, n);
    bool live = n < tiles.end;
    Row next;
    if (STAGES == 2) next.fetch(x, res, RowLayout(at, n + tiles.stride), n + tiles.stride < tiles.end);

    if (RESIDUAL) row.addResidual(resout, layout, live);
    float mu = LAYERNORM ? sumRow(row.sumValues(), 0) * INV_COLS : 0.f;
    // Two reductions, one after the other, need different phases (sumOver). Layernorm has two in a tile,
    // of phase 0 and 1. Rmsnorm has one, whose phase changes from tile to tile.
    float squares = sumRow(row.sumSquares(layout, mu), LAYERNORM ? 1 : phase);
    phase ^= 1;
    float rs = 1.0f / sqrtf(squares * INV_COLS + eps);

    if (live) {
      if (at.lane == 0) saveStatistics(rstd, mean, n, rs, mu);
      parameters.stayPacked();
#pragma unroll
      for (int i = 0; i < L; i++)
        if (layout.inside(i)) {
          float f[VEC];
          row.read(i, f);
#pragma unroll
          for (int j = 0; j < VEC; j++) f[j] = (f[j] - mu) * rs;
          parameters.apply(f, layout, i);
          output.write(f, layout, i);
        }
    }
    if (STAGES == 2) row = next;
    else if (first + tiles.stride < tiles.end) row.fetch(x, res, RowLayout(at, n + tiles.stride), n + tiles.stride < tiles.end);
  }
  output.finish();
}
