"""Tests peer.Peer without torch: what it says of a user's file, and which problems it refuses."""

import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from checks import finish, want  # noqa: E402
from peerbench import peer as peers  # noqa: E402
from peerbench.problem import Problem  # noqa: E402
from peers import failure_of  # noqa: E402

MINE = """
import helper

def fwd(x, weight, eps): return x
def rest(x, **more): return x
def bwd(dy, x, weight, rstd): return dy
def both(x, weight, bias, op, dy=None, mean=None, dresidual=None): return x
def gated(x, gate, weight, sigmoid=False): return x
def frozen(dy, x, weight, rstd, no_dw): return dy
def late(x, weight): raise ValueError("as asked")
def choosy(x, weight): raise NotImplementedError("only on Sundays")
def foreign(x, blocks): return x
rmsnorm = fwd
DISTRIBUTIONS = ["nosuch"]
"""
with tempfile.TemporaryDirectory() as folder:
    folder = os.path.realpath(folder)
    for name in ("a:1", "b"):
        os.mkdir(os.path.join(folder, name))
        for file, text in (("my.py", MINE), ("helper.py", f"name = {name!r}"), ("bad.py", "import nosuch"), ("odd.py", "def f(:"), ("small.py", "import helper\ndef f(x): pass")):
            open(os.path.join(folder, name, file), "w").write(text)
    mine = f"py:{folder}/a:1/my.py"

    def peer(ref: str) -> peers.Peer:
        peers.PEERS[ref] = p = peers.callable_of(ref)
        p.load()
        return p

    for ref, text in {f"{mine}:foreign": "its parameter blocks has no default, and is none of x, gate, weight, ",
                      f"{mine}:nosuch": "the file has no function nosuch, but fwd, rest, ",
                      f"{folder}/b/my.py:DISTRIBUTIONS": "the file has no function DISTRIBUTIONS",
                      f"{folder}/b/bad.py:f": "No module named 'nosuch' (bad.py:1)",
                      f"{folder}/b/odd.py": "(odd.py, line 1)"}.items():
        ref = ref if ref.startswith("py:") else "py:" + ref
        want(text in peer(ref).missing, f"{ref}: {peer(ref).missing}")
    # Files of one name have each what lies beside them, which is part of what they are.
    here, there, again = peer(f"{mine}:fwd"), peer(f"py:{folder}/b/my.py:fwd"), peer(mine)
    want([p.functions["rmsnorm"].__globals__["helper"].name for p in (here, there)] == ["a:1", "b"], "one helper for two files")
    other = peer(f"py:{folder}/a:1/../a:1/small.py:f")
    want(other.version != here.version and peers.load(other.path)[0].helper is not here.functions["rmsnorm"].__globals__["helper"], "a helper of two files")
    want(here.version.startswith("nosuch of unknown version, source ") and here.version == again.version != there.version, f"{here.version}, {there.version}")

    for name, text, told in (
        ("fwd", "rmsnorm/fwd/8x8/bf16", ""),
        ("fwd", "rmsnorm/bwd/8x8/bf16-wfp32", ""),
        ("fwd", "rmsnorm/fwd/8x8/bf16+zc+residual", "my.py:fwd has no residual and no zero-centered weight"),
        ("fwd", "layernorm/bwd/8x8/bf16+bias", "my.py:fwd has no bias"),
        ("fwd", "rmsnorm/fwd/8x8/bf16+noweight", "my.py:fwd has no rmsnorm without weight"),
        ("fwd", "rmsnorm/bwd/8x8/bf16+acc", "my.py:fwd has no gradient to add to"),
        ("fwd", "rmsnorm/bwd/8x8/bf16+nodw", ""),
        ("frozen", "rmsnorm/bwd/8x8/bf16+nodw", ""),
        ("fwd", "rmsnormgated/fwd/8x8/bf16", "my.py:fwd has no gate"),
        ("gated", "rmsnormgated/bwd/8x8/bf16+sigmoid", ""),
        ("gated", "rmsnormgated/fwd/8x8/bf16+sigmoid+gatefirst", "my.py:gated has no gate before the norm"),
        ("gated", "rmsnorm/fwd/8x8/bf16", "my.py:gated has no rmsnorm without gate"),
        ("rest", "layernorm/fwd/8x8/bf16+bias+zc+residual", ""),
        ("rest", "rmsnorm/fwd/8x8/bf16+fp8", "my.py:rest has no fp8"),
        ("rest", "rmsnorm/bwd/8x8/bf16+residual", "my.py:rest has no residual"),
        ("bwd", "rmsnorm/bwd/8x8/bf16", ""),
        ("bwd", "rmsnorm/fwd/8x8/bf16", "my.py:bwd has no forward"),
        ("both", "layernorm/bwd/8x8/bf16+bias+residual", ""),
        ("both", "layernorm/fwd/8x8/bf16+bias+residual", "my.py:both has no residual"),
        ("both", "rmsnorm/fwd/8x8/bf16", "my.py:both has no rmsnorm without bias"),
    ):
        got = ""
        try:
            peer(f"{mine}:{name}").refuse(Problem.parse(text))
        except peers.Failure as e:
            got = str(e)
        want(got == told, f"{name} on {text}: {got!r}, want {told!r}")
    for text, outputs in (("layernorm/bwd/8x8/bf16+bias", ["dx", "dw", "db"]), ("layernorm/bwd/8x8/bf16+bias+nodw", ["dx"]),
                          ("layernormgated/bwd/8x8/bf16+bias", ["dx", "dz", "dw", "db"])):
        want(Problem.parse(text).outputs() == outputs, f"outputs of {text}")
    for p, text, told in (
        (again, "layernorm/fwd/8x8/bf16+bias", "refused: my.py has no layernorm"),
        (peer(f"{mine}:late"), "rmsnorm/fwd/8x8/bf16", "launch: it raised ValueError: as asked (my.py:10)"),
        (peer(f"{mine}:choosy"), "rmsnorm/fwd/8x8/bf16", "refused: only on Sundays"),
    ):
        try:
            p.refuse(Problem.parse(text))
            p.functions["rmsnorm"](1, 2)
            want(False, f"{p.name} on {text} is well")
        except Exception as e:  # noqa: BLE001
            f = failure_of(e)
            want(f"{f.status}: {f}" == told, f"{p.name}: {f.status}: {f}")
# Where there is no GPU, a launcher that asks for one says nothing of itself.
for on, status in (("1", "unfit"), ("0", "launch")):
    os.environ["NORMBENCH_PEERS_CPU"] = on
    for text in ("0 active drivers ([]). There should only be one.", "Found no NVIDIA driver on your system",
                 "Pointer argument (at 0) cannot be accessed from Triton (cpu tensor?)", "invalid argument to exchangeDevice"):
        got = failure_of(RuntimeError(text)).status
        want(got == status, f"{text} is {got} with NORMBENCH_PEERS_CPU={on}")
del os.environ["NORMBENCH_PEERS_CPU"]
finish()
