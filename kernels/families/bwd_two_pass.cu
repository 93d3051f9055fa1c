// Backward, two passes: rows are read in chunks of columns, and again.
//
//   x, dy (M,N), w (N), rstd (M), [mean (M)] -> dx (M,N), partial sums of dw
//   and db (programs,N) fp32, which k2 (reduce.cu) adds up
//
// Bytes: x and dy twice where the tile has left the caches by the second pass,
// dx once; partials as in reg_persist, plus a read and a write of the
// program's own partial row for every tile after its first. Any N, whatever
// the registers. The first pass takes the sums of BLOCK_ROWS rows, the second
// writes dx and adds the tile's rows into the partial row. With one program
// per tile nothing is added to, but the partials grow with M (Fast-LLM's wide
// kernel). Where the whole row is one chunk and SINGLE_PASS is set, the tile
// stays in registers and x and dy are read once.
#include "common.cuh"

constexpr int U = BLOCK_COLS / (THREADS * VEC); // vectors per thread, row and chunk
static_assert(U * THREADS * VEC == BLOCK_COLS, "a chunk is a whole number of vectors per thread");
constexpr int K = LAYERNORM ? 2 : 1;

__device__ __forceinline__ int column(int chunk, int u) { return chunk + (u * THREADS + (int)threadIdx.x) * VEC; }

// A Tile is a program's rows of one chunk, packed as they came. All loads of a
// chunk are issued before the first is used: loading vector by vector, as the
// first version did, left it at a third of the speed.
struct Tile {
  RowVec x[BLOCK_ROWS][U], dy[BLOCK_ROWS][U];

  __device__ __forceinline__ void fetch(const X *px, const X *pdy, i64 first, i64 rows, int chunk) {
#pragma unroll
    for (int u = 0; u < U; u++)
#pragma unroll
      for (int r = 0; r < BLOCK_ROWS; r++) {
        bool in = first + r < rows && column(chunk, u) < COLS;
        i64 at = (first + r) * COLS + column(chunk, u);
        x[r][u] = in ? load<VECTOR_BYTES>(px + at) : zero<VECTOR_BYTES>();
        dy[r][u] = in ? load<VECTOR_BYTES>(pdy + at) : zero<VECTOR_BYTES>();
      }
  }
};

// addTo adds a vector to the program's own partial row; its first tile sets it.
__device__ __forceinline__ void addTo(float *p, float (&v)[VEC], bool set) {
  if constexpr (VEC % 4 == 0) {
#pragma unroll
    for (int j = 0; j < VEC; j += 4) {
      float4 s = set ? make_float4(0.f, 0.f, 0.f, 0.f) : *(const float4 *)(p + j);
      *(float4 *)(p + j) = make_float4(s.x + v[j], s.y + v[j + 1], s.z + v[j + 2], s.w + v[j + 3]);
    }
  } else {
#pragma unroll
    for (int j = 0; j < VEC; j++) p[j] = set ? v[j] : p[j] + v[j];
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
two_pass(const X *x, const X *dy, const X *dres, const W *w, const W *b, const float *rstd, const float *mean, X *dx,
         float *dw_partial, float *db_partial, i64 rows) {
  int phase = 0;
  i64 stride = (i64)gridDim.x * BLOCK_ROWS;
  for (i64 first = (i64)blockIdx.x * BLOCK_ROWS; first < rows; first += stride) {
    float rs[BLOCK_ROWS], mu[BLOCK_ROWS], s[K * BLOCK_ROWS];
    Tile t;
#pragma unroll
    for (int r = 0; r < BLOCK_ROWS; r++) {
      bool live = first + r < rows;
      rs[r] = live ? __ldg(rstd + first + r) : 0.f;
      mu[r] = LAYERNORM && live ? __ldg(mean + first + r) : 0.f;
    }
#pragma unroll
    for (int i = 0; i < K * BLOCK_ROWS; i++) s[i] = 0.f;

    for (int chunk = 0; chunk < COLS; chunk += BLOCK_COLS) {
      t.fetch(x, dy, first, rows, chunk);
#pragma unroll
      for (int u = 0; u < U; u++) {
        if (column(chunk, u) >= COLS) continue;
        float wf[VEC];
        weights(load<W_BYTES>(w + column(chunk, u)), wf);
#pragma unroll
        for (int r = 0; r < BLOCK_ROWS; r++) {
          float xf[VEC], g[VEC];
          unpackX(t.x[r][u], xf);
          unpackX(t.dy[r][u], g);
#pragma unroll
          for (int j = 0; j < VEC; j++) {
            float xhat = (xf[j] - mu[r]) * rs[r];
            g[j] *= wf[j];
            s[K * r] += g[j] * xhat;
            if (LAYERNORM) s[K * r + K - 1] += g[j];
          }
        }
      }
    }
    sumOver<K * BLOCK_ROWS, THREADS>(s, phase);
    phase ^= 1;

    for (int chunk = 0; chunk < COLS; chunk += BLOCK_COLS) {
      if (!SINGLE_PASS) t.fetch(x, dy, first, rows, chunk);
#pragma unroll
      for (int u = 0; u < U; u++) {
        int c = column(chunk, u);
        if (c >= COLS) continue;
        float wf[VEC], dw[VEC], db[VEC];
        weights(load<W_BYTES>(w + c), wf);
#pragma unroll
        for (int j = 0; j < VEC; j++) dw[j] = db[j] = 0.f;
#pragma unroll
        for (int r = 0; r < BLOCK_ROWS; r++) {
          if (first + r >= rows) continue;
          float xf[VEC], g[VEC];
          unpackX(t.x[r][u], xf);
          unpackX(t.dy[r][u], g);
          float c1 = s[K * r] * INV_COLS, c2 = LAYERNORM ? s[K * r + K - 1] * INV_COLS : 0.f;
#pragma unroll
          for (int j = 0; j < VEC; j++) {
            float xhat = (xf[j] - mu[r]) * rs[r];
            dw[j] += g[j] * xhat;
            db[j] += g[j];
            g[j] = rs[r] * (g[j] * wf[j] - xhat * c1 - c2);
          }
          store<VECTOR_BYTES>(dx + (first + r) * COLS + c, pack<X_TYPE, VEC>(g));
        }
        i64 out = (i64)blockIdx.x * COLS + c;
        addTo(dw_partial + out, dw, first < stride);
#if HAS_BIAS
        addTo(db_partial + out, db, first < stride);
#endif
      }
    }
  }
}
