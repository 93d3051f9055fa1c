"""What normbench has Triton do: it compiles kernels, and launches none.

    python triton.py probe          reads what files say of functions; runs no code of theirs
    python triton.py serve DIR      imports Triton once, and each source in a process that it forks, which compiles
    python triton.py interpret DIR  does as serve does, and runs launches in Triton's interpreter, which needs numpy too

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
import importlib.util
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


class Disk:
    """What probing reads, each file once, and what tells a later command that none of it has changed."""

    def __init__(self):
        self.stats, self.texts, self.trees, self.closures = {}, {}, {}, {}

    def look(self, path):
        """Notes a file or folder. Says whether it is there."""
        if path not in self.stats:
            try:
                st = os.stat(path)
                self.stats[path] = [st.st_size, st.st_mtime_ns]
            except OSError:
                self.stats[path] = []
        return bool(self.stats[path])

    def is_file(self, path):
        return os.path.isfile(path) and self.look(path) and self.look(os.path.dirname(path))

    def text(self, path):
        if path not in self.texts:
            self.look(path)
            self.look(os.path.dirname(path))  # where another file may come to stand before it
            with open(path, encoding="utf-8", errors="replace") as f:
                self.texts[path] = f.read(1 << 20)
        return self.texts[path]

    def tree(self, text):
        """The tree of a text; an empty one where it does not parse, which importing it will say."""
        if text not in self.trees:
            try:
                self.trees[text] = ast.parse(text)
            except SyntaxError:  # of a later Python, for one
                self.trees[text] = ast.parse("")
        return self.trees[text]

    def find(self, name, folders=None):
        """Path of a module or package, without importing it or its packages: of its file, or of a folder. None where
        there is none."""
        if folders is None:
            for part in name.split("."):
                spec = importlib.machinery.PathFinder.find_spec(part, folders)
                if spec is None:
                    return None
                folders = spec.submodule_search_locations
            return spec.origin if spec.has_location else next(iter(folders or ()), None)
        *parents, last = name.split(".")
        for folder in folders:
            at = os.path.join(folder, *parents)
            for path in (os.path.join(at, last, "__init__.py"), os.path.join(at, last + ".py")):
                if self.is_file(path):
                    return path
        return None


def version(disk):
    """Triton's version, without importing it."""
    file = disk.find("triton")
    found = file and re.search(r"""__version__\s*=\s*['"]([^'"]+)""", disk.text(file))
    if not found:
        raise Refusal("there is no Triton")
    return found.group(1)


def settings(disk):
    """Whatever else changes Triton's code: variables, and a ptxas of one's own."""
    mine = [f"{k}={v}" for k, v in sorted(os.environ.items())
            if re.match("TRITON_|DISABLE_|MLIR_|LLVM_|USE_IR_", k) and not re.search("CACHE|HOME|_DIR$|INTERPRET", k)]
    for key in ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"):
        if os.path.isfile(os.environ.get(key, "")) and disk.look(os.environ[key]):
            mine.append(" ".join(map(str, disk.stats[os.environ[key]])))
    return mine


# Their versions count, or nobody's kernel depends on their text.
SKIPPED = {"triton", "torch", "numpy", "transformers"} | set(sys.stdlib_module_names)


def statements(tree):
    """All statements of a file, those of its functions too."""
    rest = [tree]
    while rest:
        node = rest.pop()
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, field, None)
            if isinstance(inner, list):
                rest += inner[::-1]


def imported(tree, package):
    """The modules that a file imports, each with the names that it wants of it."""
    whole = {}  # packages that `import a.b` binds, with the attributes that are used of them
    for node in statements(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, []
                if "." in alias.name and not alias.asname:
                    whole.setdefault(alias.name.split(".")[0], set())
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([p for p in base if p] + ([node.module] if node.module else []))
            yield base, [a.name for a in node.names]
    for node in ast.walk(tree) if whole else ():  # expressions too
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in whole:
            whole[node.value.id].add(node.attr)
    yield from ((name, sorted(attributes)) for name, attributes in whole.items())


class Closure:
    """What the code of a source can depend on: texts of its own, which lie beside it or in its package; texts of
    modules that no distribution has; and distributions, by name and version.

    The __init__.py of a package counts where something wants a name of it. Else it is not run either: the one of a
    large package imports all of it."""

    def __init__(self, disk, folders=(), top=None):
        self.disk, self.folders = disk, folders  # where its own code lies
        self.top = top  # the package of an installed module, within which names are followed
        self.own, self.texts, self.distributions, self.seen = {}, {}, set(), set()

    def follow(self, text, package):
        for name, wanted in imported(self.disk.tree(text), package):
            if name and name.split(".")[0] not in SKIPPED:
                self.add(name, wanted)

    def add(self, name, wanted):
        path, own = self.disk.find(name, self.folders), True
        if path is None and not self.is_own_folder(name):
            path, own = self.disk.find(name), False
            if path is None:
                return
        if path is None or path.endswith("__init__.py") or os.path.isdir(path):
            init = self.disk.text(path) if path and path.endswith("__init__.py") else ""
            rest = []
            for want in wanted:
                inner = self.disk.find(f"{name}.{want}", self.folders if own else None) if want != "*" else None
                if inner:
                    self.add(f"{name}.{want}", [])
                if not inner or re.search(rf"\b{want}\b", init):
                    rest.append(want)
            if not init or wanted and not rest:
                return
        if name not in self.seen and len(self.seen) < 2000:
            self.seen.add(name)
            self.take(name, path, own)

    def is_own_folder(self, name):
        """Says whether a name is a folder of one's own without __init__.py."""
        return any(os.path.isdir(os.path.join(f, *name.split("."))) for f in self.folders) and not self.disk.find(name)

    def take(self, name, path, own):
        package = name if path.endswith("__init__.py") else name.rpartition(".")[0]
        if own:
            self.own[os.path.relpath(path, self.folders[0])] = self.disk.text(path)
            self.follow(self.disk.text(path), package)
            return
        distribution = self.distribution(name, path)
        if distribution:
            self.distributions.add(distribution)
            if name.split(".")[0] == self.top and path.endswith(".py"):
                self.follow(self.disk.text(path), package)
        elif path.endswith(".py"):
            self.texts[name] = hashlib.sha256(self.disk.text(path).encode()).hexdigest()
            self.follow(self.disk.text(path), package)

    def distribution(self, name, path):
        """Name and version of the distribution whose records have a file, or None."""
        top = self.disk.find(name.split(".")[0]) or path
        site = os.path.dirname(os.path.dirname(top) if top.endswith("__init__.py") else top)
        self.disk.look(site)
        rel = os.path.relpath(path, site).replace(os.sep, "/")
        like = re.sub(r"[-_.]+", "", name.split(".")[0]).lower()
        records = [e for e in os.listdir(site) if e.endswith(".dist-info")] if os.path.isdir(site) else []
        for info in sorted(records, key=lambda e: (re.sub(r"[-_.]+", "", e.split("-")[0]).lower() != like, e)):
            record = os.path.join(site, info, "RECORD")
            with contextlib.suppress(OSError), open(record, encoding="utf-8", errors="replace") as f:
                if f"\n{rel}," in "\n" + f.read():
                    self.disk.look(record)
                    return info.removesuffix(".dist-info")
        return None

    def hash(self):
        lines = sorted([f"{k} {v}" for k, v in self.texts.items()] + list(self.distributions))
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def home(disk, folder):
    """The package that a folder is, "" where it is none, and the folder from which it is imported."""
    parts, at = [], folder
    while disk.is_file(os.path.join(at, "__init__.py")) and os.path.basename(at).isidentifier():
        parts.insert(0, os.path.basename(at))
        at = os.path.dirname(at)
    return ".".join(parts), at


class Uses:
    """What a kernel does with its parameters, as far as its text says: which it loads from and stores to, which it
    hands on to another function, and which it multiplies by, on the way to which pointer."""

    POINTERS = {"make_block_ptr", "multiple_of", "max_contiguous", "advance", "cast", "to", "broadcast_to"}

    def __init__(self, function, names):
        self.of, self.lanes, self.factors = {n: {n} for n in names}, set(), {}
        self.loads, self.stores, self.passed, self.strides, self.lane_strides = set(), set(), set(), {}, set()
        for _ in range(3):  # a name may be used above the line that gives it another value, in a loop
            for node in ast.walk(function):
                self.look(node)

    def look(self, node):
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for name in (t.id for t in targets if isinstance(t, ast.Name)):
                if not (isinstance(node, ast.AugAssign) and self.of.get(name)):
                    self.of[name] = self.of.get(name, set()) | self.base(node.value)
                if self.is_lane(node.value):
                    self.lanes.add(name)
                self.factors[name] = self.factors.get(name, set()) | set(self.products(node.value))
                if isinstance(node, ast.AugAssign):
                    self.add_strides(self.of[name], node.value)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            self.add_strides(self.base(node.left), node.right)
            self.add_strides(self.base(node.right), node.left)
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            first = self.base(node.args[0]) if node.args else set()
            if name == "load":
                self.loads |= first
            elif name == "store" or name.startswith("atomic_"):
                self.stores |= first
                self.loads |= first if name.startswith("atomic_") else set()
            elif isinstance(node.func, ast.Name) and node.func.id not in dir(__builtins__):
                for a in [*node.args, *(k.value for k in node.keywords)]:
                    self.passed |= self.base(a)

    def base(self, e):
        """The parameters that a pointer may come from."""
        if isinstance(e, ast.Name):
            return self.of.get(e.id, set())
        if isinstance(e, ast.BinOp) and isinstance(e.op, (ast.Add, ast.Sub)):
            return self.base(e.left) or self.base(e.right)
        if isinstance(e, ast.IfExp):
            return self.base(e.body) | self.base(e.orelse)
        if isinstance(e, ast.Call) and isinstance(e.func, ast.Attribute) and e.func.attr in self.POINTERS:
            keyword = next((k.value for k in e.keywords if k.arg == "base"), None)
            inner = e.func.value if e.func.attr == "to" else e.args[0] if e.args else keyword
            return self.base(inner) if inner is not None else set()
        return set()

    def is_lane(self, e):
        """Says whether a value differs from one element of a block to the next."""
        return any(isinstance(n, ast.Attribute) and n.attr == "arange" or isinstance(n, ast.Name) and n.id in self.lanes
                   for n in ast.walk(e))

    def products(self, e):
        """The parameters that an offset has as factors, each with whether the other one differs by lane."""
        if any(isinstance(n, ast.Attribute) and n.attr == "load" for n in ast.walk(e)):
            return  # it is no offset
        for node in ast.walk(e):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
                for side, other in ((node.left, node.right), (node.right, node.left)):
                    for name in self.of.get(side.id, set()) if isinstance(side, ast.Name) else ():
                        yield name, self.is_lane(other)
            elif isinstance(node, ast.Name):
                yield from self.factors.get(node.id, ())

    def add_strides(self, pointers, offset):
        for name, by_lane in list(self.products(offset)):
            self.strides.setdefault(name, set()).update(pointers - {name})
            if by_lane:
                self.lane_strides.add(name)


def parameters(function, used):
    """What the signature of a function says, with its defaults as text, and if used what its text does with each."""
    a = function.args
    every = a.posonlyargs + a.args + a.kwonlyargs
    defaults = [None] * (len(a.posonlyargs + a.args) - len(a.defaults)) + a.defaults + a.kw_defaults
    touched = {n.func.value.id for n in ast.walk(function)
               if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)
               and isinstance(n.func.value, ast.Name) and n.func.attr in ("load", "store", "gather", "scatter")}
    uses = Uses(function, [p.arg for p in every]) if used else None
    for p, default in zip(every, defaults):
        note = ast.unparse(p.annotation) if p.annotation else ""
        use = uses and {"Loads": p.arg in uses.loads, "Stores": p.arg in uses.stores, "Passed": p.arg in uses.passed,
                        "StrideOf": sorted(uses.strides.get(p.arg, ())), "ByLane": p.arg in uses.lane_strides}
        yield {"Name": p.arg, "Line": p.lineno, "Constexpr": "constexpr" in note, **(use or {}),
               "Default": ast.unparse(default) if default else "", "Descriptor": p.arg in touched or "descriptor" in note}


def definition(tree, name):
    """The function behind a name, and what decorates it, by lines above it or by assignment: k = triton.jit(f)."""
    functions, assigned = {}, {}  # by name; of an assignment what it calls, and with which function
    for node in statements(tree):
        if isinstance(node, ast.FunctionDef):
            functions[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            for target in node.targets:
                call, by = node.value, []
                while isinstance(call, ast.Call) and call.args:
                    by.append(ast.unparse(call.func))
                    call = call.args[0]
                if isinstance(target, ast.Name) and isinstance(call, ast.Name):
                    assigned.setdefault(target.id, []).append((call.id, by))
    decorators, seen = [], set()
    while name not in seen:
        seen.add(name)
        for of, by in assigned.get(name, []):
            decorators += by
            if of != name:
                name = of
    function = functions.get(name)
    if function is not None:
        decorators += [ast.unparse(d) for d in function.decorator_list]
    # one that another name is given too, such as tuned = triton.autotune(...)(f)
    wrapped = any(of == name for others in assigned.values() for of, _ in others)
    return function, decorators, wrapped


def names_of_functions(tree):
    return [node.name for node in statements(tree) if isinstance(node, ast.FunctionDef)]


def read_function(want, request, disk):
    if want["Module"]:
        file, package = disk.find(want["Module"]), want["Module"].rpartition(".")[0]
        if not file or not file.endswith(".py"):
            raise Refusal(f"Python has no module {want['Module']}")
        text = disk.text(file)
    else:
        file, text = want["Source"], request["Sources"][want["Source"]]
        package, root = home(disk, request["Folder"])
    try:
        tree = disk.trees[text] = disk.trees.get(text) or ast.parse(text)
    except SyntaxError as e:
        raise Refusal(e.msg, f"{file}:{e.lineno}") from None
    function, decorators, wrapped = definition(tree, want["Function"])
    if function is None:
        names = ", ".join(n for n in names_of_functions(tree) if "jit" in " ".join(definition(tree, n)[1]))
        raise Refusal(f"there is no function {want['Function']}" + (f", but {names}" if names else ""), file)
    if not any(re.match(r"[\w.]*jit\b", d) for d in decorators):  # or a wrapper of it, such as triton_jit
        raise Refusal(f"{function.name} has no @triton.jit", f"{file}:{function.lineno}")
    if function.args.vararg or function.args.kwarg:
        raise Refusal(f"{function.name} takes *args or **kwargs, which no manifest names", f"{file}:{function.lineno}")
    code = disk.closures.get(file)
    if not code and want["Module"]:
        code = disk.closures[file] = Closure(disk, top=package.split(".")[0] or want["Module"])
        code.take(want["Module"], file, False)
    elif not code:
        code = disk.closures[file] = Closure(disk, [root, request["Folder"]] if package else [root])
        code.follow(text, package)
    files = {k: v for k, v in code.own.items() if k != os.path.join(*package.split("."), file)}
    at = {"Package": "", "Root": ""} if want["Module"] else {"Package": package, "Root": root}
    return {**at, "Files": files, "File": file, "Text": text, "Line": function.lineno,
            "Params": list(parameters(function, request["Uses"])),
            "Wrapped": wrapped or any(not re.match(r"[\w.]*jit\b", d) for d in decorators), "Hash": code.hash()}


def probe(request):
    disk, found = Disk(), []
    for folder in filter(os.path.isdir, sys.path):
        disk.look(folder)
    for want in request["Wants"]:
        try:
            found.append(read_function(want, request, disk))
        except Refusal as e:
            found.append({"Error": e.text()})
    return {"Version": version(disk), "Settings": settings(disk), "Functions": found, "Read": disk.stats}


# ---- Compile --------------------------------------------------------------------


class Pointer:
    """Stands for a tensor: its address is a multiple of 16, as normbench's are of 256."""

    def __init__(self, dtype):
        self.dtype = dtype

    def data_ptr(self):
        return 256

    def ptr_range(self):
        return 1 << 40


def stand_in(target, device=0):
    """Stands for a GPU, which need not be there: Triton's own launcher specializes and compiles for it, and modules
    that ask for a card's figures while they are imported get its own. target is what triton.go says of it."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver
    gpu = GPUTarget("cuda", int(re.match(r"sm_(\d+)", target["Arch"]).group(1)), 32)
    properties = {"max_shared_mem": target["Shared"], "max_num_regs": target["Registers"], "warpSize": 32,
                  "multiprocessor_count": target["SMs"], "sm_clock_rate": 1, "mem_clock_rate": 1, "mem_bus_width": 1}
    torch = lambda: sys.modules["torch"]
    driver.set_active(types.SimpleNamespace(
        get_current_target=lambda: gpu, get_current_device=lambda: device, get_current_stream=lambda device=0: 0,
        get_benchmarker=lambda: None, get_active_torch_device=lambda: torch().device("cuda", 0),
        get_device_interface=lambda: torch().cuda, get_device_properties=lambda device=0: properties,
        is_active=lambda: True, utils=types.SimpleNamespace(get_device_properties=lambda device=0: properties)))


def stand_in_torch(target):
    """Has PyTorch answer as it does beside that GPU. Modules leave out what their kernels need otherwise, or stop."""
    import torch
    major, minor = divmod(int(re.match(r"sm_(\d+)", target["Arch"]).group(1)), 10)
    properties = types.SimpleNamespace(
        name=target["Name"], major=major, minor=minor, multi_processor_count=target["SMs"], total_memory=target["Memory"],
        L2_cache_size=target["Cache"], shared_memory_per_block=48 << 10, shared_memory_per_block_optin=target["Shared"],
        shared_memory_per_multiprocessor=target["Shared"] + 1024, regs_per_multiprocessor=target["Registers"],
        max_threads_per_multi_processor=1536 if minor else 2048, max_threads_per_block=1024, warp_size=32,
        is_integrated=False, is_multi_gpu_board=False, gcnArchName="")
    for name, answer in {"is_available": True, "is_initialized": True, "device_count": 1, "current_device": 0,
                         "get_device_name": target["Name"], "get_device_capability": (major, minor),
                         "get_device_properties": properties, "is_bf16_supported": True,
                         "mem_get_info": (target["Memory"], target["Memory"]),
                         "get_arch_list": [f"sm_{major}{minor}"]}.items():
        setattr(torch.cuda, name, lambda *_, answer=answer, **__: answer)


class Packages:
    """Finds the packages of one name so that their __init__.py runs when something first asks for a name of it. Those of
    large packages import all of them, and all that these need."""

    def __init__(self, top):
        self.top = top

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] != self.top:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.submodule_search_locations is None or not spec.origin:
            return spec
        spec.loader = LaterLoader(spec.loader)
        return spec


class LaterLoader:
    def __init__(self, loader):
        self.loader = loader

    def create_module(self, spec):
        module = LaterPackage(spec.name)
        module.__dict__["_loader_to_run"] = self.loader
        return module

    def exec_module(self, module):
        pass


class LaterPackage(types.ModuleType):
    def __getattr__(self, name):
        """A submodule that its __init__.py does not mention, or what that makes of the name."""
        loader = self.__dict__.get("_loader_to_run")
        text = (loader and loader.get_source(self.__name__)) or ""
        mentioned = re.search(rf"\b{name}\b", text)
        of_import = name in ("__path__", "__file__", "__cached__", "__spec__", "__loader__", "__package__")
        if loader is None or of_import or name.startswith("__") and name.endswith("__") and not mentioned:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        constant = re.search(rf"^{name} = ([\"'])([^\"'\\\n]*)\1\s*$", text, re.MULTILINE)
        if constant:
            return constant[2]  # such as __version__
        inner = f"{self.__name__}.{name}"
        if not mentioned and importlib.machinery.PathFinder.find_spec(inner, self.__path__):
            return importlib.import_module(inner)
        del self.__dict__["_loader_to_run"]
        loader.exec_module(self)
        return getattr(self, name)


def link_rest(copy, original):
    """Links what else a package has: data, and modules that it imports by names that no line says."""
    for name in os.listdir(original) if os.path.isdir(original) else ():
        here, there = os.path.join(copy, name), os.path.join(original, name)
        if not os.path.lexists(here):
            os.symlink(there, here)
        elif os.path.isdir(here) and not os.path.islink(here):
            link_rest(here, there)


def copy_source(folder, name, source):
    """Writes a source and what it imports of its own into a folder. Returns its file, and what it is imported as."""
    parts, stem = [p for p in source.get("Package", "").split(".") if p], name.removesuffix(".py")
    for file, content in {**(source["Headers"] or {}), os.path.join(*parts, name): source["Text"]}.items():
        if file == name and stem in SKIPPED:  # what it imports by this name is elsewhere
            file = os.path.join("source", name)
        path = os.path.join(folder, file)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        for at in range(1, len(file.split(os.sep))):  # else another folder of that name may be found first
            init = os.path.join(folder, *file.split(os.sep)[:at], "__init__.py")
            if os.path.relpath(init, folder) not in (source["Headers"] or {}):
                open(init, "w").close()
        with open(path, "w", encoding="utf-8") as f:
            f.write(content)
        written = path
    if parts and source.get("Root"):
        link_rest(os.path.join(folder, parts[0]), os.path.join(source["Root"], parts[0]))
    sys.path.insert(0, folder)
    if parts:
        sys.path.append(os.path.join(folder, *parts))
    return written, ".".join([*parts, "source_" + stem if stem in SKIPPED else called_as(stem)])


def called_as(stem):
    """The name that a file is imported by: 05-norm is none that code may have."""
    return stem if stem.isidentifier() else "source_" + re.sub(r"\W", "_", stem)


def load(folder, source, target):
    """Imports a source: a file, of which a copy is in the folder then, or an installed module. An error below the lines
    that make a function is no hindrance to that function: module.__error__ has it."""
    name = source["Name"].rpartition(":")[2]
    stand_in(target)  # decorators ask for one
    if uses_torch(source):
        with contextlib.suppress(ImportError):
            stand_in_torch(target)
    module, path, called = None, "", name
    if name.endswith(".py"):
        path, called = copy_source(folder, name, source)
    sys.meta_path.insert(0, Packages(called.split(".")[0]))
    try:
        if not path:
            found = importlib.util.find_spec(name)  # which imports the packages that it is in
            if name in sys.modules:
                return sys.modules[name]
            if found is None or not found.origin:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            path, last = found.origin, name.rpartition(".")[2]
            called = name.removesuffix(last) + called_as(last)
        elif "." in called:
            importlib.import_module(called.rpartition(".")[0])
        spec = importlib.util.spec_from_file_location(called, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[called] = module
        try:
            spec.loader.exec_module(module)
        except ImportError:
            if "." not in called or called != name and not called.endswith("." + name.removesuffix(".py")):
                raise  # it is in no package, or called as no import says
            module = import_in_order(called)
    except BaseException as e:
        frames = [f for f in traceback.extract_tb(e.__traceback__) if not re.match("<|.*/importlib/", f.filename)]
        mine = [f for f in frames if f.filename.startswith(os.path.join(folder, ""))]
        place = name
        if mine:
            place = os.path.relpath(mine[-1].filename, folder) if mine[-1].filename != path else name
            place = f"{place}:{mine[-1].lineno}"
        elif frames:
            place = f"{frames[-1].filename}:{frames[-1].lineno}"
        error = Refusal(f"importing it raises {type(e).__name__}: {e}", place, traceback.format_exc())
        if module is None or isinstance(e, SyntaxError):
            raise error from None
        module.__error__ = error
    return module


def import_in_order(name):
    """Imports a module of a package once more, its packages' __init__.py ahead of it, as Python does: where a package and
    its module import each other, the module cannot come first."""
    top = name.split(".")[0]
    sys.meta_path[:] = [f for f in sys.meta_path if not (isinstance(f, Packages) and f.top == top)]
    for loaded in [n for n in sys.modules if n.split(".")[0] == top]:
        del sys.modules[loaded]
    importlib.invalidate_caches()
    importlib.import_module(name.rpartition(".")[0])
    return importlib.import_module(name)


def uses_torch(source):
    texts = [source["Text"], *(source["Headers"] or {}).values()]
    return any(re.search(r"^[ \t]*(import|from) torch\b", text, re.M) for text in texts)


def function_of(module, source, options):
    """The function that is asked for, as its decorators leave it."""
    found = getattr(module, options["Names"][0], None)
    if found is None and getattr(module, "__error__", None):
        raise module.__error__
    if found is None:
        raise Refusal(f"there is no function {options['Names'][0]}", source["Name"].rpartition(":")[2])
    return found


JITTED = ("JITFunction", "InterpretedFunction")


def unwrap(fn):
    """The jitted function within, with the configs of @autotune and the names that @heuristics gives."""
    configs, heuristics = [], {}
    while type(fn).__name__ not in JITTED:
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


def compile_kernel(module, source, options, target):
    import triton
    start, name, function = time.time(), source["Name"].rpartition(":")[2], options["Names"][0]
    fn, _, heuristics = unwrap(function_of(module, source, options))
    given = dict(line.split("=", 1) for line in options["Extra"])
    if given.pop("triton").split()[0] != triton.__version__:
        raise Refusal(f"Triton is {triton.__version__} now", name)
    for p in fn.params:
        if p.name not in given and p.name in heuristics:
            raise Refusal(f"{p.name} has no value; @triton.heuristics computes it of tensors: give it one under constexprs", name)
    arch = int(re.match(r"sm_(\d+)", options["Arch"]).group(1))
    stand_in({**target, "Arch": options["Arch"]}, device=arch)  # each has kernels of its own
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


def rules_of(text):
    """The rules of @triton.heuristics in a text, by the constexprs that they compute."""
    calls = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call) and ast.unparse(n.func).endswith("heuristics")]
    tables = [n for c in calls for n in [*c.args, *(k.value for k in c.keywords)] if isinstance(n, ast.Dict)]
    return {k.value: ast.unparse(v) for t in tables for k, v in zip(t.keys, t.values) if isinstance(k, ast.Constant)}


def describe(module, source, options, target):
    """What the decorators of a function hold, or those of another name of it: tuned = triton.autotune(...)(f)."""
    found = function_of(module, source, options)
    inner, configs, heuristics = unwrap(found)
    if not configs and not heuristics:
        for other in vars(module).values():
            if hasattr(other, "configs") and hasattr(other, "fn") and unwrap(other)[0] is inner:
                found, (_, configs, heuristics) = other, unwrap(other)
    dropped, rules = [], rules_of(source["Text"])
    while type(found).__name__ not in JITTED:
        for what in ("reset_to_zero", "restore_value"):
            if names := [str(n) for n in getattr(found, what, None) or ()]:
                dropped.append(f"{what}: {', '.join(names)}")
        if getattr(found, "user_defined_pre_hook", False) or any(c.pre_hook for c in getattr(found, "configs", ())):
            dropped.append("pre_hook")
        if getattr(found, "perf_model", None) or getattr(found, "early_config_prune", None):
            dropped.append("prune_configs_by")
        found = found.fn
    return {"Configs": configs, "Heuristics": {k: rules.get(k, "a function") for k in heuristics}, "Dropped": dropped}


# ---- Serve ----------------------------------------------------------------------


def end_with(parent):
    """Has the system end this process when its parent ends, where it can do that. Says whether the parent lives."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG, of Linux
    return os.getppid() == parent


class Worker:
    """A process forked off this one, with all that this one has imported. It compiles one kernel after the other, or
    runs one launch."""

    def __init__(self, server):
        self.socket, its = socket.socketpair()
        parent, self.pid = os.getpid(), os.fork()
        if self.pid == 0:
            try:
                if end_with(parent):
                    self.socket.close()
                    server.work(its, server.folder, server.source, server.module, server.target)
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
        self.code = code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        if self.late:
            return f"was killed: no answer within {self.request['Seconds']:.0f}s"
        if code < 0:
            return f"ended: signal: {signal.strsignal(-code).lower()}" + ", as when memory runs out" * (-code == signal.SIGKILL)
        return f"ended: exit status {code}"


def work(its, folder, source, module, target):
    os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, str(os.getpid()))
    for line in its.makefile("rb"):
        request = json.loads(line)
        try:
            if isinstance(module, Exception):
                raise module
            make = describe if request["Describe"] else compile_kernel
            answer = {"Value": make(module, source, request["Options"], target)}
        except Exception as e:
            name, place = source["Name"].rpartition(":")[2], getattr(e, "place", "")
            at = place.removeprefix(name) if place.startswith(name) else f": {place}" if place else ""
            log = getattr(e, "log", "") or traceback.format_exc()
            answer = failed(source, str(e), f"{source['Name']}{at}: error: {e}\n{log}")
        its.sendall(json.dumps({"ID": request["ID"], **answer}).encode() + b"\n")


def launch(its, folder, source, module, target):
    """Runs the one launch that is asked for. How this process ends says how that went. Its folder has the rest: what
    goes in, what comes out, and what is said."""
    request = json.loads(its.makefile("rb").readline())
    said = os.open(os.path.join(request["Folder"], "said"), os.O_WRONLY | os.O_CREAT, 0o666)
    os.dup2(said, 1)
    os.dup2(said, 2)
    try:
        if isinstance(module, Exception):
            raise module
        code = interpret(module, source, request)
    except Refusal as e:
        code = f"not run: {e.text()}"
    except SystemExit as e:
        code = e.code
    except BaseException:
        code = traceback.format_exc()
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


def failed(source, result, log):
    return {"Failed": {"Source": source["Name"], "Result": result, "Log": log}}


class Server:
    """Imports a source, and gives what is asked for to workers. Nothing of that runs in this process, so it lives on
    whatever a kernel does to its compiler. It has neither threads nor a context of CUDA, which no fork would have."""

    def __init__(self, interprets, folder, source, target, line):
        self.folder, self.source, self.target, self.line = folder, source, target, line
        self.load, self.work = (load_interpreted, launch) if interprets else (load, work)
        self.ready, self.idle = selectors.DefaultSelector(), []

    def serve(self, first):
        """Answers what stands on its line, once it has imported the source, which is what its starter waits for."""
        try:
            self.module = self.load(self.folder, self.source, self.target)
        except Refusal as e:
            self.module = e  # the answer to all that is asked
        sys.stdout.flush()  # or each worker would say it again
        gc.freeze()
        self.line.sendall(json.dumps({"ID": first, "Value": {}}).encode() + b"\n")
        self.ready.register(self.line, selectors.EVENT_READ)
        rest = b""
        while True:
            for key, _ in self.ready.select(self.patience()):
                if key.data:
                    self.hear(key.data)
                    continue
                data = self.line.recv(1 << 16)
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
            self.line.sendall(line.encode())
            worker.request, worker.answers = None, worker.answers + 1
            self.idle.append(worker)
            return
        self.ready.unregister(worker.socket)
        self.idle = [w for w in self.idle if w is not worker]
        request, death = worker.request, worker.death()
        if request and self.work is launch:
            self.line.sendall(json.dumps({"ID": request["ID"], "Value": {"Code": worker.code}}).encode() + b"\n")
        elif request and worker.answers and not worker.late:
            self.ask(request)  # of what it did before it may have died: only a fresh one shows that the source is to blame
        elif request:
            answer = {"ID": request["ID"], **failed(self.source, "no answer", f"the compiler {death}")}
            self.line.sendall(json.dumps(answer).encode() + b"\n")


class Importer:
    """A process forked off the one that has imported Triton and torch. It imports one source, and serves it: names of
    sources do not meet, and one that hangs or dies costs itself alone."""

    def __init__(self, root, request):
        self.key, self.source, self.late, self.said, self.rest = request["Of"], request["Source"], False, b"", b""
        self.until, self.seconds = time.monotonic() + request["Seconds"], request["Seconds"]
        self.importing, self.pending = request["ID"], {request["ID"]}
        self.line, its = socket.socketpair()
        self.errors, said = os.pipe()
        os.set_blocking(self.errors, False)
        parent, self.pid = os.getpid(), os.fork()
        if self.pid == 0:
            try:
                os.setpgid(0, 0)
                if end_with(parent):
                    os.dup2(said, 1)
                    os.dup2(said, 2)
                    folder = tempfile.mkdtemp(dir=root.folder)
                    self.line.close()
                    Server(root.interprets, folder, self.source, root.target, its).serve(request["ID"])
                    os._exit(0)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        its.close()
        os.close(said)

    def listen(self):
        """Keeps the last of what it says on standard error."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.errors, 1 << 16):
                self.said = (self.said + data)[-1000:]
            return False
        return True

    def death(self):
        """How it ended, in words that go on from its name."""
        for kill in (os.killpg, os.kill):  # with its workers
            with contextlib.suppress(OSError):
                kill(self.pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.listen()
        os.close(self.errors)
        self.line.close()
        said = " ".join(self.said.decode(errors="replace").split())
        if self.late:
            return f"was killed: no answer within {self.seconds:g}s"
        how = f"signal: {signal.strsignal(-code).lower()}" if code < 0 else f"exit status {code}"
        return f"ended: {how}" + f" ({said[-300:]})" * bool(said)


class Root:
    """Imports Triton once, and torch with the first source that does. Its importers have both, by the fork."""

    def __init__(self, interprets, folder, requests, out):
        self.interprets, self.folder, self.requests, self.out = interprets, folder, requests, out
        self.ready, self.importers = selectors.DefaultSelector(), {}

    def answer(self, value):
        self.out.write(json.dumps(value) + "\n")
        self.out.flush()

    def serve(self):
        with open(self.requests, "rb", closefd=False) as f:
            self.target = json.loads(f.readline())
        try:
            import triton  # noqa: F401
        except Exception as e:
            if not self.interprets:  # there numpy may be missing, which a launch says
                self.answer({"Error": f"import triton raises {type(e).__name__}: {e}"})
                return
        self.answer({})
        self.ready.register(self.requests, selectors.EVENT_READ)
        rest = b""
        while True:
            for key, _ in self.ready.select(self.patience()):
                if key.data:
                    self.hear(*key.data)
                    continue
                data = os.read(self.requests, 1 << 16)
                if not data:
                    return
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self.ask(json.loads(line))

    def patience(self):
        """Ends importers that are late. Returns the seconds until one may be."""
        waiting = [i for i in self.importers.values() if i.importing in i.pending and not i.late]
        for importer in waiting:
            if importer.until <= time.monotonic():
                importer.late = True
                os.kill(importer.pid, signal.SIGKILL)
        return min((max(i.until - time.monotonic(), 0) for i in waiting), default=None)

    def ask(self, request):
        if request.get("Source"):
            if uses_torch(request["Source"]):
                with contextlib.suppress(Exception):  # which the source will say
                    import torch  # noqa: F401
            gc.freeze()
            importer = self.importers[request["Of"]] = Importer(self, request)
            self.ready.register(importer.line, selectors.EVENT_READ, (importer, False))
            self.ready.register(importer.errors, selectors.EVENT_READ, (importer, True))
            return
        importer = self.importers.get(request["Of"])
        if importer is None:
            self.answer({"ID": request["ID"], "Ended": "ended"})
            return
        importer.pending.add(request["ID"])
        with contextlib.suppress(OSError):  # it died: its line ends
            importer.line.sendall(json.dumps(request).encode() + b"\n")

    def hear(self, importer, errors):
        if errors:
            if not importer.listen():
                self.ready.unregister(importer.errors)
            return
        try:
            data = importer.line.recv(1 << 16)
        except OSError:
            data = b""
        *lines, importer.rest = (importer.rest + data).split(b"\n")
        for line in lines:
            importer.pending.discard(int(re.match(rb'{"ID": (\d+)', line).group(1)))
            self.out.write(line.decode() + "\n")
            self.out.flush()
        if data:
            return
        self.ready.unregister(importer.line)
        with contextlib.suppress(KeyError):
            self.ready.unregister(importer.errors)
        if self.importers.get(importer.key) is importer:
            del self.importers[importer.key]
        death = importer.death()
        for number in importer.pending:
            self.answer({"ID": number, "Ended": death})


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
    ATOMIC = -1

    def __init__(self):
        self.all = []  # name, bytes of an element, address, bytes
        self.backward = False  # from the last program to the first
        self.by = []  # of each buffer, the program that has written each element, ATOMIC, or 0
        self.met = 0  # the last program that may know what others have done, as it came to an atomic access

    def make_room(self, count):
        self.memory = mmap.mmap(-1, (count + 1) * self.ROOM, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))

    def add(self, name, element, data):
        import numpy
        if len(data) > self.ROOM // 2:
            raise Refusal(f"the interpreter takes buffers of at most {self.ROOM // 2} bytes")
        offset = len(self.all) * self.ROOM + self.ROOM // 2
        self.memory[offset:offset + len(data)] = data
        self.all.append((name, element, self.start + offset, len(data)))
        self.by.append(numpy.zeros(len(data) // element, numpy.int64))

    def data(self):
        for _, _, at, size in self.all:
            yield self.memory[at - self.start:at - self.start + size]

    def check(self, pointers, mask, size, how, program, atomic):
        """Raises Beyond where a pointer that the mask lets pass is not to size bytes of a buffer, or where a program reads
        what another has written in this launch and nothing orders the two."""
        import numpy
        at = numpy.asarray(pointers).astype(numpy.int64).reshape(-1)
        if mask is not None:
            at = at[numpy.broadcast_to(numpy.asarray(mask, bool), numpy.shape(pointers)).reshape(-1)]
        if not at.size:
            return
        if not self.all:  # its file launches it, while it is imported
            raise Beyond(f"an address far from every buffer is {how}")
        slot = (at - self.start) // self.ROOM
        starts, sizes = (numpy.array([b[i] for b in self.all], numpy.int64) for i in (2, 3))
        known = (slot >= 0) & (slot < len(self.all))
        slot = numpy.clip(slot, 0, len(self.all) - 1)
        bad = ~known | (at < starts[slot]) | (at + size > starts[slot] + sizes[slot])
        if not bad.any():
            for one in numpy.unique(slot):
                self.order(one, at[slot == one], how, program, atomic)
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

    def order(self, slot, at, how, program, atomic):
        """Notes who writes to a buffer, and raises Beyond where a program reads what another has written."""
        name, element, start, _ = self.all[slot]
        by, places = self.by[slot], (at - start) // element
        if atomic:
            by[places], self.met = self.ATOMIC, program
        elif how == "written":
            by[places] = program
        else:
            writers = by[places]
            if (writers == self.ATOMIC).any():
                self.met = program
            others = (writers > 0) & (writers != program)
            if self.met != program and others.any():
                first = others.argmax()
                raise Beyond(f"element {places[first]} of {name} is read, which program {writers[first] - 1} writes in the same "
                             "launch: no atomic and no lock orders the two")

    def check_written(self, pointers, mask, size):
        """Raises Beyond where an atomic changes a value that nothing wrote: outputs and scratch start with all bits set.
        A counter or a lock that starts as such may work by chance, and a sum is never a number."""
        import numpy
        at = numpy.asarray(pointers).astype(numpy.int64).reshape(-1)
        if mask is not None:
            at = at[numpy.broadcast_to(numpy.asarray(mask, bool), numpy.shape(pointers)).reshape(-1)]
        for address in at:
            offset = int(address) - self.start
            if self.memory[offset:offset + size] == b"\xff" * size:
                name, element, start, _ = self.all[offset // self.ROOM]
                raise Beyond(f"an atomic changes element {(int(address) - start) // element} of {name}, which nothing has "
                             "written: a launch ahead (zero:) clears it")

    def watch(self):
        """Has the interpreter check what it reads and writes."""
        import numpy
        from triton.runtime import interpreter
        inner, builder = interpreter._interpreter, interpreter.interpreter_builder
        set_index, grid, at = builder.set_grid_idx, [1, 1, 1], [0, 0, 0]
        set_grid = builder.set_grid_dim

        def set_grid_dim(*sides):
            grid[:] = sides
            return set_grid(*sides)

        def set_grid_idx(*index):
            at[:] = [n - 1 - i for n, i in zip(grid, index)] if self.backward else index
            return set_index(*at)

        def checked(pointers, mask, size, how, atomic=False, sums=False):
            try:
                program = at[0] + grid[0] * (at[1] + grid[1] * at[2]) + 1
                self.check(pointers, mask, size, how, program, atomic)
                if sums:
                    self.check_written(pointers, mask, size)
            except Beyond as e:
                raise Beyond(f"{e}, by program {at[0] if grid[1:] == [1, 1] else tuple(at)}") from None

        def as_mask(mask):
            """Triton 3.9 makes whole numbers of (cols < n) & (row < m), and then refuses them."""
            return mask if mask is None or mask.dtype == bool else mask.astype(bool)

        def load(pointers, mask, other, dtype):
            mask = as_mask(mask)
            checked(pointers, mask, numpy.dtype(dtype).itemsize, "read")
            return inner.load(pointers, mask, other, dtype)

        def store(pointers, values, mask):
            mask = as_mask(mask)
            checked(pointers, mask, values.dtype.itemsize, "written")
            return inner.store(pointers, values, mask)

        def atomic_rmw(op, pointers, values, mask, order):
            mask = as_mask(mask)
            checked(pointers, mask, values.dtype.itemsize, "written", True, "XCHG" not in str(op))
            return inner.atomic_rmw(op, pointers, values, mask, order)

        def atomic_cas(pointers, compared, values, order):
            checked(pointers, None, values.dtype.itemsize, "written", True, True)
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


def combine_blocks():
    """Has `and` and `or` take blocks element by element, as compiled code does. To Python the last block is the answer."""
    import triton.language as tl
    from triton.runtime import interpreter

    def combine(conjunction, *operands):
        answer = None
        for operand in operands:
            found = operand()
            if isinstance(answer, tl.tensor) and answer.type.is_block():
                answer = (answer != 0) & (found != 0) if conjunction else (answer != 0) | (found != 0)
            else:
                answer = found
                if not (isinstance(found, tl.tensor) and found.type.is_block()) and bool(found) != conjunction:
                    break
        return answer

    def visit_BoolOp(self, node):
        node = self.generic_visit(node)
        no_parameters = lambda: ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        operands = [ast.Lambda(no_parameters(), operand) for operand in node.values]
        conjunction = ast.Constant(isinstance(node.op, ast.And))
        call = ast.Call(ast.Name("combine_operands", ast.Load()), [conjunction, *operands], [])
        return ast.fix_missing_locations(ast.copy_location(call, node))
    interpreter.combine_operands = combine  # which rewritten functions see, as all names of that module
    transformer = interpreter.ASTTransformer
    assign = transformer.visit_Assign
    transformer.visit_BoolOp = visit_BoolOp
    transformer.visit_Assign = lambda self, node: assign(self, self.generic_visit(node))  # Triton 3.6 leaves out what is assigned


def replace_libdevice(module):
    """Puts Triton's functions of the same names into a module for CUDA's, of which the interpreter has none."""
    import triton.language as tl
    for name, found in list(vars(module).items()):
        called = getattr(found, "__name__", "")
        if str(getattr(found, "__module__", "")).endswith("libdevice") and called in vars(tl.math):
            setattr(module, name, lambda *args, called=called: getattr(tl.math, called)(*args))


def load_interpreted(folder, source, target):
    """Imports a source for Triton's interpreter."""
    try:
        import numpy  # noqa: F401
    except ImportError:
        raise Refusal("Triton's interpreter needs numpy (`pip install numpy`)") from None
    compute_bf16()
    combine_blocks()
    from triton.language.extra import libdevice
    replace_libdevice(libdevice)
    from triton.runtime import interpreter
    buffers = Buffers()
    buffers.watch()
    before = dict(vars(interpreter))
    module = load(folder, source, target)
    vars(interpreter).update(before)  # a library may mend it, for a version of its own
    replace_libdevice(module)
    return module, buffers


def interpret(loaded, source, request):
    """Runs one launch in Triton's interpreter: buffers come and go as those of normbench's emulator do."""
    import numpy
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle
    (module, buffers), options = loaded, request["Options"]
    with open(os.path.join(request["Folder"], "in"), "rb") as data:
        take = lambda code: struct.unpack("<" + code, data.read(struct.calcsize("<" + code)))
        *grid, _, _, _, _, _, buffers.backward = take("9I")  # grid, block, CTAs together, shared bytes, order
        count, = take("I")
        buffers.make_room(count)
        for _ in range(count):
            label = data.read(take("I")[0]).decode()
            element, size = take("I") + take("Q")
            buffers.add(label, element, data.read(size))
    name = source["Name"].rpartition(":")[2]
    fn, _, _ = unwrap(function_of(module, source, options))
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
    with open(os.path.join(request["Folder"], "out"), "wb") as out:
        out.writelines(buffers.data())


def main(mode, *folder):
    out = os.fdopen(os.dup(1), "w")  # nobody else's prints are answers
    os.dup2(2, 1)
    requests = os.dup(0)
    if mode != "probe":
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # nor are requests theirs to read
    if mode == "probe":
        try:
            found = probe(json.loads(sys.stdin.readline()))
        except Refusal as e:
            found = {"Error": e.text()}
        out.write(json.dumps(found) + "\n")
        out.flush()
        return
    os.environ.update(CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # no fork has threads
    if mode == "interpret":
        os.environ["TRITON_INTERPRET"] = "1"
        Root(True, *folder, requests, out).serve()
        return
    os.environ.update(TRITON_DUMP_PTXAS_LOG="1", TRITON_ALWAYS_COMPILE="1")  # the cache would know no log
    os.environ.pop("TRITON_INTERPRET", None)
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # whose default changes in 3.10
    try:
        os.nice(10)
        with open("/proc/self/oom_score_adj", "w") as f:
            f.write("800")
    except OSError:
        pass
    Root(False, *folder, requests, out).serve()


main(*sys.argv[1:])
