// What a forward does with y: PlainOutput, FP8Output or TransposedOutput. A kernel makes one at its
// start, calls write for each vector of y, and finish at the end, with all threads. Included after
// fwd_row.cuh.

// OutputTensors are a kernel's argument. Only y is there in every problem.
struct OutputTensors {
  Y *y;
  const float *scale;
  float *amax, *scale_inv;
  Y *yt;
};

// PlainOutput rounds y to its type.
struct PlainOutput {
  Y *y;

  __device__ __forceinline__ PlainOutput(const OutputTensors &to, i64) : y(to.y) {}
  __device__ __forceinline__ void write(float (&f)[VEC], const RowLayout &row, int i) { row.store(y, i, pack<Y_TYPE, VEC>(f)); }
  __device__ __forceinline__ void finish() {}
};

// FP8Output rounds y*scale to e4m3. amax becomes the largest |y| before the scale, by one atomic
// operation of each CTA. CTA 0 writes scale_inv, 1/scale.
struct FP8Output {
  const OutputTensors &to;
  float scale;
  u32 most = 0; // the thread's largest |y|, as bits

  __device__ __forceinline__ FP8Output(const OutputTensors &to, i64) : to(to), scale(__ldg(to.scale)) {}

  // round returns the bytes of a vector, and leaves f scaled. Elements that are none of the row are
  // cleared first, as amax is of y alone.
  __device__ __forceinline__ Raw<Y_BYTES> round(float (&f)[VEC], const RowLayout &row, int i) {
    row.clear(f, i, 0.f);
#pragma unroll
    for (int j = 0; j < VEC; j++) {
      most = max(most, magnitude(f[j]));
      f[j] *= scale;
    }
    return pack<Y_TYPE, VEC>(f);
  }

  __device__ __forceinline__ void write(float (&f)[VEC], const RowLayout &row, int i) { row.store(to.y, i, round(f, row, i)); }

  __device__ __forceinline__ void finish() {
    amaxOver(to.amax, most);
    if (blockIdx.x == 0 && threadIdx.x == 0) *to.scale_inv = 1.0f / scale;
  }
};

// TransposedOutput is FP8Output that also writes yt (N,M): each byte alone, M bytes behind the last, as
// TransformerEngine once did. Each is a sector of its own, of 32 bytes; transpose.cu (TRANSPOSE_PATH 1)
// reads y again and writes vectors instead.
struct TransposedOutput : FP8Output {
  i64 rows;

  __device__ __forceinline__ TransposedOutput(const OutputTensors &to, i64 rows) : FP8Output(to, rows), rows(rows) {}

  __device__ __forceinline__ void write(float (&f)[VEC], const RowLayout &row, int i) {
    Raw<Y_BYTES> bytes = round(f, row, i);
    row.store(to.y, i, bytes);
#pragma unroll
    for (int j = 0; j < VEC; j++)
      if (row.has(i, j)) to.yt[(row.column(i) + j) * rows + row.row] = (Y)(bytes.word[j / 4] >> j % 4 * 8);
  }
};
