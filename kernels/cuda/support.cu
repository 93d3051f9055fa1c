// What the device runs beside the kernels under test: inputs, float64 answers,
// the comparison, the flush. Types are arguments, not macros, so that one
// binary serves every problem; nothing here is timed, except the spin.

typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;

enum { FP32 = 0, BF16 = 1, FP16 = 2, E4M3 = 3 };

__device__ __forceinline__ float widen(const void *p, i64 i, int type) {
  if (type == FP32) return ((const float *)p)[i];
  if (type == E4M3) {
    u32 e = ((const unsigned char *)p)[i], exp = e >> 3 & 15, man = e & 7;
    float v = (e & 127) == 127 ? __uint_as_float(0x7fffffffu)
              : exp == 0       ? man * 0x1p-9f
                               : __uint_as_float((exp + 120) << 23 | man << 20);
    return e & 128 ? -v : v;
  }
  unsigned short b = ((const unsigned short *)p)[i];
  if (type == BF16) return __uint_as_float((u32)b << 16);
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(b));
  return f;
}

__device__ __forceinline__ void narrow(void *p, i64 i, int type, float v) {
  unsigned short b;
  if (type == FP32) {
    ((float *)p)[i] = v;
    return;
  }
  if (type == BF16) asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(b) : "f"(v));
  else asm("cvt.rn.f16.f32 %0, %1;" : "=h"(b) : "f"(v));
  ((unsigned short *)p)[i] = b;
}

__device__ __forceinline__ u64 mix(u64 z) {
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}

#define EACH(i, n) (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += (i64)gridDim.x * blockDim.x)

// ordeal is what a hostile seed makes of an element: package reference,
// Draw.ordeal.
__device__ float ordeal(u64 seed, i64 i, i64 cols, int type, int hostility, float v) {
  i64 row = i / cols, col = i % cols, one = row * 7919 % cols;
  int kind = (int)(((u64)row + seed % 8) % 8);
  if (hostility == 2) return kind == 6 && col == one ? __uint_as_float(0x7f800000u) : v;
  switch (kind) {
  case 1: return 0.f;
  case 2: return v * (type == FP16 ? 0x1p12f : 0x1p50f);
  case 3: return v * 0x1p-12f;
  case 4: return col == one ? __uint_as_float(0xff800000u) : v;
  case 5: return col == one ? __uint_as_float(0x7fc00000u) : v;
  case 7: return v * 0x1p-80f;
  }
  return v;
}

// fill draws a tensor: package reference, Draw.Value, to the bit.
extern "C" __global__ void fill(void *out, i64 n, i64 type, u64 seed, u64 stream, float unit, float scale, float offset,
                                i64 cols, i64 hostility) {
  u64 start = mix(seed + stream * 0x9e3779b97f4a7c15ull);
  for EACH(i, n) {
    u64 z = mix(start + (u64)i * 0x9e3779b97f4a7c15ull);
    int sum = (int)(z & 0xffff) + (int)(z >> 16 & 0xffff) + (int)(z >> 32 & 0xffff) + (int)(z >> 48) - 131070;
    // Explicit roundings: a fused multiply-add would give other bits.
    float v = __fmul_rn((float)sum, unit);
    v = __fadd_rn(__fmul_rn(v, scale), offset);
    narrow(out, i, (int)type, hostility ? ordeal(seed, i, cols, (int)type, (int)hostility, v) : v);
  }
}

__device__ __forceinline__ double blockSum(double v) {
  __shared__ double part[32];
  __shared__ double all;
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x == 0) {
    double s = 0;
    for (int w = 0; w < blockDim.x / 32; w++) s += part[w];
    all = s;
  }
  __syncthreads();
  return all;
}

__device__ __forceinline__ double finite(double v) { return isfinite(v) ? v : 0; }

// rows gives the float64 answers that belong to rows: the statistics, and y or
// dx. scale collects sums of squares of terms: [0] x, [1] y or dx, [2] dw,
// [3] db, [4] rstd; see reference.Answer. res is added to x in a forward, whose
// sum goes to resout, and to dx in a backward. Without w the weight is one. centered, unit and
// eps are kernels.OpSpec's, rstd is its r.
extern "C" __global__ void rows(const void *x, const void *dy, const void *w, const void *b, const void *res, double *out,
                                double *resout, double *rstd, double *mean, double *scale, i64 M, i64 N, i64 xtype,
                                i64 wtype, i64 centered, i64 unit, i64 backward, i64 zeroCentered, double eps) {
  auto input = [&](i64 i) { return (double)widen(x, i, xtype) + (res && !backward ? (double)widen(res, i, xtype) : 0); };
  auto weight = [&](i64 j) { return (w ? (double)widen(w, j, wtype) : 1) + (zeroCentered ? 1 : 0); };
  for (i64 r = blockIdx.x; r < M; r += gridDim.x) {
    i64 at = r * N;
    double mu = 0, v2 = 0, s = 0, x2 = 0;
    if (centered) {
      for (i64 j = threadIdx.x; j < N; j += blockDim.x) s += input(at + j);
      mu = blockSum(s) / N;
    }
    for (i64 j = threadIdx.x; j < N; j += blockDim.x) {
      double v = input(at + j);
      if (resout) resout[at + j] = v;
      x2 += finite(v * v);
      v2 += (v - mu) * (v - mu);
    }
    v2 = blockSum(v2);
    bool least = unit && sqrt(v2) < eps; // r is then constant
    double rs = least ? 1 / eps : unit ? 1 / sqrt(v2) : 1 / sqrt(v2 / N + eps);
    double c1 = 0, c2 = 0, sdx = 0, sdw = 0, sdb = 0;
    if (backward) {
      double s1 = 0, s2 = 0;
      for (i64 j = threadIdx.x; j < N; j += blockDim.x) {
        double v = input(at + j), h = (v - mu) * rs, d = widen(dy, at + j, xtype);
        double g = d * weight(j);
        s1 += g * h;
        s2 += g;
        sdx += finite(rs * g * rs * g);
        sdw += finite(d * d * rs * rs * (v * v + mu * mu));
        sdb += finite(d * d);
      }
      c1 = blockSum(s1);
      if (!unit) c1 /= N;
      if (least) c1 = 0;
      c2 = centered ? blockSum(s2) / N : 0;
    }
    double sy = 0;
    for (i64 j = threadIdx.x; j < N; j += blockDim.x) {
      double h = (input(at + j) - mu) * rs, wf = weight(j);
      double v;
      if (backward) {
        v = rs * ((double)widen(dy, at + j, xtype) * wf - h * c1 - c2) + (res ? (double)widen(res, at + j, xtype) : 0);
      } else {
        v = h * wf + (b ? (double)widen(b, j, wtype) : 0);
        sy += finite(v * v);
      }
      out[at + j] = v;
    }
    double sums[5] = {x2, backward ? sdx : sy, sdw, sdb, threadIdx.x ? 0 : finite(rs * rs)};
    for (int k = 0; k < 5; k++) {
      double t = blockSum(sums[k]);
      if (threadIdx.x == 0) atomicAdd(scale + k, t);
    }
    if (threadIdx.x == 0) {
      rstd[r] = rs;
      if (centered) mean[r] = mu;
    }
  }
}

// columns adds up the float64 dw and, where db is given, db: 32 columns side by
// side per block, blockDim.x/32 rows at a time, gridDim.y shares of the rows.
extern "C" __global__ void columns(const void *x, const void *dy, const double *rstd, const double *mean, double *dw,
                                   double *db, i64 M, i64 N, i64 xtype) {
  i64 c = (i64)blockIdx.x * 32 + threadIdx.x % 32;
  if (c >= N) return;
  double sw = 0, sb = 0;
  for (i64 r = (i64)blockIdx.y * (blockDim.x / 32) + threadIdx.x / 32; r < M; r += (i64)gridDim.y * (blockDim.x / 32)) {
    double d = widen(dy, r * N + c, xtype);
    sw += d * (((double)widen(x, r * N + c, xtype) - (mean ? mean[r] : 0)) * rstd[r]);
    sb += d;
  }
  if (dw) atomicAdd(dw + c, sw);
  if (db) atomicAdd(db + c, sb);
}

// round stores float64 answers in a tensor: the saved statistics of a backward.
extern "C" __global__ void roundTo(void *out, const double *in, i64 n, i64 type) {
  for EACH(i, n) narrow(out, i, (int)type, (float)in[i]);
}

// wide stores a tensor as answers: the gradients that a backward adds to.
extern "C" __global__ void wide(double *out, const void *in, i64 n, i64 type) {
  for EACH(i, n) out[i] = widen(in, i, (int)type);
}

// moved gives the answers of a stream: the sum of a, b and c, clamped for fp8.
extern "C" __global__ void moved(const void *a, const void *b, const void *c, double *out, i64 n, i64 type, double limit) {
  for EACH(i, n) {
    double s = widen(a, i, (int)type);
    if (b) s += widen(b, i, (int)type);
    if (c) s += widen(c, i, (int)type);
    out[i] = isnan(s) ? s : fmax(-limit, fmin(limit, s));
  }
}

// quantize turns the answer y into what is stored of it in fp8: package
// reference, fp8. amax is zero before.
extern "C" __global__ void quantize(double *y, double *yt, i64 M, i64 N, const float *scale, u64 *amax, double *scaleInv) {
  u64 most = 0;
  double s = *scale;
  for EACH(i, M * N) {
    double v = y[i];
    // Of numbers that are not negative, and NaN, the bits have the same order.
    u64 bits = isnan(v) ? 0x7ff8000000000000ull : (u64)__double_as_longlong(fabs(v));
    if (bits > most) most = bits;
    v = isnan(v) ? v : fmax(-448.0, fmin(448.0, v * s));
    y[i] = v;
    if (yt) yt[i % N * M + i / N] = v;
  }
  atomicMax(amax, most);
  if (blockIdx.x == 0 && threadIdx.x == 0) *scaleInv = 1 / s;
}

// digest adds up a hash of the place and bits of every element, in no order:
// kernels.Memory's Digest.
extern "C" __global__ void digest(const void *p, i64 n, i64 size, u64 *sum) {
  u64 h = 0;
  for EACH(i, n) {
    u64 bits = size == 4 ? ((const u32 *)p)[i] : size == 2 ? ((const unsigned short *)p)[i] : ((const unsigned char *)p)[i];
    h += mix(((u64)i << 32 ^ (u64)i >> 32) ^ bits ^ 0x9e3779b97f4a7c15ull);
  }
  atomicAdd(sum, h);
}

// squares adds up the squares of n answers.
extern "C" __global__ void squares(const double *in, i64 n, double *sum) {
  double s = 0;
  for EACH(i, n) s += finite(in[i] * in[i]);
  s = blockSum(s);
  if (threadIdx.x == 0) atomicAdd(sum, s);
}

// Outcome is package cuda's struct of the same name.
struct Outcome {
  u64 bad, first, worst; // worst is the bits of a double that is not negative
  double err2, want2;
};

// compare checks a tensor against its answers: package reference, Compare.
extern "C" __global__ void compare(const void *got, const double *want, i64 n, i64 type, double rel, double abs_, double limit,
                                   Outcome *o) {
  double err2 = 0, want2 = 0, worst = 0;
  u64 bad = 0, first = ~0ull;
  for EACH(i, n) {
    double g = widen(got, i, (int)type), w = want[i];
    if (fabs(w) >= limit) w = copysign(1.0 / 0.0, w);
    if (g == w || (isnan(g) && isnan(w))) {
      want2 += finite(w * w);
      continue;
    }
    double diff = fabs(g - w), ratio = diff / (abs_ + rel * fabs(w));
    if (isnan(ratio)) {
      ratio = 1.0 / 0.0;
    } else {
      err2 += diff * diff;
      want2 += w * w;
    }
    if (ratio > 1) {
      bad++;
      if ((u64)i < first) first = i;
    }
    worst = fmax(worst, ratio);
  }
  err2 = blockSum(err2);
  want2 = blockSum(want2);
  if (threadIdx.x == 0) {
    atomicAdd(&o->err2, err2);
    atomicAdd(&o->want2, want2);
  }
  if (bad) {
    atomicAdd(&o->bad, bad);
    atomicMin(&o->first, first);
  }
  if (worst > 0) atomicMax(&o->worst, (u64)__double_as_longlong(worst));
}

// differing counts the elements of size 1, 2 or 4 bytes whose bits differ.
extern "C" __global__ void differing(const void *a, const void *b, i64 n, i64 size, u64 *count) {
  u64 d = 0;
  for EACH(i, n)
    d += size == 4   ? ((const u32 *)a)[i] != ((const u32 *)b)[i]
         : size == 2 ? ((const unsigned short *)a)[i] != ((const unsigned short *)b)[i]
                     : ((const unsigned char *)a)[i] != ((const unsigned char *)b)[i];
  if (d) atomicAdd(count, d);
}

// flush reads a buffer larger than the L2. Reading leaves clean lines; after a
// write the kernel under test would pay for writing the flush back to memory.
//
// Lines that a kernel asked L2 to keep (evict_last) would outlast a plain reading. So it
// reads under the same policy, which leaves room for nobody, and letGo takes it back, of
// lines of 128 bytes.
extern "C" __global__ void flush(const uint4 *p, i64 n, u32 *never) {
  u32 s = 0;
#if __CUDA_ARCH__ >= 800
  u64 policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
#endif
  for EACH(i, n) {
    uint4 v;
#if __CUDA_ARCH__ >= 800
    asm volatile("ld.global.L2::cache_hint.v4.b32 {%0, %1, %2, %3}, [%4], %5;" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p + i), "l"(policy));
#else
    v = __ldcg(p + i);
#endif
    s += v.x ^ v.y ^ v.z ^ v.w;
  }
  if (s == 0x9e3779b9u) *never = s;
}

extern "C" __global__ void letGo(const char *p, i64 lines) {
#if __CUDA_ARCH__ >= 800
  for EACH(i, lines) asm volatile("applypriority.global.L2::evict_normal [%0], 128;" ::"l"(p + 128 * i) : "memory");
#endif
}

// spin keeps one thread busy for about ns nanoseconds.
extern "C" __global__ void spin(u64 ns) {
  u64 start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - start < ns);
}
