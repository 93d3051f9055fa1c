/* Prints where the fields are that are read of each type of record, for TestHeaders. */
#include <stddef.h>
#include <stdio.h>

#include <cuda.h>
#include <cupti_activity.h>
#include <cupti_version.h>

#define COMMON(t, name_at)                                                                              \
  printf(#t " start %zu end %zu stream %zu correlation %zu name %zu size %zu\n",                         \
         offsetof(CUpti_Activity##t, start), offsetof(CUpti_Activity##t, end),                           \
         offsetof(CUpti_Activity##t, streamId), offsetof(CUpti_Activity##t, correlationId),              \
         (size_t)(name_at), sizeof(CUpti_Activity##t))
#define KERNEL(t) COMMON(t, offsetof(CUpti_Activity##t, name))
#define OTHER(t) COMMON(t, 0)

int main(void) {
  KERNEL(Kernel4);
  KERNEL(Kernel5);
  KERNEL(Kernel6);
  KERNEL(Kernel7);
  KERNEL(Kernel8);
#if CUDA_VERSION >= 12000
  KERNEL(Kernel9);
#endif
#if CUDA_VERSION >= 13000
  KERNEL(Kernel10);
#endif
  OTHER(Memset);
  OTHER(Memset2);
  OTHER(Memset3);
  OTHER(Memset4);
  OTHER(Memcpy);
  OTHER(Memcpy3);
  OTHER(Memcpy4);
  OTHER(Memcpy5);
#if CUPTI_API_VERSION >= 28
  OTHER(Memcpy6);
#endif
  if (CUPTI_ACTIVITY_KIND_MEMCPY != 1 || CUPTI_ACTIVITY_KIND_MEMSET != 2 || CUPTI_ACTIVITY_KIND_KERNEL != 3 ||
      CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL != 10 || CUPTI_ERROR_MAX_LIMIT_REACHED != 12)
    return 1;
  return 0;
}
