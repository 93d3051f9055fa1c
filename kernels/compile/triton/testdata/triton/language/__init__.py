bfloat16 = float16 = float32 = float8e4nv = int32 = constexpr = None
