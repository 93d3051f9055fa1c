// The columns of a forward whose rows may be ragged, after ragged.cuh.

// wholeBetween tells the compiler what is known of a vector at column c: with begins that it begins in
// the row, with ends that it ends there. Of the vectors of a thread only the first and the last ones
// can have elements of other rows, and code for that is several times a vector's own.
__device__ __forceinline__ void wholeBetween(int c, bool begins, bool ends) {
  if (RAGGED && begins) __builtin_assume(c >= 0);
  if (RAGGED && ends) __builtin_assume(c + VEC <= COLS);
}

// sliceCols is how many columns CTA r of a cluster, with SLICE vectors of a row, has of
// one that starts shift elements behind an aligned vector.
template <int SLICE> __device__ __forceinline__ float sliceCols(int r, int shift) {
  int first = r * SLICE * VEC - shift, end = first + SLICE * VEC;
  return (float)((end < COLS ? end : COLS) - (first > 0 ? first : 0));
}

#if CLUSTER > 1
// exchangeSums turns the sum of squares of a CTA's slice, and in layernorm its mean, into the row's, with
// one exchange: slices' means and centred squares are merged in the order of the ranks (Chan,
// Golub and LeVeque 1979). See ClusterSum.
template <int SLICE, int GROUPS>
__device__ __forceinline__ void exchangeSums(ClusterSum<1 + LAYERNORM, GROUPS, CLUSTER> &across, float &squares, float &mu, int group, int lane, int shift, int round) {
#if LAYERNORM
  float own[2] = {squares, mu};
  const float (*all)[GROUPS * 2] = across.gather(own, group, lane, round);
  squares = mu = 0.f;
#pragma unroll
  for (int r = 0; r < CLUSTER; r++) mu += all[r][2 * group + 1] * (sliceCols<SLICE>(r, shift) * INV_COLS);
#pragma unroll
  for (int r = 0; r < CLUSTER; r++) {
    float off = all[r][2 * group + 1] - mu;
    squares += all[r][2 * group] + sliceCols<SLICE>(r, shift) * off * off;
  }
#else
  float s[1] = {squares};
  across.sum(s, group, lane, round);
  squares = s[0];
#endif
}
#endif
