// How tiles come to the slots of a forward through shared memory. Included after fwd_row.cuh.
//
// A Pipe fills slots. begin, by all threads, stands before the first fill. fill begins to bring the tile
// whose first row is first, if there is one. wait waits for the tile of a slot. parity changes each
// time that all slots have had a turn. (at.first is no row: it is the CTA's first vector of each.)

#if COPY_PATH == 2
// One thread has whole rows brought by bulk copies, for which all wait on the slot's barrier. They move
// multiples of 16 bytes, so fwd_smem_pipe.yaml has no RAGGED rows here.
struct Pipe {
  Place at;
  const X *x, *res;
  i64 end, rows; // of the CTA, of all

  static __device__ __forceinline__ Barrier *barriers() {
    __shared__ Barrier full[STAGES];
    return full;
  }

  __device__ __forceinline__ void begin() const {
    if (threadIdx.x == 0) {
      for (int s = 0; s < STAGES; s++) initBarrier(barriers() + s, 1);
      fenceBarriers();
    }
    __syncthreads();
  }

  __device__ __forceinline__ void fill(int slot, i64 first) const {
    if (threadIdx.x != 0 || first >= end) return;
    int n = end - first < BLOCK_ROWS ? (int)(end - first) : BLOCK_ROWS;
    Barrier *full = barriers() + slot;
    expectBytes(full, n * at.count * VECTOR_BYTES * (1 + RESIDUAL));
    copyRows(slots + slot * SLOT, x, first, n, full);
    if (RESIDUAL) copyRows(slots + slot * SLOT + PART, res, first, n, full);
  }

  // copyRows begins the copies of n rows of a tensor, as far as they are the CTA's.
  __device__ __forceinline__ void copyRows(char *part, const X *tensor, i64 first, int n, Barrier *full) const {
    u32 bytes = at.count * VECTOR_BYTES;
    if (CLUSTER == 1) {
      bulkRow(part, tensor + first * COLS, n * bytes, full); // whole rows stand one after the other in memory too
      return;
    }
    for (int r = 0; r < n; r++) bulkRow(part + r * SLICE * VECTOR_BYTES, tensor + (first + r) * COLS + at.first * VEC, bytes, full);
  }

  __device__ __forceinline__ void wait(int slot, u32 parity) const { waitBarrier(barriers() + slot, parity); }
};
#else
// Each thread copies its own vectors, and waits for these alone.
struct Pipe {
  Place at;
  const X *x, *res;
  i64 end, rows; // of the CTA, of all

  __device__ __forceinline__ void begin() const {}

  __device__ __forceinline__ void fill(int slot, i64 first) const {
    RowLayout row(at, first + at.group);
    if (row.row < end) {
      copyRow(slots + slot * SLOT, x, row);
      if (RESIDUAL) copyRow(slots + slot * SLOT + PART, res, row);
    }
    commitCopies(); // in any case: wait counts groups of copies, one for each fill
  }

  // copyRow begins the copies of a row, with what its vectors have of the neighbouring rows. A vector
  // that would reach past the tensor's end (left elements from the row on) is read element by element.
  __device__ __forceinline__ void copyRow(char *part, const X *tensor, const RowLayout &row) const {
    if (VECTOR_BYTES < 4) return loadRow(part, tensor, row);
    i64 left = (rows - row.row) * COLS;
    tensor += row.row * COLS;
#pragma unroll 8
    for (int i = 0; i < L; i++)
      if (row.inside(i)) {
        int c = row.column(i);
        if (!RAGGED || Place::endOf(i) + VEC <= COLS || c + VEC <= left) ::copyRow<VECTOR_BYTES < 4 ? 4 : VECTOR_BYTES>(part + at.offset(i), tensor + c);
        else storeShared<VECTOR_BYTES>(part + at.offset(i), loadSome<X>(tensor, c));
      }
  }

  // loadRow does the same through registers, as there are no asynchronous copies of 2 bytes: it waits
  // for what it loads. (::loadRow and ::copyRow are of single vectors.)
  __device__ __forceinline__ void loadRow(char *part, const X *tensor, const RowLayout &row) const {
    constexpr int BATCH = imin(L, 8); // vectors in flight
    for (int first = 0; first < L; first += BATCH) {
      RowVec v[BATCH];
#pragma unroll
      for (int i = 0; i < BATCH; i++)
        if (first + i < L && row.inside(first + i)) v[i] = row.load(tensor, first + i);
#pragma unroll
      for (int i = 0; i < BATCH; i++)
        if (first + i < L && row.inside(first + i)) storeShared(part + at.offset(first + i), v[i]);
    }
  }

  __device__ __forceinline__ void wait(int, u32) const { waitCopies<STAGES - 1>(); }
};
#endif
