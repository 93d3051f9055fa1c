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

// The roles of tensors and the kinds of rows: package reference, RowRole and RowKind.
enum { PLAIN = 0, X = 1, SCALED = 2, DY = 3, GATE = 4 };
enum { UNIT = 0, ZERO = 1, TINY = 2, LARGE = 3, MEAN = 4, VAST = 5, LOST = 6, INF = 7, ANAN = 8, INF_DY = 9 };

// special changes an element of a row as its kind says: package reference, Input.special.
__device__ float special(u64 seed, i64 row, i64 cols, i64 col, int type, int role, int kind, float v) {
  bool hit = col == row * 7919 % cols;
  if (role == DY) return kind == INF_DY && hit ? __uint_as_float(0x7f800000u) : v;
  if (role == X) {
    if (kind == MEAN) {
      u64 z = mix(mix(seed + 17 * 0x9e3779b97f4a7c15ull) + (u64)row * 0x9e3779b97f4a7c15ull);
      float m = (float)(37 + (int)(z & 63));
      return __fadd_rn(v, z & 64 ? -m : m);
    }
    if (kind == INF && hit) return __uint_as_float(0xff800000u);
    if (kind == ANAN && hit) return __uint_as_float(0x7fc00000u);
  }
  if (role == GATE && kind > LARGE) return v;
  switch (kind) {
  case ZERO: return 0.f;
  case TINY: return v * 0x1p-12f;
  case LARGE: return role == GATE ? v * 64 : v * (type == FP16 ? 0x1p9f : 0x1p20f);
  case VAST: return v * (type == FP16 ? 0x1p12f : 0x1p50f);
  case LOST: return v * 0x1p-80f;
  }
  return v;
}

// fill draws a tensor: package reference, Input.Value, to the bit. Rows r0 to r7 (-1 for none) are of the
// kinds in the bytes of kinds; row r is of the kind in byte (r + shift) % 8 of cycle or, if that is UNIT,
// of the kind all. The tensor begins at element first of the draw.
extern "C" __global__ void fill(void *out, i64 n, i64 type, u64 seed, u64 stream, float unit, float scale, float offset,
                                i64 cols, i64 role, i64 all, i64 shift, u64 cycle, u64 kinds, i64 first, i64 r0,
                                i64 r1, i64 r2, i64 r3, i64 r4, i64 r5, i64 r6, i64 r7) {
  u64 start = mix(seed + stream * 0x9e3779b97f4a7c15ull);
  const i64 listed[8] = {r0, r1, r2, r3, r4, r5, r6, r7};
  for EACH(at, n) {
    i64 i = first + at;
    u64 z = mix(start + (u64)i * 0x9e3779b97f4a7c15ull);
    int sum = (int)(z & 0xffff) + (int)(z >> 16 & 0xffff) + (int)(z >> 32 & 0xffff) + (int)(z >> 48) - 131070;
    // Explicit roundings: a fused multiply-add would give other bits.
    float v = __fmul_rn((float)sum, unit);
    v = __fadd_rn(__fmul_rn(v, scale), offset);
    if (role) {
      i64 row = i / cols;
      int kind = (int)(cycle >> 8 * ((row + shift) % 8) & 255);
      if (!kind) kind = (int)all;
#pragma unroll
      for (int k = 0; k < 8; k++)
        if (listed[k] == row) kind = (int)(kinds >> 8 * k & 255);
      if (kind) v = special(seed, row, cols, i - row * cols, (int)type, (int)role, kind, v);
    }
    narrow(out, at, (int)type, v);
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

// finiteOf leaves infinities and NaN out of a scale.
__device__ __forceinline__ double finiteOf(double v) { return isfinite(v) ? v : 0; }

// A gate is act(z) of an element with its derivative, and their sizes in the scale of what they are factors
// of: package reference, gate. Without z it is one.
struct Gate {
  double act, slope, actSize, slopeSize;
};

__device__ __forceinline__ Gate gateAt(const void *z, i64 i, i64 type, i64 sigmoid) {
  if (!z) return {1, 0, 1, 0};
  double v = widen(z, i, (int)type), up = 1 / (1 + exp(-v)), down = 1 / (1 + exp(v));
  double act = sigmoid ? up : v * up, slope = sigmoid ? up * down : up * (1 + v * down);
  return {act, slope, finiteOf(fmax(fabs(act), 0x1p-100)), finiteOf(fmax(fabs(slope), 0x1p-100))};
}

// rows gives the float64 answers that belong to rows: the statistics, and y or
// dx. outScale and xScale have the scale of the terms of each row of y or dx, and of x; sums
// collects the squares of the terms of [0] dw and [1] db; see reference.Answer. res is added to x
// in a forward, whose sum goes to resout, and to dx in a backward. Without w the weight is one. z is the gate's,
// behind the norm or, with gateFirst, ahead of it; dz and its scale, gateScale, are of a backward.
// centered, unit and eps are kernels.OpSpec's, rstd is its r. meanShare and bias, the scale of b in
// that of dw, are package reference's.
extern "C" __global__ void rows(const void *x, const void *dy, const void *w, const void *b, const void *res, double *out,
                                double *resout, double *rstd, double *mean, double *outScale, double *xScale,
                                double *sums, i64 M, i64 N, i64 xtype, i64 wtype, i64 centered, i64 unit, i64 backward,
                                i64 zeroCentered, double eps, double meanShare, double bias, const void *z, double *dz,
                                double *gateScale, i64 sigmoid, i64 gateFirst) {
  const void *ahead = gateFirst ? z : nullptr, *behind = gateFirst ? nullptr : z;
  auto plain = [&](i64 i) { return (double)widen(x, i, xtype) + (res && !backward ? (double)widen(res, i, xtype) : 0); };
  auto input = [&](i64 i) { return plain(i) * gateAt(ahead, i, xtype, sigmoid).act; };
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
      x2 += finiteOf(v * v);
      v2 += (v - mu) * (v - mu);
    }
    x2 = blockSum(x2);
    v2 = blockSum(v2);
    bool least = unit && sqrt(v2) < eps; // r is then constant
    double rs = least ? 1 / eps : unit ? 1 / sqrt(v2) : 1 / sqrt(v2 / N + eps);
    double c1 = 0, c2 = 0, terms = 0, weights = 0, sdw = 0, sdb = 0;
    if (backward) {
      double s1 = 0, s2 = 0;
      for (i64 j = threadIdx.x; j < N; j += blockDim.x) {
        double v = input(at + j), h = (v - mu) * rs, d = widen(dy, at + j, xtype);
        Gate a = gateAt(behind, at + j, xtype, sigmoid);
        double g = d * a.act * weight(j), size = d * a.actSize;
        s1 += g * h;
        s2 += g;
        terms += finiteOf(size * weight(j) * size * weight(j));
        sdw += finiteOf(size * size * (rs * rs * (v * v + mu * mu) + bias * bias));
        sdb += finiteOf(size * size);
      }
      c1 = blockSum(s1);
      if (!unit) c1 /= N;
      if (least) c1 = 0;
      c2 = blockSum(s2) / N;
    }
    double acts = 0, slopes = 0, slopeWeights = 0;
    for (i64 j = threadIdx.x; j < N; j += blockDim.x) {
      double h = (input(at + j) - mu) * rs, wf = weight(j), add = b ? (double)widen(b, j, wtype) : 0;
      double normed = h * wf + add, squares = finiteOf(h * wf * h * wf + add * add);
      Gate a = gateAt(z, at + j, xtype, sigmoid);
      double v;
      if (backward) {
        double d = widen(dy, at + j, xtype);
        v = rs * (d * (behind ? a.act : 1) * wf - h * c1 - (centered ? c2 : 0));
        if (ahead) {
          double u = plain(at + j), size = finiteOf(u) * a.slopeSize;
          dz[at + j] = v * u * a.slope;
          v *= a.act;
          acts += a.actSize * a.actSize;
          slopes += size * size;
        } else if (behind) {
          double size = finiteOf(d) * a.slopeSize;
          dz[at + j] = d * normed * a.slope;
          slopes += size * size * squares;
          slopeWeights += size * wf * size * wf;
        }
        if (res) v += (double)widen(res, at + j, xtype);
      } else {
        double by = behind ? a.actSize : 1;
        v = normed * (behind ? a.act : 1);
        terms += squares * by * by;
        weights += wf * wf * by * by;
      }
      out[at + j] = v;
    }
    acts = sqrt(blockSum(acts) / N);
    slopes = sqrt(blockSum(slopes) / N);
    slopeWeights = sqrt(blockSum(slopeWeights) / N);
    terms = sqrt(blockSum(terms) / N);
    weights = sqrt(blockSum(weights) / N);
    sdw = blockSum(sdw);
    sdb = blockSum(sdb);
    if (threadIdx.x == 0) {
      double moved = meanShare * rs * fabs(mu); // by the error of the mean
      double scale = backward ? finiteOf(rs * (terms + moved * (fabs(c1) + fabs(c2)))) : terms + finiteOf(moved) * weights;
      outScale[r] = backward && ahead ? scale * acts : scale;
      if (dz) gateScale[r] = ahead ? scale * slopes : slopes + finiteOf(moved) * slopeWeights;
      xScale[r] = sqrt(x2 / N);
      rstd[r] = rs;
      if (centered) mean[r] = mu;
      if (backward) {
        atomicAdd(sums, sdw);
        atomicAdd(sums + 1, sdb);
      }
    }
  }
}

// columns adds up the float64 dw and, where db is given, db: 32 columns side by
// side per block, blockDim.x/32 rows at a time, gridDim.y shares of the rows. z is the gate's, as rows has it.
extern "C" __global__ void columns(const void *x, const void *dy, const double *rstd, const double *mean, double *dw,
                                   double *db, i64 M, i64 N, i64 xtype, const void *z, i64 sigmoid, i64 gateFirst) {
  i64 c = (i64)blockIdx.x * 32 + threadIdx.x % 32;
  if (c >= N) return;
  double sw = 0, sb = 0;
  for (i64 r = (i64)blockIdx.y * (blockDim.x / 32) + threadIdx.x / 32; r < M; r += (i64)gridDim.y * (blockDim.x / 32)) {
    double d = widen(dy, r * N + c, xtype), v = widen(x, r * N + c, xtype);
    (gateFirst ? v : d) *= gateAt(z, r * N + c, xtype, sigmoid).act;
    sw += d * ((v - (mean ? mean[r] : 0)) * rstd[r]);
    sb += d;
  }
  if (dw) atomicAdd(dw + c, sw);
  if (db) atomicAdd(db + c, sb);
}

// roundTo stores float64 answers in a tensor: the saved statistics of a backward.
extern "C" __global__ void roundTo(void *out, const double *in, i64 n, i64 type) {
  for EACH(i, n) narrow(out, i, (int)type, (float)in[i]);
}

// wide stores a tensor as answers: the gradients that a backward adds to.
extern "C" __global__ void wide(double *out, const void *in, i64 n, i64 type) {
  for EACH(i, n) out[i] = widen(in, i, (int)type);
}

// moved gives the answers of a stream: the sum of a, b and c, clamped for fp8, and the scale of the
// terms of each row.
extern "C" __global__ void moved(const void *a, const void *b, const void *c, double *out, double *scale, i64 M, i64 N,
                                 i64 type, double limit) {
  for (i64 r = blockIdx.x; r < M; r += gridDim.x) {
    double squares = 0;
    for (i64 i = r * N + threadIdx.x; i < (r + 1) * N; i += blockDim.x) {
      double s = 0;
      for (const void *p : {a, b, c}) {
        if (!p) continue;
        double v = widen(p, i, (int)type);
        s += v;
        squares += finiteOf(v * v);
      }
      out[i] = isnan(s) ? s : fmax(-limit, fmin(limit, s));
    }
    squares = blockSum(squares);
    if (threadIdx.x == 0) scale[r] = sqrt(squares / N);
  }
}

// quantize turns the answer y into what is stored of it in fp8: package
// reference, fp8. amax is zero before. rowScale is the scale of each row's terms.
extern "C" __global__ void quantize(double *y, double *yt, i64 M, i64 N, const float *scale, u64 *amax, double *scaleInv,
                                    double *rowScale) {
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
  for EACH(r, M) rowScale[r] *= s;
  atomicMax(amax, most);
  if (blockIdx.x == 0 && threadIdx.x == 0) *scaleInv = 1 / s;
}

// untouched looks at the bands behind buffers, of n poisoned bytes each, a CTA a band: first[k] becomes
// the first byte behind buffer k that is not poison any more.
extern "C" __global__ void untouched(u64 *first, i64 n, const unsigned char *p0, const unsigned char *p1,
                                     const unsigned char *p2, const unsigned char *p3, const unsigned char *p4,
                                     const unsigned char *p5, const unsigned char *p6, const unsigned char *p7) {
  const unsigned char *bands[8] = {p0, p1, p2, p3, p4, p5, p6, p7}, *p = nullptr;
#pragma unroll
  for (int k = 0; k < 8; k++)
    if (k == blockIdx.x) p = bands[k];
  for (i64 i = threadIdx.x; i < n; i += blockDim.x)
    if (p[i] != 0xff) atomicMin(first + blockIdx.x, (u64)i);
}

// fingerprint adds up a hash of the place and bits of n bytes, 16 at a time.
extern "C" __global__ void fingerprint(const void *p, i64 n, u64 *sum) {
  u64 h = 0;
  for EACH(i, n / 16) {
    uint4 v = ((const uint4 *)p)[i];
    h += mix(((u64)v.y << 32 | v.x) ^ mix(((u64)v.w << 32 | v.z) + (u64)i));
  }
  if (blockIdx.x == 0 && threadIdx.x < n % 16) {
    i64 i = n / 16 * 16 + threadIdx.x;
    h += mix((u64)i << 8 | ((const unsigned char *)p)[i]);
  }
  for (int d = 16; d > 0; d /= 2) h += __shfl_xor_sync(0xffffffffu, h, d);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, h);
}

// Outcome is package cuda's struct of the same name.
struct Outcome {
  u64 bad, first, worst; // worst is the bits of a double that is not negative
  double err2, want2;
  u64 unwritten, finite;
};

__device__ __forceinline__ bool poisoned(const void *p, i64 i, int type) {
  if (type == FP32) return ((const u32 *)p)[i] == 0xffffffffu;
  if (type == E4M3) return ((const unsigned char *)p)[i] == 0xff;
  return ((const unsigned short *)p)[i] == 0xffff;
}

// compare checks a tensor against its answers: package reference, Compare. Element i's scale is
// scale[i / cols], or scale[i % -cols] where cols is negative, or zero without a scale.
extern "C" __global__ void compare(const void *got, const double *want, i64 n, i64 type, double rel, double terms,
                                   double abs_, const double *scale, i64 cols, double limit, i64 onlyNaN, Outcome *o) {
  double err2 = 0, want2 = 0, worst = 0;
  u64 bad = 0, first = ~0ull, unwritten = 0, known = 0;
  bool small = n < 1ll << 32;
  for EACH(i, n) {
    double g = widen(got, i, (int)type), w = want[i];
    if (fabs(w) >= limit) w = copysign(1.0 / 0.0, w);
    known += isfinite(w);
    bool poison = poisoned(got, i, (int)type);
    bool same = g == w || (isnan(g) && isnan(w)) || (onlyNaN && isnan(g) == isnan(w));
    if (same && !poison) {
      want2 += finiteOf(w * w);
      continue;
    }
    i64 row = !scale ? 0 : cols < 0 ? i % -cols : small ? (u32)i / (u32)cols : i / cols;
    double diff = fabs(g - w), ratio = diff / (abs_ + (scale ? terms * scale[row] : 0) + rel * fabs(w));
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
    unwritten += poison;
    worst = fmax(worst, ratio);
  }
  err2 = blockSum(err2);
  want2 = blockSum(want2);
  if (threadIdx.x == 0) {
    atomicAdd(&o->err2, err2);
    atomicAdd(&o->want2, want2);
  }
  for (int d = 16; d > 0; d /= 2) known += __shfl_xor_sync(0xffffffffu, known, d);
  if (threadIdx.x % 32 == 0) atomicAdd(&o->finite, known);
  if (unwritten) atomicAdd(&o->unwritten, unwritten);
  if (bad) {
    atomicAdd(&o->bad, bad);
    atomicMin(&o->first, first);
  }
  if (worst > 0) atomicMax(&o->worst, (u64)__double_as_longlong(worst));
}

// differing counts the elements of size 1, 2 or 4 bytes whose bits differ, in buffers of n bytes. It looks
// at 16 bytes at a time, and at their elements where they differ.
extern "C" __global__ void differing(const char *a, const char *b, i64 n, i64 size, u64 *count) {
  u64 d = 0;
  auto elements = [&](i64 from, i64 to) {
    for (i64 i = from; i < to; i += size) {
      bool same = true;
      for (i64 k = i; k < i + size; k++) same &= a[k] == b[k];
      d += !same;
    }
  };
  for EACH(i, n / 16) {
    uint4 v = ((const uint4 *)a)[i], w = ((const uint4 *)b)[i];
    if (((v.x ^ w.x) | (v.y ^ w.y) | (v.z ^ w.z) | (v.w ^ w.w)) != 0) elements(16 * i, 16 * i + 16);
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) elements(n / 16 * 16, n);
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
