#!/usr/bin/env python3
"""Trains a small Llama of transformers with random weights on random tokens, for `normbench capture`.

  normbench capture --out out/captured.yaml --steps 3 -- lab/scripts/model-train.py FOLDER

It writes the model's config.json to FOLDER, for --model. It runs on a GPU where there is one, in bf16, with
gradient checkpointing for --checkpoint. TOKENS (2048) of a step are in the environment."""
import os
import sys

import torch
import transformers

folder, device = sys.argv[1], "cuda" if torch.cuda.is_available() else "cpu"
tokens = int(os.environ.get("TOKENS", 2048))
config = transformers.LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=8,
                                  num_attention_heads=16, num_key_value_heads=4, vocab_size=8192)
torch.manual_seed(1)
model = transformers.LlamaForCausalLM(config).to(device, torch.bfloat16).train()
model.config.save_pretrained(folder)
if "--checkpoint" in sys.argv:
    model.gradient_checkpointing_enable()
optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
for step in range(int(os.environ.get("STEPS", 5))):
    ids = torch.randint(0, config.vocab_size, (1, tokens), device=device)
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("step %d loss %.3f" % (step + 1, loss.item()), flush=True)
