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
//   2. adds up its part of each row and exchanges that with the warps of its rows in the other
//      programs; in layernorm the slice's sum, and squares centred on its mean, which Chan's
//      formula merges;
//   3. writes y, and leaves the bytes in shared memory.
//   4. When all have, each thread takes 16 rows of 4 columns, turns them 4 by 4, and writes 16
//      bytes each to 4 rows of yt, lanes for all BLOCK_ROWS of them side by side.
//
// Two barriers of the program a band, around 4. amax is cleared by a launch of its own, which
// this one does not wait for until it has an amax.
#include "common.cuh"
#include "pipe.cuh"

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
    float d = b.all / n - a.all / before;
    a.squares += d * d * (before * n / (before + n));
    a.all += b.all;
  }
}

// largest is max(a, |b|), NaN if one is.
__device__ __forceinline__ float largest(float a, float b) {
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(a) : "f"(fabsf(b)));
  return a;
}

// turn makes rows of columns: word j of the result holds byte j of each of a to d.
__device__ __forceinline__ Raw<16> turn(u32 a, u32 b, u32 c, u32 d) {
  Raw<16> out;
  u32 ab = __byte_perm(a, b, 0x5140), cd = __byte_perm(c, d, 0x5140);
  out.word[0] = __byte_perm(ab, cd, 0x5410);
  out.word[1] = __byte_perm(ab, cd, 0x7632);
  ab = __byte_perm(a, b, 0x7362), cd = __byte_perm(c, d, 0x7362);
  out.word[2] = __byte_perm(ab, cd, 0x5410);
  out.word[3] = __byte_perm(ab, cd, 0x7632);
  return out;
}

// clear makes amax zero, ahead of band, which starts beside it.
extern "C" __global__ void clear(float *amax) {
  letNextStart();
  *amax = 0.f;
}

extern "C" __global__ void BOUNDS(THREADS)
band(const X *x, const X *, const W *w, const W *b, Y *y, X *, float *rstd, float *mean, i64 rows, float eps, const float *scale, float *amax,
     float *scale_inv, Y *yt) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, rank = blockIdx.x % CLUSTER, own = warp * ROWS;
  i64 first = (i64)(blockIdx.x / CLUSTER) * BLOCK_ROWS, stride = (i64)(gridDim.x / CLUSTER) * BLOCK_ROWS;
  char *held = shared + own * ROW;
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
  u32 parity = 0;
  int round = 0;
  for (; first < rows; first += stride, round++) {
    int live = liveAt(first);
    if (live > 0) waitBarrier(&full[warp], parity);
    parity ^= 1;
    RowVec r[ROWS][L];
#pragma unroll
    for (int n = 0; n < ROWS; n++)
#pragma unroll
      for (int i = 0; i < L; i++) r[n][i] = loadShared<VECTOR_BYTES>(held + n * ROW + (i * 32 + lane) * VECTOR_BYTES);
    fenceShared();
    __syncwarp(); // all have read the rows
    fetch(first + stride);

    Sums s[ROWS];
#pragma unroll
    for (int n = 0; n < ROWS; n++) {
      float f[VEC], v[1] = {0.f}, mu = 0.f;
      s[n].all = 0.f;
      if (LAYERNORM) {
#pragma unroll
        for (int i = 0; i < L; i++) {
          unpackX(r[n][i], f);
#pragma unroll
          for (int j = 0; j < VEC; j++) v[0] += f[j];
        }
        sumOver<1, 32>(v, 0);
        s[n].all = v[0];
        mu = v[0] * (1.0f / SLICE);
        v[0] = 0.f;
      }
#pragma unroll
      for (int i = 0; i < L; i++) {
        unpackX(r[n][i], f);
#pragma unroll
        for (int j = 0; j < VEC; j++) v[0] += (f[j] - mu) * (f[j] - mu);
      }
      sumOver<1, 32>(v, 0);
      s[n].squares = v[0];
    }
#if CLUSTER > 1
    // Each buffer is used in turns: who writes one again has got the round between from all,
    // who sent it when they had read this one.
    int slot = round & 1;
    if (lane == 0) expectBytes(&met[slot][warp], CLUSTER * K * ROWS * 4);
    if (lane < CLUSTER) {
      u32 there = onRank(&met[slot][warp], lane);
#pragma unroll
      for (int n = 0; n < ROWS; n++) {
        sendFloat(onRank(&sums[slot][rank][K - 1][own + n], lane), s[n].squares, there);
        if (LAYERNORM) sendFloat(onRank(&sums[slot][rank][0][own + n], lane), s[n].all, there);
      }
    }
    waitBarrier(&met[slot][warp], round >> 1 & 1);
#pragma unroll
    for (int n = 0; n < ROWS; n++) {
      s[n] = {sums[slot][0][0][own + n], sums[slot][0][K - 1][own + n]};
#pragma unroll
      for (int q = 1; q < CLUSTER; q++) merge(s[n], q * SLICE, {sums[slot][q][0][own + n], sums[slot][q][K - 1][own + n]}, SLICE);
    }
#endif
    float rs[ROWS], mu[ROWS];
#pragma unroll
    for (int n = 0; n < ROWS; n++) {
      rs[n] = 1.0f / sqrtf(s[n].squares * INV_COLS + eps);
      mu[n] = s[n].all * INV_COLS;
      if (rank == 0 && lane == 0 && n < live) {
        rstd[first + own + n] = rs[n];
        if (LAYERNORM) mean[first + own + n] = mu[n];
      }
    }

#pragma unroll
    for (int i = 0; i < L; i++) {
      int c = (i * 32 + lane) * VEC;
      float wf[VEC], bf[VEC];
      weights(HAS_WEIGHT ? loadShared<W_BYTES>(paramsOf(0) + c) : zero<W_BYTES>(), wf);
      if (HAS_BIAS) unpack<W_TYPE, VEC>(loadShared<W_BYTES>(paramsOf(1) + c), bf);
#pragma unroll
      for (int n = 0; n < ROWS; n++) {
        float f[VEC], top = 0.f;
        unpackX(r[n][i], f);
#pragma unroll
        for (int j = 0; j < VEC; j++) {
          f[j] = LAYERNORM ? (f[j] - mu[n]) * rs[n] * wf[j] : f[j] * rs[n] * wf[j];
          if (HAS_BIAS) f[j] += bf[j];
          top = largest(top, f[j]);
          f[j] *= by;
        }
        Raw<VEC> out = pack<Y_TYPE, VEC>(f);
        storeShared<VEC>(bytesOf(own + n) + turnedAt(own + n, c), out);
        if (n < live) {
          most = largest(most, top);
          store<VEC>(y + (first + own + n) * COLS + rank * SLICE + c, out);
        }
      }
    }
    __syncthreads(); // all bytes are there

#pragma unroll 1
    for (int u = threadIdx.x; u < SLICE / 4 * DOWN; u += THREADS) {
      int piece = u % DOWN, c = u / DOWN * 4;
      if (first + 16 * piece >= rows) continue;
      Raw<16> four[4]; // of four rows each: a word to a column
#pragma unroll
      for (int q = 0; q < 4; q++) {
        const char *from = bytesOf(16 * piece + 4 * q) + turnedAt(16 * piece, c);
        four[q] = turn(*(const u32 *)from, *(const u32 *)(from + SLICE), *(const u32 *)(from + 2 * SLICE), *(const u32 *)(from + 3 * SLICE));
      }
#pragma unroll
      for (int j = 0; j < 4; j++) {
        Raw<16> out = {four[0].word[j], four[1].word[j], four[2].word[j], four[3].word[j]};
        store<16>(yt + (rank * SLICE + c + j) * rows + first + 16 * piece, out);
      }
    }
    __syncthreads(); // and have left
  }
  waitForPrevious(); // who clears amax
  amaxOver(amax, magnitude(most));
  if (blockIdx.x == 0 && threadIdx.x == 0) *scale_inv = 1.0f / by;
#if CLUSTER > 1
  clusterSync(); // a program that ends takes its shared memory with it
#endif
}
