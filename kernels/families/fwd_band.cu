// Forward to fp8 and its transpose, one pass: bands of rows in registers, their bytes
// turned through shared memory.
//
//   x (M,N), [w (N)], [b (N)], scale ->
//     y (M,N), yt (N,M), rstd (M) fp32, [mean (M) fp32], amax, scale_inv
//
// Bytes: x once, y and yt once; w and b once per program. A design with a transpose of its
// own reads y again.
//
// The L2 takes as long for 32 bytes of a line as for 64, so rows of yt are to be written 64
// bytes at a time: 64 rows of x, 128 KiB of a slice of 1024 columns. tile keeps a band in
// shared memory until its bytes have left, and has no room for another beside it then. Here
// the programs of a cluster share a band by columns, a warp has BLOCK_ROWS/WARPS rows of the
// slice, and
//
//   1. takes them from shared memory to registers, where they stay, and has the rows of the
//      next band brought to their place at once (bulk copies on a barrier of the warp): reading
//      goes on whatever comes now;
//   2. adds up its part of each row, so that lane l has the sum of row l % ROWS, and exchanges
//      that with the warps of its rows in the other programs; in layernorm the sum, and squares
//      centred on its mean, which Chan's formula merges;
//   3. writes y, and leaves the bytes in shared memory.
//   4. When all have, each thread takes 16 rows of 4 columns, turns them 4 by 4, and writes 16
//      bytes each to 4 rows of yt, lanes for all BLOCK_ROWS of them side by side.
//
// With STAGES 2, steps 1 and 2 of the next band come ahead of step 4: its sums are under way
// meanwhile. Two barriers of the program a band, around 4. amax is cleared by a launch of its
// own, which this one does not wait for until it has an amax.
//
// It is instructions, and few warps to hide their latency, that bound it as much as memory: by
// ncu's samples (H200, 8192x8192) warps waited for x in 1% of them, for others' sums in 7 and at
// the two barriers in 12. So what one lane can do for a row is not done by all of them (2), and
// addresses of whole bands are constants (3).
#include "common.cuh"
#include "pipe.cuh"
#include "bytes.cuh"

constexpr int SLICE = COLS / CLUSTER;      // columns of a program
constexpr int L = SLICE / (32 * VEC);      // vectors of a row in a lane
constexpr int ROWS = BLOCK_ROWS / WARPS;   // of a warp
constexpr int ROW = SLICE * sizeof(X);     // bytes of x
constexpr int DOWN = BLOCK_ROWS / 16;      // threads side by side on a row of yt, 16 bytes each
constexpr int K = LAYERNORM ? 2 : 1;       // sums of a row
static_assert(Y_TYPE == E4M3 && TRANSPOSED && !RESIDUAL, "bytes turn four by four, for yt");
static_assert(SLICE * CLUSTER == COLS && SLICE % (32 * VEC) == 0 && SLICE % 128 == 0, "slices of whole vectors for all lanes");
static_assert(ROWS * WARPS == BLOCK_ROWS && BLOCK_ROWS % 32 == 0 && DOWN <= 8, "32, 64 or 128 rows");

extern __shared__ __align__(128) char shared[]; // BLOCK_ROWS rows of x, as many of bytes, w, b

__shared__ Barrier full[WARPS];
#if CLUSTER > 1
__shared__ float sums[2][CLUSTER][K][BLOCK_ROWS]; // those of the cluster's programs
__shared__ Barrier met[2][WARPS];
#endif

__device__ __forceinline__ char *bytesOf(int row) { return shared + BLOCK_ROWS * ROW + row * SLICE; }
__device__ __forceinline__ W *paramsOf(int which) { return (W *)(shared + BLOCK_ROWS * (ROW + SLICE)) + which * SLICE; }

// turnedAt is where a row's bytes of column c on, a multiple of 4, are: exchanged by the row's
// place among the threads of a row of yt, which then meet all banks.
__device__ __forceinline__ int turnedAt(int row, int c) { return c ^ row / 16 * (128 / DOWN); }

// Sums are a row's over some columns: of squares, in layernorm beside the sum of the
// elements and centred on their mean.
struct Sums { float all, squares; };

// merge adds those of n more columns to those of before. (Chan, Golub and LeVeque 1983. Sums
// and not means are kept, as an infinity stays one in them.)
__device__ __forceinline__ void merge(Sums &a, float before, Sums b, float n) {
  a.squares += b.squares;
  if (LAYERNORM) {
    float d = b.all * (1.0f / n) - a.all * (1.0f / before);
    a.squares += d * d * (before * n / (before + n));
    a.all += b.all;
  }
}

// turnSums adds each of p over the lanes; lane l gets the sum of p[l % ROWS]. Steps over the
// rows halve them.
template <int D = ROWS / 2> __device__ __forceinline__ float turnSums(float (&p)[ROWS], int lane) {
  if constexpr (D > 0) {
    bool high = lane & D;
#pragma unroll
    for (int i = 0; i < D; i++) {
      float give = high ? p[i] : p[i + D], keep = high ? p[i + D] : p[i];
      p[i] = keep + __shfl_xor_sync(0xffffffffu, give, D);
    }
    return turnSums<D / 2>(p, lane);
  } else {
#pragma unroll
    for (int d = ROWS; d < 32; d *= 2) p[0] += __shfl_xor_sync(0xffffffffu, p[0], d);
    return p[0];
  }
}

// leave normalizes the warp's rows, writes y (out is the lane's place in the first of them), and
// leaves the bytes in shared memory. FULL says that all rows are there: without a branch at each
// the addresses of a lane are one and constants.
template <bool FULL>
__device__ __forceinline__ void leave(const RowVec (&r)[ROWS][L], const float (&rs)[ROWS], const float (&mu)[ROWS], float by, Y *out, char *bytes,
                                      int lane, int live, float &most) {
  static_assert(ROWS <= 16 && 32 * VEC % 128 == 0, "one exchange of bytes for all rows and vectors of a lane");
  float top[ROWS], to[ROWS];
#pragma unroll
  for (int n = 0; n < ROWS; n++) top[n] = 0.f, to[n] = HAS_BIAS ? by : rs[n] * by;
#pragma unroll
  for (int i = 0; i < L; i++) {
    float wf[VEC], bf[VEC];
    weights(HAS_WEIGHT ? loadShared<W_BYTES>(paramsOf(0) + (i * 32 + lane) * VEC) : zero<W_BYTES>(), wf);
    if (HAS_BIAS) unpack<W_TYPE, VEC>(loadShared<W_BYTES>(paramsOf(1) + (i * 32 + lane) * VEC), bf);
#pragma unroll
    for (int n = 0; n < ROWS; n++) {
      float f[VEC];
      unpackX(r[n][i], f);
#pragma unroll
      for (int j = 0; j < VEC; j++) {
        f[j] = (LAYERNORM ? f[j] - mu[n] : f[j]) * wf[j];
        if (HAS_BIAS) f[j] = f[j] * rs[n] + bf[j];
        top[n] = largest(top[n], f[j]); // without a bias, rstd is one for all of the row
        f[j] *= to[n];
      }
      Raw<VEC> packed = pack<Y_TYPE, VEC>(f);
      storeShared<VEC>(bytes + n * SLICE + i * 32 * VEC, packed);
      if (FULL || n < live) store<VEC>(out + n * COLS + i * 32 * VEC, packed);
    }
  }
#pragma unroll
  for (int n = 0; n < ROWS; n++)
    if (FULL || n < live) most = largest(most, HAS_BIAS ? top[n] : top[n] * rs[n]);
}

// sumsOf are those of row lane % ROWS over the slice. A lane adds up its part of every row, in
// layernorm centred on its own mean (with that of the row, another pass, the compiler kept the
// floats of all rows: 628 bytes spilled), and then has one row: what follows is done once for all
// rows, and not for each by all lanes.
__device__ __forceinline__ Sums sumsOf(const RowVec (&r)[ROWS][L], int lane) {
  float part[ROWS], mu[ROWS];
#pragma unroll
  for (int n = 0; n < ROWS; n++) {
    float f[VEC];
    mu[n] = part[n] = 0.f;
    if (LAYERNORM) {
#pragma unroll
      for (int i = 0; i < L; i++) {
        unpackX(r[n][i], f);
#pragma unroll
        for (int j = 0; j < VEC; j++) mu[n] += f[j];
      }
      mu[n] *= 1.0f / (L * VEC);
    }
#pragma unroll
    for (int i = 0; i < L; i++) {
      unpackX(r[n][i], f);
#pragma unroll
      for (int j = 0; j < VEC; j++) part[n] += (f[j] - mu[n]) * (f[j] - mu[n]);
    }
  }
  Sums s = {0.f, 0.f};
  if (LAYERNORM) {
    float sum[ROWS];
#pragma unroll
    for (int n = 0; n < ROWS; n++) sum[n] = mu[n] * (L * VEC);
    s.all = turnSums(sum, lane);
#pragma unroll
    for (int n = 0; n < ROWS; n++) {
      float off = mu[n] - __shfl_sync(0xffffffffu, s.all * (1.0f / SLICE), n);
      part[n] += L * VEC * (off * off);
    }
  }
  s.squares = turnSums(part, lane);
  return s;
}

#if CLUSTER > 1
// send brings a warp's sums to the warps of its rows in all programs, receive merges theirs. Each
// buffer is used in turns: who writes one again has got the round between from all, who sent it
// when they had read this one.
__device__ __forceinline__ void send(Sums s, int round, int rank, int warp, int lane) {
  int slot = round & 1, mine = warp * ROWS + lane % ROWS;
  if (lane == 0) expectBytes(&met[slot][warp], CLUSTER * K * ROWS * 4);
#pragma unroll
  for (int to = lane / ROWS; to < CLUSTER; to += 32 / ROWS) {
    u32 there = onRank(&met[slot][warp], to);
    sendFloat(onRank(&sums[slot][rank][K - 1][mine], to), s.squares, there);
    if (LAYERNORM) sendFloat(onRank(&sums[slot][rank][0][mine], to), s.all, there);
  }
}

__device__ __forceinline__ Sums receive(int round, int warp, int lane) {
  int slot = round & 1, mine = warp * ROWS + lane % ROWS;
  waitBarrier(&met[slot][warp], round >> 1 & 1);
  Sums s = {sums[slot][0][0][mine], sums[slot][0][K - 1][mine]};
#pragma unroll
  for (int q = 1; q < CLUSTER; q++) merge(s, q * SLICE, {sums[slot][q][0][mine], sums[slot][q][K - 1][mine]}, SLICE);
  return s;
}
#endif

// turnBand writes the slice's bytes of a band to yt, at its first column and row: of live rows or
// more. A thread has 16 of them and 4 columns.
__device__ __forceinline__ void turnBand(Y *yt, i64 rows, i64 live) {
#pragma unroll 1
  for (int u = threadIdx.x; u < SLICE / 4 * DOWN; u += THREADS) {
    int piece = u % DOWN, c = u / DOWN * 4;
    if (16 * piece >= live) continue;
    Raw<16> four[4]; // of four rows each: a word to a column
#pragma unroll
    for (int q = 0; q < 4; q++) {
      const char *from = bytesOf(16 * piece + 4 * q) + turnedAt(16 * piece, c);
      four[q] = turn(*(const u32 *)from, *(const u32 *)(from + SLICE), *(const u32 *)(from + 2 * SLICE), *(const u32 *)(from + 3 * SLICE));
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
      Raw<16> out = {four[0].word[j], four[1].word[j], four[2].word[j], four[3].word[j]};
      store<16>(yt + (c + j) * rows + 16 * piece, out);
    }
  }
}

// clear makes amax zero, ahead of band, which starts beside it.
extern "C" __global__ void clear(float *amax) {
  letNextStart();
  if (threadIdx.x == 0) *amax = 0.f;
}

extern "C" __global__ void BOUNDS(THREADS)
band(const X *x, const X *, const W *w, const W *b, Y *y, X *, float *rstd, float *mean, i64 rows, float eps, const float *scale, float *amax,
     float *scale_inv, Y *yt) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, rank = blockIdx.x % CLUSTER, own = warp * ROWS;
  i64 first = (i64)(blockIdx.x / CLUSTER) * BLOCK_ROWS, stride = (i64)(gridDim.x / CLUSTER) * BLOCK_ROWS;
  char *held = shared + own * ROW, *bytes = bytesOf(own) + turnedAt(own, lane * VEC);
  // liveAt is how many of the warp's rows of the band at row from there are.
  auto liveAt = [&](i64 from) {
    i64 n = rows - from - own;
    return (int)(n < 0 ? 0 : n < ROWS ? n : ROWS);
  };
  auto fetch = [&](i64 from) {
    int live = liveAt(from);
    if (live == 0) return;
    if (lane == 0) expectBytes(&full[warp], live * ROW);
    __syncwarp();
    if (lane < live) bulkRow(held + lane * ROW, x + (from + own + lane) * COLS + rank * SLICE, ROW, &full[warp]);
  };
  if (lane == 0) {
    initBarrier(&full[warp], 1);
#if CLUSTER > 1
    initBarrier(&met[0][warp], 1);
    initBarrier(&met[1][warp], 1);
#endif
    fenceBarriers();
  }
  __syncthreads();
  fetch(first);
  for (int c = threadIdx.x; c < SLICE; c += THREADS) {
    if (HAS_WEIGHT) paramsOf(0)[c] = w[rank * SLICE + c];
    if (HAS_BIAS) paramsOf(1)[c] = b[rank * SLICE + c];
  }
#if CLUSTER > 1
  clusterSync(); // nobody sends before all barriers are there
#else
  __syncthreads();
#endif

  float by = __ldg(scale), most = 0.f;
  RowVec r[ROWS][L];
  Sums s;
  // take brings the rows of a band to registers, and their sums on their way.
  auto take = [&](i64 from, int round) {
    if (liveAt(from) > 0) waitBarrier(&full[warp], round & 1);
#pragma unroll
    for (int n = 0; n < ROWS; n++)
#pragma unroll
      for (int i = 0; i < L; i++) r[n][i] = loadShared<VECTOR_BYTES>(held + n * ROW + (i * 32 + lane) * VECTOR_BYTES);
    fenceShared();
    __syncwarp(); // all have read the rows
    fetch(from + stride);
    s = sumsOf(r, lane);
#if CLUSTER > 1
    send(s, round, rank, warp, lane);
#endif
  };
  if (STAGES == 2) take(first, 0);
  for (int round = 0; first < rows; first += stride, round++) {
    int live = liveAt(first);
    if (STAGES == 1) take(first, round);
#if CLUSTER > 1
    s = receive(round, warp, lane);
#endif
    float rstdOwn = 1.0f / sqrtf(s.squares * INV_COLS + eps), meanOwn = s.all * INV_COLS, rs[ROWS], mu[ROWS];
    if (rank == 0 && lane < live) {
      rstd[first + own + lane] = rstdOwn;
      if (LAYERNORM) mean[first + own + lane] = meanOwn;
    }
#pragma unroll
    for (int n = 0; n < ROWS; n++) {
      rs[n] = __shfl_sync(0xffffffffu, rstdOwn, n);
      mu[n] = LAYERNORM ? __shfl_sync(0xffffffffu, meanOwn, n) : 0.f;
    }
    Y *out = y + (first + own) * COLS + rank * SLICE + lane * VEC;
    if (live == ROWS) leave<true>(r, rs, mu, by, out, bytes, lane, live, most);
    else leave<false>(r, rs, mu, by, out, bytes, lane, live, most);
    if (STAGES == 2 && first + stride < rows) take(first + stride, round + 1);
    __syncthreads(); // all bytes are there
    turnBand(yt + (i64)rank * SLICE * rows + first, rows, rows - first);
    __syncthreads(); // and have left
  }
  waitForPrevious(); // who clears amax
  amaxOver(amax, magnitude(most));
  if (blockIdx.x == 0 && threadIdx.x == 0) *scale_inv = 1.0f / by;
#if CLUSTER > 1
  clusterSync(); // a program that ends takes its shared memory with it
#endif
}
