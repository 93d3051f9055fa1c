// L2 norm forward, plain.
//
//   x (M,N), [res (M,N)] -> y (M,N), [resout (M,N)], rnorm (M) fp32
//
//   h = x + res,  rnorm = 1/max(|h|, eps),  y = h*rnorm
//
// As plain_rms_fwd.cu, with a sum in place of a mean, no weight, and eps as the least norm.
#include "plain.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
forward(const X *x, const X *res, X *y, X *resout, float *rnorm, i64 rows, float eps) {
  for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
    float squares = 0;
    for (int c = threadIdx.x; c < COLUMNS; c += THREADS) {
      float h = sumAt(x, res, row * COLUMNS + c);
      squares += h * h;
      if (resout) put<X_TYPE>(resout + row * COLUMNS + c, h);
    }
    float norm = sqrtf(sumOverCTA(squares));
    float r = 1 / (norm < eps ? eps : norm); // a NaN stays one
    if (threadIdx.x == 0) rnorm[row] = r;
    for (int c = threadIdx.x; c < COLUMNS; c += THREADS)
      put<X_TYPE>(y + row * COLUMNS + c, sumAt(x, res, row * COLUMNS + c) * r);
  }
}
