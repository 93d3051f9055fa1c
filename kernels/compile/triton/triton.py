"""What normbench has Triton do: it compiles kernels, and launches none.

    python triton.py probe          reads what files say of functions; runs no code of theirs
    python triton.py serve DIR      imports a source once, and compiles its functions in processes that it forks
    python triton.py interpret DIR FILE    runs a launch in Triton's interpreter, which needs numpy too

Requests and answers are lines of JSON (kernels/compile/triton/triton.go). Needs Triton, neither torch nor a GPU.
Importing a file runs it, as any import does. DIR is a folder for its copies and for Triton's cache.
"""

import sys

if not getattr(sys.flags, "safe_path", False):
    del sys.path[0]  # the folder of this file, or the current one, which may have a triton.py

import ast
import base64
import contextlib
import ctypes
import functools
import gc
import hashlib
import importlib
import importlib.machinery
import io
import json
import mmap
import os
import re
import selectors
import shutil
import signal
import socket
import struct
import tempfile
import time
import traceback
import types


class Refusal(Exception):
    """Something is wrong with the kernel: place is FILE:LINE, log is for who wants to know more."""

    def __init__(self, what, place="", log=""):
        super().__init__(what)
        self.place, self.log = place, log

    def text(self):
        return f"{self.place}: {self}" if self.place else str(self)


# ---- Probe: what the text of a file says ----------------------------------------


def module_file(name, path=None):
    """The file of a module, found without importing it or its packages; None where there is none."""
    for part in name.split("."):
        spec = importlib.machinery.PathFinder.find_spec(part, path)
        if spec is None:
            return None
        path = spec.submodule_search_locations
    return spec.origin if spec.origin and spec.origin.endswith(".py") else None


def version():
    """Triton's version, without importing it."""
    file = module_file("triton")
    found = file and re.search(r"""__version__\s*=\s*['"]([^'"]+)""", open(file).read())
    if not found:
        raise Refusal("there is no Triton")
    return found.group(1)


def settings():
    """Whatever else changes Triton's code: variables, and a ptxas of one's own."""
    mine = [f"{k}={v}" for k, v in sorted(os.environ.items())
            if re.match("TRITON_|DISABLE_|MLIR_|LLVM_|USE_IR_", k) and not re.search("CACHE|HOME|_DIR$|INTERPRET", k)]
    for key in ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"):
        if os.path.isfile(os.environ.get(key, "")):
            st = os.stat(os.environ[key])
            mine.append(f"{st.st_size} {st.st_mtime_ns}")
    return mine


# Their versions count, or nobody's kernel depends on their text.
SKIPPED = {"triton", "torch", "numpy", "transformers"} | set(sys.stdlib_module_names)


def imported(tree, package):
    """Names of the modules that a file imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([p for p in base if p] + ([node.module] if node.module else []))
            yield base
            yield from (f"{base}.{a.name}" for a in node.names)


def closure(text, package, sources, seen):
    """The installed files that a text imports, and those that they do, with their hashes."""
    for name in imported(ast.parse(text), package):
        if not name or name in seen or name.split(".")[0] in SKIPPED or len(seen) > 2000:
            continue
        seen[name] = ""
        file = None if name.split(".")[0] + ".py" in sources else module_file(name)
        if file:
            inner = open(file, encoding="utf-8").read()
            seen[name] = hashlib.sha256(inner.encode()).hexdigest()
            with contextlib.suppress(SyntaxError):  # of a later Python, which importing it will say
                inner = inner if len(inner) < 1 << 20 else ""
                closure(inner, name if file.endswith("__init__.py") else name.rpartition(".")[0], sources, seen)


def parameters(function):
    """What the signature of a function says, with its defaults as text."""
    a = function.args
    every = a.posonlyargs + a.args + a.kwonlyargs
    defaults = [None] * (len(a.posonlyargs + a.args) - len(a.defaults)) + a.defaults + a.kw_defaults
    touched = {n.func.value.id for n in ast.walk(function)
               if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)
               and isinstance(n.func.value, ast.Name) and n.func.attr in ("load", "store", "gather", "scatter")}
    for p, default in zip(every, defaults):
        note = ast.unparse(p.annotation) if p.annotation else ""
        yield {"Name": p.arg, "Line": p.lineno, "Constexpr": "constexpr" in note,
               "Default": ast.unparse(default) if default else "", "Descriptor": p.arg in touched or "descriptor" in note}


def read_function(want, sources):
    if want["Module"]:
        file = module_file(want["Module"])
        if not file:
            raise Refusal(f"Python has no module {want['Module']}")
        text = open(file, encoding="utf-8").read()
    else:
        file, text = want["Source"], sources[want["Source"]]
    try:
        tree = ast.parse(text)
    except SyntaxError as e:
        raise Refusal(e.msg, f"{file}:{e.lineno}") from None
    names = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    found = [n for n in names if n.name == want["Function"]]
    if not found:
        raise Refusal(f"there is no function {want['Function']}", file)
    function = found[-1]
    decorators = [ast.unparse(d) for d in function.decorator_list]
    if not any(re.match(r"[\w.]*jit\b", d) for d in decorators):  # or a wrapper of it, such as triton_jit
        raise Refusal(f"{function.name} has no @triton.jit", f"{file}:{function.lineno}")
    if function.args.vararg or function.args.kwarg:
        raise Refusal(f"{function.name} takes *args or **kwargs, which no manifest names", f"{file}:{function.lineno}")
    seen = {}
    closure(text, want["Module"].rpartition(".")[0], sources, seen)
    return {"File": file, "Text": text, "Line": function.lineno, "Params": list(parameters(function)),
            "Wrapped": any("autotune" in d or "heuristics" in d for d in decorators),
            "Hash": hashlib.sha256("\n".join(sorted(f"{k} {v}" for k, v in seen.items() if v)).encode()).hexdigest()}


def probe(request):
    found = []
    for want in request["Wants"]:
        try:
            found.append(read_function(want, request["Sources"]))
        except Refusal as e:
            found.append({"Error": e.text()})
    return {"Version": version(), "Settings": settings(), "Functions": found}


# ---- Compile --------------------------------------------------------------------


class Pointer:
    """Stands for a tensor: its address is a multiple of 16, as normbench's are of 256."""

    def __init__(self, dtype):
        self.dtype = dtype

    def data_ptr(self):
        return 256

    def ptr_range(self):
        return 1 << 40


def stand_in(arch):
    """Stands for a GPU of an architecture, so that Triton's own launcher specializes and compiles."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver
    target = GPUTarget("cuda", arch, 32)
    driver.set_active(types.SimpleNamespace(
        get_current_target=lambda: target, get_current_device=lambda: arch, get_current_stream=lambda device=0: 0,
        get_benchmarker=lambda: None, get_active_torch_device=lambda: None))


def load(folder, source):
    """Imports a source: a file, of which a copy is in the folder then, or an installed module."""
    name, text = source["Name"].rpartition(":")[2], source["Text"]
    home = folder if name.endswith(".py") else ""
    stem = name.removesuffix(".py")
    if home:
        if stem in SKIPPED:
            raise Refusal(f"rename it: {stem} is a module that kernels import", name)
        for file, content in [*(source["Headers"] or {}).items(), (name, text)]:
            if file.removesuffix(".py") not in SKIPPED:
                with open(os.path.join(home, file), "w", encoding="utf-8") as f:
                    f.write(content)
        sys.path.insert(0, home)
    stand_in(90)  # decorators ask for one
    if re.search(r"^[ \t]*(import|from) torch\b", text, re.M) and "TRITON_INTERPRET" not in os.environ:
        with contextlib.suppress(ImportError):
            import torch
            torch.cuda.is_available = lambda: True  # or modules leave out what their kernels need
    try:
        return importlib.import_module(stem)
    except BaseException as e:
        frames = [f for f in traceback.extract_tb(e.__traceback__) if home and f.filename.startswith(home)]
        place = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else name
        raise Refusal(f"importing it raises {type(e).__name__}: {e}", place, traceback.format_exc()) from None


def function_of(module, source, options):
    """The function that is asked for, as its decorators leave it."""
    found = getattr(module, options["Names"][0], None)
    if found is None:
        raise Refusal(f"there is no function {options['Names'][0]}", source["Name"].rpartition(":")[2])
    return found


def unwrap(fn):
    """The jitted function within, with the configs of @autotune and the names that @heuristics gives."""
    configs, heuristics = [], {}
    while type(fn).__name__ not in ("JITFunction", "InterpretedFunction"):
        if hasattr(fn, "configs"):
            every = [{**c.kwargs, **{k: getattr(c, k, None) for k in ("num_warps", "num_stages", "num_ctas", "maxnreg")}}
                     for c in fn.configs]
            configs = [{k: v for k, v in c.items() if v is not None and (k, v) != ("num_ctas", 1)} for c in every]
        elif isinstance(getattr(fn, "values", None), dict):
            heuristics.update(fn.values)
        if not hasattr(fn, "fn"):
            raise Refusal(f"it is a {type(fn).__name__}, and no function of @triton.jit")
        fn = fn.fn
    return fn, configs, heuristics


def value(text):
    """What a line of the request stands for: a pointer, a type of Triton's, or a literal."""
    import triton.language as tl
    types = {"bf16": tl.bfloat16, "fp16": tl.float16, "fp32": tl.float32, "fp8e4nv": tl.float8e4nv, "i32": tl.int32}
    if text.startswith("*"):
        return Pointer(types[text[1:]])
    if text.startswith("tl."):
        return getattr(tl, text[3:])
    if text in types:
        return types[text]
    return ast.literal_eval(text)


def failed_at(e, place, texts):
    """File and line where Triton's compiler stopped, the innermost in the texts or else place, and why."""
    from triton.compiler.errors import CompilationError
    while True:
        node = getattr(e, "node", None)
        for file, text in texts.items():
            at = text.find(getattr(e, "src", None) or "\0")
            if at >= 0 and node is not None:
                place = f"{file}:{text.count(chr(10), 0, at) + node.lineno}"
        if not isinstance(e.__cause__, CompilationError):
            break
        e = e.__cause__
    what = getattr(e, "error_message", None)
    if not what:
        what = f"{type(e.__cause__).__name__}: {e.__cause__}" if e.__cause__ is not None else str(e) or type(e).__name__
    return place, what.strip().splitlines()[0]


def spills(log):
    """What ptxas -v says of registers and spills."""
    def number(pattern):
        found = re.search(pattern, log)
        return int(found.group(1)) if found else 0
    return {"Registers": number(r"Used (\d+) registers"), "SpillStoreBytes": number(r"(\d+) bytes spill stores"),
            "SpillLoadBytes": number(r"(\d+) bytes spill loads"), "StackBytes": number(r"(\d+) bytes stack frame")}


def compile_kernel(module, source, options):
    import triton
    start, name, function = time.time(), source["Name"].rpartition(":")[2], options["Names"][0]
    fn, _, heuristics = unwrap(function_of(module, source, options))
    given = dict(line.split("=", 1) for line in options["Extra"])
    if given.pop("triton").split()[0] != triton.__version__:
        raise Refusal(f"Triton is {triton.__version__} now", name)
    for p in fn.params:
        if p.name not in given and p.name in heuristics:
            raise Refusal(f"{p.name} has no value; @triton.heuristics computes it of tensors: give it one under constexprs", name)
    stand_in(int(re.match(r"sm_(\d+)", options["Arch"]).group(1)))
    said_by_ptxas = io.StringIO()
    try:
        with contextlib.redirect_stdout(said_by_ptxas):
            kernel = fn.warmup(grid=(1,), **{k: value(v) for k, v in given.items()})
        meta, src = kernel.metadata, kernel.src
        cubin = kernel.asm["cubin"]
    except Exception as e:
        place, what = failed_at(e, f"{name}:{fn.starting_line_number}", {name: source["Text"], **source["Headers"]})
        raise Refusal(what, place, traceback.format_exc()) from None
    shutil.rmtree(os.environ["TRITON_CACHE_DIR"], ignore_errors=True)  # some 200 KB a kernel, that nobody reads again
    said = lambda key, default=0: getattr(meta, key, None) or default
    cluster = max(said("num_ctas", 1), functools.reduce(lambda a, b: a * b, said("cluster_dims", (1,)), 1))
    kernel.log = log = said_by_ptxas.getvalue() or getattr(kernel, "log", "")  # one object for equal requests
    return {"Cubin": base64.b64encode(cubin).decode(), "Kernels": {meta.name: spills(log)}, "Symbols": {function: meta.name},
            "Log": log, "CompileSeconds": time.time() - start, "Meta": {
                "Params": [{"Name": str(k), "Type": str(t)} for k, t in src.signature.items() if t != "constexpr"],
                "Threads": said("warp_size", 32) * meta.num_warps, "Shared": meta.shared, "Cluster": cluster,
                "Cooperative": bool(said("launch_cooperative_grid")), "Early": bool(said("launch_pdl")),
                "Descriptors": len(said("tensordesc_meta", ())),
                "Scratch": [[said("global_scratch_size"), said("global_scratch_align", 1)],
                            [said("profile_scratch_size"), said("profile_scratch_align", 1)]]}}


def describe(module, source, options):
    _, configs, heuristics = unwrap(function_of(module, source, options))
    rules = {k.value: ast.unparse(v) for n in ast.walk(ast.parse(source["Text"])) if isinstance(n, ast.Dict)
             for k, v in zip(n.keys, n.values) if isinstance(k, ast.Constant)}
    return {"Configs": configs, "Heuristics": {k: rules.get(k, "a function") for k in heuristics}}


# ---- Serve ----------------------------------------------------------------------


class Worker:
    """A process forked off this one, with all that this one has imported. It compiles one kernel after the other."""

    def __init__(self, server):
        self.socket, its = socket.socketpair()
        parent, self.pid = os.getpid(), os.fork()
        if self.pid == 0:
            try:
                ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
                if os.getppid() == parent:
                    self.socket.close()
                    work(its, server.folder, server.source, server.module)
            finally:
                os._exit(0)
        its.close()
        self.lines, self.request, self.until, self.answers, self.late = self.socket.makefile("rb"), None, 0, 0, False

    def ask(self, request):
        self.request, self.until = request, time.monotonic() + request["Seconds"]
        with contextlib.suppress(OSError):  # it died: its lines end
            self.socket.sendall(json.dumps(request).encode() + b"\n")

    def give_up(self):
        """Ends it, and the assembler that it may have started."""
        children = b""
        with contextlib.suppress(OSError), open(f"/proc/{self.pid}/task/{self.pid}/children", "rb") as f:
            children = f.read()
        for pid in [self.pid, *map(int, children.split())]:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self.late = True

    def death(self):
        """How it ended, in words that go on from its name."""
        os.kill(self.pid, signal.SIGKILL)  # where it only closed its end
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        if self.late:
            return f"was killed: no answer within {self.request['Seconds']:.0f}s"
        if code < 0:
            return f"ended: signal: {signal.strsignal(-code).lower()}" + ", as when memory runs out" * (-code == signal.SIGKILL)
        return f"ended: exit status {code}"


def work(its, folder, source, module):
    os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, str(os.getpid()))
    for line in its.makefile("rb"):
        request = json.loads(line)
        try:
            if isinstance(module, Exception):
                raise module
            make = describe if request["Describe"] else compile_kernel
            answer = {"Value": make(module, source, request["Options"])}
        except Exception as e:
            name, place = source["Name"].rpartition(":")[2], getattr(e, "place", "")
            at = place.removeprefix(name) if place.startswith(name) else f": {place}" if place else ""
            log = getattr(e, "log", "") or traceback.format_exc()
            answer = failed(source, str(e), f"{source['Name']}{at}: error: {e}\n{log}")
        its.sendall(json.dumps({"ID": request["ID"], **answer}).encode() + b"\n")


def failed(source, result, log):
    return {"Failed": {"Source": source["Name"], "Result": result, "Log": log}}


class Server:
    """Imports a source, and gives what is asked for to workers. Nothing of that runs in this process, so it lives on
    whatever a kernel does to its compiler. It has neither threads nor a context of CUDA, which no fork would have."""

    def __init__(self, folder, requests, out):
        self.folder, self.requests, self.out = folder, requests, out
        self.ready, self.idle = selectors.DefaultSelector(), []

    def answer(self, value):
        self.out.write(json.dumps(value) + "\n")
        self.out.flush()

    def serve(self):
        with open(self.requests, "rb", closefd=False) as f:
            self.source = json.loads(f.readline())
        try:
            import triton  # noqa: F401
        except Exception as e:
            self.answer({"Error": f"import triton raises {type(e).__name__}: {e}"})
            return
        try:
            self.module = load(self.folder, self.source)
        except Refusal as e:
            self.module = e  # the answer to all that is asked
        gc.freeze()
        self.answer({})
        self.ready.register(self.requests, selectors.EVENT_READ)
        rest = b""
        while True:
            for key, _ in self.ready.select(self.patience()):
                if key.data:
                    self.hear(key.data)
                    continue
                data = os.read(self.requests, 1 << 16)
                if not data:
                    return
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self.ask(json.loads(line))

    def patience(self):
        """Gives up workers that are late. Returns the seconds until one may be."""
        at = [k.data for k in self.ready.get_map().values() if k.data and k.data.request and not k.data.late]
        for worker in at:
            if worker.until <= time.monotonic():
                worker.give_up()
        return min((max(w.until - time.monotonic(), 0) for w in at), default=None)

    def ask(self, request):
        if not self.idle:
            worker = Worker(self)
            self.ready.register(worker.socket, selectors.EVENT_READ, worker)
            self.idle.append(worker)
        self.idle.pop().ask(request)

    def hear(self, worker):
        line = worker.lines.readline().decode()
        if line.endswith("\n"):
            self.out.write(line)
            self.out.flush()
            worker.request, worker.answers = None, worker.answers + 1
            self.idle.append(worker)
            return
        self.ready.unregister(worker.socket)
        self.idle = [w for w in self.idle if w is not worker]
        request, death = worker.request, worker.death()
        if request and worker.answers and not worker.late:
            self.ask(request)  # of what it did before it may have died: only a fresh one shows that the source is to blame
        elif request:
            self.answer({"ID": request["ID"], **failed(self.source, "no answer", f"the compiler {death}")})


# ---- Interpret ------------------------------------------------------------------


class Beyond(Exception):
    """An access beyond a buffer."""


class Memory(Pointer):
    """A tensor of the interpreter's, in memory of this process; it is asked what torch would answer."""

    def __init__(self, dtype, at):
        super().__init__(dtype)
        self.at = at

    def data_ptr(self):
        return self.at

    def same(self, *_, **__):
        return self

    untyped_storage = cpu = new_empty = set_ = copy_ = storage_offset = size = stride = same


class Buffers:
    """The buffers of a launch, with room between them: each address that is read or written is held against them."""

    ROOM = 16 << 20  # bytes, of which the system gives those that are touched

    def __init__(self, count):
        self.memory = mmap.mmap(-1, (count + 1) * self.ROOM, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.all = []  # name, bytes of an element, address, bytes

    def add(self, name, element, data):
        if len(data) > self.ROOM // 2:
            raise Refusal(f"the interpreter takes buffers of at most {self.ROOM // 2} bytes")
        offset = len(self.all) * self.ROOM + self.ROOM // 2
        self.memory[offset:offset + len(data)] = data
        self.all.append((name, element, self.start + offset, len(data)))

    def data(self):
        for _, _, at, size in self.all:
            yield self.memory[at - self.start:at - self.start + size]

    def check(self, pointers, mask, size, how):
        """Raises Beyond where a pointer that the mask lets pass is not to size bytes of a buffer."""
        import numpy
        at = numpy.asarray(pointers).astype(numpy.int64).reshape(-1)
        if mask is not None:
            at = at[numpy.broadcast_to(numpy.asarray(mask, bool), numpy.shape(pointers)).reshape(-1)]
        if not at.size:
            return
        slot = (at - self.start) // self.ROOM
        starts, sizes = (numpy.array([b[i] for b in self.all], numpy.int64) for i in (2, 3))
        known = (slot >= 0) & (slot < len(self.all))
        slot = numpy.clip(slot, 0, len(self.all) - 1)
        bad = ~known | (at < starts[slot]) | (at + size > starts[slot] + sizes[slot])
        if not bad.any():
            return
        first = numpy.argmax(bad)
        if not known[first]:
            raise Beyond(f"an address far from every buffer is {how}")
        name, element, start, length = self.all[slot[first]]
        ahead = int(start - at[first])
        distance = ahead if ahead > 0 else -ahead + size - length
        where = "ahead of its start" if ahead > 0 else "beyond its end"
        text = f"{distance} byte{'s' * (distance != 1)}"
        if element > 1 and distance % element == 0:
            n = distance // element
            text = f"{n} element{'s' * (n != 1)} ({text})"
        raise Beyond(f"{name} is {how} {text} {where}")

    def watch(self, backward):
        """Has the interpreter check what it reads and writes and, backward, begin with the last program."""
        import numpy
        from triton.runtime import interpreter
        inner, builder = interpreter._interpreter, interpreter.interpreter_builder
        set_index, grid, at = builder.set_grid_idx, [1, 1, 1], [0, 0, 0]
        set_grid = builder.set_grid_dim

        def set_grid_dim(*sides):
            grid[:] = sides
            return set_grid(*sides)

        def set_grid_idx(*index):
            at[:] = [n - 1 - i for n, i in zip(grid, index)] if backward else index
            return set_index(*at)

        def checked(pointers, mask, size, how):
            try:
                self.check(pointers, mask, size, how)
            except Beyond as e:
                raise Beyond(f"{e}, by program {at[0] if grid[1:] == [1, 1] else tuple(at)}") from None

        def load(pointers, mask, other, dtype):
            checked(pointers, mask, numpy.dtype(dtype).itemsize, "read")
            return inner.load(pointers, mask, other, dtype)

        def store(pointers, values, mask):
            checked(pointers, mask, values.dtype.itemsize, "written")
            return inner.store(pointers, values, mask)

        def atomic_rmw(op, pointers, values, mask, order):
            checked(pointers, mask, values.dtype.itemsize, "written")
            return inner.atomic_rmw(op, pointers, values, mask, order)

        def atomic_cas(pointers, compared, values, order):
            checked(pointers, None, values.dtype.itemsize, "written")
            return inner.atomic_cas(pointers, compared, values, order)

        class Watched:
            def __getattr__(self, name):
                return getattr(inner, name)
        Watched.load, Watched.store = staticmethod(load), staticmethod(store)
        Watched.atomic_rmw, Watched.atomic_cas = staticmethod(atomic_rmw), staticmethod(atomic_cas)
        interpreter._interpreter = Watched()
        builder.set_grid_dim, builder.set_grid_idx = set_grid_dim, set_grid_idx


def compute_bf16():
    """The interpreter cuts fp32 off to bf16, and computes with the bits of bf16. A GPU rounds to the nearest."""
    import numpy
    import triton.language as tl
    from triton.runtime import interpreter
    inner, plain, reduced = interpreter._convert_float, interpreter.InterpreterBuilder.binary_op, interpreter.ReduceOps.apply

    def rounded(data):
        bits = numpy.ascontiguousarray(data, numpy.float32).view(numpy.uint32)
        up = numpy.where(numpy.isnan(data), bits | 0x400000, bits + 0x7fff + (bits >> 16 & 1))
        return (up >> 16).astype(numpy.uint16)

    def convert(data, of, to, mode):
        return rounded(data) if (of, to) == (tl.float32, tl.bfloat16) else inner(data, of, to, mode)

    def binary_op(self, lhs, rhs, op):
        if lhs.dtype.scalar != tl.bfloat16:
            return plain(self, lhs, rhs, op)
        out = op(*((v.data.astype(numpy.uint32) << 16).view(numpy.float32) for v in (lhs, rhs)))
        return interpreter.TensorHandle(out if out.dtype == bool else rounded(out), tl.bfloat16)

    def reduce(self, input):
        if any(v.dtype.scalar == tl.bfloat16 for v in (input if isinstance(input, tuple) else (input,))):
            raise NotImplementedError("a reduction of bf16")
        return reduced(self, input)
    interpreter._convert_float, interpreter.InterpreterBuilder.binary_op = convert, binary_op
    interpreter.ReduceOps.apply = reduce


def interpret(folder, file, out):
    """Runs one launch in Triton's interpreter: buffers come and go as those of normbench's emulator do."""
    os.environ.update(TRITON_INTERPRET="1", CUDA_VISIBLE_DEVICES="")
    try:
        import numpy
    except ImportError:
        raise Refusal("Triton's interpreter needs numpy (`pip install numpy`)") from None
    compute_bf16()
    import triton.language as tl
    from triton.language.extra import libdevice
    libdevice.rsqrt = lambda x: tl.rsqrt(x)  # the one of these that normalization calls; the interpreter has none
    from triton.runtime.interpreter import TensorHandle
    with open(file, encoding="utf-8") as f:
        request = json.load(f)
    source, options = request["Source"], request["Options"]
    take = lambda code: struct.unpack("<" + code, sys.stdin.buffer.read(struct.calcsize("<" + code)))
    *grid, _, _, _, backward = take("7I")
    count, = take("I")
    buffers = Buffers(count)
    for _ in range(count):
        label = sys.stdin.buffer.read(take("I")[0]).decode()
        element, size = take("I") + take("Q")
        buffers.add(label, element, sys.stdin.buffer.read(size))
    buffers.watch(backward)
    name = source["Name"].rpartition(":")[2]
    fn, _, _ = unwrap(function_of(load(tempfile.mkdtemp(dir=folder), source), source, options))
    given = {}
    for key, text in (line.split("=", 1) for line in options["Extra"]):
        if key == "triton":
            continue
        given[key] = value(text) if key not in request["Values"] else request["Values"][key]
        if text == "0.5":  # a float of the launch, which the interpreter would leave Python's
            given[key] = tl.tensor(TensorHandle(numpy.array([given[key]], numpy.float32), tl.float32), tl.float32)
        if isinstance(given[key], Pointer):
            given[key] = Memory(given[key].dtype, buffers.all[request["Buffers"][key]][2])
    try:
        fn.rewrite().__annotations__.update(fn.fn.__annotations__)  # which knows tl.constexpr by other names too
        fn[tuple(grid)](**given)
    except Exception as e:
        if isinstance(e.__cause__, Beyond) or isinstance(e, Beyond):
            print(e.__cause__ or e, file=sys.stderr)
            sys.exit(3)  # as the emulator's programs do that find a mistake
        help = " (numpy below 2.4 has it)" if "0-dimensional" in str(e.__cause__) else ""
        raise Refusal(f"Triton's interpreter: {type(e).__name__}: {e.__cause__ or e}{help}", name) from None
    for data in buffers.data():
        out.buffer.write(data)
    out.flush()


def main(mode, *folder):
    out = os.fdopen(os.dup(1), "w")  # nobody else's prints are answers
    os.dup2(2, 1)
    requests = os.dup(0)
    if mode == "serve":
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # nor are requests theirs to read
    if mode == "probe":
        try:
            found = probe(json.loads(sys.stdin.readline()))
        except Refusal as e:
            found = {"Error": e.text()}
        out.write(json.dumps(found) + "\n")
        out.flush()
        return
    if mode == "interpret":
        try:
            interpret(*folder, out)
        except Refusal as e:
            sys.exit(f"not run: {e.text()}")
        return
    os.environ.update(CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1",
                      TRITON_DUMP_PTXAS_LOG="1", TRITON_ALWAYS_COMPILE="1")  # the cache would know no log
    os.environ.pop("TRITON_INTERPRET", None)
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # whose default changes in 3.10
    try:
        os.nice(10)
        with open("/proc/self/oom_score_adj", "w") as f:
            f.write("800")
    except OSError:
        pass
    Server(*folder, requests, out).serve()


main(*sys.argv[1:])
