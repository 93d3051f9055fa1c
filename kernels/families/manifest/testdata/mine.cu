#include "common.cuh"
extern "C" __global__ void first(const X *x, X *dy, X *dres, W *w, float *rstd, float *mean, X *dx,
  float *dw, float *db, int *arrived, float *sums, i64 rows, float eps) {}
extern "C" __global__ void second (W *db) {}
