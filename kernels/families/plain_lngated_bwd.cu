// Gated LayerNorm backward, plain.
//
//   x (M,N), dy (M,N), z (M,N), [w (N)], [b (N)], rstd (M), mean (M) fp32, [dw_in (N)], [db_in (N)] ->
//     dx (M,N), dz (M,N), [dw (N)], [db (N)]
//
//   behind the norm: h = x,         d = dy*act(z)
//   GATE_FIRST:      h = x*act(z),  d = dy
//   xhat = (h-mean)*rstd,  g = d*w,  dh = rstd*(g - xhat*mean(g*xhat) - mean(g))
//   behind the norm: dx = dh,         dz = dy*(xhat*w + b)*act'(z)
//   GATE_FIRST:      dx = dh*act(z),  dz = dh*x*act'(z)
//   dw = dw_in + sum over rows of d*xhat,  db = db_in + sum over rows of d
//
// Two kernels as in plain_rms_bwd.cu.
#include "gate.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
backward(const X *x, const X *dy, const X *z, const W *w, const W *b, const float *rstd, const float *mean, X *dx, X *dz,
         i64 rows) {
  for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
    float r = rstd[row], mu = mean[row], sum1 = 0, sum2 = 0;
    for (int c = threadIdx.x; c < COLUMNS; c += THREADS) {
      i64 i = row * COLUMNS + c;
      float g = at<X_TYPE>(dy + i) * behindAt(z, i) * weightAt(w, c);
      sum1 += g * ((normedAt(x, z, i) - mu) * r);
      sum2 += g;
    }
    float mean1 = sumOverCTA(sum1) / COLUMNS, mean2 = sumOverCTA(sum2) / COLUMNS;
    for (int c = threadIdx.x; c < COLUMNS; c += THREADS) {
      i64 i = row * COLUMNS + c;
      float g = at<X_TYPE>(dy + i) * behindAt(z, i) * weightAt(w, c);
      float h = (normedAt(x, z, i) - mu) * r;
      putGradients(dx, dz, x, dy, z, i, r * (g - h * mean1 - mean2), h * weightAt(w, c) + biasAt(b, c));
    }
  }
}

// A thread has one column.
extern "C" __global__ void __launch_bounds__(THREADS)
gradients(const X *x, const X *dy, const X *z, const float *rstd, const float *mean, const W *dw_in, const W *db_in, W *dw,
          W *db, i64 rows) {
  int c = blockIdx.x * THREADS + threadIdx.x;
  if (c >= COLUMNS) return;
  float sumW = dw_in ? at<W_TYPE>(dw_in + c) : 0.f, sumB = db_in ? at<W_TYPE>(db_in + c) : 0.f;
  for (i64 row = 0; row < rows; row++) {
    i64 i = row * COLUMNS + c;
    float d = at<X_TYPE>(dy + i) * behindAt(z, i);
    sumW += d * ((normedAt(x, z, i) - mean[row]) * rstd[row]);
    sumB += d;
  }
  put<W_TYPE>(dw + c, sumW);
  if (db) put<W_TYPE>(db + c, sumB);
}
