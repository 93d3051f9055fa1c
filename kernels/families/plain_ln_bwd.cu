// LayerNorm backward, plain.
//
//   x (M,N), dy (M,N), [dres (M,N)], [w (N)], rstd (M), mean (M) fp32, [dw_in (N)], [db_in (N)] ->
//     dx (M,N), [dw (N)], [db (N)]
//
//   g = dy*w,  xhat = (x-mean)*rstd,  dx = rstd*(g - xhat*mean(g*xhat) - mean(g)) + dres
//   dw = dw_in + sum over rows of dy*xhat,  db = db_in + sum over rows of dy
//
// Two kernels as in plain_rms_bwd.cu. A row has two sums: the statistics depend on x twice.
#include "plain.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
backward(const X *x, const X *dy, const X *dres, const W *w, const float *rstd, const float *mean, X *dx, i64 rows) {
  for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
    float r = rstd[row], mu = mean[row], sum1 = 0, sum2 = 0;
    for (int c = threadIdx.x; c < COLUMNS; c += THREADS) {
      float g = at<X_TYPE>(dy + row * COLUMNS + c) * weightAt(w, c);
      sum1 += g * ((at<X_TYPE>(x + row * COLUMNS + c) - mu) * r);
      sum2 += g;
    }
    float mean1 = sumOverCTA(sum1) / COLUMNS, mean2 = sumOverCTA(sum2) / COLUMNS;
    for (int c = threadIdx.x; c < COLUMNS; c += THREADS) {
      float g = at<X_TYPE>(dy + row * COLUMNS + c) * weightAt(w, c);
      float h = (at<X_TYPE>(x + row * COLUMNS + c) - mu) * r;
      put<X_TYPE>(dx + row * COLUMNS + c, r * (g - h * mean1 - mean2) + (dres ? at<X_TYPE>(dres + row * COLUMNS + c) : 0.f));
    }
  }
}

// A thread has one column.
extern "C" __global__ void __launch_bounds__(THREADS)
gradients(const X *x, const X *dy, const float *rstd, const float *mean, const W *dw_in, const W *db_in, W *dw, W *db, i64 rows) {
  int c = blockIdx.x * THREADS + threadIdx.x;
  if (c >= COLUMNS) return;
  float sumW = dw_in ? at<W_TYPE>(dw_in + c) : 0.f, sumB = db_in ? at<W_TYPE>(db_in + c) : 0.f;
  for (i64 row = 0; row < rows; row++) {
    float g = at<X_TYPE>(dy + row * COLUMNS + c);
    sumW += g * ((at<X_TYPE>(x + row * COLUMNS + c) - mean[row]) * rstd[row]);
    sumB += g;
  }
  put<W_TYPE>(dw + c, sumW);
  if (db) put<W_TYPE>(db + c, sumB);
}
