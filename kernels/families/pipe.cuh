// What designs with rows in shared memory need: asynchronous copies by each
// thread (sm_80), bulk copies on barriers and clusters (sm_90), as thin names
// for the PTX instructions. Included after common.cuh.

__device__ __forceinline__ u32 sharedAddress(const void *p) { return (u32)__cvta_generic_to_shared(p); }

// ---- Copies by each thread --------------------------------------------------

// copyAsync brings 4, 8 or 16 bytes to shared memory; with in = false it writes
// zeros there instead.
template <int BYTES> __device__ __forceinline__ void copyAsync(void *dst, const void *src, bool in) {
  static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async moves 4, 8 or 16 bytes");
  int bytes = in ? BYTES : 0;
  if constexpr (BYTES == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(sharedAddress(dst)), "l"(src), "r"(bytes) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(sharedAddress(dst)), "l"(src), "n"(BYTES), "r"(bytes) : "memory");
}

// commitCopies closes a group of copies; waitCopies waits until at most LEFT of
// the thread's groups are under way.
__device__ __forceinline__ void commitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT> __device__ __forceinline__ void waitCopies() { asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory"); }

#if __CUDA_ARCH__ >= 900

// ---- Barriers and bulk copies ------------------------------------------------

typedef u64 Barrier; // in shared memory

// initBarrier: one thread, before fenceBarriers and a __syncthreads.
__device__ __forceinline__ void initBarrier(Barrier *b, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(sharedAddress(b)), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void fenceBarriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// expectBytes arrives and says how many bytes complete the phase.
__device__ __forceinline__ void expectBytes(Barrier *b, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(sharedAddress(b)), "r"(bytes) : "memory");
}

// expectMore adds to the bytes that complete the phase, without arriving.
__device__ __forceinline__ void expectMore(Barrier *b, u32 bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(sharedAddress(b)), "r"(bytes) : "memory");
}

// waitBarrier waits for the end of the phase of that parity: 0 for the first.
__device__ __forceinline__ void waitBarrier(Barrier *b, u32 parity) {
  asm volatile("{.reg .pred done;\n"
               "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@!done bra again;}" ::"r"(sharedAddress(b)), "r"(parity) : "memory");
}

// bulkLoad: one thread brings bytes (a multiple of 16, both addresses too) to
// shared memory; b's phase completes when they are there. What was read of that
// shared memory before must be behind a __syncthreads.
__device__ __forceinline__ void bulkLoad(void *dst, const void *src, u32 bytes, Barrier *b) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(sharedAddress(dst)),
               "l"(src), "r"(bytes), "r"(sharedAddress(b)) : "memory");
}

// bulkStore and bulkAdd: one thread brings bytes from shared memory, the latter
// adding floats to what is there, in whatever order CTAs come. fenceShared
// by the writers and a __syncthreads stand before, waitBulk after.
__device__ __forceinline__ void bulkStore(void *dst, const void *src, u32 bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(dst), "r"(sharedAddress(src)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void bulkAdd(float *dst, const float *src, u32 bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(dst), "r"(sharedAddress(src)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void fenceShared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void commitBulk() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// waitBulkRead: the source may be written again. waitBulk: the data is in memory.
template <int LEFT> __device__ __forceinline__ void waitBulkRead() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LEFT) : "memory"); }
template <int LEFT> __device__ __forceinline__ void waitBulk() { asm volatile("cp.async.bulk.wait_group %0;" ::"n"(LEFT) : "memory"); }

// ---- Clusters ------------------------------------------------------------------

__device__ __forceinline__ u32 clusterRank() {
  u32 r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}

// clusterSync is __syncthreads for all CTAs of the cluster.
__device__ __forceinline__ void clusterSync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// clusterArrive and clusterWait are halves of it that order nothing but barriers (behind
// fenceBarriers). For a release each thread waits until all that it has begun to load is
// there (MEMBAR.ALL.GPU).
__device__ __forceinline__ void clusterArrive() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
__device__ __forceinline__ void clusterWait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// onRank is the address that a shared variable has in another CTA.
__device__ __forceinline__ u32 onRank(const void *p, u32 rank) {
  u32 r;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(sharedAddress(p)), "r"(rank));
  return r;
}

// sendFloat stores v in another CTA's shared memory and counts 4 bytes on a
// barrier there. Both addresses come from onRank.
__device__ __forceinline__ void sendFloat(u32 dst, float v, u32 barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(dst), "r"(__float_as_uint(v)), "r"(barrier) : "memory");
}

// ClusterSum adds K values for each of GROUPS groups of threads over the SIZE
// CTAs of a cluster. It lives in shared memory. Sums come in the order of the
// ranks, so they are the same everywhere and every time.
//
// A CTA may end behind its last sum: it has got all that is sent to it.
template <int K, int GROUPS, int SIZE> struct ClusterSum {
  float part[2][SIZE][GROUPS * K];
  Barrier full[2];

  // begin: all threads, once, and clusterWait before the first sum. Between the two is time
  // for what a CTA loads first.
  __device__ __forceinline__ void begin() {
    if (threadIdx.x == 0) {
      initBarrier(&full[0], 1);
      initBarrier(&full[1], 1);
      fenceBarriers();
    }
    clusterArrive();
  }

  // gather: v holds the CTA's own values, the same in all threads of a group, each of which
  // sends to a CTA; the result, in shared memory, has those of all CTAs by rank and then
  // by group. All threads call it, as number lane of their group, with round 0, 1, 2, ...
  // Between two calls stands a __syncthreads (sumOver has one, for groups beyond
  // a warp): it keeps a slow thread's reading apart from the round after next.
  __device__ __forceinline__ const float (*gather(const float (&v)[K], int group, int lane, int round))[GROUPS * K] {
    constexpr int LANES = THREADS / GROUPS;
    int slot = round & 1;
    if (threadIdx.x == 0) expectBytes(&full[slot], SIZE * GROUPS * K * 4);
    u32 rank = clusterRank();
#pragma unroll
    for (int first = 0; first < SIZE; first += LANES)
      if (int to = first + lane; to < SIZE) {
        u32 there = onRank(&part[slot][rank][group * K], to), barrier = onRank(&full[slot], to);
#pragma unroll
        for (int k = 0; k < K; k++) sendFloat(there + 4 * k, v[k], barrier);
      }
    waitBarrier(&full[slot], round >> 1 & 1);
    return part[slot];
  }

  // sum turns v into the sums of the cluster.
  __device__ __forceinline__ void sum(float (&v)[K], int group, int lane, int round) {
    const float (*all)[GROUPS * K] = gather(v, group, lane, round);
#pragma unroll
    for (int k = 0; k < K; k++) {
      v[k] = 0.f;
#pragma unroll
      for (int from = 0; from < SIZE; from++) v[k] += all[from][group * K + k];
    }
  }
};
#endif

// ---- Rows in shared memory -----------------------------------------------------

// loadShared and storeShared move BYTES between registers and shared memory, at
// an address that is a multiple of them (of 16 where they are more).
template <int BYTES> __device__ __forceinline__ Raw<BYTES> loadShared(const void *p) {
  Raw<BYTES> r;
  if constexpr (BYTES == 2) {
    r.word[0] = *(const unsigned short *)p;
  } else if constexpr (BYTES == 4) {
    r.word[0] = *(const u32 *)p;
  } else if constexpr (BYTES == 8) {
    uint2 v = *(const uint2 *)p;
    r.word[0] = v.x; r.word[1] = v.y;
  } else {
#pragma unroll
    for (int i = 0; i < BYTES / 16; i++) {
      uint4 v = ((const uint4 *)p)[i];
      r.word[4 * i] = v.x; r.word[4 * i + 1] = v.y;
      r.word[4 * i + 2] = v.z; r.word[4 * i + 3] = v.w;
    }
  }
  return r;
}

template <int BYTES> __device__ __forceinline__ void storeShared(void *p, Raw<BYTES> r) {
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

// copyRow and bulkRow are copyAsync and bulkLoad of what is read once, under the rows'
// policy.
template <int BYTES> __device__ __forceinline__ void copyRow(void *dst, const void *src) {
#if CACHE_HINT & 5
  if constexpr (BYTES == 16)
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(sharedAddress(dst)), "l"(src), "l"(rowPolicy()) : "memory");
  else
    asm volatile("cp.async.ca.shared.global.L2::cache_hint [%0], [%1], %2, %3;" ::"r"(sharedAddress(dst)), "l"(src), "n"(BYTES), "l"(rowPolicy()) : "memory");
#else
  copyAsync<BYTES>(dst, src, true);
#endif
}

#if __CUDA_ARCH__ >= 900
__device__ __forceinline__ void bulkRow(void *dst, const void *src, u32 bytes, Barrier *b) {
#if CACHE_HINT & 5
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(sharedAddress(dst)),
               "l"(src), "r"(bytes), "r"(sharedAddress(b)), "l"(rowPolicy()) : "memory");
#else
  bulkLoad(dst, src, bytes, b);
#endif
}
#endif

#ifdef BLOCK_ROWS
// clusterTiles are the Tiles of a cluster of SIZE CTAs, the same for each of
// them: it counts as one.
template <int SIZE> __device__ __forceinline__ Tiles clusterTiles(i64 rows) {
  Tiles t(rows);
  if (SIZE > 1) {
    i64 tiles = (rows + BLOCK_ROWS - 1) / BLOCK_ROWS, clusters = gridDim.x / SIZE;
    t.stride = ROW_ORDER == 0 ? clusters * BLOCK_ROWS : BLOCK_ROWS;
    i64 share = ROW_ORDER == 0 ? BLOCK_ROWS : (tiles + clusters - 1) / clusters * BLOCK_ROWS;
    t.first = blockIdx.x / SIZE * share;
    t.end = ROW_ORDER == 0 || t.first + share > rows ? rows : t.first + share;
  }
  return t;
}
#endif
