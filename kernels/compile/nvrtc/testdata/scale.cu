#include "scale.cuh"
#ifndef BLOCK
#error BLOCK is not defined
#endif
extern "C" __global__ void scale(float* y, const float* x, float f, int n) {
  __shared__ float tile[BLOCK];
  const int i = blockIdx.x * BLOCK + threadIdx.x;
  tile[threadIdx.x] = i < n ? x[i] : 0.f;
  __syncthreads();
  if (i < n) y[i] = times(tile[BLOCK - 1 - threadIdx.x], f);
}
extern "C" __global__ void fill(float* y, float f) { y[threadIdx.x] = f; }
