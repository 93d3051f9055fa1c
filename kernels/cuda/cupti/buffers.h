//go:build cuda

#ifndef NORMBENCH_CUPTI_BUFFERS_H
#define NORMBENCH_CUPTI_BUFFERS_H

#include <stddef.h>
#include <stdint.h>

#define NB_HIDDEN __attribute__((visibility("hidden")))

enum { NB_CUPTI_BUFFER = 4 << 20 }; /* bytes, some 20000 kernels */

/* The callbacks for cuptiActivityRegisterCallbacks, safe on any thread. */
NB_HIDDEN void nb_cupti_requested(uint8_t **buffer, size_t *size, size_t *max_records);
NB_HIDDEN void nb_cupti_completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);

/* Makes sure that so many buffers are ready. Returns 0 without memory. */
NB_HIDDEN int nb_cupti_reserve(int n);

/* Takes the oldest completed buffer, or returns NULL. It goes back with nb_cupti_release. */
NB_HIDDEN uint8_t *nb_cupti_take(size_t *valid);
NB_HIDDEN void nb_cupti_release(uint8_t *buffer);

/* How many buffers there are, and how many of them CUPTI holds. */
NB_HIDDEN void nb_cupti_count(int *all, int *held);

/* The string at an address, for Go that has the address as a number. */
NB_HIDDEN const char *nb_cupti_text(uint64_t address);

#endif
