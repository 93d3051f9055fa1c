// Forward to fp8 and its transpose, one pass: a band of rows in shared memory
// leaves as rows of y and as columns, the rows of yt.
//
//   x (M,N), [res (M,N)], [w (N)], [b (N)], scale ->
//     y (M,N), yt (N,M), [resout (M,N)], rstd (M) fp32, [mean (M) fp32], amax, scale_inv
//
// Bytes: x (and res) once, y, yt (and resout) once; w and b once per CTA. A
// design with a transpose of its own reads y again.
//
// RANKS CTAs share a band of BLOCK_ROWS rows by columns: those of a cluster, or
// CTAS_PER_ROW that wait for each other in global memory where a band is wider than
// a cluster holds. A warp has a strip, 32 vectors wide and all of the band's rows
// high, and a lane the same VEC columns of each row, which it copies to shared
// memory itself (COPY_PATH 1; in 2, lanes begin bulk copies of whole rows of the
// strip on a barrier of the warp). So all but the sums of rows stays within a warp:
//
//   1. A lane adds up its part of each row; butterflies turn 32 rows by 32 lanes so
//      that lane l has the sum of row l. Layernorm takes the strip's mean first and
//      then squares centred on it, which Chan's formula merges.
//   2. The warps of a CTA meet (the only barrier of a band), then the CTAs.
//   3. Four rows at a time become e4m3: y leaves at once, and 4x4 bytes turned in
//      registers go where the four rows of x were: words of four rows, a column
//      beside the next.
//   4. A column's words leave for yt, 16 rows a lane and BLOCK_ROWS bytes a column.
//   5. The strip is free for the band that is STAGES turns on.
//
// Only what is read while other CTAs write is fast: CTAs are meant to be
// several on an SM. amax is cleared by a launch of its own, which this one
// does not wait for until it has an amax.
#include "common.cuh"
#include "pipe.cuh"
#include "bytes.cuh"

constexpr bool FP8 = Y_TYPE == E4M3;
constexpr int RANKS = CLUSTER * CTAS_PER_ROW;
constexpr int STRIP = 32 * VEC;        // columns of a warp
constexpr int SLICE = WARPS * STRIP;   // columns of a CTA
constexpr bool WHOLE = RANKS * SLICE == COLS;
constexpr int ROW = 32 * VECTOR_BYTES; // bytes of a strip's row
constexpr int PART = BLOCK_ROWS * ROW; // bytes of a strip of x
constexpr int HELD = PART * (1 + RESIDUAL);
constexpr int SETS = BLOCK_ROWS / 32;  // rows of which a lane has the sums
constexpr int DOWN = BLOCK_ROWS / 16;  // lanes side by side on a row of yt, 16 bytes each
constexpr int K = LAYERNORM ? 2 : 1;   // sums of a row
static_assert(FP8 && TRANSPOSED, "the tile is one of bytes, for yt");
static_assert(VEC % 4 == 0, "bytes turn four by four");
static_assert(BLOCK_ROWS % 32 == 0 && DOWN <= 8, "32, 64 or 128 rows");
static_assert(CLUSTER == 1 || CTAS_PER_ROW == 1, "programs meet in one way");
static_assert((RANKS - 1) * SLICE < COLS && COLS <= RANKS * SLICE, "a row is the slices, none empty");

extern __shared__ __align__(128) char slots[]; // STAGES times WARPS strips

__shared__ float part[2][K][WARPS][BLOCK_ROWS]; // sums of the CTA's strips
#if COPY_PATH == 2
__shared__ Barrier full[STAGES][WARPS];
#endif
#if CLUSTER > 1
__shared__ float sums[2][CLUSTER][K][BLOCK_ROWS]; // those of the cluster's CTAs
__shared__ Barrier met[2];
#endif
constexpr int COUNTER = 32; // words between the counters of groups: fwd_tile.go

// A Place is where a thread stands: a lane of a strip, the CTA's rank in its
// group, and which group that is.
struct Place {
  int lane, warp, rank, group, groups;

  __device__ __forceinline__ Place()
      : lane(threadIdx.x % 32), warp(threadIdx.x / 32), rank(RANKS == 1 ? 0 : blockIdx.x % RANKS), group(blockIdx.x / RANKS),
        groups(gridDim.x / RANKS) {}

  __device__ __forceinline__ int strip() const { return rank * SLICE + warp * STRIP; } // its first column
  __device__ __forceinline__ int column() const { return strip() + lane * VEC; }
  __device__ __forceinline__ bool inside() const { return WHOLE || column() < COLS; }
  __device__ __forceinline__ char *held(int slot) const { return slots + (slot * WARPS + warp) * HELD; }
};

// colsOf is how many of most columns from first on a row has.
__device__ __forceinline__ int colsOf(int first, int most) { return WHOLE || first + most <= COLS ? most : first < COLS ? COLS - first : 0; }

// ---- Copies -----------------------------------------------------------------

// fetch begins to bring the band at row first, of live rows, to the warp's strip of
// a slot; await waits for it. Rows beyond the matrix and lanes beyond the row leave
// there what was there, which goes nowhere.
__device__ __forceinline__ void fetch(int slot, const X *x, const X *res, const Place &at, i64 first, int live) {
  char *strip = at.held(slot);
#if COPY_PATH == 2
  u32 bytes = colsOf(at.strip(), STRIP) * sizeof(X);
  if (live <= 0 || bytes == 0) return;
  if (at.lane == 0) expectBytes(&full[slot][at.warp], imin(live, BLOCK_ROWS) * bytes * (1 + RESIDUAL));
  __syncwarp();
#pragma unroll
  for (int r = at.lane; r < BLOCK_ROWS; r += 32)
    if (r < live) {
      i64 from = (first + r) * COLS + at.strip();
      bulkRow(strip + r * ROW, x + from, bytes, &full[slot][at.warp]);
      if (RESIDUAL) bulkRow(strip + PART + r * ROW, res + from, bytes, &full[slot][at.warp]);
    }
#else
  if (at.inside()) {
    i64 from = first * COLS + at.column();
    strip += at.lane * VECTOR_BYTES;
    auto copy = [&](int r) {
      copyRow<VECTOR_BYTES>(strip + r * ROW, x + from + (i64)r * COLS);
      if (RESIDUAL) copyRow<VECTOR_BYTES>(strip + PART + r * ROW, res + from + (i64)r * COLS);
    };
    if (live >= BLOCK_ROWS) { // without a question at each row
#pragma unroll 32
      for (int r = 0; r < BLOCK_ROWS; r++) copy(r);
    } else {
#pragma unroll 1
      for (int r = 0; r < live; r++) copy(r);
    }
  }
  commitCopies();
#endif
}

__device__ __forceinline__ void await(int slot, u32 parity, const Place &at) {
#if COPY_PATH == 2
  if (WHOLE || at.strip() < COLS) waitBarrier(&full[slot][at.warp], parity);
#else
  waitCopies<STAGES - 1>();
#endif
}

// values reads the lane's part of row r: x, or x + res.
__device__ __forceinline__ void values(const char *mine, int r, bool in, float (&f)[VEC]) {
  unpackX(in ? loadShared<VECTOR_BYTES>(mine + r * ROW) : zero<VECTOR_BYTES>(), f);
#if RESIDUAL
  float g[VEC];
  unpackX(in ? loadShared<VECTOR_BYTES>(mine + PART + r * ROW) : zero<VECTOR_BYTES>(), g);
#pragma unroll
  for (int j = 0; j < VEC; j++) f[j] += g[j];
#endif
}

// ---- Sums -------------------------------------------------------------------

// turnSums adds p[r] over the lanes for each of 32 rows r; lane r gets row r's. Each
// step halves the rows of a lane: 31 exchanges, not 160. (A recursion, as the loop
// over D was not unrolled, and its array then lay in local memory.)
template <int D = 16> __device__ __forceinline__ float turnSums(float (&p)[32], int lane) {
  bool high = lane & D;
#pragma unroll
  for (int i = 0; i < D; i++) {
    float give = high ? p[i] : p[i + D], keep = high ? p[i + D] : p[i];
    p[i] = keep + __shfl_xor_sync(0xffffffffu, give, D);
  }
  if constexpr (D > 1) return turnSums<D / 2>(p, lane);
  else return p[0];
}

// Sums are a row's over some columns: of squares, in layernorm beside the sum of the
// elements and centred on their mean.
struct Sums { float all, squares; };

// merge adds those of n more columns to those of before. (Chan, Golub and LeVeque
// 1983. Sums and not means are kept, as an infinity stays one in them.)
__device__ __forceinline__ void merge(Sums &a, float before, Sums b, float n) {
  a.squares += b.squares;
  if (LAYERNORM) {
    float d = b.all / n - a.all / before;
    a.squares += d * d * (before * n / (before + n));
    a.all += b.all;
  }
}

// stripSums are those of the warp's strip: of row 32*set + lane.
__device__ __forceinline__ Sums stripSums(const char *mine, int set, const Place &at, X *resout, i64 first, int live) {
  bool in = at.inside();
  float p[32], f[VEC];
  Sums s = {0.f, 0.f};
#pragma unroll
  for (int r = 0; r < 32; r++) {
    values(mine, 32 * set + r, in, f);
#if RESIDUAL
    if (in && 32 * set + r < live) store<VECTOR_BYTES>(resout + (first + 32 * set + r) * COLS + at.column(), pack<X_TYPE, VEC>(f));
#endif
    p[r] = LAYERNORM ? f[0] : f[0] * f[0];
#pragma unroll
    for (int j = 1; j < VEC; j++) p[r] += LAYERNORM ? f[j] : f[j] * f[j];
  }
  s.squares = turnSums(p, at.lane);
#if LAYERNORM
  int n = colsOf(at.strip(), STRIP);
  s.all = s.squares;
  float own = n > 0 ? s.all / n : 0.f;
  __syncwarp(); // or the compiler holds what was read for the next reading, in 128 registers
#pragma unroll
  for (int r = 0; r < 32; r++) {
    float mean = __shfl_sync(0xffffffffu, own, r);
    values(mine, 32 * set + r, in, f);
    p[r] = 0.f;
#pragma unroll
    for (int j = 0; j < VEC; j++) {
      float d = in ? f[j] - mean : 0.f;
      p[r] += d * d;
    }
  }
  s.squares = turnSums(p, at.lane);
#endif
  return s;
}

// A Meeting brings together the sums of strips and then of CTAs, in their
// order. All of a group's threads call it, with round 0, 1, 2, ... Each buffer is
// used in turns: who writes one again has met everybody in the round between, which
// they joined when they had read it.
struct Meeting {
  u32 *arrived;    // of the group, zero at first: it only grows
  float *exchange; // of the group: [2][RANKS][K][BLOCK_ROWS]

  __device__ __forceinline__ void operator()(Sums (&s)[SETS], const Place &at, int round) {
    int slot = round & 1;
#pragma unroll
    for (int g = 0; g < SETS; g++) {
      part[slot][K - 1][at.warp][32 * g + at.lane] = s[g].squares;
      if (LAYERNORM) part[slot][0][at.warp][32 * g + at.lane] = s[g].all;
    }
    __syncthreads();
#pragma unroll
    for (int g = 0; g < SETS; g++) {
      int row = 32 * g + at.lane;
      s[g] = {part[slot][0][0][row], part[slot][K - 1][0][row]};
#pragma unroll
      for (int w = 1; w < WARPS; w++) {
        int n = colsOf(at.rank * SLICE + w * STRIP, STRIP);
        if (n > 0) merge(s[g], w * STRIP, {part[slot][0][w][row], part[slot][K - 1][w][row]}, n);
      }
    }
    if (RANKS == 1) return;
#if CLUSTER > 1
    if (threadIdx.x == 0) expectBytes(&met[slot], CLUSTER * K * BLOCK_ROWS * 4);
    for (int to = at.warp; to < CLUSTER; to += WARPS)
#pragma unroll
      for (int g = 0; g < SETS; g++) {
        u32 there = onRank(&met[slot], to);
        sendFloat(onRank(&sums[slot][at.rank][K - 1][32 * g + at.lane], to), s[g].squares, there);
        if (LAYERNORM) sendFloat(onRank(&sums[slot][at.rank][0][32 * g + at.lane], to), s[g].all, there);
      }
    waitBarrier(&met[slot], round >> 1 & 1);
    const float *all = &sums[slot][0][0][0];
#else
    float *all = exchange + slot * RANKS * K * BLOCK_ROWS;
    if (at.warp == 0) {
#pragma unroll
      for (int g = 0; g < SETS; g++) {
        float *own = all + at.rank * K * BLOCK_ROWS + 32 * g + at.lane;
        __stcg(own + (K - 1) * BLOCK_ROWS, s[g].squares);
        if (LAYERNORM) __stcg(own, s[g].all);
      }
      if (round == 0) waitForPrevious(); // who clears the counters
      __syncwarp();
      if (at.lane == 0) {
        u32 n, target = (round + 1) * RANKS;
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(arrived) : "memory");
        do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(n) : "l"(arrived) : "memory");
        while ((int)(n - target) < 0);
      }
    }
    __syncthreads();
#endif
#pragma unroll
    for (int g = 0; g < SETS; g++)
#pragma unroll 16
      for (int r = 0; r < RANKS; r++) {
        const float *from = all + r * K * BLOCK_ROWS + 32 * g + at.lane;
        // Past L1, which other CTAs' stores do not reach.
        Sums next = CLUSTER > 1 ? Sums{from[0], from[(K - 1) * BLOCK_ROWS]} : Sums{__ldcg(from), __ldcg(from + (K - 1) * BLOCK_ROWS)};
        if (r == 0) s[g] = next;
        else merge(s[g], r * SLICE, next, colsOf(r * SLICE, SLICE));
      }
  }
};

// ---- Bytes ------------------------------------------------------------------

// A quad of rows leaves its turned bytes at the start of its own four rows: for
// every four columns of a vector 512 bytes, 16 of each lane. The lanes' places are
// exchanged by the quad's place among those of other lanes of a row of yt, so that
// those lanes, who read 8/DOWN vectors each at a time, meet all banks. (Writes are
// of 16 bytes side by side in any case.)
constexpr int TOGETHER = 8 / DOWN;
__device__ __forceinline__ int chunkAt(int lane, int piece) { return (lane ^ piece * TOGETHER) * 16; }

// A Pass is what a warp does with a band once its sums are there. FULL says that all
// rows of the band are live: the compiler then has no branches between rows, and
// reads ahead of what it computes.
struct Pass {
  const Place &at;
  bool in;
  float by, most;
  float wf[VEC], bf[VEC];

  // leave normalizes the strip, rows 32*set and on, writes y (out is the lane's place
  // in the band's first row), and leaves the turned bytes in held.
  template <bool FULL> __device__ __forceinline__ void leave(char *held, int set, float rs, float mu, Y *out, int live) {
    const char *mine = held + at.lane * VECTOR_BYTES;
#pragma unroll 2
    for (int q = 8 * set; q < 8 * set + 8; q++) {
      Raw<VEC> bytes[4];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        int r = 4 * q + i;
        float f[VEC], rsr = __shfl_sync(0xffffffffu, rs, r % 32), top = 0.f;
        float mur = LAYERNORM ? __shfl_sync(0xffffffffu, mu, r % 32) : 0.f;
        values(mine, r, in, f);
#pragma unroll
        for (int j = 0; j < VEC; j++) {
          f[j] = (f[j] - mur) * rsr * wf[j];
#if HAS_BIAS
          f[j] += bf[j];
#endif
          top = largest(top, f[j]);
          f[j] *= by;
        }
        bytes[i] = pack<Y_TYPE, VEC>(f);
        if (FULL || r < live) most = largest(most, top);
      }
#pragma unroll
      for (int i = 0; i < 4; i++)
        if (in && (FULL || 4 * q + i < live)) store<VEC>(out + (i64)(4 * q + i) * COLS, bytes[i]);
      __syncwarp(); // all have read the four rows
#pragma unroll
      for (int i = 0; i < VEC / 4; i++)
        storeShared<16>(held + 4 * q * ROW + 512 * i + chunkAt(at.lane, q / 4),
                        turn(bytes[0].word[i], bytes[1].word[i], bytes[2].word[i], bytes[3].word[i]));
    }
  }

  // columns writes the strip to yt, at the band's first row. Lanes stand DOWN by DOWN
  // on a row of yt, on four columns of TOGETHER vectors.
  template <bool FULL> __device__ __forceinline__ void columns(const char *held, Y *yt, i64 rows, int live) {
    constexpr int WORDS = STORE_BYTES / 4;
    int piece = at.lane % DOWN, col = at.lane / DOWN % 4, vector = at.lane / DOWN / 4;
    const char *from = held + 16 * piece * ROW + 4 * col;
    Y *to = yt + (at.strip() + vector * VEC + col) * rows + 16 * piece;
#pragma unroll 4
    for (int n = 0; n < 32 / TOGETHER; n++)
#pragma unroll
      for (int i = 0; i < VEC / 4; i++) {
        int v = n * TOGETHER + vector, c = n * TOGETHER * VEC + 4 * i;
        Raw<16> all;
#pragma unroll
        for (int k = 0; k < 4; k++) all.word[k] = *(const u32 *)(from + 4 * k * ROW + 512 * i + chunkAt(v, piece));
#pragma unroll
        for (int k = 0; k < 4; k += WORDS)
          if ((WHOLE || at.strip() + v * VEC + 4 * i + col < COLS) && (FULL || 16 * piece + 4 * k < live)) {
            Raw<STORE_BYTES> some;
#pragma unroll
            for (int m = 0; m < WORDS; m++) some.word[m] = all.word[k + m];
            store<STORE_BYTES>(to + c * rows + 4 * k, some);
          }
      }
  }
};

// ---- The kernels --------------------------------------------------------------

// clear makes amax and the counters zero, ahead of tile, which starts beside it.
extern "C" __global__ void __launch_bounds__(256)
clear(float *amax, u32 *counters, i64 count) {
  letNextStart();
  if (threadIdx.x == 0) *amax = 0.f;
#pragma unroll 1
  for (i64 i = threadIdx.x; i < count; i += 256) counters[i] = 0;
}

extern "C" __global__ void BOUNDS(THREADS)
tile(const X *x, const X *res, const W *w, const W *b, Y *y, X *resout, float *rstd, float *mean, i64 rows, float eps,
     const float *scale, float *amax, float *scale_inv, Y *yt, u32 *counters, float *exchange) {
  Place at;
  bool in = at.inside();
  i64 first = (i64)at.group * BLOCK_ROWS, stride = (i64)at.groups * BLOCK_ROWS;
  auto liveAt = [&](i64 row) { return rows - row < BLOCK_ROWS ? (int)(rows - row) : BLOCK_ROWS; }; // none, or less, past the end
#if COPY_PATH == 2
  if (threadIdx.x == 0)
    for (int s = 0; s < STAGES * WARPS; s++) initBarrier(&full[0][0] + s, 1);
#endif
#if CLUSTER > 1
  if (threadIdx.x == 0) {
    initBarrier(&met[0], 1);
    initBarrier(&met[1], 1);
  }
#endif
#if COPY_PATH == 2
  if (threadIdx.x == 0) fenceBarriers();
  __syncthreads();
#endif
#pragma unroll
  for (int s = 0; s < STAGES; s++) fetch(s, x, res, at, first + s * stride, liveAt(first + s * stride));
#if CLUSTER > 1
  if (threadIdx.x == 0) fenceBarriers();
  clusterSync(); // nobody sends before all barriers are there
#endif
  Meeting meet = {counters + at.group * COUNTER, exchange + (i64)at.group * 2 * RANKS * K * BLOCK_ROWS};

  Pass pass = {at, in, __ldg(scale), 0.f};
  weights(in ? loadW(w, at.column()) : zero<W_BYTES>(), pass.wf);
#if HAS_BIAS
  unpack<W_TYPE, VEC>(in ? load<W_BYTES>(b + at.column()) : zero<W_BYTES>(), pass.bf);
#endif

  int slot = 0, round = 0;
  u32 parity = 0;
  for (; first < rows; first += stride, round++) {
    int live = liveAt(first);
    char *held = at.held(slot), *mine = held + at.lane * VECTOR_BYTES;
    await(slot, parity, at);

    Sums s[SETS];
#pragma unroll
    for (int g = 0; g < SETS; g++) s[g] = stripSums(mine, g, at, resout, first, live);
    meet(s, at, round);
    float rs[SETS], mu[SETS];
#pragma unroll
    for (int g = 0; g < SETS; g++) {
      rs[g] = 1.0f / sqrtf(s[g].squares * INV_COLS + eps);
      mu[g] = s[g].all * INV_COLS;
      i64 row = first + 32 * g + at.lane;
      if (at.rank == 0 && at.warp == 0 && row < rows) {
        rstd[row] = rs[g];
#if LAYERNORM
        mean[row] = mu[g];
#endif
      }
    }

    Y *out = y + first * COLS + at.column();
    if (live == BLOCK_ROWS) {
#pragma unroll
      for (int g = 0; g < SETS; g++) pass.leave<true>(held, g, rs[g], mu[g], out, live);
      __syncwarp();
      pass.columns<true>(held, yt + first, rows, live);
    } else {
#pragma unroll
      for (int g = 0; g < SETS; g++) pass.leave<false>(held, g, rs[g], mu[g], out, live);
      __syncwarp();
      pass.columns<false>(held, yt + first, rows, live);
    }

#if COPY_PATH == 2
    fenceShared();
#endif
    __syncwarp(); // all have read the strip
    i64 next = first + STAGES * stride;
    fetch(slot, x, res, at, next, liveAt(next));
    if (++slot == STAGES) {
      slot = 0;
      parity ^= 1;
    }
  }
  if (CTAS_PER_ROW == 1) waitForPrevious(); // who clears amax
  amaxOver(amax, in ? magnitude(pass.most) : 0);
  if (blockIdx.x == 0 && threadIdx.x == 0) *scale_inv = 1.0f / pass.by;
#if CLUSTER > 1
  clusterSync(); // a CTA that ends takes its shared memory with it
#endif
}
