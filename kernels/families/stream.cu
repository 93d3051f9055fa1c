// The stream: the bound that every time is divided by. It moves the tensors of
// a problem and does nothing else: each output is the sum of the INPUTS inputs,
// over count elements in vectors of 16 bytes of input. Outputs are y or dx,
// where TRANSPOSED a second one of that type, where SUM_OUT one of x's type.
//
// Each thread has UNROLL vectors of each input in flight before it writes.
#ifndef INPUTS
#define INPUTS 1 // 1 to 3: tensors that are read
#endif
#ifndef SUM_OUT
#define SUM_OUT 0 // 0 or 1: whether a second output of x's type is written
#endif
#ifndef WARPS
#define WARPS 8 // 1 to 32, powers of 2: of a CTA
#endif
#ifndef UNROLL
#define UNROLL 4 // 1 to 16: vectors of a thread in flight
#endif

#include "common.cuh"

constexpr int LANES = 16 / sizeof(X);
constexpr int BLOCK = WARPS * 32;

// storeSums does COUNT elements from i on, once they are loaded.
template <int COUNT>
__device__ __forceinline__ void storeSums(const Raw<COUNT * sizeof(X)> (&v)[INPUTS], Y *y, Y *yt, X *resout, i64 i) {
  if constexpr (INPUTS == 1 && Y_TYPE == X_TYPE) {
    store<COUNT * sizeof(X)>(y + i, v[0]);
  } else {
    float f[COUNT];
    unpack<X_TYPE, COUNT>(v[0], f);
#pragma unroll
    for (int k = 1; k < INPUTS; k++) {
      float g[COUNT];
      unpack<X_TYPE, COUNT>(v[k], g);
#pragma unroll
      for (int j = 0; j < COUNT; j++) f[j] += g[j];
    }
    store<COUNT * sizeof(Y)>(y + i, pack<Y_TYPE, COUNT>(f));
    if (TRANSPOSED) store<COUNT * sizeof(Y)>(yt + i, pack<Y_TYPE, COUNT>(f));
    if (SUM_OUT) store<COUNT * sizeof(X)>(resout + i, pack<X_TYPE, COUNT>(f));
  }
}

template <int COUNT> __device__ __forceinline__ void fetch(Raw<COUNT * sizeof(X)> (&v)[INPUTS], const X *a, const X *b, const X *c, i64 i) {
  v[0] = load<COUNT * sizeof(X)>(a + i);
  if constexpr (INPUTS > 1) v[1] = load<COUNT * sizeof(X)>(b + i);
  if constexpr (INPUTS > 2) v[2] = load<COUNT * sizeof(X)>(c + i);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
stream(const X *a, const X *b, const X *c, Y *y, Y *yt, X *resout, i64 count) {
  i64 vectors = count / LANES;
  for (i64 base = (i64)blockIdx.x * BLOCK * UNROLL + threadIdx.x; base < vectors; base += (i64)gridDim.x * BLOCK * UNROLL) {
    Raw<16> v[UNROLL][INPUTS];
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
      if (base + u * BLOCK < vectors) fetch<LANES>(v[u], a, b, c, (base + u * BLOCK) * LANES);
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
      if (base + u * BLOCK < vectors) storeSums<LANES>(v[u], y, yt, resout, (base + u * BLOCK) * LANES);
  }
  // The last elements, fewer than a vector.
  i64 rest = vectors * LANES + (i64)blockIdx.x * BLOCK + threadIdx.x;
  if (rest < count) {
    Raw<sizeof(X)> v[INPUTS];
    fetch<1>(v, a, b, c, rest);
    storeSums<1>(v, y, yt, resout, rest);
  }
}
