"""RMSNorm in Triton with accesses that a fault is planted in, by BUG; 0 is right."""

import triton
import triton.language as tl


@triton.jit
def faulty(X, W, Y, C, m, n, eps, BUG: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    inside = cols < n
    if BUG == 8:  # right: an element of both blocks
        inside = inside and ((cols >= 0) or inside)
    x = tl.load(X + row * n + cols, mask=inside, other=0.0).to(tl.float32)
    if BUG == 2:  # without a mask
        w = tl.load(W + cols).to(tl.float32)
    else:
        w = tl.load(W + cols, mask=inside, other=0.0).to(tl.float32)
    r = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / n + eps)
    y = (x * r * w).to(Y.dtype.element_ty)
    if BUG == 1:  # one column more than there are
        inside = cols <= n
    if BUG == 3:  # one ahead
        tl.store(Y + row * n + cols - 1, y, mask=inside)
    elif BUG == 4:  # the next row's first, which its own program repairs if it comes later
        tl.store(Y + row * n + cols, (x * r * w + 9.0).to(Y.dtype.element_ty), mask=(cols == n) & (row + 1 < m))
    elif BUG == 5:  # a value that is wider than the tensor's
        tl.store((Y + row * n + n - 4).to(tl.pointer_type(tl.float64)) + tl.arange(0, 2), tl.zeros([2], tl.float64))
    elif BUG == 6:  # a counter that nothing cleared
        tl.atomic_add(C + row, 1)
    elif BUG == 7:  # a lock that nothing cleared: it is never 1, so nobody waits
        while tl.atomic_cas(C + row, 0, 1) == 1:
            pass
    elif BUG == 9:  # the row before, which another program writes
        y += tl.load(Y + (row - 1) * n + cols, mask=inside & (row > 0), other=0.0) * 0
    tl.atomic_xchg(C + row, 0)
    if BUG == 10:  # right: an atomic may have ordered the two
        before = tl.load(Y + (row - 1) * n + cols, mask=inside & (row > 0), other=0.0)
        y = tl.where(before == before, y, y)
    tl.atomic_add(C + row, 1)
    tl.store(Y + row * n + cols, y, mask=inside)
