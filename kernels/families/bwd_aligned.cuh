// AlignedRow knows how a row of whole vectors lies in memory, in a slot, and in the sums. RaggedRow
// (bwd_ragged.cuh) does the same for all other rows: a kernel chooses one. Included after bwd_pipe.cuh.
struct AlignedRow {
  static constexpr int shift = 0; // elements that the row starts behind an aligned vector

  __device__ __forceinline__ explicit AlignedRow(u32) {}

  // read returns the thread's vector i of a row in a slot, load that of a row in memory.
  __device__ __forceinline__ RowVec read(const unsigned char *row, const Place &at, int i) const {
    return loadShared<VECTOR_BYTES>(row + at.vector(i) * VECTOR_BYTES);
  }
  __device__ __forceinline__ RowVec load(const X *row, const Place &at, int i) const { return loadRow<VECTOR_BYTES>(row + at.column(i)); }

  // store writes vector i to memory; own is where vector 0 goes.
  __device__ __forceinline__ void store(X *own, const Place &, int i, const RowVec &v) const { ::store<VECTOR_BYTES>(own + i * TPR * VEC, v); }

  // loadWeight returns the weights of vector i.
  __device__ __forceinline__ Raw<W_BYTES> loadWeight(const W *w, const Place &at, int i) const { return ::load<W_BYTES>(w + at.column(i)); }

  // bring has the tile at row first, which has at least one row, brought to a slot: by the first
  // warp, behind a barrier after the slot was read. end is the end of the CTA's rows, all of
  // all rows. Whole rows lie side by side, so one copy brings them; slices are copied row by row.
  static __device__ __forceinline__ void bring(const Place &at, unsigned char *slot, Barrier *full, const X *x, const X *dy, u32 first, u32 end,
                                               i64 all) {
    int rows = TAIL && end - first < BLOCK_ROWS ? end - first : BLOCK_ROWS, lane = threadIdx.x % 32;
    int bytes = at.vecs * VECTOR_BYTES;
    if (lane == 0) expectBytes(full, 2 * rows * bytes);
    __syncwarp();
    if constexpr (CLUSTER == 1) {
      if (lane < 2) bulkRow(slot + lane * HALF, (lane ? dy : x) + (i64)first * COLS, rows * bytes, full);
    } else {
      for (int c = lane; c < 2 * rows; c += 32) {
        int r = c >> 1;
        bulkRow(slot + (c & 1) * HALF + r * PITCH, (c & 1 ? dy : x) + (i64)(first + r) * COLS + at.rank * SLICE * VEC, bytes, full);
      }
    }
  }

  // moveSums moves nothing: these rows all start alike in their vectors.
  template <bool ADD> __device__ __forceinline__ void moveSums(const ColumnSums &, const ColumnSums &, const Place &) const {}

  // writeSums writes the CTA's sums to its slice of partial rows of dw and db.
  __device__ __forceinline__ void writeSums(P *dw_out, P *db_out, const ColumnSums &dw, const ColumnSums &db, const Place &at) const {
    emitSums(dw_out, dw, at, 0);
    if (HAS_BIAS) emitSums(db_out, db, at, 1);
  }
};
