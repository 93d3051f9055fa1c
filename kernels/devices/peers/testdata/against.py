"""Holds peerbench to the fixture that package reference has written. On a CPU, or on a GPU with NORMBENCH_PEERS_CPU=0."""

import json
import math
import os
import sys
import tempfile
import types

os.environ.setdefault("NORMBENCH_PEERS_CPU", "1")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import torch  # noqa: E402

from checks import begin, finish, want  # noqa: E402
from peerbench import device  # noqa: E402
from peerbench.answers import answers, compare, number, tolerance  # noqa: E402
from peerbench.device import CPU, Device  # noqa: E402
from peerbench.inputs import draw  # noqa: E402
from peerbench.peer import LOADED, PEERS, Peer, callable_of  # noqa: E402
from peerbench.problem import Problem  # noqa: E402
from peerbench.trouble import Failure  # noqa: E402
from peers import failure_of  # noqa: E402


def same(a: float, b: float, rel: float) -> bool:
    return a == b or (a != a and b != b) or abs(a - b) <= rel * max(abs(a), abs(b))


begin(f"holding inputs and answers to {sys.argv[1]}, on a {'CPU' if CPU else 'GPU'}")
for f in json.load(open(sys.argv[1])):
    p, seed, how = Problem.parse(f["problem"]), f["seed"], f["draw"]
    extra = {"b"} - set(f["inputs"]) if p.pas == "bwd" else set()  # a peer's own forward needs it
    want(set(p.inputs()) - extra == set(f["inputs"]), f"{p.text}: inputs {p.inputs()}, want {list(f['inputs'])}")
    want(sorted(p.outputs()) == sorted(f["answers"]), f"{p.text}: outputs {p.outputs()}, want {list(f['answers'])}")
    t = {n: draw(p, n, seed, how, "cpu" if CPU else "cuda", f.get("from", 0)) for n in p.inputs()}
    for n, text in f["inputs"].items():
        size = t[n].element_size()
        bits = t[n].reshape(-1).view({2: torch.int16, 4: torch.int32}[size]).tolist()
        got = [b & (1 << 8 * size) - 1 for b in bits]
        exact = [int(text[i : i + 2 * size], 16) for i in range(0, len(text), 2 * size)]
        isnan = torch.isnan(t[n].reshape(-1)).tolist()  # a NaN's payload is nobody's business
        bad = [i for i, (g, w) in enumerate(zip(got, exact)) if g != w and not isnan[i]]
        want(len(got) == len(exact) and not bad, f"{p.text} seed {seed}: {n} differs at {bad[:5]}")
    answer, scale = answers(p, t)
    for n, text in f["answers"].items():
        exact = [float(v) for v in text.split()]
        got = answer[n].reshape(-1).tolist()
        # Sums in float64 in another order, of terms as large as scale, or as the largest of a hostile row.
        size = max(f["scale"][n] + [abs(v) for v in exact if math.isfinite(v)]) * 1e-12
        bad = [i for i, (g, w) in enumerate(zip(got, exact)) if not same(g, w, 1e-11) and not abs(g - w) <= size]
        want(len(got) == len(exact) and not bad, f"{p.text} seed {seed}: answer {n} differs at {bad[:5]}")
        sizes = list(zip(scale[n].tolist(), f["scale"][n]))
        want(len(sizes) == len(scale[n]) and all(same(a, b, 1e-9) for a, b in sizes), f"{p.text} {how}: scales of {n} are {sizes[:5]}")
        tol = f["tolerances"][n]
        pairs = list(zip(tolerance(p, n, 0), (tol["rel"], tol["terms"], tol["abs"])))
        want(all(same(a, b, 1e-9) for a, b in pairs), f"{p.text}: tolerance of {n} is {pairs}")

# The comparison: right, one wrong element, NaN, infinities, a wrong shape and type.
p = Problem.parse("rmsnorm/fwd/3x5/bf16")
exact = torch.linspace(-2, 2, 15, dtype=torch.float64).reshape(3, 5).to("cpu" if CPU else "cuda")
one = torch.ones(3, dtype=torch.float64, device=exact.device)
exact[0, 0] = math.nan
exact[2, 4] = 1e39
got = exact.to(torch.bfloat16)
c = compare(p, "y", got, exact, one, 0, "nonfinite")
want(c["bad"] == 0 and 0 < c["max_err"] <= 1 and c["rel_l2"] < 0.01, f"right: {c}")
for value in (1000.0, math.nan, math.inf):
    wrong = got.clone()
    wrong[1, 2] = value
    c = compare(p, "y", wrong, exact, one, 0, "nonfinite")
    want(c["bad"] == 1 and c["first"] == 7 and c["got"] == number(value) and c["max_err"] > 1, f"{value}: {c}")
# An element that nobody has written has all bits set, which is no answer, not even where NaN is wanted.
wrong = got.clone()
wrong.view(torch.int16)[0, 0] = -1
c = compare(p, "y", wrong, exact, one, 0, "nonfinite")
want(c["bad"] == 1 and c["unwritten"] == 1, f"unwritten: {c}")
# With finite inputs an answer of which less than half is finite proves nothing.
want(compare(p, "y", got, torch.full_like(exact, math.nan), one, 0)["void"], "a void check")
for wrong in (got[:2], got.float()):
    try:
        compare(p, "y", wrong, exact, one, 0)
        want(False, f"{wrong.dtype} {wrong.shape} passed")
    except Failure as e:
        want(e.status == "wrong", str(e))


begin("holding peers of every kind")


# A device with peers of every kind, through check and time.
def add(name: str, f) -> None:
    PEERS[name] = Peer(name, "", name, functions={"rmsnorm": f})


add("broken", lambda x, weight: x * 2)
add("unwritten", lambda x, weight: torch.full_like(x, math.nan))
add("nothing", lambda x, weight: None)
d = Device("")
for text in ("rmsnorm/fwd/33x54/bf16", "rmsnorm/bwd/33x54/bf16", "layernorm/fwd/33x54/fp32+bias", "layernorm/bwd/33x54/fp32+bias", "rmsnorm/bwd/9x54/fp16+noweight",
             "rmsnormgated/fwd/33x54/bf16+sigmoid", "rmsnormgated/bwd/33x54/bf16+gatefirst", "layernormgated/bwd/33x54/fp32+bias",
             "layernormgated/bwd/33x54/fp16+bias+nodw+sigmoid+gatefirst"):
    d.open(text, 11)
    c = d.check("torch", 3)
    want([o["name"] for o in c["outputs"]] == d.problem.outputs() and not any(o["bad"] for o in c["outputs"]) and c["differing"] == 0, f"torch on {text}: {c}")
    want(len(d.time("torch", {"samples": 3, "flush": 0})["seconds"]) == 3, f"times of torch on {text}")
d.open("rmsnorm/fwd/8x8/bf16", 11)
for name in ("broken", "unwritten"):
    want(d.check(name, 1)["outputs"][0]["bad"] > 0, f"{name} passed")
for name, status in (("broken", "wrong"), ("unwritten", "wrong"), ("nothing", "wrong"), ("nosuch", "refused")):
    try:
        d.time(name, {"samples": 3, "flush": 0})
        want(False, f"{name} got a time")
    except Failure as e:
        want(e.status == status, f"{name}: {e.status}: {e}")


# Peers that are right when they are checked and cheat when they are timed: one hands its outputs out once more, one
# stops writing, one starts to be wrong.
def forgetful(how: str):
    def ready(x, weight, eps, dy=None):
        runs, kept = [0], {}

        def run():
            runs[0] += 1
            right = torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)
            if how == "stops" and runs[0] > 3:
                return torch.empty_like(right)
            if how == "errs" and runs[0] > 3:
                right[0, 0] += 1
            return kept.setdefault("y", right) if how == "remembers" else right

        return run

    return ready


for how in ("remembers", "stops", "errs"):
    add(how, forgetful(how))
d = Device("")
for how in ("remembers", "stops", "errs"):
    d.open("rmsnorm/fwd/64x512/fp32", 11)
    want(not d.check(how, 1)["outputs"][0]["bad"], f"{how} is checked")
    try:
        d.time(how, {"samples": 6, "flush": 0})
        want(how == "stops", f"{how} got a time")  # new memory need not be the poisoned one
    except Failure as e:
        want(e.status == "wrong" and "after 6 timed runs y is wrong" in str(e), f"{how}: {e}")
# Of a large output each visit compares a part, and the next visit another.
device.CHUNK, chunk = 1 << 10, device.CHUNK
d.open("rmsnorm/fwd/64x512/fp32", 11)
for visit in range(40):
    d.time("torch", {"samples": 3, "flush": 0})
want(d.visits == 40, f"{d.visits} visits")
device.CHUNK = chunk
for text, name in (("rmsnorm/fwd/8x8/bf16+residual", "torch"), ("rmsnorm/fwd/8x8/bf16+fp8", "torch"), ("rmsnorm/bwd/8x8/bf16+acc", "torch")):
    d.open(text, 11)
    try:
        d.check(name, 1)
        want(False, f"{name} does {text}")
    except Failure as e:
        want(e.status == "refused" and "PyTorch eager has no" in str(e), str(e))


# Fast-LLM's adapter, with a stand-in for its module: it adds 1 to a weight in the weight's type, writes the gradients
# into buffers, adds to them unless they are said to be zero, and asserts that a row is not too long.
def stand_in() -> types.ModuleType:
    def forward(x, w, b, eps, training, zero_centered):
        assert (1 << (x.shape[1] - 1).bit_length()) * x.element_size() <= 65536
        h = x.float()
        h = h - h.mean(1, keepdim=True) if b is not None else h
        rstd = 1 / torch.sqrt((h * h).mean(1, keepdim=True) + eps)
        y = h * rstd * (w + 1 if zero_centered else w)
        y = (y if b is None else y + b).to(x.dtype)
        return y, [y, w, b, rstd, eps, zero_centered] if training else None

    def backward(dy, context):
        y, w, b, rstd, eps, zero_centered = context
        context.clear()
        assert w.requires_grad and hasattr(w, "grad_buffer") and (b is None or b.requires_grad)
        g, xhat, wf = dy.float(), y.float() - (0 if b is None else b.float()), w.float() + zero_centered
        xhat, wdy = xhat / wf, wf * g * rstd
        dx = wdy - xhat * (xhat * wdy).mean(1, keepdim=True) - (0 if b is None else wdy.mean(1, keepdim=True))
        for v, grad in ((w, g * xhat), (b, g)):
            if v is not None:
                v.grad_buffer.copy_(grad.sum(0) if v.param_grad_is_zero else grad.sum(0) + v.grad_buffer)
                v.param_grad_is_zero = False
        return dx.to(dy.dtype)

    m = types.ModuleType("fast_llm.functional.triton.normalization")
    m.TritonConfig = type("TritonConfig", (), {"MAX_BLOCK_SIZE_BYTES": 65536})
    m.triton_normalization_forward, m.triton_normalization_backward = forward, backward
    return m


names = ("fast_llm", "fast_llm.functional", "fast_llm.functional.triton")
kept = {n: sys.modules.pop(n, None) for n in (*names, names[-1] + ".normalization")}
for n in names:
    sys.modules[n] = types.ModuleType(n)
sys.modules[names[-1]].normalization = sys.modules[names[-1] + ".normalization"] = stand_in()


def forget() -> None:  # the file is imported again: the real module may be installed, and loaded
    PEERS["fast-llm"].functions = {}
    LOADED.pop(PEERS["fast-llm"].path, None)


begin("holding Fast-LLM's adapter")
forget()
d = Device("")
for op in ("rmsnorm", "layernorm"):
    for dtype in ("fp16", "bf16", "fp32"):
        for option in ("", "+zc"):
            for pas in ("fwd", "bwd"):
                d.open(f"{op}/{pas}/33x1024/{dtype}{'+bias' if op == 'layernorm' else ''}{option}", 11)
                c = d.check("fast-llm", 3)
                want(not any(o["bad"] for o in c["outputs"]) and c["differing"] == 0, f"fast-llm on {d.problem.text}: {c}")
for text, fits in (("rmsnorm/fwd/2x32768/bf16", True), ("rmsnorm/fwd/2x32769/bf16", False), ("rmsnorm/bwd/2x20000/fp32", False)):
    d.open(text, 11)
    try:
        d.check("fast-llm", 1)
        want(fits, f"fast-llm does {text}")
    except NotImplementedError as e:
        f = failure_of(e)
        want(not fits and f.status == "refused" and "65536 bytes" in str(f), f"{text}: {f.status}: {f}")
for n, module in kept.items():
    del sys.modules[n]
    if module:
        sys.modules[n] = module
forget()
begin("holding a user's file")
# A user's file: what its functions may be.
MINE = """
import torch

def eager(x, weight, eps, bias=None, op="rmsnorm"):
    norm = torch.nn.functional.rms_norm if op == "rmsnorm" else torch.nn.functional.layer_norm
    return norm(x, x.shape[-1:], *([weight] if op == "rmsnorm" else [weight, bias]), eps)

def backward(dy, x, weight, rstd):
    hat = x.float() * rstd[:, None]
    g = dy.float() * weight.float()
    dx = (g - hat * (g * hat).mean(1, keepdim=True)) * rstd[:, None]
    return dx.to(x.dtype), (dy.float() * hat).sum(0).to(weight.dtype)

def fused(x, weight, eps, residual):  # in place, as inference does it; put back ahead of each run
    h, y = x.clone(), torch.empty_like(x)
    def run():
        h.add_(residual)
        y.copy_(torch.nn.functional.rms_norm(h.double(), h.shape[-1:], weight.double(), eps))
        return y, h
    run.before = lambda: h.copy_(x)
    run.rounds = {"y": 1}
    return run

def strided(x, weight, eps):
    wide = x.new_zeros(x.shape[0], 2 * x.shape[1])
    part = wide[:, : x.shape[1]].copy_(x)
    return lambda: torch.nn.functional.rms_norm(part, part.shape[-1:], weight, eps)

def wide(x, weight, eps): return eager(x, weight, eps).float()
def narrow(x, weight, eps): return eager(x, weight, eps)[:, :3]
def greedy(x, weight, dy=None): return x.zero_()
def detached(x, weight, eps): return eager(x, weight, eps).detach()
"""
with tempfile.TemporaryDirectory() as folder:
    mine = os.path.join(folder, "my.py")
    open(mine, "w").write(MINE)
    names = ("eager", "backward", "fused", "strided", "wide", "narrow", "greedy", "detached")
    PEERS.clear()
    PEERS.update({n: callable_of(f"py:{mine}:{n}") for n in names})
    d = Device("")
    for name, text, told in (
        ("eager", "rmsnorm/fwd/33x54/bf16", "right"),
        ("eager", "rmsnorm/bwd/33x54/bf16", "right"),
        ("eager", "layernorm/bwd/33x54/fp32+bias", "right"),
        ("backward", "rmsnorm/bwd/33x54/fp16", "right"),
        ("backward", "rmsnorm/bwd/33x54/bf16-wfp32", "right"),
        ("fused", "rmsnorm/fwd/33x54/bf16+residual", "right"),
        ("strided", "rmsnorm/fwd/33x54/bf16", "right"),
        ("wide", "rmsnorm/fwd/33x54/bf16", "wrong: y is torch.float32, want torch.bfloat16"),
        ("narrow", "rmsnorm/fwd/33x54/bf16", "wrong: y has shape (33, 3), want (33, 54)"),
        ("detached", "rmsnorm/bwd/33x54/bf16", "refused: my.py:detached has no backward: autograd finds none in what it returns, and it has no parameter dy"),
    ):
        d.open(text, 11)
        try:
            c = d.check(name, 2)
            d.time(name, {"samples": 3, "flush": 0})
            got = "wrong" if any(o["bad"] for o in c["outputs"]) else "right"
        except Failure as e:
            got = f"{e.status}: {e}"
        want(got == told, f"{name} on {text}: {got}")
    # Rows have the bits that they have in a longer problem, and hashes that say so.
    d.open("rmsnorm/fwd/33x54/bf16", 11, "plain")
    whole = d.hash("eager", 128)["y"]
    d.open("rmsnorm/fwd/7x54/bf16", 11, "plain", 5)
    want(len(set(whole)) == 33 and d.hash("eager", 128)["y"] == whole[5:12], f"rows from 5: {d.hash('eager', 128)}, {whole}")
    d.open("rmsnorm/fwd/33x54/bf16", 11)
    found = [d.check(name, 2) for name in ("greedy", "eager")]
    want([c["changed"] for c in found] == [["x"], []], f"a function that overwrites its input, and the next one: {found}")
    want(not found[1]["outputs"][0]["bad"], f"the next one: {found[1]}")
finish(f"with torch {torch.__version__}")
