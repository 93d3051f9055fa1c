// The transpose of an fp8 output, in a kernel of its own.
//
//   y (rows,cols) bytes -> yt (cols,rows) bytes
//
// Bytes: each read once, each written once; y was just written and is read from
// L2 as far as it fits. A CTA moves a tile of TRANSPOSE_ROWS x
// TRANSPOSE_COLS bytes through shared memory (turn.cuh): the design of ROCm
// TransformerEngine's second launch (PR 593), whose six tiles are points of its
// three knobs. There each byte is moved alone.
#include "common.cuh"
#include "turn.cuh"

// anyWord reads the four bytes from at on, whatever their alignment, of size
// bytes in all.
__device__ __forceinline__ u32 anyWord(const u8 *y, i64 at, i64 size) {
  if (at + 8 <= size) {
    const u32 *p = (const u32 *)(y + (at & ~3ll));
    return __funnelshift_r(__ldg(p), __ldg(p + 1), 8 * (u32)(at & 3));
  }
  u32 word = 0;
#pragma unroll
  for (int i = 0; i < 4; i++)
    if (at + i < size) word |= (u32)__ldg(y + at + i) << 8 * i;
  return word;
}

extern "C" __global__ void __launch_bounds__(TTHREADS)
transpose(const u8 *y, u8 *yt, i64 rows, i64 cols) {
  __shared__ __align__(16) u32 tile[TC * PITCH];
  i64 row0 = (i64)blockIdx.x * TR;
  // The grid's second side is at most 65535.
  for (i64 col0 = (i64)blockIdx.y * TC; col0 < cols; col0 += (i64)gridDim.y * TC) {
    Raw<IN> in[UNITS][4];
#pragma unroll
    for (int u = 0; u < UNITS; u++)
#pragma unroll
      for (int k = 0; k < 4; k++) {
        int unit = u * TTHREADS + threadIdx.x;
        i64 row = row0 + unit / ACROSS * 4 + k, col = col0 + unit % ACROSS * IN;
        if (row >= rows || col >= cols) in[u][k] = zero<IN>();
        else if constexpr (LOAD_BYTES == 1) in[u][k].word[0] = anyWord(y, row * cols + col, rows * cols);
        else in[u][k] = load<IN>(y + row * cols + col);
      }
    keepTile(tile, in);
    __syncthreads();
    storeTile(tile, yt, rows, cols, row0, col0);
    __syncthreads();
  }
}
