"""GPT-2 for make_golden.py: layer norms with biases, learned positions, GELU (tanh), matrices [in, out]."""
import math

import torch


def parameter_shapes(config):
    hidden = config["n_embd"]
    inner = config.get("n_inner") or 4 * hidden
    shapes = {"transformer.wte.weight": (config["vocab_size"], hidden),
              "transformer.wpe.weight": (config["n_positions"], hidden)}
    for i in range(config["n_layer"]):
        matrices = {"attn.c_attn": (hidden, 3 * hidden), "attn.c_proj": (hidden, hidden),
                    "mlp.c_fc": (hidden, inner), "mlp.c_proj": (inner, hidden)}
        for name in ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj"):
            shape = matrices.get(name, (hidden,))
            shapes[f"transformer.h.{i}.{name}.weight"] = shape
            shapes[f"transformer.h.{i}.{name}.bias"] = (shape[-1],)
    shapes["transformer.ln_f.weight"] = shapes["transformer.ln_f.bias"] = (hidden,)
    if not config.get("tie_word_embeddings", True):
        shapes["lm_head.weight"] = (config["vocab_size"], hidden)
    return shapes


def is_gain(name):
    return ".ln_" in name and name.endswith(".weight")


def logits_of(config, weights, inputs):
    hidden_size, heads = config["n_embd"], config["n_head"]
    dim, (batch, length) = hidden_size // heads, inputs.shape

    def layer_norm(x, name):
        centred = x - x.mean(-1, keepdim=True)
        variance = (centred * centred).mean(-1, keepdim=True)
        scaled = centred / (variance + config["layer_norm_epsilon"]).sqrt()
        return scaled * weights[name + ".weight"] + weights[name + ".bias"]

    def affine(x, name):
        return x @ weights[name + ".weight"] + weights[name + ".bias"]

    visible = torch.arange(length)[:, None] >= torch.arange(length)[None, :]
    hidden = weights["transformer.wte.weight"][inputs] + weights["transformer.wpe.weight"][:length]
    for i in range(config["n_layer"]):
        at = f"transformer.h.{i}."
        together = affine(layer_norm(hidden, at + "ln_1"), at + "attn.c_attn")
        q, k, v = (part.view(batch, length, heads, dim).transpose(1, 2) for part in together.split(hidden_size, -1))
        scores = (q @ k.transpose(2, 3) / math.sqrt(dim)).masked_fill(~visible, -math.inf)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, hidden_size)
        hidden = hidden + affine(mixed, at + "attn.c_proj")
        x = affine(layer_norm(hidden, at + "ln_2"), at + "mlp.c_fc")
        x = 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x ** 3)))
        hidden = hidden + affine(x, at + "mlp.c_proj")
    head = weights.get("lm_head.weight", weights["transformer.wte.weight"])
    return layer_norm(hidden, "transformer.ln_f") @ head.T
