"""The flush of the L2 ahead of a sample."""

import ctypes
from typing import Any

import torch

from peerbench.trouble import Trouble


class Flush:
    """Reads a buffer larger than the L2. After a write the call would pay for writing the flush back to memory.

    Lines that a call asked L2 to keep (evict_last, which Triton's eviction_policy gives) are the last to leave
    it: a plain reading drives out everything else, and the next sample finds them. So the buffer is read under
    the same policy, which leaves room for nobody, and then takes it back. applypriority reads what is gone.
    """

    GRID, THREADS = 528, 512
    WALK = """
.visible .entry {name}(.param .u64 from, .param .u64 to, .param .u64 never) {{
  .reg .pred over;
  .reg .b32 n, cta, thread, a, b, c, d, all;
  .reg .b64 at, end, step, policy;
  ld.param.u64 at, [from];
  ld.param.u64 end, [to];
  mov.u32 n, %ntid.x;
  mov.u32 cta, %ctaid.x;
  mov.u32 thread, %tid.x;
  mad.lo.u32 thread, cta, n, thread;
  mad.wide.u32 at, thread, {each}, at;
  mov.u32 cta, %nctaid.x;
  mul.lo.u32 n, n, cta;
  mul.wide.u32 step, n, {each};
"""
    KEEP = """
  mov.u32 all, 0;
  createpolicy.fractional.L2::evict_last.b64 policy, 1.0;
next:
  setp.ge.u64 over, at, end;
  @over bra done;
  ld.global.L2::cache_hint.v4.b32 {a, b, c, d}, [at], policy;
  add.u32 all, all, a;
  add.u64 at, at, step;
  bra next;
done:
  setp.ne.u32 over, all, 0x9e3779b9;
  @over ret;
  ld.param.u64 at, [never];
  st.global.u32 [at], all;
  ret;
}
"""
    LET_GO = """
next:
  setp.ge.u64 over, at, end;
  @over ret;
  applypriority.global.L2::evict_normal [at], 128;
  add.u64 at, at, step;
  bra next;
}
"""
    PTX = ".version 7.4\n.target sm_80\n.address_size 64\n" + WALK.format(name="keep", each=16) + KEEP + WALK.format(name="let_go", each=128) + LET_GO

    def __init__(self) -> None:
        self.buffer = torch.ones(32, device="cuda")
        self.sink = torch.zeros((), device="cuda")
        self.entries: list[ctypes.c_void_p] = []
        if torch.cuda.get_device_capability() < (8, 0):
            return  # it has no policies
        try:
            self.driver = ctypes.CDLL("libcuda.so.1")
        except OSError as e:
            raise Trouble(f"the flush needs the driver itself: {e}", "libcuda.so.1 comes with the NVIDIA driver; add its folder to LD_LIBRARY_PATH") from e
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), self.PTX.encode())
        for name in (b"keep", b"let_go"):
            self.entries.append(ctypes.c_void_p())
            self.call("cuModuleGetFunction", ctypes.byref(self.entries[-1]), module, name)

    def call(self, name: str, *args: Any) -> None:
        code = getattr(self.driver, name)(*args)
        if code:
            raise Trouble(f"{name}: CUDA error {code}", "see `nvidia-smi`; a driver for CUDA 11.4 or later is needed")

    def launch(self, entry: ctypes.c_void_p, start: int, size: int) -> None:
        values = [ctypes.c_uint64(v) for v in (start, start + size, self.sink.data_ptr())]
        args = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        self.call("cuLaunchKernel", entry, self.GRID, 1, 1, self.THREADS, 1, 1, 0, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream), args, None)

    def mark(self) -> None:
        """Launches what a trace shows as let_go, and does nothing."""
        self.launch(self.entries[1], self.buffer.data_ptr(), 0)

    def __call__(self, size: int) -> None:
        size -= size % 128
        if self.buffer.numel() != size // 4:
            self.buffer = torch.ones(size // 4, device="cuda")
        for entry in self.entries:
            self.launch(entry, self.buffer.data_ptr(), size)
        if not self.entries:
            torch.sum(self.buffer, 0, out=self.sink)
