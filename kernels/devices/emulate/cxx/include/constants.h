// Those of math_constants.h that kernels use.
#ifndef EMULATE_CONSTANTS
#define EMULATE_CONSTANTS
#define CUDART_INF_F __int_as_float(0x7f800000)
#define CUDART_NAN_F __int_as_float(0x7fffffff)
#define CUDART_MIN_DENORM_F __int_as_float(0x00000001)
#define CUDART_MAX_NORMAL_F __int_as_float(0x7f7fffff)
#define CUDART_ZERO_F 0.0f
#define CUDART_ONE_F 1.0f
#define CUDART_PI_F 3.141592654f
#define CUDART_INF (1.0 / 0.0)
#define CUDART_NAN (0.0 / 0.0)
#endif
