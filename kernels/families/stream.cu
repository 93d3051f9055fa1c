// The stream: the bound that every time is divided by. It moves the tensors of
// a problem and does nothing else: y = x for a forward, dx = x + dy for a
// backward, over count elements in vectors of 16 bytes.
//
// Each thread has UNROLL vectors of each input in flight before it writes.
#include "common.cuh"

constexpr int LANES = 16 / sizeof(X);
constexpr int BLOCK = WARPS * 32;

__device__ __forceinline__ Raw<16> add(const Raw<16> &a, const Raw<16> &b) {
  float f[LANES], g[LANES];
  unpack<X_TYPE, LANES>(a, f);
  unpack<X_TYPE, LANES>(b, g);
#pragma unroll
  for (int i = 0; i < LANES; i++) f[i] += g[i];
  return pack<X_TYPE, LANES>(f);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
stream(const X *x, const X *dy, X *out, i64 count) {
  i64 vectors = count / LANES;
  for (i64 base = (i64)blockIdx.x * BLOCK * UNROLL + threadIdx.x; base < vectors; base += (i64)gridDim.x * BLOCK * UNROLL) {
    Raw<16> a[UNROLL], b[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
      if (base + u * BLOCK < vectors) {
        a[u] = load<16>(x + (base + u * BLOCK) * LANES);
        if (BACKWARD) b[u] = load<16>(dy + (base + u * BLOCK) * LANES);
      }
#pragma unroll
    for (int u = 0; u < UNROLL; u++)
      if (base + u * BLOCK < vectors)
        store<16>(out + (base + u * BLOCK) * LANES, BACKWARD ? add(a[u], b[u]) : a[u]);
  }
  // The last elements, fewer than a vector.
  i64 rest = vectors * LANES + (i64)blockIdx.x * BLOCK + threadIdx.x;
  if (rest < count) {
    float f[1], g[1] = {0.f};
    unpack<X_TYPE, 1>(load<sizeof(X)>(x + rest), f);
    if (BACKWARD) unpack<X_TYPE, 1>(load<sizeof(X)>(dy + rest), g);
    f[0] += g[0];
    store<sizeof(X)>(out + rest, pack<X_TYPE, 1>(f));
  }
}
