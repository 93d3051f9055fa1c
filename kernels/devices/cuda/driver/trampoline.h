//go:build cuda

#ifndef NORMBENCH_TRAMPOLINE_H
#define NORMBENCH_TRAMPOLINE_H

/* Loads libcuda.so.1 and calls its cuInit, whose CUresult it stores in *result. Returns NULL if
 * the library was loaded, else the loader's message, which is empty if there is no such file. Call
 * it once. */
const char *nb_load(int *result);

#endif
