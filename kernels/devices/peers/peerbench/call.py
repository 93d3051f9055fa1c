"""A peer on a problem: its function with the tensors that it takes."""

from dataclasses import dataclass, field
from typing import Any, Callable, Optional

import torch

from peerbench.answers import Tensors, saved
from peerbench.peer import TENSORS, Peer, parameters
from peerbench.problem import EPS, Problem
from peerbench.trouble import Failure


@dataclass
class Call:
    """A peer on a problem: run returns the outputs by name. before puts back, outside the timed interval, what the
    call before has overwritten. rounds says how often an output is rounded to the tensors' type on the way. left is
    what the last timed run returned. inputs are the tensors that it was given, by the problem's names."""

    run: Callable[[], Tensors]
    before: Optional[Callable[[], None]] = None
    rounds: dict[str, int] = field(default_factory=dict)
    left: Optional[Tensors] = None
    inputs: Tensors = field(default_factory=dict)


def ready(peer: Peer, p: Problem, t: Tensors) -> Call:
    peer.refuse(p)
    f = peer.functions[p.op]
    takes, _ = parameters(f)
    args = {n: t[k] for n, k in TENSORS.items() if k in t}
    args.update(op=p.op, eps=EPS, zero_centered=p.zc, no_dw=p.nodw, sigmoid=p.sigmoid, gate_first=p.gatefirst)
    if p.pas == "bwd" and takes & {"rstd", "mean"}:
        args.update(saved(p, t))
    args = {n: v for n, v in args.items() if n in takes}
    leaves = [] if "dy" in takes else [n for n in ("x", "gate", "weight", "bias")[: 2 if p.nodw else 4] if n in args]
    args.update({n: args[n].detach().requires_grad_() for n in leaves})
    made = f(**args)
    run, notes = (made, made) if callable(made) else (lambda: f(**args), f)
    if leaves and p.pas == "bwd":
        import torch._functorch.config as functorch

        functorch.donated_buffer = False  # torch.compile's, as a backward runs many times
        y = run() if callable(made) else made
        y = y[0] if isinstance(y, (tuple, list)) else y
        if not getattr(y, "requires_grad", False):
            raise Failure("refused", f"{peer.system} has no backward: autograd finds none in what it returns, and it has no parameter dy")
        run = lambda: torch.autograd.grad(y, [args[n] for n in leaves], t["dy"], retain_graph=True)  # noqa: E731
    return Call(lambda: named(p, run()), getattr(notes, "before", None), getattr(notes, "rounds", {}))


def named(p: Problem, values: Any) -> Tensors:
    """The outputs of p by name, from a peer's values in that order. What autograd knows of them is no output."""
    values = values if isinstance(values, (tuple, list)) else (values,)
    return {n: v.detach() if getattr(v, "requires_grad", False) else v for n, v in zip(p.outputs(), values)}
