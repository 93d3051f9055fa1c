// Tiles of bytes, turned through shared memory.
//
// A tile has TRANSPOSE_ROWS x TRANSPOSE_COLS bytes, and TRANSPOSE_WARPS warps. A thread has four
// rows by IN columns at a time, turns them in registers as 4x4 blocks, and shared memory
// holds words of four rows, one column after the other, so that both sides are words and
// wider.
//
// LOAD_BYTES and STORE_BYTES say how rows of y and yt are aligned: 4, 8 or 16
// where cols and rows allow it, up to what a thread has of a tile; 1 where they
// do not. Loads then join two aligned words, and stores split their rows into
// aligned words and single bytes at the ends.
#ifndef TRANSPOSE_ROWS
#define TRANSPOSE_ROWS 64 // 32 to 128, powers of 2: of a tile
#endif
#ifndef TRANSPOSE_COLS
#define TRANSPOSE_COLS 64 // 32 to 128, powers of 2: of a tile
#endif
#ifndef TRANSPOSE_WARPS
#define TRANSPOSE_WARPS 4 // 1 to 32, powers of 2: of a CTA
#endif
#ifndef LOAD_BYTES
#define LOAD_BYTES 4 // 1 to 16, powers of 2: of a thread, of a row of y
#endif
#ifndef STORE_BYTES
#define STORE_BYTES 4 // 1 to 16, powers of 2: of a thread, of a row of yt
#endif
#include "bytes.cuh"

typedef unsigned char u8;

constexpr int TTHREADS = 32 * TRANSPOSE_WARPS;
constexpr int TR = TRANSPOSE_ROWS, TC = TRANSPOSE_COLS;
constexpr int IN = LOAD_BYTES == 1 ? 4 : LOAD_BYTES, OUT = STORE_BYTES == 1 ? 4 : STORE_BYTES;
constexpr int ACROSS = TC / IN;                    // threads side by side on four rows of y
constexpr int UNITS = TR / 4 * ACROSS / TTHREADS;  // four rows by IN columns, per thread
constexpr int DOWN = TR / OUT;                     // threads side by side on a row of yt
constexpr int CHUNKS = DOWN * TC / TTHREADS;       // of OUT bytes, per thread
static_assert(UNITS * TTHREADS == TR / 4 * ACROSS && CHUNKS * TTHREADS == DOWN * TC, "threads share the tile evenly");

// A column of the tile takes PITCH words. Columns lie in the order of their place
// in a thread's vector, then of the thread: so the threads of a warp, which write
// the same place at a time, write ACROSS neighbours, SHARE words each. An odd
// multiple of SHARE lets them meet all banks.
constexpr int SHARE = 32 / imin(ACROSS, 32);
constexpr int PITCH = SHARE * (cdiv(TR / 4, SHARE) | 1);

__device__ __forceinline__ int placeOf(int column) { return column % IN * ACROSS + column / IN; }
__device__ __forceinline__ int columnAt(int place) { return place % ACROSS * IN + place / ACROSS; }

// fromTile reads BYTES of a column of the tile.
template <int BYTES> __device__ __forceinline__ Raw<BYTES> fromTile(const u32 *p) {
  Raw<BYTES> r;
  if constexpr (BYTES == 16 && PITCH % 4 == 0) {
    uint4 v = *(const uint4 *)p;
    r.word[0] = v.x; r.word[1] = v.y; r.word[2] = v.z; r.word[3] = v.w;
  } else if constexpr (BYTES == 8 && PITCH % 2 == 0) {
    uint2 v = *(const uint2 *)p;
    r.word[0] = v.x; r.word[1] = v.y;
  } else {
#pragma unroll
    for (int i = 0; i < BYTES / 4; i++) r.word[i] = p[i];
  }
  return r;
}

// putAny stores word d of a column's TR bytes to out, where count of them
// belong. Words are counted from where out would be aligned, past bytes ahead of
// it; word 0 then takes the bytes at both ends.
__device__ __forceinline__ void putAny(u8 *out, const u32 *p, int d, int past, int count) {
  int from = 4 * d - past;
  if (from >= 0 && from + 4 <= count) {
    *(u32 *)(out + from) = __funnelshift_rc(d > 0 ? p[d - 1] : 0, p[d], 32 - 8 * past);
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; i++) {
    int at = from + i < 0 ? from + i + TR : from + i;
    if (at < count) out[at] = ((const u8 *)p)[at];
  }
}

// keepTile turns the thread's units of a tile into shared memory: four rows by IN columns each.
__device__ __forceinline__ void keepTile(u32 *tile, const Raw<IN> (&in)[UNITS][4]) {
#pragma unroll
  for (int u = 0; u < UNITS; u++) {
    int unit = u * TTHREADS + threadIdx.x;
#pragma unroll
    for (int i = 0; i < IN / 4; i++) {
      Raw<16> columns = turn(in[u][0].word[i], in[u][1].word[i], in[u][2].word[i], in[u][3].word[i]);
#pragma unroll
      for (int j = 0; j < 4; j++) tile[placeOf(unit % ACROSS * IN + 4 * i + j) * PITCH + unit / ACROSS] = columns.word[j];
    }
  }
}

// storeTile writes a tile, whose first byte is that of y at row0, col0, to yt. A __syncthreads stands
// before and after it.
__device__ __forceinline__ void storeTile(const u32 *tile, u8 *yt, i64 rows, i64 cols, i64 row0, i64 col0) {
#pragma unroll
  for (int n = 0; n < CHUNKS; n++) {
    int chunk = n * TTHREADS + threadIdx.x, place = chunk / DOWN, d = chunk % DOWN;
    i64 col = col0 + columnAt(place), row = row0 + d * OUT;
    const u32 *p = tile + place * PITCH;
    if (col >= cols) continue;
    if constexpr (STORE_BYTES == 1) {
      u8 *out = yt + col * rows + row0;
      putAny(out, p, d, (int)((col * rows + row0) & 3), (int)(rows - row0 < TR ? rows - row0 : TR));
    } else if (row < rows) {
      store<OUT>(yt + col * rows + row, fromTile<OUT>(p + d * OUT / 4));
    }
  }
}
