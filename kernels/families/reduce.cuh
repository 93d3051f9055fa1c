// The sum of partial rows, in a fixed order, for k2 (reduce.cu) and for designs
// whose last CTA to end does it.

// loadPartial reads past L1: another CTA of the same launch may have written
// what it reads.
__device__ __forceinline__ float loadPartial(const P *p) {
  float v[1];
  Raw<sizeof(P)> r;
  if constexpr (sizeof(P) == 4) r.word[0] = __ldcg((const u32 *)p);
  else r.word[0] = __ldcg((const unsigned short *)p);
  unpack<P_TYPE, 1>(r, v);
  return v[0];
}

// loadPartials is loadPartial of COUNT neighbours, at a multiple of their bytes;
// zeros at a null pointer.
template <int COUNT> __device__ __forceinline__ void loadPartials(const P *p, float (&v)[COUNT]) {
  if constexpr (COUNT == 1) {
    v[0] = p ? loadPartial(p) : 0.f;
  } else {
    static_assert(COUNT == 4, "one or four");
    Raw<COUNT * sizeof(P)> r = zero<COUNT * sizeof(P)>();
    if (p) {
      if constexpr (sizeof(P) == 4) {
        uint4 u = __ldcg((const uint4 *)p);
        r.word[0] = u.x; r.word[1] = u.y; r.word[2] = u.z; r.word[3] = u.w;
      } else {
        uint2 u = __ldcg((const uint2 *)p);
        r.word[0] = u.x; r.word[1] = u.y;
      }
    }
    unpack<P_TYPE, COUNT>(r, v);
  }
}

// finish adds up rows first, first+1, ... of partial (rows,cols), count of them,
// plus in where it is given, and stores the result to out as TYPE. All threads
// of the CTA call it; each takes every blockDim.x-th column.
template <int TYPE>
__device__ __forceinline__ void finish(const P *partial, i64 first, i64 count, i64 cols, const W *in, typename Elem<TYPE>::bits *out) {
  for (i64 c = threadIdx.x; c < cols; c += blockDim.x) {
    float s = 0.f;
#pragma unroll 8
    for (i64 p = 0; p < count; p++) s += loadPartial(partial + (first + p) * cols + c);
    if (in) s += at<W_TYPE>(in + c);
    put<TYPE>(out + c, s);
  }
}

// lastOf says whether this CTA is the last of n to come to the counter, which
// starts at zero. What the others wrote before they came is then visible to all
// threads of this one.
__device__ __forceinline__ bool lastOf(int *counter, int n) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(counter, 1) == n - 1;
  __syncthreads();
  if (last) __threadfence();
  return last;
}
