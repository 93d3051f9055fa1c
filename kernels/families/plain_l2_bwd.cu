// L2 norm backward, plain.
//
//   x (M,N), dy (M,N), [dres (M,N)], rnorm (M) fp32 -> dx (M,N)
//
//   xhat = x*rnorm,  dx = rnorm*(dy - xhat*sum(dy*xhat)) + dres
//   where |x| < eps, rnorm is the constant 1/eps, and dx = dy/eps + dres
#include "plain.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
backward(const X *x, const X *dy, const X *dres, const float *rnorm, X *dx, i64 rows, float eps) {
  for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
    float r = rnorm[row], sum = 0;
    for (int c = threadIdx.x; c < COLUMNS; c += THREADS)
      sum += at<X_TYPE>(dy + row * COLUMNS + c) * (at<X_TYPE>(x + row * COLUMNS + c) * r);
    sum = sumOverCTA(sum);
    if (r * eps > 0.999999f) sum = 0; // one, less a rounding of r
    for (int c = threadIdx.x; c < COLUMNS; c += THREADS) {
      float h = at<X_TYPE>(x + row * COLUMNS + c) * r;
      float v = r * (at<X_TYPE>(dy + row * COLUMNS + c) - h * sum);
      put<X_TYPE>(dx + row * COLUMNS + c, v + (dres ? at<X_TYPE>(dres + row * COLUMNS + c) : 0.f));
    }
  }
}
