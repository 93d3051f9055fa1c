"""RMSNorm in Triton, plainly written. x, y, dy and dx are row-major and contiguous."""

import triton
import triton.language as tl


@triton.jit
def rms_forward(X, W, Y, RSTD, n, eps, BLOCK: tl.constexpr):
    """y = x * rstd * w, one row for each program. BLOCK is a power of two and at least n."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    inside = cols < n
    x = tl.load(X + row * n + cols, mask=inside, other=0.0).to(tl.float32)
    rstd = 1.0 / tl.sqrt_rn(tl.sum(x * x, axis=0) / n + eps)
    y = x * rstd
    if W is not None:
        y *= tl.load(W + cols, mask=inside, other=0.0).to(tl.float32)
    tl.store(Y + row * n + cols, y.to(Y.dtype.element_ty), mask=inside)
    tl.store(RSTD + row, rstd)


@triton.jit
def rms_backward(X, DY, W, RSTD, DX, DW, rows, n, BLOCK: tl.constexpr):
    """dx of every row, and in DW a row of sums for each program: its share of dw, in fp32.

    With c = x * rstd and g = dy * w: dx = rstd * (g - c * mean(c * g)) and dw = sum of dy * c over rows.
    """
    program, programs = tl.program_id(0), tl.num_programs(0)
    cols = tl.arange(0, BLOCK)
    inside = cols < n
    w = tl.load(W + cols, mask=inside, other=0.0).to(tl.float32)
    dw = tl.zeros((BLOCK,), tl.float32)
    for row in range(program, rows, programs):
        at = tl.cast(row, tl.int64) * n + cols
        dy = tl.load(DY + at, mask=inside, other=0.0).to(tl.float32)
        rstd = tl.load(RSTD + row)
        c = tl.load(X + at, mask=inside, other=0.0).to(tl.float32) * rstd
        g = dy * w
        dx = rstd * (g - c * (tl.sum(c * g, axis=0) / n))
        tl.store(DX + at, dx.to(DX.dtype.element_ty), mask=inside)
        dw += dy * c
    tl.store(DW + program.to(tl.int64) * n + cols, dw, mask=inside)
