//go:build cuda

#include <cuda.h>
#include <stddef.h>

#include "launch.h"

#if CUDA_VERSION < 11080
#error "normbench needs the headers of CUDA 11.8 or later"
#endif

static CUresult launch(CUstream stream, const nb_step *s, uint64_t *args) {
  void *params[NB_MAX_ARGS]; /* the driver copies what they point to before it returns */
  if (s->nargs > NB_MAX_ARGS) return CUDA_ERROR_INVALID_VALUE;
  for (uint32_t i = 0; i < s->nargs; i++) params[i] = &args[s->args + (s->firsts ? args[s->firsts + i] : i)];
  CUfunction f = (CUfunction)(uintptr_t)s->func;
  if (s->cluster[0] == 0 && !s->programmatic) {
    return cuLaunchKernel(f, s->grid[0], s->grid[1], s->grid[2], s->block[0], s->block[1], s->block[2],
                          s->shared, stream, params, NULL);
  }
  CUlaunchAttribute attrs[2];
  CUlaunchConfig config = {
      .gridDimX = s->grid[0], .gridDimY = s->grid[1], .gridDimZ = s->grid[2],
      .blockDimX = s->block[0], .blockDimY = s->block[1], .blockDimZ = s->block[2],
      .sharedMemBytes = s->shared, .hStream = stream, .attrs = attrs, .numAttrs = 0,
  };
  if (s->cluster[0] != 0) {
    CUlaunchAttribute *a = &attrs[config.numAttrs++];
    a->id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    a->value.clusterDim.x = s->cluster[0];
    a->value.clusterDim.y = s->cluster[1];
    a->value.clusterDim.z = s->cluster[2];
  }
  if (s->programmatic) {
    CUlaunchAttribute *a = &attrs[config.numAttrs++];
    a->id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    a->value.programmaticStreamSerializationAllowed = 1;
  }
  return cuLaunchKernelEx(&config, f, params, NULL);
}

int64_t nb_enqueue(uint64_t stream_handle, const nb_step *steps, int n, uint64_t *args) {
  CUstream stream = (CUstream)(uintptr_t)stream_handle;
  for (int i = 0; i < n; i++) {
    const nb_step *s = &steps[i];
    CUresult r = CUDA_ERROR_INVALID_VALUE;
    switch (s->kind) {
    case NB_LAUNCH:
      r = launch(stream, s, args);
      break;
    case NB_MEMSET8:
      r = cuMemsetD8Async(s->ptr, (unsigned char)s->value, s->bytes, stream);
      break;
    case NB_COPY:
      r = cuMemcpyDtoDAsync(s->ptr, s->src, s->bytes, stream);
      break;
    case NB_RECORD:
      r = cuEventRecord((CUevent)(uintptr_t)s->event, stream);
      break;
    }
    if (r != CUDA_SUCCESS) return (int64_t)i << 32 | (int64_t)(uint32_t)r;
  }
  return 0;
}

const char *nb_error_name(int result) {
  const char *name = NULL;
  return cuGetErrorName((CUresult)result, &name) == CUDA_SUCCESS ? name : NULL;
}

int nb_func_set(uint64_t func, int attribute, int value) {
  return (int)cuFuncSetAttribute((CUfunction)(uintptr_t)func, (CUfunction_attribute)attribute, value);
}

int nb_max_active_clusters(int *count, uint64_t func, const uint32_t grid[3], uint32_t block, uint32_t shared, uint32_t cluster) {
  CUlaunchAttribute attr = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
  attr.value.clusterDim.x = cluster;
  attr.value.clusterDim.y = attr.value.clusterDim.z = 1;
  CUlaunchConfig config = {
      .gridDimX = grid[0], .gridDimY = grid[1], .gridDimZ = grid[2],
      .blockDimX = block, .blockDimY = 1, .blockDimZ = 1,
      .sharedMemBytes = shared, .attrs = &attr, .numAttrs = 1,
  };
  return (int)cuOccupancyMaxActiveClusters(count, (CUfunction)(uintptr_t)func, &config);
}
