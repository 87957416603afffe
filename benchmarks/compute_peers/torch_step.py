#!/usr/bin/python3
"""A Llama training step on plain torch: forward, backward, clipping and AdamW.

    torch_step.py CONFIG --sequence-length N --batch N --threads N --steps N [--bf16]

Prints one JSON list: {"seconds", "cpu_seconds"} of each step after the first. Fused where torch 1.13 fuses
on the CPU; the gradients are dropped, not zeroed, and the optimizer is torch's multi-tensor one.
"""

import argparse
import json
import math
import time

import torch
import torch.nn.functional as F


def parameters(model):
    hidden, inner = model["hidden_size"], model["intermediate_size"]
    depth = hidden // model["num_attention_heads"]
    keys = depth * model["num_key_value_heads"]
    layers = [{"norm": (hidden,), "q": (hidden, hidden), "k": (keys, hidden), "v": (keys, hidden), "o": (hidden, hidden),
               "mlp_norm": (hidden,), "gate": (inner, hidden), "up": (inner, hidden), "down": (hidden, inner)}
              for _ in range(model["num_hidden_layers"])]
    ends = {"embedding": (model["vocab_size"], hidden), "norm": (hidden,), "head": (model["vocab_size"], hidden)}

    def make(shape):
        values = torch.ones(shape) if len(shape) == 1 else torch.randn(shape) * 0.02
        return values.requires_grad_(True)

    torch.manual_seed(0)
    return [{name: make(shape) for name, shape in part.items()} for part in (*layers, ends)]


def norm(x, gain, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * gain


def rotate(x, cosine, sine):
    half = x.shape[-1] // 2
    return x * cosine + torch.cat([-x[..., half:], x[..., :half]], -1) * sine


def rope_table(model, length):
    depth = model["hidden_size"] // model["num_attention_heads"]
    rates = 1.0 / (model["rope_theta"] ** (torch.arange(0, depth, 2, dtype=torch.float64) / depth))
    angles = torch.outer(torch.arange(length, dtype=torch.float64), rates).repeat(1, 2)
    return angles.cos().float(), angles.sin().float()


def attention(model, part, x, table, mask):
    batch, length, hidden = x.shape
    heads, kv_heads = model["num_attention_heads"], model["num_key_value_heads"]
    q, k, v = (F.linear(x, part[name]).view(batch, length, count, -1).transpose(1, 2)
               for name, count in (("q", heads), ("k", kv_heads), ("v", kv_heads)))
    q, k = rotate(q, *table), rotate(k, *table)
    k, v = (each.repeat_interleave(heads // kv_heads, 1) for each in (k, v))
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + mask
    return F.linear((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, hidden), part["o"])


def loss_of(model, parts, tokens, table, mask):
    ends, eps = parts[-1], model["rms_norm_eps"]
    x = F.embedding(tokens[:, :-1], ends["embedding"])
    for part in parts[:-1]:
        x = x + attention(model, part, norm(x, part["norm"], eps), table, mask)
        y = norm(x, part["mlp_norm"], eps)
        x = x + F.linear(F.silu(F.linear(y, part["gate"])) * F.linear(y, part["up"]), part["down"])
    logits = F.linear(norm(x, ends["norm"], eps), ends["head"])
    return F.cross_entropy(logits.float().reshape(-1, model["vocab_size"]), tokens[:, 1:].reshape(-1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    for name in ("--sequence-length", "--batch", "--threads", "--steps"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--bf16", action="store_true")
    options = parser.parse_args()
    with open(options.config, encoding="utf-8") as file:
        model = json.load(file)
    torch.set_num_threads(options.threads)
    parts = parameters(model)
    every = [values for part in parts for values in part.values()]
    length = options.sequence_length
    table, mask = rope_table(model, length), torch.full((length, length), float("-inf")).triu(1)
    tokens = torch.randint(0, model["vocab_size"], (options.batch, length + 1))
    optimizer = torch.optim.AdamW(every, lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, foreach=True)
    steps = []
    for _ in range(options.steps + 1):
        begin, begin_cpu = time.perf_counter(), time.process_time()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.bf16):
            loss = loss_of(model, parts, tokens, table, mask)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(every, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        steps.append({"seconds": time.perf_counter() - begin, "cpu_seconds": time.process_time() - begin_cpu})
    print(json.dumps(steps[1:]))


main()
