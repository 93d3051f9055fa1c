/* A libcupti for TestFake: no GPU, and the records that the environment asks for, delivered by a
 * thread of its own as CUPTI's are. Variables: FAKE_CUPTI_VERSION, _SAMPLES (of flush, k1, memset,
 * memcpy, _Z2k2v), _DROPPED, _FAIL (the call that does), _UNENDED (one record has no end). */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, MAX_LIMIT_REACHED = 12, NOT_INITIALIZED = 15 };

typedef struct { uint32_t kind, pad; uint64_t bytes, start, end; uint32_t device, context, stream, correlation; uint64_t rest[6]; } other; /* 96 */
typedef struct { uint32_t kind, pad[3]; uint64_t start, end, completed; uint32_t device, context, stream, grid[3], block[3], memory[4], correlation; uint64_t grid_id; const char *name; uint64_t rest[13]; } kernel; /* 216 */
_Static_assert(sizeof(other) == 96 && sizeof(kernel) == 216, "sizes");

static void (*requested)(uint8_t **, size_t *, size_t *);
static void (*completed)(void *, uint32_t, uint8_t *, size_t, size_t);
static unsigned enabled;
static uint64_t now = 1000;

static int number(const char *name, int otherwise) { return getenv(name) ? atoi(getenv(name)) : otherwise; }
static int fails(const char *call) { return getenv("FAKE_CUPTI_FAIL") && strcmp(getenv("FAKE_CUPTI_FAIL"), call) == 0 ? NOT_INITIALIZED : OK; }

int cuptiGetVersion(uint32_t *version) {
  *version = (uint32_t)number("FAKE_CUPTI_VERSION", 130001);
  return OK;
}

int cuptiActivityRegisterCallbacks(void *r, void *c) {
  requested = r;
  completed = c;
  return fails("register");
}

int cuptiActivityEnable(uint32_t kind) {
  enabled |= 1u << kind;
  return kind == 2 ? fails("enable") : OK;
}

int cuptiActivityDisable(uint32_t kind) {
  enabled &= ~(1u << kind);
  return OK;
}

unsigned fake_enabled(void) { return enabled; }

static uint8_t *buffer;
static size_t size, used;

static void *put(size_t bytes) {
  if (buffer != NULL && used + bytes > size) {
    completed(NULL, 0, buffer, size, used);
    buffer = NULL;
  }
  if (buffer == NULL) {
    size_t records = 99;
    used = 0;
    requested(&buffer, &size, &records);
    if (buffer == NULL || (uintptr_t)buffer % 8 != 0 || records != 0) abort();
    memset(buffer, 0xa5, size);
  }
  used += bytes;
  return buffer + used - bytes;
}

static void *deliver(void *unused) {
  (void)unused;
  const int samples = number("FAKE_CUPTI_SAMPLES", 1);
  uint8_t *empty;
  size_t n, records;
  requested(&empty, &n, &records);
  completed(NULL, 0, empty, n, 0);
  for (int i = samples - 1; i >= 0; i--) { /* the last comes first */
    for (int j = 0; j < 5; j++) {
      const uint64_t start = now + 1000 * (uint64_t)(5 * i + j), end = start + 100 * ((uint64_t)j + 1);
      const uint32_t correlation = (uint32_t)(5 * i + j);
      if (j == 2 || j == 3) {
        other *r = put(sizeof *r);
        r->kind = j == 2 ? 2 : 1;
        r->start = start, r->end = end, r->stream = 13, r->correlation = correlation;
        if (getenv("FAKE_CUPTI_UNENDED") && i == 0) r->end = 0;
      } else {
        kernel *r = put(sizeof *r);
        r->kind = 10;
        r->start = start, r->end = end, r->stream = 13, r->correlation = correlation;
        r->name = j == 0 ? "flush" : j == 1 ? "k1" : "_Z2k2v";
      }
      *(uint32_t *)put(40) = 5; /* a call of the driver, which was not asked for */
    }
  }
  now += 1000 * 5 * (uint64_t)samples;
  if (buffer != NULL) completed(NULL, 0, buffer, size, used);
  buffer = NULL;
  return NULL;
}

int cuptiActivityFlushAll(uint32_t flag) {
  pthread_t thread;
  if (flag != 1) return 1;
  pthread_create(&thread, NULL, deliver, NULL);
  pthread_join(thread, NULL);
  return fails("flush");
}

int cuptiActivityGetNextRecord(uint8_t *b, size_t valid, uint8_t **record) {
  uint8_t *next = b;
  if (*record != NULL) {
    const uint32_t kind = *(uint32_t *)*record;
    next = *record + (kind == 10 ? sizeof(kernel) : kind == 5 ? 40 : sizeof(other));
  }
  if (next >= b + valid) return MAX_LIMIT_REACHED;
  *record = next;
  return fails("next");
}

int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped) {
  if (context != NULL || stream != 0) return 1;
  *dropped = (size_t)number("FAKE_CUPTI_DROPPED", 0);
  return OK;
}
