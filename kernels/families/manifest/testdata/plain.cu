#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cooperative_groups.h>
#include <cub/block/block_reduce.cuh>
namespace mine {
template <int THREADS, typename T>
__global__ void norm(const T *x, const T *w, T *y, int n, float eps) {
  using Reduce = cub::BlockReduce<float, THREADS>;
  __shared__ typename Reduce::TempStorage storage;
  __shared__ float sum;
  float s = 0;
  for (int i = threadIdx.x; i < n; i += THREADS) s += float(x[i]) * float(x[i]);
  s = Reduce(storage).Sum(s);
  if (threadIdx.x == 0) sum = s;
  cooperative_groups::this_thread_block().sync();
  for (int i = threadIdx.x; i < n; i += THREADS) y[i] = T(float(x[i]) * rsqrtf(sum / n + eps) * float(w[i]));
}
}
