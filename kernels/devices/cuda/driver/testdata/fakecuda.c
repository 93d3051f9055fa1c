/* A libcuda.so.1 of an old driver, for TestFakeDriverAnswersThroughTheTrampolines: device memory is
 * host memory, work is done at once, and the one kernel writes down how it was launched. It lacks
 * cuLaunchKernelEx, cuEventElapsedTime_v2 and cuDeviceGetUuid_v2. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t ptr;

static int clock_ms, waited_ms;

int cuInit(unsigned flags) { return flags ? 1 : 0; }
int cuDriverGetVersion(int *v) { return *v = 11070, 0; }
int cuGetErrorName(int code, const char **name) {
  *name = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : code == 801 ? "CUDA_ERROR_NOT_SUPPORTED" : NULL;
  return *name ? 0 : 1;
}
int cuDeviceGetCount(int *n) { return *n = 1, 0; }
int cuDeviceGet(int *dev, int ordinal) { return *dev = ordinal, 0; }
int cuDeviceGetName(char *name, int len, int dev) { return strncpy(name, "Fake", len), 0; }
int cuDeviceGetUuid(unsigned char *uuid, int dev) { return memset(uuid, 0xab, 16), 0; }
int cuDeviceTotalMem_v2(size_t *n, int dev) { return *n = (size_t)80 << 30, 0; }
int cuDeviceGetAttribute(int *v, int attribute, int dev) { return *v = attribute, 0; }
int cuCtxCreate_v2(void **ctx, unsigned flags, int dev) { return *ctx = (void *)1, 0; }
int cuCtxDestroy_v2(void *ctx) { return ctx == (void *)1 ? 0 : 201; }
int cuCtxSynchronize(void) { return 0; }
int cuStreamCreate(void **s, unsigned flags) { return *s = (void *)0x57, flags == 1 ? 0 : 1; }
int cuStreamSynchronize(void *s) { return waited_ms = clock_ms, s == (void *)0x57 ? 0 : 400; }
int cuEventCreate(int **e, unsigned flags) { return *e = calloc(1, sizeof **e), 0; }
int cuEventRecord(int *e, void *s) { return *e = ++clock_ms, s == (void *)0x57 ? 0 : 400; }
/* CUDA_ERROR_NOT_READY until the host has waited. One never recorded is reached, as with the real driver. */
int cuEventQuery(int *e) { return *e > waited_ms ? 600 : 0; }
int cuEventElapsedTime(float *ms, int *a, int *b) { return *ms = (float)(*b - *a), 0; }
int cuMemAlloc_v2(ptr *p, size_t n) {
  if (n > (size_t)1 << 40) return 2;
  return *p = (ptr)(uintptr_t)malloc(n), 0;
}
int cuMemFree_v2(ptr p) { return free((void *)p), 0; }
int cuMemcpyHtoD_v2(ptr dst, const void *src, size_t n) { return memcpy((void *)dst, src, n), 0; }
int cuMemcpyDtoH_v2(void *dst, ptr src, size_t n) { return waited_ms = clock_ms, memcpy(dst, (void *)src, n), 0; }
int cuMemcpyDtoDAsync_v2(ptr dst, ptr src, size_t n, void *s) { return memcpy((void *)dst, (void *)src, n), 0; }
int cuMemsetD8Async(ptr p, unsigned char v, size_t n, void *s) { return memset((void *)p, v, n), 0; }
int cuModuleLoadData(void **m, const void *image) { return *m = (void *)7, memcmp(image, "\x7f" "ELF\0x", 6) ? 200 : 0; }
int cuModuleGetFunction(void **f, void *m, const char *name) { return *f = (void *)9, m != (void *)7 || strcmp(name, "k") ? 500 : 0; }
int cuFuncSetAttribute(void *f, int attribute, int value) { return f == (void *)9 && attribute == 8 && value == 65536 ? 0 : 1; }
int cuFuncGetAttribute(int *v, int attribute, void *f) { return *v = 100 + attribute, 0; }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, void *f, int block, size_t shared) { return *n = block / 32, 0; }
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **params, void **extra) {
  if (f != (void *)9 || extra != NULL || gx == 0) return 1;
  uint64_t *out = (uint64_t *)(uintptr_t)*(uint64_t *)params[0];
  const uint64_t seen[] = {gx, gy, gz, bx, by, bz, shared, (uint64_t)(uintptr_t)stream,
                           *(uint64_t *)params[1], *(uint32_t *)params[2]};
  memcpy(out, seen, sizeof seen);
  return 0;
}
