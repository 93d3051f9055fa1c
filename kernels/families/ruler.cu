// What the ruler is tested with. Neither entry touches a tensor.

// empty does nothing: what is left of its time is the cost of a launch.
extern "C" __global__ void empty() {}

// spin ends ns nanoseconds of the GPU's own clock after it began.
extern "C" __global__ void spin(unsigned long long ns) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - start < ns);
}
