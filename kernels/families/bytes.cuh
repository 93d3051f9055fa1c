// What designs of fp8 with its transpose share: the largest magnitude, and 4x4 bytes turned.

// largest is max(a, |b|), NaN if one is.
__device__ __forceinline__ float largest(float a, float b) {
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(a) : "f"(fabsf(b)));
  return a;
}

// turn makes rows of columns: word j of the result holds byte j of each of a to d.
__device__ __forceinline__ Raw<16> turn(u32 a, u32 b, u32 c, u32 d) {
  Raw<16> out;
  u32 ab = __byte_perm(a, b, 0x5140), cd = __byte_perm(c, d, 0x5140);
  out.word[0] = __byte_perm(ab, cd, 0x5410);
  out.word[1] = __byte_perm(ab, cd, 0x7632);
  ab = __byte_perm(a, b, 0x7362), cd = __byte_perm(c, d, 0x7362);
  out.word[2] = __byte_perm(ab, cd, 0x5410);
  out.word[3] = __byte_perm(ab, cd, 0x7632);
  return out;
}
