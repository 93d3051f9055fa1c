// Gated RMSNorm backward, plain.
//
//   x (M,N), dy (M,N), z (M,N), [w (N)], [b (N)], rstd (M) fp32, [dw_in (N)], [db_in (N)] ->
//     dx (M,N), dz (M,N), [dw (N)], [db (N)]
//
//   behind the norm: h = x,         d = dy*act(z)
//   GATE_FIRST:      h = x*act(z),  d = dy
//   xhat = h*rstd,  g = d*w,  dh = rstd*(g - xhat*mean(g*xhat))
//   behind the norm: dx = dh,         dz = dy*(xhat*w + b)*act'(z)
//   GATE_FIRST:      dx = dh*act(z),  dz = dh*x*act'(z)
//   dw = dw_in + sum over rows of d*xhat,  db = db_in + sum over rows of d
//
// Two kernels as in plain_rms_bwd.cu.
#include "gate.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
backward(const X *x, const X *dy, const X *z, const W *w, const W *b, const float *rstd, X *dx, X *dz, i64 rows) {
  for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
    float r = rstd[row], sum = 0;
    for (int c = threadIdx.x; c < COLUMNS; c += THREADS) {
      i64 i = row * COLUMNS + c;
      sum += at<X_TYPE>(dy + i) * behindAt(z, i) * weightAt(w, c) * (normedAt(x, z, i) * r);
    }
    float mean = sumOverCTA(sum) / COLUMNS;
    for (int c = threadIdx.x; c < COLUMNS; c += THREADS) {
      i64 i = row * COLUMNS + c;
      float g = at<X_TYPE>(dy + i) * behindAt(z, i) * weightAt(w, c);
      float h = normedAt(x, z, i) * r;
      putGradients(dx, dz, x, dy, z, i, r * (g - h * mean), h * weightAt(w, c) + biasAt(b, c));
    }
  }
}

// A thread has one column.
extern "C" __global__ void __launch_bounds__(THREADS)
gradients(const X *x, const X *dy, const X *z, const float *rstd, const W *dw_in, const W *db_in, W *dw, W *db, i64 rows) {
  int c = blockIdx.x * THREADS + threadIdx.x;
  if (c >= COLUMNS) return;
  float sumW = dw_in ? at<W_TYPE>(dw_in + c) : 0.f, sumB = db_in ? at<W_TYPE>(db_in + c) : 0.f;
  for (i64 row = 0; row < rows; row++) {
    i64 i = row * COLUMNS + c;
    float d = at<X_TYPE>(dy + i) * behindAt(z, i);
    sumW += d * (normedAt(x, z, i) * rstd[row]);
    sumB += d;
  }
  put<W_TYPE>(dw + c, sumW);
  if (db) put<W_TYPE>(db + c, sumB);
}
