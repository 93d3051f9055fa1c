// RMSNorm backward, plain.
//
//   x (M,N), dy (M,N), [dres (M,N)], [w (N)], rstd (M) fp32, [dw_in (N)], [db_in (N)] ->
//     dx (M,N), [dw (N)], [db (N)]
//
//   g = dy*w,  xhat = x*rstd,  dx = rstd*(g - xhat*mean(g*xhat)) + dres
//   dw = dw_in + sum over rows of dy*xhat,  db = db_in + sum over rows of dy
//
// Two kernels, each of which reads x and dy: rows for dx, columns for dw and db. Faster designs
// read them once, keep sums of dw in the CTAs that have the rows, and add those up at the end
// (bwd_reg_persist.cu).
#include "plain.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
backward(const X *x, const X *dy, const X *dres, const W *w, const float *rstd, X *dx, i64 rows) {
  for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
    float r = rstd[row], sum = 0;
    for (int c = threadIdx.x; c < COLUMNS; c += THREADS) {
      float g = at<X_TYPE>(dy + row * COLUMNS + c) * weightAt(w, c);
      sum += g * (at<X_TYPE>(x + row * COLUMNS + c) * r);
    }
    float mean = sumOverCTA(sum) / COLUMNS;
    for (int c = threadIdx.x; c < COLUMNS; c += THREADS) {
      float g = at<X_TYPE>(dy + row * COLUMNS + c) * weightAt(w, c);
      float h = at<X_TYPE>(x + row * COLUMNS + c) * r;
      put<X_TYPE>(dx + row * COLUMNS + c, r * (g - h * mean) + (dres ? at<X_TYPE>(dres + row * COLUMNS + c) : 0.f));
    }
  }
}

// A thread has one column.
extern "C" __global__ void __launch_bounds__(THREADS)
gradients(const X *x, const X *dy, const float *rstd, const W *dw_in, const W *db_in, W *dw, W *db, i64 rows) {
  int c = blockIdx.x * THREADS + threadIdx.x;
  if (c >= COLUMNS) return;
  float sumW = dw_in ? at<W_TYPE>(dw_in + c) : 0.f, sumB = db_in ? at<W_TYPE>(db_in + c) : 0.f;
  for (i64 row = 0; row < rows; row++) {
    float g = at<X_TYPE>(dy + row * COLUMNS + c);
    sumW += g * (at<X_TYPE>(x + row * COLUMNS + c) * rstd[row]);
    sumB += g;
  }
  put<W_TYPE>(dw + c, sumW);
  if (db) put<W_TYPE>(db + c, sumB);
}
