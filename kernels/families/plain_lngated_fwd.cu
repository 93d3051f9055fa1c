// Gated LayerNorm forward, plain.
//
//   x (M,N), z (M,N), [w (N)], [b (N)] -> y (M,N), rstd (M), mean (M) fp32
//
//   rstd = 1/sqrt(mean((h-mean)²) + eps)
//   behind the norm: h = x,           y = ((h-mean)*rstd*w + b)*act(z)
//   GATE_FIRST:      h = x*act(z),    y = (h-mean)*rstd*w + b
//
// As plain_ln_fwd.cu, with a gate.
#include "gate.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
forward(const X *x, const X *z, const W *w, const W *b, X *y, float *rstd, float *mean, i64 rows, float eps) {
  for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {
    float sum = 0, squares = 0;
    for (int c = threadIdx.x; c < COLUMNS; c += THREADS) sum += normedAt(x, z, row * COLUMNS + c);
    float mu = sumOverCTA(sum) / COLUMNS;
    for (int c = threadIdx.x; c < COLUMNS; c += THREADS) {
      float d = normedAt(x, z, row * COLUMNS + c) - mu;
      squares += d * d;
    }
    float r = 1 / sqrtf(sumOverCTA(squares) / COLUMNS + eps);
    if (threadIdx.x == 0) rstd[row] = r, mean[row] = mu;
    for (int c = threadIdx.x; c < COLUMNS; c += THREADS) {
      i64 i = row * COLUMNS + c;
      put<X_TYPE>(y + i, ((normedAt(x, z, i) - mu) * r * weightAt(w, c) + biasAt(b, c)) * behindAt(z, i));
    }
  }
}
