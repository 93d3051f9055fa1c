"""Kernels whose parameters init reads: what their names say, and what their lines do with them."""

import triton
import triton.language as tl


@triton.jit
def rms_fwd(X_ptr, W, Y, r, x_row_stride, r_row_stride, w_row_stride, hidden_dim, eps, alpha, BLOCK: tl.constexpr,
            axis=None):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    X_ptr += row * x_row_stride
    x = tl.load(X_ptr + cols, mask=cols < hidden_dim).to(tl.float32)
    rstd = 1 / tl.sqrt(tl.sum(x * x) / hidden_dim + eps)
    tl.store(r + row * r_row_stride, rstd)
    tl.store(Y + row * x_row_stride + cols, x * rstd * alpha * tl.load(W + cols), mask=cols < hidden_dim)


@triton.jit
def gated(x, g, y, residual, out_mean, out_rstd_ptr, b, ROWSCALE, T, D: tl.constexpr, G: tl.constexpr, IS_RMS_NORM: tl.constexpr,
          HAS_RESIDUAL: tl.constexpr, HAS_ROWSCALE: tl.constexpr, BD: tl.constexpr):
    row = tl.program_id(0) % b
    at = row * D + tl.arange(0, BD)
    value = tl.load(x + at) * tl.load(g + at) + tl.load(residual + at) + tl.load(ROWSCALE + row)
    tl.store(residual + at, value)
    tl.store(out_rstd_ptr + row, 1.0)
    tl.store(out_mean + row, 1.0)
    tl.store(y + at, value)


@triton.heuristics({"BLOCK": lambda args: next_power(args["feat_dim"]), "HAS_BIAS": lambda args: args["db"] is not None})
@triton.autotune(configs=[triton.Config({"BLOCK_M": m, "BLOCK": 8192}, num_warps=w) for m in (16, 32) for w in (4, 8)],
                 key=[], reset_to_zero=["weight_grad"])
@triton.jit
def _ln(output_grad_pointer, input_pointer, mean, inv_std, weight_pointer, input_grad_pointer, weight_grad, db, out,
        batch_dim, feat_dim, output_grad_batch_stride, output_grad_feat_stride, stats_stride, b, helped,
        BLOCK_M: tl.constexpr, BLOCK: tl.constexpr, HAS_BIAS: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.arange(0, BLOCK)
    at = output_grad_pointer + rows[:, None] * output_grad_batch_stride + cols[None, :] * output_grad_feat_stride
    dy = tl.load(at)
    x = tl.load(input_pointer + rows[:, None] * feat_dim + cols)
    m, v = tl.load(mean + rows * stats_stride), tl.load(inv_std + rows * stats_stride)
    tl.store(input_grad_pointer + cols, dy * x * m * v * tl.load(weight_pointer + cols))
    tl.atomic_add(weight_grad + cols, dy)
    tl.store(db + cols, dy + tl.load(b + cols))
    tl.store(out + cols, helper(helped))


def next_power(n):
    return n


def plain(dY, dX, W, n):
    tl.store(dY + n, tl.load(dY + n) * tl.load(W + n))
    tl.store(dX + n, 0)


once = triton.jit(plain)
tuned = triton.autotune(configs=[triton.Config({}, num_warps=16)], key=["n"])(once)


@triton.jit
def strange(p, q, n, desc):
    tl.store(p, tl.load(q))
    desc.load([0])
