"""Runs real modules of transformers under the hooks of a capture, random weights, one and two layers:
a line of JSON for each model of standard input, with the calls of each problem and layer count. Models
that say whole run once, with all their layers."""
import gc
import json
import sys

import torch
import transformers

import sitecustomize

TOKENS = 6
torch.set_num_threads(1)
# No norm depends on these.
SMALL = {"vocab_size": 64, "intermediate_size": 32, "moe_intermediate_size": 16, "num_experts": 2,
         "num_local_experts": 2, "n_routed_experts": 2, "n_group": 1, "topk_group": 1, "num_experts_per_tok": 1,
         "n_inner": 32, "ffn_hidden_size": 32, "first_k_dense_replace": 1, "pad_token_id": 0, "bos_token_id": 0,
         "eos_token_id": 0, "attn_implementation": "eager", "_experts_implementation": "eager"}

# Random weights without a generator's minutes: a block of normal numbers, over and over.
BLOCK = torch.randn(65537, generator=torch.Generator().manual_seed(1)) * 0.02


def fill(tensor, *_, **__):
    with torch.no_grad():
        block = BLOCK.to(tensor.dtype).repeat(tensor.numel() // len(BLOCK) + 1)[: tensor.numel()]
        return tensor.copy_(block.reshape(tensor.shape))


METHODS = ("normal_", "uniform_", "trunc_normal_")
SLOW = {name: getattr(torch.Tensor, name) for name in METHODS if hasattr(torch.Tensor, name)}


def fill_fast(fast):
    for name in METHODS:
        if fast:
            setattr(torch.Tensor, name, fill)
        elif name in SLOW:
            setattr(torch.Tensor, name, SLOW[name])
        else:
            delattr(torch.Tensor, name)


fill_fast(True)


def run_whole(config):
    """A small model with all its layers, random weights, and the config that transformers saves of it."""
    kind = config["model_type"]
    known = transformers.AutoConfig.for_model(kind)
    values = {k: v for k, v in SMALL.items() if hasattr(known, k) and k != "_experts_implementation"}
    values.update({k: v for k, v in config.items() if k != "model_type"})
    cfg = transformers.AutoConfig.for_model(kind, **values)
    saved = json.loads(cfg.to_json_string())
    torch.manual_seed(1)
    fill_fast(False)
    model = transformers.AutoModel.from_config(cfg, dtype=torch.float32, attn_implementation="eager").train()
    fill_fast(True)
    tokens = 16
    capture = sitecustomize.capture
    capture.reset()
    options = {"use_cache": False} if hasattr(cfg, "use_cache") else {}
    out = model(input_ids=torch.arange(tokens).reshape(1, -1) + 1, **options)
    out.last_hidden_state.float().pow(2).sum().backward()
    others = {}
    rows = capture.norms(others)
    return {"config": saved, "tokens": tokens, "norms": rows, "others": [" ".join(k) for k in others],
            "unseen": capture.unseen()}


def run(config, layers):
    kind = config["model_type"]
    known = transformers.AutoConfig.for_model(kind)
    values = {k: bool(v) if isinstance(getattr(known, k, None), bool) else v
              for k, v in config.items() if k != "model_type"}
    values.update({k: v for k, v in SMALL.items() if hasattr(known, k)})
    values["n_layer" if "n_layer" in config else "num_hidden_layers"] = layers
    if kind in ("vit", "dinov2"):
        values.update(image_size=32, patch_size=16)  # 4 patches and the class token
    cfg = transformers.AutoConfig.for_model(kind, **values)
    if getattr(cfg, "layer_types", None):
        cfg.layer_types = cfg.layer_types[:layers]
    torch.manual_seed(1)
    model = transformers.AutoModel.from_config(cfg, dtype=torch.float32, attn_implementation="eager").train()
    for p in model.parameters():
        p.requires_grad_(p.numel() < 1 << 22)  # gradients of large weights are what takes long
    capture = sitecustomize.capture
    capture.reset()
    if kind in ("vit", "dinov2"):
        tokens = 5
        out = model(pixel_values=torch.randn(1, 3, 32, 32))
    else:
        tokens = TOKENS
        out = model(input_ids=torch.arange(tokens).reshape(1, -1) + 1, use_cache=False)
    out.last_hidden_state.float().pow(2).sum().backward()
    others = {}
    rows = capture.norms(others)
    return {"layers": layers, "tokens": tokens, "norms": rows, "others": [" ".join(k) for k in others],
            "unseen": capture.unseen()}


for line in sys.stdin:
    model = json.loads(line)
    runs = []
    if model.get("whole"):
        print(json.dumps({"name": model["name"], "runs": [run_whole(model["config"])]}), flush=True)
        gc.collect()
        continue
    for layers in (1, 2):
        runs.append(run(model["config"], layers))
        gc.collect()
    print(json.dumps({"name": model["name"], "runs": runs}), flush=True)
