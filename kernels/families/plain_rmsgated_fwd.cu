// Gated RMSNorm forward, plain.
//
//   x (M,N), z (M,N), [w (N)], [b (N)] -> y (M,N), rstd (M) fp32
//
//   rstd = 1/sqrt(mean(h²) + eps)
//   behind the norm: h = x,           y = (h*rstd*w + b)*act(z)
//   GATE_FIRST:      h = x*act(z),    y = h*rstd*w + b
//
// As plain_rms_fwd.cu, with a gate.
#include "gate.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
forward(const X *x, const X *z, const W *w, const W *b, X *y, float *rstd, i64 rows, float eps) {
  for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
    float squares = 0;
    for (int c = threadIdx.x; c < COLUMNS; c += THREADS) {
      float h = normedAt(x, z, row * COLUMNS + c);
      squares += h * h;
    }
    float r = 1 / sqrtf(sumOverCTA(squares) / COLUMNS + eps);
    if (threadIdx.x == 0) rstd[row] = r;
    for (int c = threadIdx.x; c < COLUMNS; c += THREADS) {
      i64 i = row * COLUMNS + c;
      put<X_TYPE>(y + i, (normedAt(x, z, i) * r * weightAt(w, c) + biasAt(b, c)) * behindAt(z, i));
    }
  }
}
