//go:build cuda

/* The buffers that CUPTI writes records to. A buffer is ready, held by CUPTI, completed, or taken;
 * none is ever freed. doc.go says why this is not Go. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "buffers.h"

typedef struct node {
  struct node *next;
  size_t valid;
  uint64_t pad[6]; /* the data begins at a multiple of 64 bytes; CUPTI wants 8 */
  uint8_t data[];
} node;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static node *ready, *completed, **completed_end = &completed;
static int all, held;

static node *of(uint8_t *buffer) { return (node *)(buffer - offsetof(node, data)); }

static node *make(void) {
  node *n = NULL;
  if (posix_memalign((void **)&n, 64, sizeof *n + NB_CUPTI_BUFFER) != 0) return NULL;
  memset(n, 0, sizeof *n + NB_CUPTI_BUFFER); /* so that no launch waits for the pages */
  return n;
}

void nb_cupti_requested(uint8_t **buffer, size_t *size, size_t *max_records) {
  *max_records = 0; /* as many as fit */
  pthread_mutex_lock(&mutex);
  node *n = ready;
  if (n != NULL) {
    ready = n->next;
  } else if ((n = make()) != NULL) {
    all++;
  }
  if (n != NULL) held++;
  pthread_mutex_unlock(&mutex);
  *buffer = n != NULL ? n->data : NULL; /* NULL: CUPTI drops records, and says so */
  *size = n != NULL ? NB_CUPTI_BUFFER : 0;
}

void nb_cupti_completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
  (void)context, (void)stream, (void)size;
  if (buffer == NULL) return;
  node *n = of(buffer);
  pthread_mutex_lock(&mutex);
  held--;
  n->valid = valid;
  if (valid == 0) {
    n->next = ready;
    ready = n;
  } else {
    n->next = NULL;
    *completed_end = n;
    completed_end = &n->next;
  }
  pthread_mutex_unlock(&mutex);
}

int nb_cupti_reserve(int want) {
  int ok = 1;
  pthread_mutex_lock(&mutex);
  for (node *n = ready; n != NULL; n = n->next) want--;
  for (; want > 0 && ok; want--) {
    node *n = make();
    if (n == NULL) {
      ok = 0;
    } else {
      all++;
      n->next = ready;
      ready = n;
    }
  }
  pthread_mutex_unlock(&mutex);
  return ok;
}

uint8_t *nb_cupti_take(size_t *valid) {
  pthread_mutex_lock(&mutex);
  node *n = completed;
  if (n != NULL) {
    completed = n->next;
    if (completed == NULL) completed_end = &completed;
    *valid = n->valid;
  }
  pthread_mutex_unlock(&mutex);
  return n != NULL ? n->data : NULL;
}

void nb_cupti_release(uint8_t *buffer) {
  node *n = of(buffer);
  pthread_mutex_lock(&mutex);
  n->next = ready;
  ready = n;
  pthread_mutex_unlock(&mutex);
}

void nb_cupti_count(int *all_, int *held_) {
  pthread_mutex_lock(&mutex);
  *all_ = all;
  *held_ = held;
  pthread_mutex_unlock(&mutex);
}

const char *nb_cupti_text(uint64_t address) { return (const char *)(uintptr_t)address; }
