"""Runs files of libraries on modules made up here, without torch or a GPU: what each asks of its library, what it hands out,
and which problems it refuses."""

import importlib.util
import os
import sys
import tempfile
import types

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.dont_write_bytecode = True
from checks import finish, want  # noqa: E402
from peerbench import peer  # noqa: E402
from peerbench.problem import Problem  # noqa: E402
from peerbench.trouble import Failure  # noqa: E402

asked = []  # by name: arguments that a call had


class Tensor:
    is_cuda, device = True, "cuda"

    def __init__(self, name, *shape, dtype="bf16", itemsize=2):
        self.name, self.shape, self.dtype, self.itemsize = name, shape, dtype, itemsize

    def element_size(self):
        return self.itemsize

    def view(self, *shape):
        return Tensor(self.name, *shape, dtype=self.dtype)


def module(name, **members):
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(members)
    return sys.modules[name]


def says(name, answer):
    def call(*args, **more):
        asked.append((name, more))
        return answer
    return call


empty = lambda *shape, dtype="bf16", device="": Tensor("made", *shape, dtype=dtype)  # noqa: E731
like = lambda t, **_: Tensor("like " + t.name, *t.shape, dtype=t.dtype)  # noqa: E731
module("torch", bfloat16="bf16", float16="fp16", float32="fp32", uint8="u8", empty=empty, empty_like=like, full=lambda *a, **b: Tensor("eps"),
       cuda=types.SimpleNamespace(current_stream=lambda: types.SimpleNamespace(cuda_stream=77)))


def load(name):
    p = peer.PEERS[name]
    p.load()
    want(not p.missing, f"{name} is missing: {p.missing}")
    return p


def refused(call, text):
    try:
        call()
        want(False, f"not refused: {text}")
    except NotImplementedError as e:
        want(text in str(e), f"refused with {e}, want {text}")


x, w, b, dy, gate = Tensor("x", 4, 8), Tensor("w", 8), Tensor("b", 8), Tensor("dy", 4, 8), Tensor("z", 4, 8)
wide = Tensor("x", 4, 1 << 16)

# A package whose __init__.py raises is not run, and says its version all the same.
with tempfile.TemporaryDirectory() as folder:
    for package, kernels in (("flash_attn", "ops/triton/layer_norm"), ("mamba_ssm", "ops/triton/layer_norm"), ("mamba_ssm", "ops/triton/layernorm_gated")):
        path = os.path.join(folder, package, kernels + ".py")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "w").close()
        open(os.path.join(folder, package, "__init__.py"), "w").write('__version__ = "9.9"\nimport extension_that_is_not_built\n')
    sys.path.insert(0, folder)
    flash, mamba = load("flash-attn"), load("mamba")
    want(flash.version == "flash-attn 9.9 of a checkout" and mamba.version == "mamba-ssm 9.9 of a checkout", f"{flash.version}, {mamba.version}")
sys.path.pop(0)
for p, name in ((flash, "flash_attn"), (mamba, "mamba_ssm")):
    n = sys.modules[name + ".ops.triton.layer_norm"]
    n._layer_norm_fwd = says("fwd", ("y", None, "mean", "rstd", "sum", None, None, None))
    n._layer_norm_bwd = says("bwd", ("dx", "dw", "db", "dres", None))
    rms, ln = p.functions["rmsnorm"], p.functions["layernorm"]
    asked.clear()
    want(rms(x, w, 1e-5, residual="res")() == ("y", "sum"), f"{name}: a forward with a residual")
    want(ln(x, w, 1e-5, bias=b, dy=dy, dresidual="dres")() == ("dx", "dw", "db"), f"{name}: a backward")
    want([a[1]["is_rms_norm"] for a in asked] == [True, False, False] and asked[2][1]["has_residual"], f"{name}: {asked}")
    refused(lambda: rms(wide, w, 1e-5), "64 KiB")
want("zero_centered_weight" not in asked[0][1], "a version without it is asked for it")
g = sys.modules["mamba_ssm.ops.triton.layernorm_gated"]
g._layer_norm_fwd, g._layer_norm_bwd = says("fwd", ("y", "mean", "rstd")), says("bwd", ("dx", "dw", "db", "dz"))
asked.clear()
want(mamba.functions["rmsnormgated"](x, gate, w, 1e-5, gate_first=True, dy=dy)() == ("dx", "dz", "dw", "db"), "mamba's gated gradients are out of order")
want(asked[1][1]["norm_before_gate"] is False, f"mamba's order of gate and norm: {asked}")

# fla keeps no choice of a process beside the one that measures.
module("fla", __version__="9.9"), module("fla.modules")
n, g = module("fla.modules.layernorm"), module("fla.modules.fused_norm_gate")
sys.modules["fla.modules"].layernorm, sys.modules["fla.modules"].fused_norm_gate = n, g
fla = load("fla")
want(os.environ["FLA_CACHE_RESULTS"] == "0", "fla's choices are kept")
n.layer_norm_fwd, n.layer_norm_bwd = says("fwd", ("y", "mean", "rstd", "sum")), says("bwd", ("dx", "dw", "db", "dres"))
g.layer_norm_gated_fwd, g.layer_norm_gated_bwd = says("fwd", ("y", "mean", "rstd", "x")), says("bwd", ("dx", "dz", "dw", "db", None))
want(fla.functions["layernorm"](x, 1e-5, bias=b, dy=dy)() == ("dx", "db"), "without a weight the bias' gradient is the second")
want(fla.functions["rmsnorm"](x, 1e-5, weight=w, residual="res")() == ("y", "sum"), "fla's sum")
asked.clear()
want(fla.functions["layernormgated"](x, gate, w, 1e-5, sigmoid=True, dy=dy)() == ("dx", "dz", "dw", "db"), "fla's gated backward")
want({a[1]["activation"] for a in asked} == {"sigmoid"}, f"fla's gate: {asked}")
try:
    fla.refuse(Problem.parse("rmsnormgated/fwd/8x8/bf16+gatefirst"))
    want(False, "fla's gate is never first")
except Failure as e:
    want("gate before the norm" in str(e), str(e))


class Node:
    def __init__(self, name):
        self.name = name

    def set_output(self, on):
        return self

    def set_data_type(self, type_):
        self.type = type_


class Graph:
    """cuDNN's, whose plan fails where a test asks for that."""

    fails, ran = "", []

    def __init__(self, **_):
        self.nodes = 0

    def tensor_like(self, t):
        self.nodes += 1
        return f"{self.nodes}:{t.name}"

    def result(self, *names):
        return [Node(n) for n in names]

    def rmsnorm(self, **how):
        asked.append(("rmsnorm", how))
        return self.result("y", "rstd")

    def layernorm(self, **how):
        asked.append(("layernorm", how))
        return self.result("y", "mean", "rstd")

    def rmsnorm_backward(self, **how):
        asked.append(("rmsnorm_backward", how))
        return [*self.result("dx", "dw"), None]

    def layernorm_backward(self, **how):
        asked.append(("layernorm_backward", how))
        return self.result("dx", "dw", "db")

    def check_support(self):
        if Graph.fails:
            raise RuntimeError(Graph.fails)

    def get_workspace_size(self):
        return 0

    def execute(self, pack, space, handle):
        Graph.ran.append([getattr(k, "name", k) for k in pack])

    validate = build_operation_graph = create_execution_plans = build_plans = lambda self, *_: None


streams = []
module("cudnn", backend_version=lambda: 91900, data_type=types.SimpleNamespace(BFLOAT16="b", HALF="h", FLOAT="f"), create_handle=lambda: "handle",
       pygraph=Graph, heur_mode=types.SimpleNamespace(A="A", FALLBACK="F"), norm_forward_phase=types.SimpleNamespace(TRAINING="training"),
       set_stream=lambda handle, stream: streams.append(stream))
cudnn = load("cudnn")
want(cudnn.version.endswith(", cuDNN 9.19.0"), cudnn.version)
asked.clear()
run = cudnn.functions["rmsnorm"](x, w, 1e-5)
want(not Graph.ran and not streams, "cuDNN runs in set-up")
want(run().name == "like x" and run().name == "like x" and len(asked) == 1 and streams == [77, 77], f"plans {len(asked)}, streams {streams}")
want(asked[0][1]["norm_forward_phase"] == "training" and Graph.ran[-1][3:] == ["y", "rstd"], f"{asked}, {Graph.ran[-1]}")
gradients = cudnn.functions["layernorm"](x, w, b, 1e-5, dy=dy)()
want([t.name for t in gradients] == ["like x", "like w", "like b"] and Graph.ran[-1][5:] == ["dx", "dw", "db"], f"{Graph.ran[-1]}")
want([t.name for t in cudnn.functions["rmsnorm"](x, w, 1e-5, dy=dy)()] == ["like x", "like w"], "a backward without a bias")
Graph.fails = "no engine\nfor this graph"
refused(lambda: cudnn.functions["rmsnorm"](x, w, 1e-5), "cuDNN has no plan: no engine for this graph")

# quack's tuned entries get the buffers that its untuned ones allocate.
module("quack"), module("quack.rmsnorm_config", get_sm_count=lambda n, device: 132)
q = module("quack.rmsnorm", rmsnorm_fwd_tuned=says("fwd", None), rmsnorm_bwd_tuned=says("bwd", None))
tuned = load("quack-tuned")
want(tuned.builds == "tunes", tuned.builds)
asked.clear()
y, total = tuned.functions["rmsnorm"](x, w, 1e-5, residual=Tensor("res", 4, 8))()
want((y.name, total.name) == ("like x", "like x") and asked[0][1] == {"eps": 1e-5, "is_layernorm": False}, f"{asked}")
# The table of first calls asks a cold process for two shapes, and another one for the first, in the same cache.
spec = importlib.util.spec_from_file_location("first_call", os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 4, "lab/scripts/first-call.py"))
first = importlib.util.module_from_spec(spec)
spec.loader.exec_module(first)
problem = "rmsnorm/fwd/8x64/bf16"
other = first.smaller(problem)
want(other == "rmsnorm/fwd/6x64/bf16", other)
told = [{"ms": [90.0, 1.0], "version": "v"}, {"ms": [45.0, 2.0]}]
row = first.row_of(told, [{"ms": [30.0, 1.5]}])
want(row == ([90.0, 30.0, 45.0, 1.0], "v"), f"{row}")
row = first.row_of([told[0], {"why": "not done within 5 s"}], [{}])
want(row == ([90.0, None, None, 1.0], "next: not done within 5 s"), f"what there was is kept: {row}")
want(first.row_of([{"why": "refused"}] * 2, [{}]) == ([None] * 4, "refused"), "a peer that refuses")

# A row needs two processes. The next one imports while one is measured, and all are ended.
steps, caches = [], []


class Process:
    def __init__(self, name, cache, problems):
        self.name = f"{name} {len(problems)}"
        steps.append("start " + self.name)
        caches.append(cache)

    def times(self, limit):
        steps.append("time " + self.name)
        return [{"why": "refused"}] * 2 if self.name == "b 2" else told

    def end(self):
        steps.append("end " + self.name)


first.Process = Process
rows = list(first.peers_rows([("a", problem, other), ("b", problem, other)], 5))
want([r[1] for r in rows] == ["v", "refused"], f"{rows}")
want(steps == ["start a 2", "start a 1", "time a 2", "end a 2", "start b 2", "time a 1", "end a 1", "start b 1", "time b 2", "end b 2", "end b 1"], f"{steps}")
want(caches[0] == caches[1] != caches[2], f"{caches}")

refused(lambda: tuned.functions["layernorm"](x, Tensor("w", 8, dtype=types.SimpleNamespace(itemsize=2)), 1e-5), "fp32")
finish()
