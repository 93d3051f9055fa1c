import triton, helper
import triton.language as tl
raise SystemExit("probing runs no code")

@triton.autotune(configs=[], key=[])
@triton.jit
def fwd(X, W, B, Y, R, rows, n, stride, wide, eps, inv, BLOCK: tl.constexpr, HAS_W: tl.constexpr,
        ACC: tl.constexpr, ACT: tl.constexpr, E: tl.constexpr, T: tl.constexpr, MORE: tl.constexpr = 1, k=2):
    pass

@own_jit()
def described(X, desc):
    desc.load([0])

@triton.jit
def rest(*X):
    pass
