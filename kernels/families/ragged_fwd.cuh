// The columns of a forward whose rows may be ragged, after ragged.cuh.

// wholeBetween tells the compiler what is known of a vector at column c: that it begins in
// the row, that it ends there. Of the vectors of a thread only the first and the last ones
// can have elements of other rows, and code for that is several times a vector's own.
__device__ __forceinline__ void wholeBetween(int c, bool begins, bool ends) {
  if (RAGGED && begins) __builtin_assume(c >= 0);
  if (RAGGED && ends) __builtin_assume(c + VEC <= COLS);
}

// sliceCols is how many columns program r of a cluster, with SLICE vectors of a row, has of
// one that starts shift elements behind an aligned vector.
template <int SLICE> __device__ __forceinline__ float sliceCols(int r, int shift) {
  int first = r * SLICE * VEC - shift, end = first + SLICE * VEC;
  return (float)((end < COLS ? end : COLS) - (first > 0 ? first : 0));
}
