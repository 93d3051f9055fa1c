// Kernels that take a given time.
__device__ unsigned long long now() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}
__device__ void wait(unsigned long long ns) {
  const unsigned long long start = now();
  while (now() - start < ns) {}
}
extern "C" __global__ void spin(unsigned long long ns) { wait(ns); }
extern "C" __global__ void k1(unsigned long long ns) { wait(ns); }
__global__ void k2(unsigned long long ns) { wait(ns); }
