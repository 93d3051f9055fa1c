//go:build cuda

/* Defines the functions of libcuda.so.1 in the program itself, as jumps through pointers that
 * nb_load fills with dlopen. doc.go says why. This file must not include cuda.h: the symbols
 * have no C types here, so a jump passes arguments of any number and kind through. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "trampoline.h"

#define HIDDEN __attribute__((visibility("hidden")))

enum { SUCCESS = 0, NOT_INITIALIZED = 3, NOT_SUPPORTED = 801 }; /* values of CUresult */

static int unavailable(void) { return NOT_INITIALIZED; } /* before nb_load, or without a driver */
static int missing(void) { return NOT_SUPPORTED; }       /* the driver is too old for the function */

/* cu's init function calls this and exits the program if it fails, so it does nothing. nb_load
 * calls the real one. */
HIDDEN int cuInit(unsigned flags) {
  (void)flags;
  return SUCCESS;
}

/* Hidden, so that libcuda and what it loads cannot bind to these names. */
#if defined(__x86_64__)
#define JUMP(name) "jmp *nb_slot_" #name "(%rip)\n"
#elif defined(__aarch64__)
#define JUMP(name) "adrp x16, nb_slot_" #name "\nldr x16, [x16, :lo12:nb_slot_" #name "]\nbr x16\n"
#else
#error "normbench has no CUDA trampolines for this architecture"
#endif
#define X(name)                                                                              \
  HIDDEN __attribute__((used)) void *nb_slot_##name = (void *)unavailable;                   \
  __asm__(".text\n.p2align 4\n.globl " #name "\n.hidden " #name "\n.type " #name ", %function\n" \
          #name ":\n" JUMP(name) ".size " #name ", .-" #name "\n");
#include "symbols.h"
#undef X

static const struct {
  const char *name;
  void **slot;
} table[] = {
#define X(name) {#name, &nb_slot_##name},
#include "symbols.h"
#undef X
};

/* Some names with a version exist in new drivers only, with a predecessor that does the same for
 * what is asked here: code compiled against new headers then runs on an old driver too. */
static const char *predecessor(const char *name) {
  if (strcmp(name, "cuEventElapsedTime_v2") == 0) return "cuEventElapsedTime"; /* 12.8 */
  if (strcmp(name, "cuDeviceGetUuid_v2") == 0) return "cuDeviceGetUuid";       /* 11.4 */
  return NULL;
}

const char *nb_load(int *result) {
  /* The second and third are where WSL and NixOS keep the driver. */
  static const char *const files[] = {
      "libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", "/run/opengl-driver/lib/libcuda.so.1"};
  const char *why = NULL;
  void *lib = NULL;
  *result = NOT_INITIALIZED;
  for (size_t i = 0; lib == NULL && i < sizeof files / sizeof *files; i++) {
    lib = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    if (lib == NULL) {
      /* "No such file" is the usual case and worth no words; a library that is there and
       * does not load is. */
      const char *msg = dlerror();
      if (why == NULL && msg != NULL && strstr(msg, "No such file") == NULL) {
        static char copy[512]; /* dlerror's text does not outlive the next dlopen */
        strncpy(copy, msg, sizeof copy - 1);
        why = copy;
      }
    }
  }
  if (lib == NULL) return why != NULL ? why : "";
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    void *f = dlsym(lib, table[i].name);
    if (f == NULL && predecessor(table[i].name) != NULL) f = dlsym(lib, predecessor(table[i].name));
    *table[i].slot = f != NULL ? f : (void *)missing;
  }
  int (*init)(unsigned) = (int (*)(unsigned))dlsym(lib, "cuInit");
  *result = init != NULL ? init(0) : NOT_SUPPORTED;
  return NULL;
}
