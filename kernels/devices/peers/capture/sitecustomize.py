"""Records the norms of a PyTorch program: `normbench capture` puts this file's folder before
PYTHONPATH, so Python runs it before the program.

It waits for the program to import torch. Then it wraps the norms of torch.nn.functional, and the
forward of every module class whose name says norm or rms, when a module of the class is put into
another one or gets its first parameter. A forward that calls none of the wrapped functions is
compared once with the norms that normbench has: its output says which one it is. A backward is
counted by a hook of the output, so it counts as it happens, under checkpointing too.

Each process writes seen.PID.json to the folder $NORMBENCH_CAPTURE, again while it runs: a program
that is killed loses a second. Nothing here may end the program or change its numbers.
"""
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys


class _Capture:
    """What one process has seen."""

    PERIOD = 1.0  # seconds between two writings
    TRIES = 3  # calls of a class in which its output may say nothing, as zeros do

    def __init__(self, torch, folder, steps):
        import collections, functools, json, re, threading, time, weakref

        self.torch, self.folder, self.steps = torch, folder, steps
        self.OrderedDict = collections.OrderedDict
        self.functools, self.json, self.clock = functools, json, time.monotonic
        self.named = re.compile(r"norm|rms", re.I)
        self.local = threading.local()
        self.patches = []  # (object, name, original, ours)
        self.classes = set()  # that are wrapped
        self.modules = weakref.WeakSet()  # of them
        self.traits = weakref.WeakKeyDictionary()  # module: see class_key
        self.dtypes = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32"}
        # False, but where Dynamo traces a forward. Without it there is no torch.compile.
        self.compiling = getattr(torch.compiler, "is_dynamo_compiling", torch.compiler.is_compiling)
        self.reset()

    def reset(self):
        """Forgets all counts, as in a child that a program forks."""
        self.pid = os.getpid()
        self.calls = {}  # key: [forwards, backwards]
        self.hooks = {}  # key: the hook of its backwards
        self.kinds = {}  # class and which parameters it has: what it answers as, or why it is unknown
        self.tries = {}
        self.others = {}  # (class, why): calls
        self.seen = set()  # ids of modules that ran
        self.opt = {}  # id of an optimizer: its steps
        self.written = self.clock()

    # Counting.

    def record(self, kind, cls, x, columns, weight, out, residual=False):
        """Counts a forward, and has the backward through out counted, None of a forward that stops()."""
        key = (kind, cls, x.shape, columns, x.dtype, weight.dtype if weight is not None else None, residual,
               None if x.is_contiguous() else x.stride())
        try:
            n = self.calls.get(key)
        except TypeError:  # sizes that are symbols, while something traces the program
            return
        if n is None:
            n = self.calls[key] = [0, 0]

            def backward(_, n=n):
                n[1] += 1

            self.hooks[key] = backward
        n[0] += 1
        if out is not None and out.requires_grad:
            self.hook(cls, out, self.hooks[key])
        if self.clock() - self.written > self.PERIOD:
            self.write()

    def hook(self, cls, out, backward):
        """Is out.register_hook without the handle that could take the hook away, which takes most of its time."""
        try:
            if out._backward_hooks is None:
                out._backward_hooks = self.OrderedDict()
                out.grad_fn._register_hook_dict(out)
            out._backward_hooks["normbench"] = backward
        except Exception:
            try:
                out.register_hook(backward)
            except Exception:  # of a transform such as vmap
                self.other(cls, "its backward cannot be seen under a function transform")

    @staticmethod
    def stops(error):
        """Whether a forward ends as torch.utils.checkpoint has recomputed all that it needs: at the last
        tensor that it saves, which is the norm's own."""
        return type(error).__name__ == "_StopRecomputationError"

    def other(self, cls, why):
        self.others[cls, why] = self.others.get((cls, why), 0) + 1

    # Functions.

    def wrap_function(self, holder, name, what):
        """Wraps holder.name: what gives the kind, the columns and the weight of a call, or why it is not mapped."""
        original = getattr(holder, name, None)
        if original is None:
            return
        local, compiling, Tensor = self.local, self.compiling, self.torch.Tensor
        stops = self.stops

        @self.functools.wraps(original)
        def norm(*args, **kwargs):
            if compiling() or getattr(local, "inside", 0):
                return original(*args, **kwargs)
            local.inside, stop, out = 1, None, None
            try:
                out = original(*args, **kwargs)
            except Exception as e:
                if not stops(e):
                    raise
                stop = e
            finally:
                local.inside = 0
            x = args[0] if args else kwargs.get("input")
            if isinstance(x, Tensor) and (stop or isinstance(out, Tensor)):
                local.called = getattr(local, "called", 0) + 1
                module = getattr(local, "module", None)
                cls = name if module is None else type(module).__name__
                found = what(x, *args[1:], **{k: v for k, v in kwargs.items() if k != "input"})
                if isinstance(found, str):
                    self.other(cls, found)
                else:
                    kind, columns, weight = found
                    self.record(kind, cls, x, columns, weight, out)
            if stop:
                raise stop
            return out

        self.patch(holder, name, norm)

    def patch(self, holder, name, ours):
        self.patches.append((holder, name, getattr(holder, name), ours))
        setattr(holder, name, ours)

    # Modules.

    def meet(self, module):
        """Wraps the class of a norm."""
        cls = type(module)
        name = cls.__name__
        if not self.named.search(name) or name in ("_WeightNorm", "_SpectralNorm", "WeightNorm", "SpectralNorm"):
            return
        self.modules.add(module)
        if cls not in self.classes and "forward" in dir(cls):
            self.classes.add(cls)
            self.wrap_class(cls)

    def wrap_class(self, cls):
        original, name = cls.forward, cls.__name__
        local, compiling, Tensor, seen = self.local, self.compiling, self.torch.Tensor, self.seen

        @self.functools.wraps(original)
        def forward(module, *args, **kwargs):
            if compiling() or getattr(local, "inside", 0) or getattr(local, "module", None) is module:
                return original(module, *args, **kwargs)  # the last is of a class that calls its parent's
            self.seen.add(id(module))
            if module._modules:
                return original(module, *args, **kwargs)
            x = next((a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)), None)
            if x is None or not x.dim():
                return original(module, *args, **kwargs)
            other = self.second(x, args, kwargs)
            key = self.class_key(module, other)
            kind = self.kinds.get(key)
            if kind == "by its functions":
                return self.watch(original, module, args, kwargs)
            if kind is None:
                return self.first(key, name, original, module, x, other, args, kwargs)
            local.inside = 1
            try:
                out = original(module, *args, **kwargs)
            except Exception as e:
                if self.stops(e):
                    self.record(key, name, x, x.shape[-1], self.parameters(module)[0], None, other is not None)
                raise
            finally:
                local.inside = 0
            self.count(key, module, name, x, other, out)
            return out

        self.patch(cls, "forward", forward)

    def watch(self, original, module, args, kwargs):
        """Runs a forward whose functions are counted, under the name of its class."""
        local = self.local
        before = getattr(local, "module", None)
        local.module = module
        try:
            return original(module, *args, **kwargs)
        finally:
            local.module = before

    @staticmethod
    def parameters(module):
        """The weight and the bias of a norm, by their names or by their order."""
        own = module._parameters
        if "weight" in own:
            return own["weight"], own.get("bias")
        return next((p for k, p in own.items() if k != "bias"), None), own.get("bias")

    def class_key(self, module, other):
        """What decides what a forward is. A class may take a gate in some calls only; its modules may differ in words
        and truths, such as activation and norm_before_gate, and in groups."""
        weight, bias = self.parameters(module)
        traits = self.traits.get(module)
        if traits is None:
            traits = self.traits[module] = tuple(
                (k, v) for k, v in vars(module).items()
                if k != "training" and (isinstance(v, (str, bool)) or "group" in k and isinstance(v, int)))
        return type(module), weight is None, bias is None, other is None, traits

    def first(self, key, name, original, module, x, other, args, kwargs):
        """Runs a forward of a class that is not known yet, and finds out what it is."""
        local, torch = self.local, self.torch
        sample = None
        columns = x.shape[-1]
        real = x.device.type != "meta" and type(x).__name__ != "FakeTensor" and x.is_floating_point()
        if real and x.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            real = False
        rows = lambda t: t.detach().reshape(-1, columns)[:4].float().clone()
        if real:
            with torch.no_grad():
                sample, beside = rows(x), None if other is None else rows(other)
        called = getattr(local, "called", 0)
        out = self.watch(original, module, args, kwargs)
        if getattr(local, "called", 0) > called:
            self.kinds[key] = "by its functions"
            return out
        main = out[0] if isinstance(out, tuple) and out else out
        self.tries[key] = self.tries.get(key, 0) + 1
        kind = None
        if not isinstance(main, torch.Tensor) or main.shape != x.shape:
            kind = "its output is not of its input's shape"
        elif real:
            with torch.no_grad():
                kind = self.identify(module, sample, rows(main))
                if not isinstance(kind, tuple) and beside is not None:  # a residual, or a gate
                    for found in (self.identify(module, sample + beside, rows(main)),
                                  self.identify(module, sample, rows(main), beside)):
                        kind = kind if isinstance(kind, tuple) else found or kind
        if kind is None and self.tries[key] >= self.TRIES:
            kind = self.by_name(name, module)
        if kind is not None:
            self.kinds[key] = kind
        self.count(key, module, name, x, other, out)
        return out

    @staticmethod
    def second(x, args, kwargs):
        """A residual or a gate that a forward takes beside its input."""
        alike = [a for a in (*args[:2], *kwargs.values()) if getattr(a, "shape", None) == x.shape]
        return alike[1] if len(alike) > 1 else None

    def count(self, key, module, name, x, other, out):
        residual = isinstance(out, tuple) and len(out) > 1 and other is not None
        main = out[0] if isinstance(out, tuple) and out else out
        if not isinstance(main, self.torch.Tensor):
            self.other(name, "its output is no tensor")
            return
        # The kind is looked up when it is written: the first calls of a class may not tell it.
        self.record(key, name, x, x.shape[-1], self.parameters(module)[0], main, residual)

    def identify(self, module, x, out, z=None):
        """What a forward does to its rows, with z as their gate: (op, zero-centered, has weight, has bias, the gate
        is a sigmoid, the gate is first), why it is no norm that is known, or None where the rows do not tell."""
        torch = self.torch
        x, out = x.double(), out.double()
        if not bool(torch.isfinite(x).all()) or not bool(torch.isfinite(out).all()):
            return None
        size = out.norm()
        if float(size) == 0 or float(x.norm()) == 0:
            return None
        weight, bias = self.parameters(module)
        columns = x.shape[-1]
        if (vars(module).get("group_size") or columns) != columns:
            return "it normalizes groups of its columns"
        flat = lambda p: None if p is None or p.numel() != columns else p.detach().reshape(-1).double()
        w, b = flat(weight), flat(bias)
        if weight is not None and w is None or bias is not None and b is None:
            return "its weight is not one number for each column"
        eps = next((float(v) for k, v in vars(module).items() if "eps" in k and isinstance(v, (int, float))), 1e-6)
        ways = [(x, None, False, False)]  # what is normalized, what the result is multiplied by
        if z is not None:
            sigmoid = z.double().sigmoid()
            gates = (sigmoid * z.double(), False), (sigmoid, True)
            ways = [(x, gate, s, False) for gate, s in gates] + [(x * gate, None, s, True) for gate, s in gates]
        best, error = None, 0.02  # bf16 rounds by less than half of it
        for x, gate, *of_gate in ways:
            centered = x - x.mean(-1, keepdim=True)
            rows = {"rmsnorm": x * (x.pow(2).mean(-1, keepdim=True) + eps).rsqrt(),
                    "layernorm": centered * (centered.pow(2).mean(-1, keepdim=True) + eps).rsqrt(),
                    "l2norm": x / x.norm(dim=-1, keepdim=True).clamp_min(1e-12)}
            for op, y in rows.items():
                factors = [(None, False, None)] if w is None else [(w, False, w), (1 + w, True, w)]
                for factor, zero, has in factors:
                    if op == "l2norm" and (has is not None or z is not None):
                        continue
                    answer = y if factor is None else y * factor
                    if b is not None and op != "l2norm":
                        answer = answer + b
                    if gate is not None:
                        answer = answer * gate
                    e = float((answer - out).norm() / size)
                    if e < error:
                        best, error = (op + "gated" * (z is not None), zero, has is not None, b is not None, *of_gate), e
        return best or "its output is no RMSNorm, LayerNorm or L2 norm of its input's rows"

    def by_name(self, name, module):
        weight, bias = self.parameters(module)
        if "rms" in name.lower():
            return "rmsnorm", False, weight is not None, bias is not None, False, False
        return "its rows were zeros in its first calls, so it is not known what it does"

    # Steps.

    def stepped(self, optimizer, *_):
        n = self.opt[id(optimizer)] = self.opt.get(id(optimizer), 0) + 1
        if self.steps and n >= self.steps:
            self.write()
            raise SystemExit(0)
        if self.clock() - self.written > self.PERIOD:
            self.write()

    # The file.

    def unseen(self):
        """Classes of modules that ran, if they did, without their forward being called."""
        left = {}
        for m in list(self.modules):
            if id(m) not in self.seen and not m._modules:
                left[type(m).__name__] = left.get(type(m).__name__, 0) + 1
        return left

    def compiled(self):
        """How many frames torch.compile has compiled."""
        utils = sys.modules.get("torch._dynamo.utils")
        try:
            return int(utils.counters["frames"]["ok"]) if utils else 0
        except Exception:
            return 0

    def rank(self):
        dist = getattr(self.torch, "distributed", None)
        try:
            if dist and dist.is_available() and dist.is_initialized():
                return dist.get_rank()
        except Exception:
            pass
        return int(os.environ.get("RANK", 0) or 0)

    def norms(self, others):
        """The rows of the file; what is not mapped goes to others."""
        rows = []
        for (kind, cls, shape, n, dtype, weight, residual, strides), (fwd, bwd) in self.calls.items():
            m = shape.numel() // max(n, 1)
            if m < 1:
                continue
            if kind and isinstance(kind[0], type):
                kind = self.kinds.get(kind) or "its rows were zeros, so it is not known what it does"
            why = kind if isinstance(kind, str) else None
            if not why and not (dtype in self.dtypes and (weight is None or weight in self.dtypes)):
                why = "it runs in " + str(dtype if dtype not in self.dtypes else weight).replace("torch.", "")
            if why:
                others[cls, why] = others.get((cls, why), 0) + fwd
                continue
            op, zero, has, bias, sigmoid, gate_first = kind
            for name, calls in (("fwd", fwd), ("bwd", bwd)):
                if calls:
                    rows.append({"op": op, "pass": name, "m": m, "n": n, "dtype": self.dtypes[dtype],
                                 "weight": self.dtypes[weight] if has else "", "bias": bias, "zero_centered": zero,
                                 "residual": residual and not op.endswith("gated"), "sigmoid": sigmoid,
                                 "gate_first": gate_first, "class": cls, "strides": list(strides or ()), "calls": calls})
        return rows

    def write(self):
        self.written = self.clock()
        if os.getpid() != self.pid:
            return
        others = dict(self.others)
        rows = self.norms(others)
        if not rows and not others and not self.modules:
            return  # a launcher, or a loader of data
        text = self.json.dumps({
            "rank": self.rank(), "steps": max(self.opt.values(), default=0), "norms": rows,
            "others": [{"class": c, "why": w, "calls": n} for (c, w), n in others.items()],
            "unseen": self.unseen(), "compiled": self.compiled()})
        name = os.path.join(self.folder, "seen.%d.json" % self.pid)
        try:
            with open(name + ".new", "w") as f:
                f.write(text)
            os.replace(name + ".new", name)
        except OSError:
            pass  # the folder is gone: the capture has ended

    # Putting it in.

    def install(self):
        torch, F = self.torch, self.torch.nn.functional

        def size(shape):
            n = 1
            for s in [shape] if isinstance(shape, int) else shape:
                n *= s
            return n

        def layer(x, shape, weight=None, bias=None, *_, **__):
            return ("layernorm", False, weight is not None, bias is not None, False, False), size(shape), weight

        def rms(x, shape, weight=None, *_, **__):
            return ("rmsnorm", False, weight is not None, False, False, False), size(shape), weight

        def l2(x, p=2.0, dim=1, *_, **__):
            if p != 2 or not isinstance(dim, int) or dim % max(x.dim(), 1) != x.dim() - 1:
                return "normalize over another dimension than the last, or by another norm than L2"
            return ("l2norm", False, False, False, False, False), x.shape[-1], None

        for holder, name, what in (
                (F, "layer_norm", layer), (F, "rms_norm", rms), (F, "normalize", l2),
                (F, "group_norm", lambda *_, **__: "GroupNorm is not mapped"),
                (F, "batch_norm", lambda *_, **__: "BatchNorm is not mapped"),
                (F, "instance_norm", lambda *_, **__: "InstanceNorm is not mapped"),
                (F, "local_response_norm", lambda *_, **__: "local response norm is not mapped"),
                (torch, "layer_norm", layer), (torch, "rms_norm", rms)):
            self.wrap_function(holder, name, what)
        hooks = torch.nn.modules.module
        hooks.register_module_module_registration_hook(
            lambda parent, name, module: self.meet(module) if module is not None else None)
        hooks.register_module_parameter_registration_hook(lambda module, name, p: self.meet(module))
        from torch.optim.optimizer import register_optimizer_step_post_hook
        register_optimizer_step_post_hook(self.stepped)
        self.wrap_script()
        import atexit
        atexit.register(self.write)
        os.register_at_fork(after_in_child=self.reset)

    def wrap_script(self):
        """Takes the wrappers away while TorchScript reads sources: it knows the originals."""
        original = self.torch.jit.script

        @self.functools.wraps(original)
        def script(*args, **kwargs):
            for holder, name, was, _ in self.patches:
                setattr(holder, name, was)
            try:
                return original(*args, **kwargs)
            finally:
                for holder, name, _, ours in self.patches:
                    setattr(holder, name, ours)

        self.torch.jit.script = script


class _Finder(importlib.abc.MetaPathFinder):
    """Waits for the import of torch."""

    def __init__(self, loaded):
        self.loaded = loaded

    def find_spec(self, name, path, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            run, loaded = spec.loader.exec_module, self.loaded

            def exec_module(module):
                run(module)
                loaded(module)

            spec.loader.exec_module = exec_module
        return spec


def _mark(folder, name, text=""):
    try:
        with open(os.path.join(folder, name), "w") as f:
            f.write(text)
    except OSError:
        pass


def _start():
    folder = os.environ.get("NORMBENCH_CAPTURE")
    if not folder:
        return
    if importlib.util.find_spec("torch") is None:
        _mark(folder, "notorch", sys.executable)
        return

    def loaded(torch):
        global capture
        _mark(folder, "torch")
        try:
            capture = _Capture(torch, folder, int(os.environ.get("NORMBENCH_CAPTURE_STEPS", 0)))
            capture.install()
        except Exception as e:  # of another version of torch: the program goes on
            _mark(folder, "failed", "torch %s: %s: %s" % (torch.__version__, type(e).__name__, e))

    sys.meta_path.insert(0, _Finder(loaded))


def _next():
    """Runs the sitecustomize that this one stands before."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


capture = None  # of this process, once torch is there
_start()
_next()
