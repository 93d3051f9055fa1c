// What device code may name of the headers of CUDA's runtime; the rest is in emulate.h.
#ifndef EMULATE_RUNTIME
#define EMULATE_RUNTIME
enum cudaError_t { cudaSuccess };
using cudaStream_t = struct CUstream_st *;
#endif
