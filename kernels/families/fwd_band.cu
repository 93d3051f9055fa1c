// Forward to fp8 and its transpose, one pass: bands of rows in registers, their bytes
// turned through shared memory.
//
//   x (M,N), [w (N)], [b (N)], scale ->
//     y (M,N), yt (N,M), rstd (M) fp32, [mean (M) fp32], amax, scale_inv
//
// plain_rms_fwd.cu and plain_ln_fwd.cu write a row by neighbouring elements. The rows of yt are
// columns of y, so here a CTA has many rows and turns their bytes before it writes them.
//
// Bytes: x once, y and yt once; w and b once per CTA. A design with a transpose of its
// own reads y again.
//
// The L2 takes as long for 32 bytes of a line as for 64, so rows of yt are to be written 64
// bytes at a time: 64 rows of x, 128 KiB of a slice of 1024 columns. tile keeps a band in
// shared memory until its bytes have left, and has no room for another beside it then. Here
// CTAs share a band by columns, a warp has BLOCK_ROWS/WARPS rows of the slice, and
//
//   1. takes them from shared memory to registers, where they stay, and has the rows of the
//      next band brought to their place at once (bulk copies on a barrier of the warp): reading
//      goes on whatever comes now;
//   2. adds up its part of each row, so that lane l has the sum of row l % ROWS, and exchanges
//      that with the warps of its rows in the other CTAs; in layernorm the sum, and squares
//      centred on its mean, which Chan's formula merges;
//   3. writes y, and leaves the bytes in shared memory.
//   4. When all have, each thread takes 16 rows of 4 columns, turns them 4 by 4, and writes 16
//      bytes each to 4 rows of yt, lanes for all BLOCK_ROWS of them side by side.
//
// With STAGES 2, steps 1 and 2 of the next band come ahead of step 4: its sums are under way
// meanwhile. Warps wait for each other where they need to and not before: for all bytes ahead of 4,
// for all to have been read ahead of the next 3.
//
// CTAs that share a band are a cluster or, where the row is too wide for 16 of them or would leave
// SMs idle (clusters of 8 fill 120 of 132, of 16 112), CTAS_PER_ROW that meet in global
// memory. amax and the words they meet in are cleared by a launch of its own, which this one does not
// wait for until it has sums, or an amax.
//
// What bounds it is written down in docs/performance.md, with what did not help: bands further ahead,
// whole lines of yt, sums by tensor cores, bytes turned as they are made, y written by bulk copies.
#ifndef Y_TYPE
#define Y_TYPE 3 // 3: e4m3
#endif
#ifndef TRANSPOSED
#define TRANSPOSED 1 // 1: yt is written
#endif
#ifndef COLS
#define COLS 4096 // 1 to 16777216: N
#endif
#ifndef WARPS
#define WARPS 16 // 2 to 32, powers of 2: of a CTA
#endif
#ifndef VECTOR_BYTES
#define VECTOR_BYTES 16 // 16: of a thread's load or store
#endif
#ifndef BLOCK_ROWS
#define BLOCK_ROWS 64 // 32 to 128, powers of 2: rows of a CTA
#endif
#ifndef STAGES
#define STAGES 2 // 1 or 2: bands in flight
#endif
#ifndef CLUSTER
#define CLUSTER 16 // 1 to 16, powers of 2: CTAs that share a band through distributed shared memory
#endif
#ifndef CTAS_PER_ROW
#define CTAS_PER_ROW 1 // 1 to 256: that share a row through global memory
#endif

#include "common.cuh"
#include "pipe.cuh"
#include "bytes.cuh"

constexpr int RANKS = CLUSTER * CTAS_PER_ROW; // CTAs that share a band
constexpr int SLICE = COLS / RANKS;           // columns of a CTA
constexpr int L = SLICE / (32 * VEC);         // vectors of a row in a lane
constexpr int ROWS = BLOCK_ROWS / WARPS;      // of a warp
constexpr int ROW = SLICE * sizeof(X);        // bytes of x
constexpr int DOWN = BLOCK_ROWS / 16;         // threads side by side on a row of yt, 16 bytes each
constexpr int K = LAYERNORM ? 2 : 1;          // sums of a row
static_assert(Y_TYPE == E4M3 && TRANSPOSED && !RESIDUAL, "bytes turn four by four, for yt");
static_assert(CLUSTER == 1 || CTAS_PER_ROW == 1, "programs meet in one way");
static_assert(SLICE * RANKS == COLS && SLICE % (32 * VEC) == 0 && SLICE % 128 == 0, "slices of whole vectors for all lanes");
static_assert(ROWS * WARPS == BLOCK_ROWS && BLOCK_ROWS % 32 == 0 && DOWN <= 8, "32, 64 or 128 rows");

extern __shared__ __align__(128) char shared[]; // BLOCK_ROWS rows of x, as many of bytes, w, b

__shared__ Barrier full[WARPS];
__shared__ Barrier ready, gone; // all bytes of a band: there, and read
#if CLUSTER > 1
__shared__ float sums[2][CLUSTER][K][BLOCK_ROWS]; // those of the cluster's CTAs
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

// mergeSums adds those of n more columns to those of before. (Chan, Golub and LeVeque 1983. Sums
// and not means are kept, as an infinity stays one in them.)
__device__ __forceinline__ void mergeSums(Sums &a, float before, Sums b, float n) {
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

// storeTurned normalizes the warp's rows, writes y (out is the lane's place in the first of them), and
// leaves the bytes in shared memory. FULL says that all rows are there: without a branch at each
// the addresses of a lane are one and constants.
template <bool FULL>
__device__ __forceinline__ void storeTurned(const RowVec (&r)[ROWS][L], const float (&rs)[ROWS], const float (&mu)[ROWS], float by, Y *out, char *bytes,
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
// sendSums brings a warp's sums to the warps of its rows in all CTAs, receive merges theirs. Each
// buffer is used in turns: who writes one again has got the round between from all, who sent it
// when they had read this one.
__device__ __forceinline__ void sendSums(Sums s, int round, int rank, int warp, int lane) {
  int slot = round & 1, mine = warp * ROWS + lane % ROWS;
  if (lane == 0) expectBytes(&met[slot][warp], CLUSTER * K * ROWS * 4);
#pragma unroll
  for (int to = lane / ROWS; to < CLUSTER; to += 32 / ROWS) {
    u32 there = onRank(&met[slot][warp], to);
    sendFloat(onRank(&sums[slot][rank][K - 1][mine], to), s.squares, there);
    if (LAYERNORM) sendFloat(onRank(&sums[slot][rank][0][mine], to), s.all, there);
  }
}

__device__ __forceinline__ Sums receiveSums(int round, int warp, int lane) {
  int slot = round & 1, mine = warp * ROWS + lane % ROWS;
  waitBarrier(&met[slot][warp], round >> 1 & 1);
  Sums s = {sums[slot][0][0][mine], sums[slot][0][K - 1][mine]};
#pragma unroll
  for (int q = 1; q < CLUSTER; q++) mergeSums(s, q * SLICE, {sums[slot][q][0][mine], sums[slot][q][K - 1][mine]}, SLICE);
  return s;
}
#elif CTAS_PER_ROW > 1
// In global memory each sum of a warp's rows has a word of its own for each CTA, and one for
// all, which are zero until it is there: nobody counts, and nothing needs to be ordered. Of few
// CTAs each merges the sums of all. Of many that would be RANKS words a row for each to read, an
// eighth of what L2 moves: one CTA merges them, another for each warp, and the others wait
// for what it has.
constexpr bool TWICE = RANKS * K > 32;
constexpr int WORDS = (RANKS + 1) * K * ROWS;          // of a warp's rows
constexpr int PARTS = 32 / ROWS, EACH = cdiv(RANKS, PARTS); // lanes of a row, ranks of each

__device__ __forceinline__ u32 wordOf(float v) { return __float_as_uint(v + 0.f) ^ 0x80000000u; } // no -0 is left, so no 0
__device__ __forceinline__ float sumIn(u32 word) { return __uint_as_float(word ^ 0x80000000u); }

__device__ __forceinline__ u32 readWord(const u32 *p) {
  u32 v;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}

// sendSums leaves sums of a warp's rows, for rank RANKS those of all CTAs. words are the warp's.
__device__ __forceinline__ void sendSums(Sums s, u32 *words, int rank, int lane) {
  u32 *to = words + rank * K * ROWS + lane, word = wordOf(lane < (K - 1) * ROWS ? s.all : s.squares);
  if (lane < K * ROWS) asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(word) : "memory");
}

// receiveSums waits for the sums of all CTAs, of row lane % ROWS.
__device__ __forceinline__ Sums receiveSums(u32 *words, int rank, int warp, int lane) {
  Sums s = {0.f, 0.f};
  if (TWICE && rank != warp * RANKS / WARPS) {
    const u32 *from = words + RANKS * K * ROWS + lane % ROWS;
    u32 all, squares;
    do all = readWord(from), squares = K > 1 ? readWord(from + ROWS) : all;
    while (all == 0 || squares == 0);
    return {sumIn(all), sumIn(squares)};
  }
  const u32 *from = words + lane % ROWS;
  u32 got[EACH][K];
  bool there;
  do {
    there = true;
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
      for (int k = 0; k < K; k++) {
        int r = lane / ROWS + i * PARTS;
        got[i][k] = r < RANKS ? readWord(from + (r * K + k) * ROWS) : wordOf(0.f);
        there &= got[i][k] != 0;
      }
  } while (!there);
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    s.squares += sumIn(got[i][K - 1]);
    if (LAYERNORM) s.all += sumIn(got[i][0]);
  }
  auto over = [](float v) {
#pragma unroll
    for (int d = ROWS; d < 32; d *= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
  };
  if (LAYERNORM) {
    s.all = over(s.all);
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      float off = sumIn(got[i][0]) * (1.0f / SLICE) - s.all * INV_COLS;
      if (lane / ROWS + i * PARTS < RANKS) s.squares += SLICE * (off * off);
    }
  }
  s.squares = over(s.squares);
  if (TWICE) sendSums(s, words, RANKS, lane);
  return s;
}
#endif

// turnBand writes the slice's bytes of a band to yt: of live rows or more. A thread has 16 of them
// and 4 columns; out is where its first belong.
constexpr int ACROSS = THREADS / DOWN; // threads side by side on a row of y
__device__ __forceinline__ void turnBand(Y *out, i64 rows, i64 live) {
  int piece = threadIdx.x % DOWN, c = threadIdx.x / DOWN * 4;
  if (16 * piece >= live) return;
  const char *from = bytesOf(16 * piece);
#pragma unroll 1
  for (; c < SLICE; c += ACROSS * 4, out += ACROSS * 4 * rows) {
    Raw<16> four[4]; // of four rows each: a word to a column
#pragma unroll
    for (int q = 0; q < 4; q++) {
      const char *at = from + 4 * q * SLICE + turnedAt(16 * piece, c);
      four[q] = turn(*(const u32 *)at, *(const u32 *)(at + SLICE), *(const u32 *)(at + 2 * SLICE), *(const u32 *)(at + 3 * SLICE));
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
      Raw<16> column = {four[0].word[j], four[1].word[j], four[2].word[j], four[3].word[j]};
      store<16>(out + j * rows, column);
    }
  }
}

// arriveAt counts a warp, all of which is done, at a barrier of the CTA's warps.
__device__ __forceinline__ void arriveAt(Barrier *b, int lane) {
  __syncwarp();
  if (lane == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(sharedAddress(b)) : "memory");
}

// clear makes amax and the words of the exchange zero, ahead of band, which starts beside it.
extern "C" __global__ void clear(float *amax, uint4 *exchange, i64 vectors) {
  letNextStart();
  if (blockIdx.x == 0 && threadIdx.x == 0) *amax = 0.f;
  for (i64 i = blockIdx.x * blockDim.x + threadIdx.x; i < vectors; i += gridDim.x * blockDim.x) exchange[i] = make_uint4(0, 0, 0, 0);
}

extern "C" __global__ void BOUNDS(THREADS)
band(const X *x, const X *, const W *w, const W *b, Y *y, X *, float *rstd, float *mean, i64 rows, float eps, const float *scale, float *amax,
     float *scale_inv, Y *yt, u32 *exchange) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, rank = blockIdx.x % RANKS, own = warp * ROWS;
  i64 first = (i64)(blockIdx.x / RANKS) * BLOCK_ROWS, stride = (i64)(gridDim.x / RANKS) * BLOCK_ROWS;
  char *held = shared + own * ROW, *bytes = bytesOf(own) + turnedAt(own, lane * VEC);
  // liveAt is how many of the warp's rows of the band at row from there are.
  auto liveAt = [&](i64 from) {
    i64 n = rows - from - own;
    return (int)(n < 0 ? 0 : n < ROWS ? n : ROWS);
  };
#if CTAS_PER_ROW > 1
  auto wordsOf = [&](i64 from) { return exchange + (from / BLOCK_ROWS * WARPS + warp) * WORDS; };
#endif
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
    if (warp == 0) {
      initBarrier(&ready, WARPS);
      initBarrier(&gone, WARPS);
    }
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
  Y *turned = yt + ((i64)rank * SLICE + threadIdx.x / DOWN * 4) * rows + 16 * (threadIdx.x % DOWN);
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
    sendSums(s, round, rank, warp, lane);
#elif CTAS_PER_ROW > 1
    if (round == 0) waitForPrevious(); // who clears the exchange
    sendSums(s, wordsOf(from), rank, lane);
#endif
  };
  if (STAGES == 2) take(first, 0);
  for (int round = 0; first < rows; first += stride, round++) {
    int live = liveAt(first);
    if (STAGES == 1) take(first, round);
#if CLUSTER > 1
    s = receiveSums(round, warp, lane);
#elif CTAS_PER_ROW > 1
    s = receiveSums(wordsOf(first), rank, warp, lane);
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
    if (round > 0) waitBarrier(&gone, (round - 1) & 1);
    if (live == ROWS) storeTurned<true>(r, rs, mu, by, out, bytes, lane, live, most);
    else storeTurned<false>(r, rs, mu, by, out, bytes, lane, live, most);
    arriveAt(&ready, lane);
    if (STAGES == 2 && first + stride < rows) take(first + stride, round + 1);
    waitBarrier(&ready, round & 1);
    turnBand(turned + first, rows, rows - first);
    arriveAt(&gone, lane);
  }
  waitForPrevious(); // who clears amax
  amaxOver(amax, magnitude(most));
  if (blockIdx.x == 0 && threadIdx.x == 0) *scale_inv = 1.0f / by;
#if CLUSTER > 1
  clusterSync(); // a CTA that ends takes its shared memory with it
#endif
}
