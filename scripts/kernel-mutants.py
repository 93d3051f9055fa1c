#!/usr/bin/env python3
"""Plants one fault after the other in the CUDA kernels, and says which of them `normbench verify` finds.

It lists the places in kernels/families where one may stand (--list), draws some of them by a seed,
over all kinds and over forward and backward of rmsnorm and layernorm, and has verify check the
families that have the file, without a GPU. Only what verify calls FAILED in the emulator, and passes
without the fault, counts as found; what no C++ compiler takes is told apart, and drawn again.

First comes plain verify: the family's base config on the default shapes, in bf16. Code that such a
problem or config does not reach is tried with options of verify, then with configs that take the
values of each knob, and with presets. The line says which of them found it.

The sources are part of the program. A fault is written into a copy of the program, in the same
number of bytes: comments of the file give way, from its head on. So nothing is built or changed for it.
A fault that has no room, or that verify cannot be run on, is counted as not tried, and another one drawn.

scripts/kernel-mutants.txt has faults that change nothing, or nothing that is seen without a GPU,
each with its reason. Fences are no places: to the emulator memory has one order.

Exits 1 if more than one fault of the draw is neither found nor in that file.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "kernels/families"
KNOWN = ROOT / "scripts/kernel-mutants.txt"
OPS = {"rms": "rmsnorm", "ln": "layernorm"}
KINDS = ["index", "mask", "barrier", "accumulator", "eps", "cast", "stride"]

# A Site is a fault that can be planted: text[start:end] of a file becomes new. Its rule is what of its
# kind is changed.
Site = collections.namedtuple("Site", "kind rule file line start end old new")


# ---- Sites --------------------------------------------------------------------------------------


def blank(text):
    """The text with spaces for all that is no code of a kernel: comments, strings, preprocessor lines,
    asserts and constants of the file. Places stay what they are."""
    def spaces(m):
        return re.sub(r"[^\n]", " ", m.group())
    text = re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', spaces, text, flags=re.S)
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", spaces, text, flags=re.M)
    text = re.sub(r"\bstatic_assert\(.*?\);|\bif constexpr \([^\n]*\)|^ *template <[^\n]*?> ", spaces, text,
                  flags=re.S | re.M)
    return re.sub(r"\bconstexpr [^;{}()]*(?:\([^;{}]*)?;|\b__shared__ [^;]*;", spaces, text)


def closing(text, at):
    """The place of the bracket that closes the one at a place."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0:
            return i
    return at


def opening(text, at):
    """The place of the bracket that is closed at a place."""
    depth = 0
    for i in range(at, -1, -1):
        depth += (text[i] in ")]}") - (text[i] in "([{")
        if depth == 0:
            return i
    return at


def arguments(text, at):
    """Where the arguments of a call begin and end, whose bracket is at a place."""
    end, begin, depth, found = closing(text, at), at + 1, 0, []
    for i in range(at + 1, end + 1):
        if depth == 0 and (text[i] == "," or i == end):
            found.append((begin + len(text[begin:i]) - len(text[begin:i].lstrip()), i))
            begin = i + 1
        depth += (text[i] in "([{") - (text[i] in ")]}")
    return found


def headers(text):
    """The three parts of each for loop, as (start, end)."""
    for m in re.finditer(r"\bfor \(", text):
        end = closing(text, m.end() - 1)
        cuts = [m.end() - 1] + [i for i in range(m.end(), end) if text[i] == ";"] + [end]
        if len(cuts) == 4:
            yield [(cuts[i] + 1, cuts[i + 1]) for i in range(3)]


# What a round trip through the type of x makes of a float.
ROUND = ("[](float v) { float one[1] = {v}; unpack<X_TYPE, 1>(pack<X_TYPE, 1>(one), one); "
         "return one[0]; }(%s)")
DECLARATION = re.compile(r"(?:const |extern |volatile )*(?:float|int|bool|u32|u64|i64|u8|unsigned|char|"
                         r"[XYWP]|RowVec|Raw<[^;]*>|[A-Z]\w*[a-z]\w*(?:<[^;]*>)?) [^=;{}]*$")
MEMORY = (r"\b(?:load|loadRow|at|put|store|loadW|weightAt|loadShared|storeShared|loadPartial|loadOwn|storeOwn|"
          r"readRow|copyAsync|copyRow|bulkLoad|bulkRow|bulkStore|sendFloat|getFloats|putFloats|keepSums|"
          r"__ldg|__ldcg|__stcg|__stcs)(?:<[^;()]*?>)?\(")
# Names that say of an expression that it is of floats, or of whole numbers.
FLOATS = r"INV_COLS|\b(?:g|h|d|s|v|x|xf|wf|rs|mu|dy|sum|mean|row\.rs|st\.rs|squares|res)\b(?!\()"
WHOLE = (r"\b(?:int|i64|u32|threadIdx|blockIdx|gridDim|COLS \*|first|row0)\b|"
         r"\* (?:COLS|VEC|BLOCK_ROWS|THREADS)\b|[&|^]")
WAITS = (r"__syncthreads|__syncwarp|clusterSync|clusterWait|waitBarrier|waitCopies<[^;]*?>|waitBulk<0>|"
         r"waitBulkRead<0>|waitForPrevious|awaitSlot")
CONSTANT = r"\b(?:[A-Z][A-Z0-9_]*|\d+)\b"
ROW = r"(?:COLS|COLUMNS|PITCH|cols|HALF|SLOT|COUNTER)"


def sites_of(file):
    """All sites of a file."""
    whole = (FOLDER / file).read_text()
    text = blank(whole)
    found = {}

    def add(kind, rule, start, end, new):
        old, line = whole[start:end], whole.count("\n", 0, start) + 1
        if old != new:
            found.setdefault((start, end, new), Site(kind, rule, file, line, start, end, old, new))

    # Loops over what a thread has in registers are unrolled: they have no bound or stride in memory.
    loops = list(headers(text))
    unrolled = [parts for parts in loops
                if re.search(r"#pragma unroll\s*$", whole[:text.rfind("for (", 0, parts[0][0] + 1)])]
    steps = [parts[2] for parts in loops]

    def is_in(at, parts):
        return any(a <= at < b for a, b in parts)

    def statement(at):
        """The code from the start of the statement to a place."""
        begin = max(text.rfind(c, 0, at) for c in ";{}")
        return text[begin + 1:at].lstrip()

    # index: a subscript, an address or a column is one further, or a row.
    for m in re.finditer(r"(?<=[\w\]])\[(?=[^\]&\[])", text):
        end = closing(text, m.start())
        before = statement(m.start())
        if not DECLARATION.match(before) and "(&" not in before and "*(" not in before:
            add("index", "subscript", end, end, " + 1")
    for m in re.finditer(MEMORY, text):
        args = arguments(text, m.end() - 1)
        name = m.group().split("<")[0].rstrip("(")
        if len(args) > 1 and name in ("loadW", "weightAt"):
            args = args[1:]
        begin, end = args[0]
        if re.search(r" \+ |^\w+$", text[begin:end]) and not re.search(r"[*&] ?\w+$", text[begin:end]):
            add("index", "address", end, end, " + 1")
    for m in re.finditer(r"\bcolumn\(", text):
        end = closing(text, m.end() - 1)
        if "int" not in text[m.end():end].split():
            add("index", "column", m.start(), end + 1, f"({whole[m.start():end + 1]} + 1)")
    for m in re.finditer(r"([\w.]+|\)) \* (?=" + ROW + r"\b)", text):
        if m.group(1) == ")":
            begin = opening(text, m.start())
            if re.search(r"\w$", text[:begin]): # a call
                begin = re.search(r"[\w.]+$", text[:begin]).start()
            add("index", "row", begin, m.start() + 1, f"({whole[begin:m.start() + 1]} + 1)")
        elif not m.group(1).isdigit():
            add("index", "row", m.start(), m.start() + len(m.group(1)), f"({m.group(1)} + 1)")

    # mask: a comparison has its bound wrong, a guard is not there.
    for m in re.finditer(r" (<|<=|>|>=) (?=\S)", text):
        if re.search(r"(\S+) [<>]=? (\S+) \? (?:\1 : \2|\2 : \1)", text[max(0, m.start() - 40):m.end() + 80]):
            continue # both are the same where they are equal
        if is_in(m.start(), [parts[1] for parts in unrolled]):
            continue
        if re.search(CONSTANT + "$", text[:m.start()]) and re.match(CONSTANT, text[m.end():]):
            continue # a config's choice
        new = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}[m.group(1)]
        add("mask", "comparison", m.start(1), m.end(1), new)
    for m in re.finditer(r"\bif \(", text):
        end = closing(text, m.end() - 1)
        condition = text[m.end():end]
        if re.search(r"[a-z]", condition) and re.search(r" [<>]=? |\blive\b|\binside\(|\bhere\b|== 0", condition):
            leaves = re.match(r"\s*(continue|return|break)\b", text[end + 1:])
            add("mask", "guard", m.end(), end, "false" if leaves else "true")
    for m in re.finditer(r"\b(live|here|in|there)(?= \? )", text):
        add("mask", "guard", m.start(), m.end(), "true")
    for m in re.finditer(r"\b(live|here) && ", text):
        add("mask", "guard", m.start(), m.end(), "")

    # barrier: nobody waits.
    for m in re.finditer(r"\b(?:" + WAITS + r")\(", text):
        end = closing(text, m.end() - 1)
        before = text[:m.start()].rstrip()
        if text[end + 1] == ";" and (before[-1] in ";{})" or before.endswith("else")):
            add("barrier", "wait", m.start(), end + 1, "")

    # accumulator: it forgets, starts elsewhere, or lacks a term.
    for m in re.finditer(r"[\w\])] (\+=) ", text):
        if not is_in(m.start(), steps):
            add("accumulator", "forgets", m.start(1), m.end(1), "=")
            end = text.find(";", m.end())
            if end > 0 and not re.search(r"[{}]", text[m.end():end]):
                add("accumulator", "term", m.end(), end, "0")
    for m in re.finditer(r"= (0\.f)(?=[;,])", text):
        add("accumulator", "start", m.start(1), m.end(1), "1.f")
    for m in re.finditer(r"\bfloat [^;(){}]*= (0)(?=[;,])", text):
        add("accumulator", "start", m.start(1), m.end(1), "1")
    for m in re.finditer(r" [-+] (?:st\.|row\.|own\.)?(?:mu|mean|c1|c2|shift|d \* d|h \* mean|xhat \* c1)(?:\[\w+\])?"
                         r"(?=[ );,])", text):
        add("accumulator", "term", m.start(), m.end(), "")

    # eps: dropped, another value, or in another place.
    for m in re.finditer(r"(?<=\()([^;]*?) \+ eps\)", text):
        add("eps", "dropped", m.end() - 7, m.end() - 1, "")
        add("eps", "value", m.end() - 7, m.end() - 1, " + 10 * eps")
        add("eps", "moved", m.end() - 7, m.end(), ") + eps")
        add("eps", "value", m.end() - 7, m.end() - 1, " + eps * eps")

    # cast: a float is rounded to the type of x on its way.
    for m in re.finditer(r"\bfloat \w+ = ([^;,{}?\[]*?[\w)])(?=;)|"
                         r"\b[\w.\[\]]+ \+?= ([^;{}?]*?[-+*/][^;{}?]*)(?=;)", text):
        group = 1 if m.group(1) else 2
        part = m.group(group)
        floats = "shfl" not in part and re.search(FLOATS, part)
        begins = text[:m.start()].rstrip()[-1:]
        if floats and begins in ";{})" and part.count("(") == part.count(")") and not re.search(WHOLE, part):
            add("cast", "rounded", m.start(group), m.end(group), ROUND % part.strip())
    for m in re.finditer(r"\breturn ([^;{}]*\bst\.rs[^;{}]*|[^;{}]*row\.rs[^;{}]*);", text):
        add("cast", "rounded", m.start(1), m.end(1), ROUND % m.group(1))

    # stride: of a loop, of a grid, of a row.
    for parts in loops:
        start, end = parts[2]
        if parts in unrolled:
            continue
        if m := re.match(r"\s*(\w+)\+\+\s*$", text[start:end]):
            add("stride", "step", start + m.start(1), end, f"{m.group(1)} += 2")
        elif m := re.match(r"[^,]* \+= ", text[start:end]):
            stop = min(i for i in (text.find(",", start, end), end) if i >= 0)
            add("stride", "step", stop, stop, " + 1")
            add("stride", "lost", start + m.end(), stop, "1 << 30")
    for m in re.finditer(r"\bstride = ([^;]*);", text):
        add("stride", "step", m.start(1), m.end(1), f"({m.group(1)}) + 1")
    for m in re.finditer(r"\* (COLS|COLUMNS|PITCH|cols|rows)\b(?! *[*/])", text):
        add("stride", "row", m.start(1), m.end(1), f"({m.group(1)} + 1)")
    return sorted(found.values(), key=lambda s: (s.start, KINDS.index(s.kind), s.new))


def launched():
    """For each file the families that have it: of a forward or backward of an op, such as rms fwd."""
    texts = {p.name: p.read_text() for p in sorted(FOLDER.iterdir()) if p.suffix in (".cu", ".cuh")}

    def closure(name, seen):
        if name in texts and name not in seen:
            seen.add(name)
            for other in re.findall(r'^#include "(\S+)"', texts[name], re.M):
                closure(other, seen)
        return seen

    families = {} # to their class and files
    for p in sorted(FOLDER.glob("*.yaml")):
        text = p.read_text()
        design = re.search(r"^name: (?:OP|rms|ln)_(\w+)/(\w+)", text, re.M)
        sources = set(re.findall(r"\bsource: (\w+\.cu)\b", text))
        if re.search(r"^ *- reduce:", text, re.M):
            sources.add("reduce.cu")
        if not design or not sources:
            sys.exit(f"{p}: no name or no source: the script reads manifests otherwise")
        for op, full in OPS.items():
            if full in re.search(r"^op: (.*)", text, re.M).group(1):
                files = set().union(*(closure(s, set()) for s in sources))
                families[f"{op}_{design[1]}/{design[2]}"] = (f"{op} {design[1]}", files)
    for name in texts:
        if m := re.match(r"plain_(rms|ln)_(fwd|bwd)\.cu", name):
            families[f"{m[1]}_{m[2]}/plain"] = (f"{m[1]} {m[2]}", closure(name, set()))
    having = {}
    for family, (of, files) in families.items():
        for file in files:
            having.setdefault(file, {}).setdefault(of, []).append(family)
    return having


def line_of(site):
    """The line ahead of the site's, and its own, as it is and with the fault."""
    text = (FOLDER / site.file).read_text()
    begin, end = text.rfind("\n", 0, site.start) + 1, text.find("\n", site.end)
    return (text[:begin].rstrip().rsplit("\n", 1)[-1].strip(), text[begin:end].strip(),
            (text[begin:site.start] + site.new + text[site.end:end]).strip())


def planted(site):
    """The file with the fault in as many bytes as without, None where its comments have no room for it."""
    text = (FOLDER / site.file).read_text()
    new = (text[:site.start] + site.new + text[site.end:]).encode()
    lines, size = new.split(b"\n"), len(text.encode())
    more = len(new) - size
    for i, line in enumerate(lines):
        code = line.lstrip()
        if more > 0 and code.startswith(b"//"):
            cut = min(more, len(code) - 2)
            lines[i] = line[:len(line) - cut]
            more -= cut
    return b"\n".join(lines) + b" " * -more if more <= 0 else None


def known():
    """The faults with a reason: by file, the line ahead, the line, and the line with the fault."""
    found, lines = {}, [s for s in KNOWN.read_text().splitlines() if not s.startswith("# ")]
    for entry in "\n".join(lines).strip().split("\n\n"):
        if entry.strip():
            *key, reason = (s.strip() for s in entry.strip().split("\n"))
            found[tuple(key)] = reason
    return found


def draw(sites, having, seed):
    """The sites in an order in which each kind and each class, such as rms fwd, comes as often as others."""
    rng = random.Random(seed)
    cells = {}
    for s in sites:
        for of in having[s.file]:
            cells.setdefault((s.kind, of), []).append(s)
    for key in sorted(cells): # the rules in turns
        rng.shuffle(cells[key])
        turns = collections.Counter()
        placed = [(turns.update([s.rule]) or turns[s.rule], rng.random(), s) for s in cells[key]]
        cells[key] = [s for *_, s in sorted(placed, reverse=True)]
    order, taken = sorted(cells), set()
    while any(cells.values()):
        rng.shuffle(order)
        for key in order:
            while cells[key]:
                s = cells[key].pop()
                if s not in taken:
                    taken.add(s)
                    yield s, key[1]
                    break


# ---- Checks -------------------------------------------------------------------------------------

OPTIONS = {
    "fwd": [["--quant", "fp8t"], ["--residual", "--quant", "fp8"],
            ["--zero-centered", "--bias", "yes", "--dtype", "fp16,fp32"],
            ["--residual", "--no-weight"]],
    "bwd": [["--residual", "--accumulate"], ["--zero-centered", "--bias", "yes", "--dtype", "fp16,fp32"],
            ["--no-weight"]],
}
SMALL = "33x541,48x512,9x1280" # shapes that configs and presets are tried on
CONFIGS = 16 # of the families of a class together


def needs_fp8(family):
    """Whether a family, or a variant of one, is for fp8 with its transpose alone."""
    side, design = re.match(r"\w+_(fwd|bwd)/(\w+)", family).groups()
    manifest = FOLDER / f"{side}_{design}.yaml"
    return manifest.exists() and "the design is for fp8 with its transpose" in manifest.read_text()


class Bench:
    """The program, and what it says of families with and without a fault."""

    def __init__(self, folder, args):
        self.folder, self.args = pathlib.Path(folder), args
        self.program = self.folder / "normbench"
        subprocess.run(["go", "build", "-o", self.program, "./cmd/normbench"], cwd=ROOT, check=True)
        self.bytes = self.program.read_bytes()
        self.stopped, self.children = False, set()
        _, rows, _ = self.run(self.program, ["list", "presets"], time.monotonic() + 60)
        self.presets = ["preset:" + r["preset"] for r in rows]
        self.lock, self.rights, self.covers, self.users = threading.Lock(), {}, {}, {}

    def plant(self, site, to):
        """Writes a copy of the program with the fault. Says whether it could."""
        text, new = (FOLDER / site.file).read_bytes(), planted(site)
        if new is None or self.bytes.count(text) != 1:
            return False
        to.write_bytes(self.bytes.replace(text, new))
        to.chmod(0o755)
        return True

    def run(self, program, words, until):
        """A run of the program: its exit code, None where it took too long, the rows of its table and its error."""
        left = until - time.monotonic()
        if left <= 0 or self.stopped:
            return None, [], ""
        p = subprocess.Popen(["nice", "-n", "5", program, *words, "--format", "json"], cwd=self.folder, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        self.children.add(p)
        try:
            out, err = p.communicate(timeout=left)
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            p.communicate()
            return None, [], ""
        finally:
            self.children.discard(p)
        try:
            rows = json.loads(out)["rows"]
        except ValueError:
            rows = []
        return p.returncode, rows, " ".join(re.findall(r"error: (.*)", err))

    def stop(self):
        """Ends all that runs."""
        self.stopped = True
        for p in list(self.children):
            os.killpg(p.pid, signal.SIGTERM)

    def verify(self, program, refs, more, until, code="emulated"):
        """A verify of those REFs that take the problem: their rows of a code, None if it took too long.
        A REF that refuses is an error of the whole command, which names it."""
        refs = list(refs)
        while refs:
            words = ["verify", *refs, "--device", "cpu", "--seed", "1", "--timeout", f"{self.args.launch}s", *more]
            status, rows, error = self.run(program, words, until)
            if status is None:
                return None
            rows = [r for r in rows if r["code"] == code]
            if status != 2 or rows:
                return rows
            named = [r for r in refs if r.split(":")[-1].split("@")[0] in error]
            if not named:
                raise RuntimeError(f"verify {' '.join(refs + more)}: {error}")
            refs.remove(max(named, key=len))
        return []

    def right(self, refs, more):
        """The families that do not pass a verify without a fault, None if it took too long."""
        key = (*refs, *more)
        with self.lock:
            once = self.rights.setdefault(key, {"lock": threading.Lock()})
        with once["lock"]:
            if "wrong" not in once:
                rows = self.verify(self.program, refs, more, time.monotonic() + 600)
                once["wrong"] = None if rows is None else {r["family"] for r in rows if r["verdict"] != "ok"}
        return once["wrong"]

    def cover(self, family, few):
        """A few variants of a family that take each value of each knob, as far as they can."""
        with self.lock:
            if (family, few) in self.covers:
                return self.covers[family, few]
        op, side = re.match(r"(\w+)_(fwd|bwd)/", family).groups()
        got, fp8 = [], "+fp8t" if needs_fp8(family) else ""
        for shape in SMALL.split(","):
            _, rows, _ = self.run(self.program, ["list", "configs", "--family", family, "--device", "h200",
                                                 "--problem", f"{OPS[op]}/{side}/{shape}/bf16{fp8}"], time.monotonic() + 60)
            got += [r["config"] for r in rows if r.get("runs, or why not", "").startswith("runs")]
        got = sorted(set(got))
        random.Random(1).shuffle(got)
        chosen, seen = [], set()
        while got and len(chosen) < few:
            best = max(got, key=lambda c: len(set(c.split(".")) - seen))
            if not set(best.split(".")) - seen:
                break
            chosen.append(f"{family}@{best}")
            seen |= set(best.split("."))
        with self.lock:
            self.covers[family, few] = chosen
        return chosen

    def presets_of(self, families, more):
        """The presets that run one of the families."""
        with self.lock:
            if (key := tuple(more)) not in self.users:
                rows = self.verify(self.program, self.presets, more + ["--host-only"], time.monotonic() + 600, "host")
                self.users[key] = {(ref, r["family"]) for r in rows or [] for ref in r["ref"].split(",")}
            return sorted({ref for ref, family in self.users[key] if family in families})

    def tries(self, site, of, having, plain):
        """What is run to find a fault, or plain verify only: how it is called, REFs, and flags. The plain
        ones come first."""
        rng = random.Random(f"{site.file}:{site.start}")
        classes = {c: sorted(having[site.file][c]) for c in sorted(having[site.file], key=lambda c: (c != of, c))}
        flags = {c: ["--op", OPS[c.split()[0]], "--pass", c.split()[1]] for c in classes}
        for families in classes.values():
            rng.shuffle(families)
        yield "plain", classes[of][:1], flags[of]
        for c, families in classes.items():
            yield "plain", families[c == of:], flags[c]
        if plain:
            return
        for more in OPTIONS[of.split()[1]]:
            yield " ".join(more), classes[of], flags[of] + more
        for c, families in classes.items():
            variants = [v for f in families for v in self.cover(f, max(2, CONFIGS // len(families)))]
            small = flags[c] + ["--shapes", SMALL]
            for fp8 in False, True:
                if chosen := [v for v in variants if needs_fp8(v) == fp8]:
                    yield "configs", chosen, small + ["--quant", "fp8t"] * fp8
            yield "presets", self.presets_of(families, small), small

    def judge(self, number, site, of, having, plain):
        """What became of a fault, how it was found, what says so, and the seconds that it took."""
        began, until = time.monotonic(), time.monotonic() + self.args.limit
        program = self.folder / f"mutant{number}"
        runs, took = 0, lambda: time.monotonic() - began
        if not self.plant(site, program):
            return "not tried", "", "no room in the file's comments, or the file is not in the program once", took()
        try:
            for how, refs, more in self.tries(site, of, having, plain):
                rows = self.verify(program, refs, more, until)
                if rows is None:
                    return "NOT FOUND", "", f"not decided within {self.args.limit} s", took()
                runs += len({(r["problem"], r["family"]) for r in rows})
                bad = [r for r in rows if r["verdict"] != "ok"]
                if bad:
                    wrong = self.right(refs, more)
                    bad = [r for r in bad if wrong is not None and r["family"] not in wrong]
                built = [r for r in bad if r["verdict"] == "FAILED" and "compile" not in r["reason"]]
                if built:
                    r = built[0]
                    return "found", how, f"{r['problem']} {r['family']}: {r['reason']}", took()
                if bad:
                    return "did not compile", "", bad[0]["reason"], took()
        except RuntimeError as e: # an error of the command, not a verdict
            return "not tried", "", str(e), took()
        finally:
            program.unlink()
        return "NOT FOUND", "", f"by {runs} checks", took()


def short(text, n=150):
    text = " ".join(text.split())
    return text if len(text) <= n else text[:n - 3] + "..."


def change(site):
    _, old, new = line_of(site)
    new = new.replace(ROUND[:ROUND.index("%s")], "ROUNDED(")
    return f"{short(old)}  ->  {short(new)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--list", action="store_true", help="print all sites with their numbers, and end")
    parser.add_argument("--seed", default="1", help="of the draw (default: 1)")
    parser.add_argument("-n", type=int, default=30, help="how many faults are drawn (default: 30)")
    parser.add_argument("--only", type=int, nargs="*", help="these numbers of --list, in place of a draw")
    parser.add_argument("--jobs", type=int, default=2, choices=(1, 2), help="faults at a time (default: 2)")
    parser.add_argument("--limit", type=int, default=900, help="seconds for a fault (default: 900)")
    parser.add_argument("--launch", type=int, default=30, help="seconds for a launch in the emulator (default: 30)")
    args = parser.parse_args()

    having, known_faults = launched(), known()
    sites = [s for file in sorted(having) for s in sites_of(file)]
    number = {s: i for i, s in enumerate(sites, 1)}
    unused = set(known_faults) - {(s.file, *line_of(s)) for s in sites}
    for key in sorted(unused):
        print(f"{KNOWN.name}: applies no longer: {' | '.join(key)}")
    if args.list:
        for s in sites:
            print(f"{number[s]:5} {s.file}:{s.line}  {s.kind}/{s.rule}  {','.join(sorted(having[s.file]))}  {change(s)}")
        counts = collections.Counter(s.kind for s in sites)
        full = collections.Counter(s.file for s in sites if planted(s) is None)
        print(f"{len(sites)} sites: " + ", ".join(f"{counts[k]} {k}" for k in KINDS) +
              f"; no room for {sum(full.values())}" + "".join(f", {n} in {file}" for file, n in full.items()))
        return 1 if unused else 0
    if args.only:
        picked = iter([(sites[n - 1], sorted(having[sites[n - 1].file])[0]) for n in args.only])
        args.n = len(args.only)
    else:
        picked = draw(sites, having, args.seed)
        print(f"seed {args.seed}: {args.n} of {len(sites)} sites")

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = tempfile.mkdtemp(prefix="normbench-mutants-")
    total = collections.Counter()
    began, cost = time.monotonic(), 0
    try:
        bench = Bench(folder, args)
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool, contextlib.ExitStack() as ends:
            ends.callback(bench.stop)
            waiting, wanted = {}, args.n
            while wanted > 0 or waiting:
                while wanted > 0 and len(waiting) < args.jobs:
                    s, of = next(picked, (None, None))
                    if s is None:
                        wanted = 0
                        break
                    plain = (s.file, *line_of(s)) in known_faults
                    waiting[pool.submit(bench.judge, number[s], s, of, having, plain)] = (s, of)
                    wanted -= 1
                done, _ = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
                for f in done:
                    s, of = waiting.pop(f)
                    what, how, why, took = f.result()
                    reason = known_faults.get((s.file, *line_of(s)))
                    cost += took
                    if what in ("did not compile", "not tried") and not args.only:
                        wanted += 1 # another one in its place
                    if reason and what == "NOT FOUND":
                        what, why = "with a reason", reason
                    total[what, how] += 1
                    how = f" ({how})" if how else ""
                    why = f": {why if reason else short(why)}" if why else ""
                    print(f"{s.file}:{s.line}  {s.kind}/{s.rule}  {of}  #{number[s]}  {change(s)}\n"
                          f"    {what}{how}{why}  [{took:.0f} s]", flush=True)
                    if reason and what == "found":
                        print(f"    {KNOWN.name} has it as: {reason}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    by = collections.Counter()
    for (what, _), n in total.items():
        by[what] += n
    plain = total["found", "plain"]
    print(f"{by['found']} found ({plain} by plain verify, {by['found'] - plain} with options, configs or presets), "
          f"{by['with a reason']} with a reason, {by['NOT FOUND']} not found; {by['did not compile']} did not compile, "
          f"{by['not tried']} not tried; "
          f"{time.monotonic() - began:.0f} s, {cost / max(1, sum(by.values())):.0f} s a fault")
    return 1 if by["found"] + by["with a reason"] < args.n - 1 or unused else 0


if __name__ == "__main__":
    sys.exit(main())
