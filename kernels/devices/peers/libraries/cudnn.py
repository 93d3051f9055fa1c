"""cuDNN.

Graphs of its frontend for one norm each, planned in set-up by its heuristics, with their outputs allocated there. A call
sets the stream and runs the plan. Backward: the plan, which leaves no partial gradients."""

import cudnn
import torch

DISTRIBUTIONS = ("nvidia-cudnn-frontend",)
VERSION = "cuDNN {}.{}.{}".format(*(cudnn.backend_version() // d % m for d, m in ((10000, 100), (100, 100), (1, 100))))
BUILDS = ""  # a plan lives in the process that has made it
MIXED = True
TYPES = {torch.bfloat16: cudnn.data_type.BFLOAT16, torch.float16: cudnn.data_type.HALF, torch.float32: cudnn.data_type.FLOAT}
handles = []


def row(t):
    return t.view(*t.shape, 1, 1)


def col(t):
    return t.view(1, -1, 1, 1)


def planned(describe, inputs, outputs):
    """A call of one graph's plan. describe puts the graph's nodes behind those of the inputs, and returns the outputs'."""
    if not handles:
        handles.append(cudnn.create_handle())
    graph = cudnn.pygraph(intermediate_data_type=cudnn.data_type.FLOAT, compute_data_type=cudnn.data_type.FLOAT, handle=handles[0])
    nodes = [graph.tensor_like(t) for t in inputs]
    results = [node for node in describe(graph, *nodes) if node is not None][: len(outputs)]
    for node, t in zip(results, outputs):
        node.set_output(True).set_data_type(TYPES[t.dtype])
    try:
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        graph.check_support()
        graph.build_plans()
    except Exception as e:  # its own types of error differ by version
        raise NotImplementedError("cuDNN has no plan: " + " ".join(str(e).split())[:160]) from e
    space = torch.empty(max(graph.get_workspace_size(), 1), dtype=torch.uint8, device=inputs[0].device)
    pack = {**dict(zip(nodes, inputs)), **dict(zip(results, outputs))}

    def call():
        cudnn.set_stream(handle=handles[0], stream=torch.cuda.current_stream().cuda_stream)
        graph.execute(pack, space, handle=handles[0])

    return call


def norm(x, weight, bias, eps, dy, centered):
    if not x.is_cuda:
        raise RuntimeError("no NVIDIA driver: cuDNN needs a CUDA tensor")
    rows = x.shape[0]
    statistic = lambda: torch.empty(rows, 1, 1, 1, dtype=torch.float32, device=x.device)  # noqa: E731
    y, rstd, mean = torch.empty_like(x), statistic(), statistic() if centered else None
    epsilon = torch.full((1, 1, 1, 1), eps, dtype=torch.float32)  # on the host, by value
    phase = cudnn.norm_forward_phase.TRAINING

    def describe_forward(graph, gx, gw, ge, gb=None):
        op = graph.layernorm if centered else graph.rmsnorm
        return op(name="forward", norm_forward_phase=phase, input=gx, scale=gw, bias=gb, epsilon=ge)

    given = [row(x), col(weight), epsilon] + ([] if bias is None else [col(bias)])
    forward = planned(describe_forward, given, [row(y)] + ([mean] if centered else []) + [rstd])
    if dy is None:
        def run():
            forward()
            return y

        return run
    forward()
    gradients = [torch.empty_like(t) for t in (x, weight, *([] if bias is None else [bias]))]

    def describe_backward(graph, gd, gx, gw, gr, gm=None):
        if centered:
            return graph.layernorm_backward(name="backward", grad=gd, input=gx, scale=gw, mean=gm, inv_variance=gr)
        return graph.rmsnorm_backward(name="backward", grad=gd, input=gx, scale=gw, inv_variance=gr, has_dbias=bias is not None)

    shown = [row(gradients[0])] + [col(t) for t in gradients[1:]]
    backward = planned(describe_backward, [row(dy), row(x), col(weight), rstd] + ([mean] if centered else []), shown)

    def run_backward():
        backward()
        return gradients

    return run_backward


def layernorm(x, weight, bias, eps, dy=None):
    return norm(x, weight, bias, eps, dy, True)


def rmsnorm(x, weight, eps, bias=None, dy=None):
    return norm(x, weight, bias, eps, dy, False)
