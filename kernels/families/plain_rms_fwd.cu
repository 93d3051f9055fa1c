// RMSNorm forward, plain.
//
//   x (M,N), [res (M,N)], [w (N)], [b (N)] -> y (M,N), [resout (M,N)], rstd (M) fp32
//
//   h = x + res,  rstd = 1/sqrt(mean(h²) + eps),  y = h*rstd*w + b
//
// The row is read twice: for its sum of squares, then for y. The second time it comes from a cache.
// Both times h is the fp32 sum: only resout is rounded. Of a zero-centered weight the tensor has w-1,
// and weightAt adds the one. CTAs stride over the rows; plain.cuh has the functions.
//
// fwd_one_row.cu, to be read next, keeps it in registers and reads 16 bytes with one instruction.
// Faster designs have several rows in flight too (fwd_cta_reg.cu, fwd_smem_pipe.cu).
#include "plain.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
forward(const X *x, const X *res, const W *w, const W *b, X *y, X *resout, float *rstd, i64 rows, float eps) {
  for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
    float squares = 0;
    for (int c = threadIdx.x; c < COLUMNS; c += THREADS) {
      float h = sumAt(x, res, row * COLUMNS + c);
      squares += h * h;
      if (resout) put<X_TYPE>(resout + row * COLUMNS + c, h);
    }
    float r = 1 / sqrtf(sumOverCTA(squares) / COLUMNS + eps);
    if (threadIdx.x == 0) rstd[row] = r;
    for (int c = threadIdx.x; c < COLUMNS; c += THREADS)
      put<X_TYPE>(y + row * COLUMNS + c, sumAt(x, res, row * COLUMNS + c) * r * weightAt(w, c) + biasAt(b, c));
  }
}
