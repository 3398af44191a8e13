"""LLaDA2's mixture-of-experts model in plain torch, made to be trained: whole batches, no loop over tokens.

Every expert is computed for every token, and the router's weights, most of them zero, scale what comes
out. With eight narrow experts this one wide multiplication is faster than picking.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask, flex_attention

Config = dict[str, Any]


class RMSNorm(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return (normed * self.weight).to(x.dtype)


class Rotary(nn.Module):  # type: ignore[misc]
    """Rotary embedding of the first part of each head, halves paired (NeoX)."""

    frequencies: Tensor

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.width = int(config["head_dim"] * config["partial_rotary_factor"])
        exponents = torch.arange(0, self.width, 2) / self.width
        self.register_buffer("frequencies", config["rope_theta"] ** -exponents, persistent=False)

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines, [rows, 1, tokens, width / 2], of positions [rows, tokens]."""
        angles = (positions[..., None] * self.frequencies)[:, None]
        return angles.cos(), angles.sin()


def rotate(x: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
    cos, sin = rotary
    half = cos.shape[-1]
    first, second, rest = x.split([half, half, x.shape[-1] - 2 * half], -1)
    turned = [first * cos - second * sin, second * cos + first * sin]
    return torch.cat([*(part.to(x.dtype) for part in turned), rest], -1)


class Attention(nn.Module):  # type: ignore[misc]
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads, self.kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        hidden, head_dim = config["hidden_size"], config["head_dim"]
        fused = (self.heads + 2 * self.kv_heads) * head_dim
        self.query_key_value = nn.Linear(hidden, fused, bias=False)
        self.dense = nn.Linear(self.heads * head_dim, hidden, bias=False)
        self.query_layernorm = RMSNorm(head_dim, config["rms_norm_eps"])
        self.key_layernorm = RMSNorm(head_dim, config["rms_norm_eps"])

    def forward(self, x: Tensor, rotary: tuple[Tensor, Tensor], visible: Tensor | BlockMask) -> Tensor:
        rows, tokens, _ = x.shape
        fused = self.query_key_value(x).view(rows, tokens, self.heads + 2 * self.kv_heads, -1)
        q, k, v = fused.transpose(1, 2).split([self.heads, self.kv_heads, self.kv_heads], 1)
        q, k = rotate(self.query_layernorm(q), rotary), rotate(self.key_layernorm(k), rotary)
        if isinstance(visible, BlockMask):
            mixed = flex_attention(q, k, v, block_mask=visible, enable_gqa=True)
        else:
            k, v = (t.repeat_interleave(self.heads // self.kv_heads, 1) for t in (k, v))
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=visible)
        out: Tensor = self.dense(mixed.transpose(1, 2).reshape(rows, tokens, -1))
        return out


class Dense(nn.Module):  # type: ignore[misc]
    def __init__(self, config: Config) -> None:
        super().__init__()
        hidden, inner = config["hidden_size"], config["intermediate_size"]
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Router(nn.Module):  # type: ignore[misc]
    """Chooses experts by sigmoid score and bias, within the best groups; weighs them by score alone."""

    expert_bias: Tensor
    load: Tensor

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        experts = config["num_experts"]
        self.weight = nn.Parameter(torch.empty(experts, config["hidden_size"]))
        self.register_buffer("expert_bias", torch.zeros(experts))
        # Tokens that each expert got since the last balance().
        self.register_buffer("load", torch.zeros(experts), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """The share of each expert in each token, [..., experts]; zero for those not chosen."""
        config = self.config
        with torch.autocast(x.device.type, enabled=False):
            scores = F.linear(x.float(), self.weight).sigmoid()
        ranked = scores.detach() + self.expert_bias
        grouped = ranked.unflatten(-1, (config["n_group"], -1))
        best = grouped.topk(2, -1).values.sum(-1).topk(config["topk_group"], -1).indices
        allowed = torch.zeros_like(grouped[..., 0]).scatter(-1, best, 1.0) > 0
        ranked = grouped.masked_fill(~allowed[..., None], float("-inf")).flatten(-2)
        chosen = ranked.topk(config["num_experts_per_tok"], -1).indices
        taken = torch.zeros_like(scores).scatter(-1, chosen, 1.0)
        if self.training:
            self.load += taken.detach().flatten(0, -2).sum(0)
        share = scores * taken
        return share / (share.sum(-1, keepdim=True) + 1e-20) * config["routed_scaling_factor"]

    def balance(self, rate: float) -> None:
        """Makes busy experts less likely to be chosen and idle ones more: no loss of its own does it."""
        self.expert_bias += rate * (self.load.mean() - self.load).sign()
        self.load.zero_()


class Mixture(nn.Module):  # type: ignore[misc]
    """All experts side by side in three matrices, the shared one last."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        hidden, self.inner = config["hidden_size"], config["moe_intermediate_size"]
        self.shared = config["num_shared_experts"]
        wide = (config["num_experts"] + self.shared) * self.inner
        self.gate = Router(config)
        self.gate_proj = nn.Linear(hidden, wide, bias=False)
        self.up_proj = nn.Linear(hidden, wide, bias=False)
        self.down_proj = nn.Linear(wide, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        share = F.pad(self.gate(x), (0, self.shared), value=1.0).repeat_interleave(self.inner, -1)
        inside = F.silu(self.gate_proj(x)) * self.up_proj(x)
        out: Tensor = self.down_proj(inside * share.to(inside.dtype))
        return out


class Layer(nn.Module):  # type: ignore[misc]
    def __init__(self, config: Config, index: int) -> None:
        super().__init__()
        hidden, eps = config["hidden_size"], config["rms_norm_eps"]
        self.input_layernorm = RMSNorm(hidden, eps)
        self.attention = Attention(config)
        self.post_attention_layernorm = RMSNorm(hidden, eps)
        self.mlp = Dense(config) if index < config["first_k_dense_replace"] else Mixture(config)

    def forward(self, x: Tensor, rotary: tuple[Tensor, Tensor], visible: Tensor | BlockMask) -> Tensor:
        x = x + self.attention(self.input_layernorm(x), rotary, visible)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Model(nn.Module):  # type: ignore[misc]
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        hidden, vocabulary = config["hidden_size"], config["vocab_size"]
        self.word_embeddings = nn.Embedding(vocabulary, hidden)
        self.rotary = Rotary(config)
        self.layers = nn.ModuleList(Layer(config, index) for index in range(config["num_hidden_layers"]))
        self.norm = RMSNorm(hidden, config["rms_norm_eps"])
        self.lm_head = nn.Linear(hidden, vocabulary, bias=False)
        self._initialise()

    def _initialise(self) -> None:
        into_residual = 0.02 / (2 * len(self.layers)) ** 0.5
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                outwards = name.endswith(("attention.dense.weight", "down_proj.weight"))
                nn.init.normal_(parameter, std=into_residual if outwards else 0.02)

    def forward(self, ids: Tensor, positions: Tensor, visible: Tensor | BlockMask) -> Tensor:
        """Hidden states [rows, tokens, hidden], which lm_head makes logits of.

        Args:
            ids: [rows, tokens].
            positions: [rows, tokens], each token's place in its document.
            visible: which key each query sees: [tokens, tokens], [rows, 1, tokens, tokens] or a BlockMask.
        """
        x = self.word_embeddings(ids)
        rotary = self.rotary(positions)
        for layer in self.layers:
            x = layer(x, rotary, visible)
        out: Tensor = self.norm(x)
        return out

    def routers(self) -> list[Router]:
        return [module for module in self.modules() if isinstance(module, Router)]
