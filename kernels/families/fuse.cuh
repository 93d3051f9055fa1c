// Partial rows added up by the CTAs that end last, in a fixed order, instead
// of by k2: in one level (llm.c's layernorm_backward_kernel10; quack PR 110) or
// in two (quack PR 101). Included after common.cuh and reduce.cuh.
//
// Against reduce.cuh's finish, a thread takes four neighbouring columns and has
// eight rows in flight, and threads that find no column share the rows: the last
// CTA stands alone on the device, so its latency is everything.

// keepSums stores BYTES that another CTA, or k2, reads again soon.
template <int BYTES> __device__ __forceinline__ void keepSums(void *p, Raw<BYTES> r) {
  if constexpr (BYTES == 2) {
    *(unsigned short *)p = (unsigned short)r.word[0];
  } else if constexpr (BYTES == 4) {
    *(u32 *)p = r.word[0];
  } else if constexpr (BYTES == 8) {
    *(uint2 *)p = make_uint2(r.word[0], r.word[1]);
  } else {
#pragma unroll
    for (int i = 0; i < BYTES / 16; i++)
      ((uint4 *)p)[i] = make_uint4(r.word[4 * i], r.word[4 * i + 1], r.word[4 * i + 2], r.word[4 * i + 3]);
  }
}

// loadPast reads BYTES past L1, which may hold an older state of what another
// CTA has written.
template <int BYTES> __device__ __forceinline__ Raw<BYTES> loadPast(const void *p) {
  Raw<BYTES> r;
  if constexpr (BYTES == 2) {
    r.word[0] = __ldcg((const unsigned short *)p);
  } else if constexpr (BYTES == 4) {
    r.word[0] = __ldcg((const u32 *)p);
  } else if constexpr (BYTES == 8) {
    uint2 v = __ldcg((const uint2 *)p);
    r.word[0] = v.x; r.word[1] = v.y;
  } else {
    uint4 v = __ldcg((const uint4 *)p);
    r.word[0] = v.x; r.word[1] = v.y; r.word[2] = v.z; r.word[3] = v.w;
  }
  return r;
}

constexpr int FOLD = COLS % 4 == 0 ? 4 : 1; // columns of a thread
constexpr int FOLD_DEPTH = 8;               // rows that it has in flight

constexpr int ceilPow2(int n) { int p = 1; while (p < n) p *= 2; return p; }

// fold adds up count rows (.., COLS) of TYPE in columns lo to hi, at most SPAN of
// them, and calls out(column, sums) with each FOLD neighbours. All threads call
// it, on THREADS*FOLD floats of shared memory that nobody uses before or after
// without a __syncthreads.
template <int TYPE, int SPAN, typename Out>
__device__ __forceinline__ void fold(const typename Elem<TYPE>::bits *rows, int count, int lo, int hi, float *shared, Out out) {
  constexpr int ACROSS = imin(ceilPow2(cdiv(SPAN, FOLD)), THREADS), SHARES = THREADS / ACROSS;
  constexpr int BYTES = FOLD * sizeof(*rows);
  int place = threadIdx.x % ACROSS, share = threadIdx.x / ACROSS;
  for (int base = lo; base < hi; base += ACROSS * FOLD) { // once, if there are several shares
    int c = base + place * FOLD;
    float s[FOLD] = {};
    for (int r = share; r < count; r += SHARES * FOLD_DEPTH) {
      Raw<BYTES> raw[FOLD_DEPTH];
#pragma unroll
      for (int d = 0; d < FOLD_DEPTH; d++)
        raw[d] = c < hi && r + d * SHARES < count ? loadPast<BYTES>(rows + (i64)(r + d * SHARES) * COLS + c) : zero<BYTES>();
#pragma unroll
      for (int d = 0; d < FOLD_DEPTH; d++) {
        float v[FOLD];
        unpack<TYPE, FOLD>(raw[d], v);
#pragma unroll
        for (int j = 0; j < FOLD; j++) s[j] += v[j];
      }
    }
    if constexpr (SHARES > 1) {
      keepSums<FOLD * 4>(shared + threadIdx.x * FOLD, pack<FP32, FOLD>(s));
      __syncthreads();
#pragma unroll
      for (int g = 1; g < SHARES; g++)
#pragma unroll
        for (int j = 0; j < FOLD; j++) s[j] += shared[(g * ACROSS + place) * FOLD + j];
    }
    if (share == 0 && c < hi) out(c, s);
  }
}

// A Gradient is what is known of dw or db: the leaders (groups,COLS) of two levels, what is
// added, where it goes.
struct Gradient {
  float *leaders;
  const W *in;
  W *out;
};

// LastCTAs has the arguments of a launch whose last CTAs make the gradients: counters that start at
// zero, and for two levels how many CTAs are a group.
struct LastCTAs {
  Gradient dw, db;
  int *counters;
  i64 group;
};

// foldOut makes the gradient of count rows.
template <int TYPE, int SPAN>
__device__ __forceinline__ void foldOut(const typename Elem<TYPE>::bits *rows, int count, int lo, int hi, float *shared, const Gradient &g) {
  fold<TYPE, SPAN>(rows, count, lo, hi, shared, [&g](int c, float (&s)[FOLD]) {
    if (g.in) {
      float v[FOLD];
      unpack<W_TYPE, FOLD>(load<FOLD * sizeof(W)>(g.in + c), v);
#pragma unroll
      for (int j = 0; j < FOLD; j++) s[j] += v[j];
    }
    store<FOLD * sizeof(W)>(g.out + c, pack<W_TYPE, FOLD>(s));
  });
  __syncthreads();
}

// makeLeader adds up a group's partial rows to its leader.
template <int SPAN>
__device__ __forceinline__ void makeLeader(float *leader, const P *rows, int count, int lo, int hi, float *shared) {
  fold<P_TYPE, SPAN>(rows, count, lo, hi, shared, [leader](int c, float (&s)[FOLD]) { keepSums<FOLD * 4>(leader + c, pack<FP32, FOLD>(s)); });
  __syncthreads();
}

// sumLast: CTA program of programs has written columns lo to hi, at most SPAN, of its
// partial rows (programs,COLS). In one level (LEVELS 1) the last to come makes dw and, with a bias,
// db of them. In two the last of each group of CTAs makes a leader row of the group's rows. The last
// of those groups makes the gradients of the leaders. There is a counter for each group and one for
// all groups. rank says which of the counters are those of the columns. All threads call it, with
// THREADS*FOLD floats of shared memory that nobody uses any more.
template <int LEVELS, int SPAN>
__device__ __forceinline__ void sumLast(const LastCTAs &last, const P *dw, const P *db, int rank, int program, int programs, int lo, int hi,
                                        float *shared) {
  if constexpr (LEVELS == 1) {
    if (!lastOf(last.counters + rank, programs)) return;
    foldOut<P_TYPE, SPAN>(dw, programs, lo, hi, shared, last.dw);
    if (HAS_BIAS) foldOut<P_TYPE, SPAN>(db, programs, lo, hi, shared, last.db);
  } else {
    int group = last.group, mine = program / group, groups = (programs + group - 1) / group;
    int members = programs - mine * group < group ? programs - mine * group : group;
    int *counters = last.counters + rank * (groups + 1);
    if (!lastOf(counters + mine, members)) return;
    makeLeader<SPAN>(last.dw.leaders + (i64)mine * COLS, dw + (i64)mine * group * COLS, members, lo, hi, shared);
    if (HAS_BIAS) makeLeader<SPAN>(last.db.leaders + (i64)mine * COLS, db + (i64)mine * group * COLS, members, lo, hi, shared);
    if (!lastOf(counters + groups, groups)) return;
    foldOut<FP32, SPAN>(last.dw.leaders, groups, lo, hi, shared, last.dw);
    if (HAS_BIAS) foldOut<FP32, SPAN>(last.db.leaders, groups, lo, hi, shared, last.db);
  }
}
