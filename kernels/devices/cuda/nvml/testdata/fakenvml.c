/* A libnvidia-ml.so.1 for TestLoaderReachesNVML: one device, and most functions are not there. */
#include <string.h>

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6 };

int nvmlInit_v2(void) { return OK; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int r) { return r == NOT_FOUND ? "Not Found" : "Fake Error"; }

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
  static int it;
  if (strcmp(uuid, "GPU-fake") != 0) return NOT_FOUND;
  *device = &it;
  return OK;
}

int nvmlDeviceGetName(void *device, char *name, unsigned length) {
  (void)device;
  strncpy(name, "Fake", length);
  return OK;
}

int nvmlSystemGetCudaDriverVersion(int *version) {
  *version = 13000;
  return OK;
}

int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending) {
  (void)device;
  *current = *pending = 0;
  return OK;
}

int nvmlDeviceGetMaxClockInfo(void *device, int type, unsigned *mhz) {
  (void)device;
  *mhz = type == 1 ? 1980 : 3201; /* NVML_CLOCK_SM */
  return OK;
}

int nvmlDeviceGetClockInfo(void *device, int type, unsigned *mhz) {
  (void)device;
  *mhz = type == 1 ? 1200 : 3201;
  return OK;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *mw) {
  (void)device;
  *mw = 345500;
  return OK;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *c) {
  (void)device, (void)sensor;
  *c = 99;
  return NOT_SUPPORTED;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *mask) { /* an old driver's name */
  (void)device;
  *mask = 4;
  return OK;
}
