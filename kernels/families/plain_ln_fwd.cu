// LayerNorm forward, plain.
//
//   x (M,N), [res (M,N)], [w (N)], [b (N)] -> y (M,N), [resout (M,N)], rstd (M), mean (M) fp32
//
//   h = x + res,  rstd = 1/sqrt(mean((h-mean)²) + eps),  y = (h-mean)*rstd*w + b
//
// The row is read three times: for its mean, for the sum of squares around it, then for y. Sums of
// h and h² in one reading would lose the variance of rows whose mean is large.
#include "plain.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
forward(const X *x, const X *res, const W *w, const W *b, X *y, X *resout, float *rstd, float *mean, i64 rows, float eps) {
  for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
    float sum = 0, squares = 0;
    for (int c = threadIdx.x; c < COLUMNS; c += THREADS) {
      float h = sumAt(x, res, row * COLUMNS + c);
      sum += h;
      if (resout) put<X_TYPE>(resout + row * COLUMNS + c, h);
    }
    float mu = sumOverCTA(sum) / COLUMNS;
    for (int c = threadIdx.x; c < COLUMNS; c += THREADS) {
      float d = sumAt(x, res, row * COLUMNS + c) - mu;
      squares += d * d;
    }
    float r = 1 / sqrtf(sumOverCTA(squares) / COLUMNS + eps);
    if (threadIdx.x == 0) rstd[row] = r, mean[row] = mu;
    for (int c = threadIdx.x; c < COLUMNS; c += THREADS)
      put<X_TYPE>(y + row * COLUMNS + c, (sumAt(x, res, row * COLUMNS + c) - mu) * r * weightAt(w, c) + biasAt(b, c));
  }
}
