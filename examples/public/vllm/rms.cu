// vLLM's kernels as they stand. --include names the folder csrc of a checkout or of the source distribution; before
// version 0.33 csrc/libtorch_stable too.
// PyTorch's types of two bytes, which the kernels are templates of, are these here: its headers are host code's too.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace torch {
namespace headeronly {

struct BFloat16 {
  __nv_bfloat16 value;
  BFloat16() = default;
  __device__ explicit BFloat16(float x) : value(__float2bfloat16_rn(x)) {}
  __device__ operator float() const { return __bfloat162float(value); }
  __device__ BFloat16 &operator+=(BFloat16 x) { return *this = BFloat16(float(*this) + float(x)); }
};

struct Half {
  __half value;
  Half() = default;
  __device__ explicit Half(float x) : value(__float2half_rn(x)) {}
  __device__ operator float() const { return __half2float(value); }
  __device__ Half &operator+=(Half x) { return *this = Half(float(*this) + float(x)); }
};

}  // namespace headeronly
}  // namespace torch

#if __has_include(<libtorch_stable/layernorm_kernels.cu>)
#include <libtorch_stable/layernorm_kernels.cu>
#else
#include <layernorm_kernels.cu>
#endif
