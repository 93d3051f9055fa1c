//go:build cuda

#ifndef NORMBENCH_LAUNCH_H
#define NORMBENCH_LAUNCH_H

#include <stdint.h>

enum { NB_LAUNCH, NB_MEMSET8, NB_COPY, NB_RECORD }; /* = StepKind in step.go */
enum { NB_MAX_ARGS = 128 };                                      /* = maxArgs in step.go */

/* One operation, as Go lays it out: no pointers, so Go memory can be passed as it is. */
typedef struct {
  uint32_t kind;
  uint32_t grid[3], block[3], cluster[3]; /* cluster[0] is 0 for a launch without one */
  uint32_t shared;                        /* dynamic, bytes */
  uint32_t programmatic;                  /* may start before the kernel ahead has ended */
  uint32_t nargs;
  uint32_t value; /* of a memset */
  uint64_t args;  /* index of the first slot */
  uint64_t firsts; /* index of the list of the arguments' first slots, counted from args; 0 where each has one slot */
  uint64_t func, event, ptr, src, bytes;
} nb_step;

/* Enqueues the steps in order and stops at the first that fails. Returns 0, or the index of the
 * step in the upper and its CUresult in the lower 32 bits. The result of a step is never 0 then. */
int64_t nb_enqueue(uint64_t stream, const nb_step *steps, int n, uint64_t *args);

/* The name of a CUresult, or NULL. */
const char *nb_error_name(int result);

int nb_func_set(uint64_t func, int attribute, int value);
/* How many clusters of a launch fit on the device at once. */
int nb_max_active_clusters(int *count, uint64_t func, const uint32_t grid[3], uint32_t block, uint32_t shared, uint32_t cluster);
int nb_max_dynamic_shared(void); /* value of CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */

#endif
