"""LLaDA2's forward and its LowConfidence decoding in plain torch: slow, short, and with no part of SGLang.

What an engine answers has to equal this token for token.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor


@dataclass(frozen=True)
class Answer:
    token_ids: list[int]
    forwards: int  # each block's steps, and the one that stores its final KV


class Reference:
    """A checkpoint, computed in float32. No KV cache: every forward reads the whole sequence."""

    def __init__(self, checkpoint: Path) -> None:
        self.config = json.loads((checkpoint / "config.json").read_text())
        self.weights = {k: v.float() for k, v in load_file(checkpoint / "model.safetensors").items()}

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def generate(self, prompt: list[int], max_tokens: int, threshold: float = 0.95) -> Answer:
        """Decodes block by block, never stopping at an end token."""
        size, mask_id = self.config["block_size"], self.config["mask_token_id"]
        sequence, forwards = list(prompt), 0
        while len(sequence) < len(prompt) + max_tokens:
            start = len(sequence) // size * size
            block = torch.tensor((sequence[start:] + [mask_id] * size)[:size])
            masked = torch.arange(size) >= len(sequence) - start
            while masked.any():
                probabilities = self.logits(sequence[:start] + block.tolist()).softmax(-1)
                confidence, best = probabilities.max(-1)
                confidence = confidence.masked_fill(~masked, float("-inf"))
                chosen = confidence > threshold
                if not chosen.any():
                    chosen[confidence.argmax()] = True
                block = torch.where(chosen, best, block)
                masked &= ~chosen
                forwards += 1
            forwards += 1
            sequence = sequence[:start] + block.tolist()
        return Answer(sequence[len(prompt) :][:max_tokens], forwards)

    def logits(self, ids: list[int]) -> Tensor:
        """Logits of the last block, [block_size, vocab_size]. Position i's logits are about token i."""
        config, weights = self.config, self.weights
        block_of = torch.arange(len(ids)) // config["block_size"]
        visible = block_of[:, None] >= block_of[None, :]
        x = weights["model.word_embeddings.weight"][torch.tensor(ids)]
        for layer in range(config["num_hidden_layers"]):
            prefix = f"model.layers.{layer}."
            x = x + self._attention(self._norm(x, prefix + "input_layernorm"), prefix + "attention.", visible)
            normed = self._norm(x, prefix + "post_attention_layernorm")
            dense = layer < config["first_k_dense_replace"]
            x = x + (self._mlp if dense else self._mixture)(normed, prefix + "mlp.")
        return F.linear(self._norm(x, "model.norm")[-config["block_size"] :], weights["lm_head.weight"])

    def _norm(self, x: Tensor, name: str) -> Tensor:
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.config["rms_norm_eps"])
        return x * scale * self.weights[name + ".weight"]

    def _attention(self, x: Tensor, prefix: str, visible: Tensor) -> Tensor:
        heads, kv_heads = self.config["num_attention_heads"], self.config["num_key_value_heads"]
        fused = F.linear(x, self.weights[prefix + "query_key_value.weight"])
        q, k, v = fused.view(len(x), heads + 2 * kv_heads, -1).split([heads, kv_heads, kv_heads], 1)
        q = self._rotate(self._norm(q, prefix + "query_layernorm"))
        k = self._rotate(self._norm(k, prefix + "key_layernorm"))
        k, v = (t.repeat_interleave(heads // kv_heads, 1) for t in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q, k) / q.shape[-1] ** 0.5
        attention = scores.masked_fill(~visible, float("-inf")).softmax(-1)
        mixed = torch.einsum("hqk,khd->qhd", attention, v).reshape(len(x), -1)
        return F.linear(mixed, self.weights[prefix + "dense.weight"])

    def _rotate(self, x: Tensor) -> Tensor:
        """Rotary embedding of the first part of each head, halves paired (NeoX)."""
        width = int(self.config["head_dim"] * self.config["partial_rotary_factor"])
        frequencies = self.config["rope_theta"] ** -(torch.arange(0, width, 2) / width)
        angles = torch.arange(len(x))[:, None, None] * frequencies
        first, second, rest = x.split([width // 2, width // 2, x.shape[-1] - width], -1)
        return torch.cat(
            [
                first * angles.cos() - second * angles.sin(),
                second * angles.cos() + first * angles.sin(),
                rest,
            ],
            -1,
        )

    def _mlp(self, x: Tensor, prefix: str) -> Tensor:
        gate, up, down = (self.weights[f"{prefix}{name}_proj.weight"] for name in ("gate", "up", "down"))
        return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)

    def _mixture(self, x: Tensor, prefix: str) -> Tensor:
        """Sigmoid scores; the bias takes part in choosing groups and experts, never in weighing them."""
        config = self.config
        scores = F.linear(x, self.weights[prefix + "gate.weight"]).sigmoid()
        ranked = scores + self.weights[prefix + "gate.expert_bias"]
        grouped = ranked.view(len(x), config["n_group"], -1)
        best_groups = grouped.topk(2, -1).values.sum(-1).topk(config["topk_group"], -1).indices
        allowed = torch.zeros(grouped.shape[:2], dtype=torch.bool).scatter(1, best_groups, True)
        ranked = grouped.masked_fill(~allowed[..., None], float("-inf")).flatten(1)
        chosen = ranked.topk(config["num_experts_per_tok"], -1).indices
        share = scores.gather(1, chosen)
        share = share / (share.sum(-1, keepdim=True) + 1e-20) * config["routed_scaling_factor"]
        per_expert = torch.zeros_like(scores).scatter(1, chosen, share)
        routed = sum(
            per_expert[:, e, None] * self._mlp(x, f"{prefix}experts.{e}.")
            for e in range(config["num_experts"])
        )
        return routed + self._mlp(x, prefix + "shared_experts.")
