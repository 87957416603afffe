"""What Mixtral has in place of an MLP, for make_golden.py: experts, a router, and the balance of the experts."""
import torch


def expert_shapes(config, layer):
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    shapes = {layer + "block_sparse_moe.gate.weight": (config["num_local_experts"], hidden)}
    for expert in range(config["num_local_experts"]):
        at = layer + f"block_sparse_moe.experts.{expert}."
        shapes[at + "w1.weight"] = shapes[at + "w3.weight"] = (inner, hidden)
        shapes[at + "w2.weight"] = (hidden, inner)
    return shapes


def mix(config, weights, layer, x):
    """The experts' part of a layer on x [batch, length, hidden], and the layer's balance for each sequence.

    The weights of a token's experts are the softmax over all experts, of which the largest are kept and divided by
    their sum. The balance is experts * sum over experts of (share of the sequence's choices per token) * (mean
    probability in the sequence); the share is a constant.
    """
    experts, top = config["num_local_experts"], config["num_experts_per_tok"]
    at = layer + "block_sparse_moe."
    probabilities = (x @ weights[at + "gate.weight"].T).softmax(-1)
    kept, chosen = probabilities.topk(top, -1)
    kept = kept / kept.sum(-1, keepdim=True)
    result = torch.zeros_like(x)
    for expert in range(experts):
        w1, w2, w3 = (weights[at + f"experts.{expert}.w{n}.weight"] for n in (1, 2, 3))
        gate = x @ w1.T
        made = (gate * gate.sigmoid() * (x @ w3.T)) @ w2.T
        result = result + made * (kept * (chosen == expert)).sum(-1, keepdim=True)
    counts = torch.stack([(chosen == expert).sum((-2, -1)) for expert in range(experts)], -1)
    shares = counts.to(x.dtype) / x.shape[1]
    return result, experts * (shares * probabilities.mean(1)).sum(-1)
