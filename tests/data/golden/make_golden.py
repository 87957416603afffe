#!/usr/bin/python3
"""Golden numbers of small models: an independent reference.

The models' formulas written out in torch and differentiated by torch autograd in fp64 (and once more in fp32, to show
the spread of rounding). Nothing here is shared with the trainer that the numbers test.

    make_golden.py OUTPUT_FOLDER SET    writes config.json, tokens.json, model.safetensors, expected.json (see SETS)
    make_golden.py --check FOLDER       recomputes the fp64 numbers of FOLDER/expected.json and shows the differences

Layout: config.json has HF's field names; model.safetensors is F32 with HF's names, matrices [out, in]; tokens.json is
{"batches": [step][sequence][seq + 1]}, inputs are [:-1], targets [1:]. The fp64 run widens the F32 weights.
"""
import json
import math
import os
import struct
import sys

import numpy as np
import torch

import golden_gpt2
import golden_mixtral

VOCABULARY, SEQUENCE, BATCH, STEPS = 256, 32, 4, 20
WEIGHT_STD, GAIN_STD, ROUTER_STD = 0.05, 0.1, 0.3
LEARNING_RATE, BETA1, BETA2, EPSILON, WEIGHT_DECAY, CLIP = 1e-3, 0.9, 0.95, 1e-8, 0.1, 1.0


def config_of(architecture, model_type, theta, eps, tied, positions=4096, **more):
    return {"architectures": [architecture], "model_type": model_type, "hidden_size": 64, "intermediate_size": 176,
            "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": VOCABULARY,
            "max_position_embeddings": positions, "rms_norm_eps": eps, "rope_theta": theta, "hidden_act": "silu",
            "tie_word_embeddings": tied, "initializer_range": 0.02, "torch_dtype": "float32", "bos_token_id": 1,
            "eos_token_id": 2, "use_cache": True, "attention_dropout": 0.0, **more}


SETS = {  # name: (seed, config); max_position_embeddings is factor * original_max_position_embeddings where scaled
    "qwen3": (301, config_of("Qwen3ForCausalLM", "qwen3", 1e6, 1e-6, True, head_dim=24, attention_bias=False,
                             use_sliding_window=False, sliding_window=None, max_window_layers=4, rope_scaling=None)),
    "llama31": (302, config_of("LlamaForCausalLM", "llama", 500.0, 1e-5, False, positions=256, attention_bias=False,
                               mlp_bias=False, pretraining_tp=1,
                               rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                             "high_freq_factor": 4.0, "original_max_position_embeddings": 32})),
    "yarn": (303, config_of("Qwen2ForCausalLM", "qwen2", 1e4, 1e-6, True, use_sliding_window=False,
                            sliding_window=None, max_window_layers=4,
                            rope_scaling={"rope_type": "yarn", "factor": 4.0,
                                          "original_max_position_embeddings": 1024})),
    "gpt2": (305, {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 64, "n_inner": None,
                   "n_layer": 4, "n_head": 4, "n_positions": 48, "vocab_size": VOCABULARY + 3,
                   "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new", "tie_word_embeddings": True,
                   "initializer_range": 0.02, "attn_pdrop": 0.1, "embd_pdrop": 0.1, "resid_pdrop": 0.1}),
    "mixtral": (306, {**config_of("MixtralForCausalLM", "mixtral", 1e6, 1e-5, False, sliding_window=None,
                                  num_local_experts=4, num_experts_per_tok=2, router_aux_loss_coef=0.02,
                                  router_jitter_noise=0.0), "intermediate_size": 40}),
    "window": (304, config_of("MistralForCausalLM", "mistral", 1e4, 1e-5, False, head_dim=16, sliding_window=8)),
}


# ---- files ----------------------------------------------------------------------------------------------------------
def read_safetensors(path):
    with open(path, "rb") as file:
        raw = file.read()
    size = struct.unpack("<Q", raw[:8])[0]
    tensors = {}
    for name, entry in json.loads(raw[8:8 + size]).items():
        if name != "__metadata__":
            assert entry["dtype"] == "F32", name
            begin, end = (8 + size + offset for offset in entry["data_offsets"])
            tensors[name] = np.frombuffer(raw[begin:end], "<f4").reshape(entry["shape"])
    return tensors


def write_safetensors(path, tensors):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(array.astype("<f4").tobytes())


def write_text(path, text):
    with open(path, "w") as file:
        file.write(text)


# ---- the model ------------------------------------------------------------------------------------------------------
def head_dim_of(config):
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def parameter_shapes(config):
    if config["model_type"] == "gpt2":
        return golden_gpt2.parameter_shapes(config)
    hidden, ffn, dim = config["hidden_size"], config["intermediate_size"], head_dim_of(config)
    width = {"q": config["num_attention_heads"] * dim, "k": config["num_key_value_heads"] * dim}
    width["v"] = width["k"]
    shapes = {"model.embed_tokens.weight": (config["vocab_size"], hidden)}
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        shapes[layer + "input_layernorm.weight"] = (hidden,)
        for part in "qkv":
            shapes[layer + f"self_attn.{part}_proj.weight"] = (width[part], hidden)
        if config["model_type"] == "qwen2":
            for part in "qkv":
                shapes[layer + f"self_attn.{part}_proj.bias"] = (width[part],)
        if config["model_type"] == "qwen3":
            for part in "qk":
                shapes[layer + f"self_attn.{part}_norm.weight"] = (dim,)
        shapes[layer + "self_attn.o_proj.weight"] = (hidden, width["q"])
        shapes[layer + "post_attention_layernorm.weight"] = (hidden,)
        if config["model_type"] == "mixtral":
            shapes.update(golden_mixtral.expert_shapes(config, layer))
            continue
        shapes[layer + "mlp.gate_proj.weight"] = (ffn, hidden)
        shapes[layer + "mlp.up_proj.weight"] = (ffn, hidden)
        shapes[layer + "mlp.down_proj.weight"] = (hidden, ffn)
    shapes["model.norm.weight"] = (hidden,)
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (config["vocab_size"], hidden)
    return shapes


def rope_frequencies(config):
    """The inverse frequencies (fp64, head_dim / 2 of them) and the factor on cos and sin."""
    dim, theta, scaling = head_dim_of(config), config["rope_theta"], config.get("rope_scaling")
    plain = [theta ** (-2.0 * j / dim) for j in range(dim // 2)]
    if not scaling:
        return plain, 1.0
    kind, factor = scaling["rope_type"], scaling["factor"]
    original = scaling["original_max_position_embeddings"]
    if kind == "llama3":
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        scaled = []
        for frequency in plain:
            wavelength = 2.0 * math.pi / frequency
            keep = min(max((original / wavelength - low) / (high - low), 0.0), 1.0)
            scaled.append((1.0 - keep) * frequency / factor + keep * frequency)
        return scaled, 1.0
    assert kind == "yarn", kind

    def correction_dim(rotations):
        return dim * math.log(original / (rotations * 2.0 * math.pi)) / (2.0 * math.log(theta))

    first = max(math.floor(correction_dim(scaling.get("beta_fast", 32))), 0)
    last = min(math.ceil(correction_dim(scaling.get("beta_slow", 1))), dim - 1)
    span = last - first if last != first else 0.001
    ramp = [min(max((j - first) / span, 0.0), 1.0) for j in range(dim // 2)]
    scaled = [r * frequency / factor + (1.0 - r) * frequency for r, frequency in zip(ramp, plain)]
    return scaled, scaling.get("attention_factor") or 0.1 * math.log(factor) + 1.0


def logits_of(config, weights, inputs):
    """The logits, and what the experts' balance adds to what is differentiated."""
    if config["model_type"] == "gpt2":
        return golden_gpt2.logits_of(config, weights, inputs), 0.0
    eps, dim, heads = config["rms_norm_eps"], head_dim_of(config), config["num_attention_heads"]
    kv_heads, (batch, length) = config["num_key_value_heads"], inputs.shape
    embedding = weights["model.embed_tokens.weight"]
    frequencies, amplitude = rope_frequencies(config)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * torch.tensor(frequencies, dtype=torch.float64)
    cos, sin = ((amplitude * f(angles)).to(embedding.dtype) for f in (torch.cos, torch.sin))
    distance = torch.arange(length)[:, None] - torch.arange(length)[None, :]  # of a key behind its query
    visible = distance >= 0
    if config.get("sliding_window") and config.get("use_sliding_window", True):
        visible &= distance < config["sliding_window"]

    def rms_norm(x, gain):
        return x * (x.pow(2).mean(-1, keepdim=True) + eps).rsqrt() * gain

    def rotate(x):
        a, b = x[..., :dim // 2], x[..., dim // 2:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    hidden, balance = embedding[inputs], 0.0
    for i in range(config["num_hidden_layers"]):
        def w(name):
            return weights.get(f"model.layers.{i}.{name}.weight")

        def project(x, part, count):
            y = x @ w(f"self_attn.{part}_proj").T
            bias = weights.get(f"model.layers.{i}.self_attn.{part}_proj.bias")
            y = (y if bias is None else y + bias).view(batch, length, count, dim)
            gain = w(f"self_attn.{part}_norm")
            return (y if gain is None else rms_norm(y, gain)).transpose(1, 2)  # [batch, head, position, dim]

        x = rms_norm(hidden, w("input_layernorm"))
        q, k, v = project(x, "q", heads), project(x, "k", kv_heads), project(x, "v", kv_heads)
        q, k, v = rotate(q), *(t.repeat_interleave(heads // kv_heads, 1) for t in (rotate(k), v))
        scores = (q @ k.transpose(2, 3) / math.sqrt(dim)).masked_fill(~visible, -math.inf)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, heads * dim)
        hidden = hidden + mixed @ w("self_attn.o_proj").T
        x = rms_norm(hidden, w("post_attention_layernorm"))
        if config["model_type"] == "mixtral":
            mixed, unevenness = golden_mixtral.mix(config, weights, f"model.layers.{i}.", x)
            hidden = hidden + mixed
            balance = balance + config["router_aux_loss_coef"] * unevenness.mean() / config["num_hidden_layers"]
            continue
        gate = x @ w("mlp.gate_proj").T
        hidden = hidden + (gate * gate.sigmoid() * (x @ w("mlp.up_proj").T)) @ w("mlp.down_proj").T
    return rms_norm(hidden, weights["model.norm.weight"]) @ weights.get("lm_head.weight", embedding).T, balance


def loss_of(config, weights, batch):
    """The loss, what is differentiated (with the experts' balance), and the logits."""
    logits, balance = logits_of(config, weights, batch[:, :-1])
    chosen = logits.log_softmax(-1).gather(-1, batch[:, 1:, None])
    return -chosen.mean(), -chosen.mean() + balance, logits


# ---- the run --------------------------------------------------------------------------------------------------------
def run(config, arrays, batches, dtype):
    weights = {name: torch.tensor(array, dtype=dtype).requires_grad_() for name, array in arrays.items()}
    first_moments = {name: torch.zeros_like(w) for name, w in weights.items()}
    second_moments = {name: torch.zeros_like(w) for name, w in weights.items()}
    result = {}
    losses, norms = [], []
    for step, batch in enumerate(batches, 1):
        loss, objective, logits = loss_of(config, weights, batch)
        gradients = dict(zip(weights, torch.autograd.grad(objective, list(weights.values()))))
        parameter_norms = {name: g.norm().item() for name, g in gradients.items()}
        norm = math.sqrt(sum(n * n for n in parameter_norms.values()))
        losses.append(loss.item())
        norms.append(norm)
        if step == 1:
            result = {"loss": loss.item(), "grad_norm": norm, "param_grad_norms": parameter_norms,
                      "last_logits_of_first_sequence": logits[0, -1].tolist()}
        with torch.no_grad():
            for name, w in weights.items():
                g, m, v = gradients[name], first_moments[name], second_moments[name]
                g = g * (CLIP / norm if norm > CLIP else 1.0)
                m.mul_(BETA1).add_((1.0 - BETA1) * g)
                v.mul_(BETA2).add_((1.0 - BETA2) * g * g)
                if w.dim() == 2:
                    w.mul_(1.0 - LEARNING_RATE * WEIGHT_DECAY)
                w.sub_(LEARNING_RATE * (m / (1.0 - BETA1 ** step)) / ((v / (1.0 - BETA2 ** step)).sqrt() + EPSILON))
    return {**result, "training_losses": losses, "training_grad_norms": norms,
            "final_param_norms": {name: w.norm().item() for name, w in weights.items()}}


def finite_difference_error(config, arrays, batch, random):
    """The worst relative error of a gradient's random coordinate per parameter, against differences of fourth order.

    Coordinates below the gradient's root mean square are passed over: the loss's rounding would drown them. Where
    tokens choose experts, steps are so short that their choices stay.
    """
    h = 1e-5 if "num_local_experts" in config else 1e-3
    weights = {name: torch.tensor(array, dtype=torch.float64).requires_grad_() for name, array in arrays.items()}
    gradients = torch.autograd.grad(loss_of(config, weights, batch)[1], list(weights.values()))
    worst = 0.0
    with torch.no_grad():
        for w, gradient in zip(weights.values(), gradients):
            flat = gradient.reshape(-1)
            places = (flat.abs() >= flat.pow(2).mean().sqrt()).nonzero().reshape(-1)
            place = int(places[random.randint(len(places))])
            start, difference = w.view(-1)[place].item(), 0.0
            for steps, factor in ((-2, 1.0), (-1, -8.0), (1, 8.0), (2, -1.0)):
                w.view(-1)[place] = start + steps * h
                difference += factor * loss_of(config, weights, batch)[1].item() / (12.0 * h)
            w.view(-1)[place] = start
            worst = max(worst, abs(difference / flat[place].item() - 1.0))
    return worst


def make_weights(config, random):
    weights = {}
    for name, shape in parameter_shapes(config).items():
        noise = random.standard_normal(shape)
        is_gain = "norm" in name or golden_gpt2.is_gain(name)
        deviation = ROUTER_STD if name.endswith("block_sparse_moe.gate.weight") else WEIGHT_STD
        weights[name] = (1.0 + GAIN_STD * noise if is_gain else deviation * noise).astype("<f4")
    return weights


def make_tokens(random):
    """Mostly a fixed chain, token -> (5 token + 17) mod 256, with a jump to anywhere in a quarter of the places."""
    def sequence():
        tokens = [int(random.randint(VOCABULARY))]
        while len(tokens) < SEQUENCE + 1:
            follows = random.random_sample() < 0.75
            tokens.append((5 * tokens[-1] + 17) % VOCABULARY if follows else int(random.randint(VOCABULARY)))
        return tokens
    return [[sequence() for _ in range(BATCH)] for _ in range(STEPS)]


def make(folder, name):
    seed, config = SETS[name]
    random = np.random.RandomState(seed)
    weights, batches = make_weights(config, random), make_tokens(random)
    tokens = torch.tensor(batches)
    expected = {"optimizer": {"lr": LEARNING_RATE, "beta1": BETA1, "beta2": BETA2, "eps": EPSILON,
                              "weight_decay": WEIGHT_DECAY, "decayed": "2-D tensors only", "clip": CLIP,
                              "steps": STEPS},
                "finite_difference_worst_relative_error": finite_difference_error(config, weights, tokens[0], random),
                "fp64": run(config, weights, tokens, torch.float64),
                "fp32": run(config, weights, tokens, torch.float32)}
    os.makedirs(folder, exist_ok=True)
    write_text(os.path.join(folder, "config.json"), json.dumps(config, indent=1))
    write_text(os.path.join(folder, "tokens.json"), json.dumps({"batches": batches}))
    write_text(os.path.join(folder, "expected.json"), json.dumps(expected, indent=1))
    write_safetensors(os.path.join(folder, "model.safetensors"), weights)


def check(folder):
    config, tokens, expected = (json.load(open(os.path.join(folder, name + ".json")))
                                for name in ("config", "tokens", "expected"))
    weights = read_safetensors(os.path.join(folder, "model.safetensors"))
    assert {name: w.shape for name, w in weights.items()} == parameter_shapes(config)
    good = True
    for kind, dtype, bounds in (("fp64", torch.float64, (1e-12, 1e-10)), ("fp32", torch.float32, (2e-6, 2e-4))):
        found, wanted = run(config, weights, torch.tensor(tokens["batches"]), dtype), expected[kind]
        assert found.keys() == wanted.keys()
        for key, value in wanted.items():
            if isinstance(value, dict):
                assert found[key].keys() == value.keys()
                pairs = [(found[key][name], value[name]) for name in value]
            else:
                pairs = list(zip(found[key], value)) if isinstance(value, list) else [(found[key], value)]
            relative = "norm" in key
            worst = max(abs(a - b) / (abs(b) if relative else 1.0) for a, b in pairs)
            good &= worst <= bounds[relative]
            print(f"{folder} {kind} {key}: worst {'relative' if relative else 'absolute'} difference {worst:.2g}")
    return good


if __name__ == "__main__":
    torch.set_num_threads(1)
    if len(sys.argv) == 3 and sys.argv[1] == "--check":
        sys.exit(0 if check(sys.argv[2]) else "DIFFERENT")
    if len(sys.argv) != 3 or sys.argv[2] not in SETS:
        sys.exit(__doc__)
    make(sys.argv[1], sys.argv[2])
