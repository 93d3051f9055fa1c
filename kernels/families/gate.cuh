// What the plain kernels of gated norms share: a gate act(z), which is SiLU or the sigmoid, behind the
// norm or ahead of it.
#ifndef SIGMOID
#define SIGMOID 0 // 0 or 1: whether the gate is sigmoid(z), not z*sigmoid(z)
#endif
#ifndef GATE_FIRST
#define GATE_FIRST 0 // 0 or 1: whether x times the gate is normalized
#endif
#include "plain.cuh"

__device__ __forceinline__ float sigmoid(float z) { return 1 / (1 + expf(-z)); }

// gateAt is act(z) of element i.
__device__ __forceinline__ float gateAt(const X *z, i64 i) {
  float v = at<X_TYPE>(z + i);
  return SIGMOID ? sigmoid(v) : v * sigmoid(v);
}

// slopeAt is the derivative of act(z) of element i. 1 - sigmoid(z) is sigmoid(-z), which loses nothing.
__device__ __forceinline__ float slopeAt(const X *z, i64 i) {
  float v = at<X_TYPE>(z + i);
  return SIGMOID ? sigmoid(v) * sigmoid(-v) : sigmoid(v) * (1 + v * sigmoid(-v));
}

// normedAt is element i of what is normalized: of x, or of x times the gate.
__device__ __forceinline__ float normedAt(const X *x, const X *z, i64 i) {
  return at<X_TYPE>(x + i) * (GATE_FIRST ? gateAt(z, i) : 1.f);
}

// behindAt is the gate on what has been normalized, or one.
__device__ __forceinline__ float behindAt(const X *z, i64 i) { return GATE_FIRST ? 1.f : gateAt(z, i); }

// putGradients stores dx and dz of element i, where d is the gradient of what is normalized and v what it
// has become: xhat*w + b.
__device__ __forceinline__ void putGradients(X *dx, X *dz, const X *x, const X *dy, const X *z, i64 i, float d, float v) {
  put<X_TYPE>(dx + i, GATE_FIRST ? d * gateAt(z, i) : d);
  put<X_TYPE>(dz + i, (GATE_FIRST ? d * at<X_TYPE>(x + i) : at<X_TYPE>(dy + i) * v) * slopeAt(z, i));
}
