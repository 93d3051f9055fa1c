// apex's kernels as they stand. --include names the folder csrc of a checkout. What they take of PyTorch
// is here: shuffles, and types of two bytes whose sums and products are rounded, as those of its own are.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define WARP_SHFL(value, lane) __shfl_sync(0xffffffffu, value, lane)
#define WARP_SHFL_XOR(value, mask) __shfl_xor_sync(0xffffffffu, value, mask)
#define WARP_SHFL_DOWN(value, delta) __shfl_down_sync(0xffffffffu, value, delta)

namespace at {

__device__ inline void set(__nv_bfloat16 &to, float x) { to = __float2bfloat16_rn(x); }
__device__ inline void set(__half &to, float x) { to = __float2half_rn(x); }
__device__ inline float get(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float get(__half x) { return __half2float(x); }

template <typename T>
struct Narrow {
  T value;
  Narrow() = default;
  __device__ explicit Narrow(double x) { set(value, float(x)); }
  __device__ Narrow &operator=(float x) {
    set(value, x);
    return *this;
  }
  __device__ operator float() const { return get(value); }
  __device__ Narrow operator-() const { return Narrow(-get(value)); }
  __device__ Narrow operator+(Narrow x) const { return Narrow(get(value) + get(x.value)); }
  __device__ Narrow operator*(Narrow x) const { return Narrow(get(value) * get(x.value)); }
};

using BFloat16 = Narrow<__nv_bfloat16>;
using Half = Narrow<__half>;

}  // namespace at

#include <layer_norm_cuda_kernel.cu>
