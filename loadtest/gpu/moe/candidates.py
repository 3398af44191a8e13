"""The configurations that are tried, the likeliest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import log2
from typing import Literal

Gemm = Literal["up", "down"]

# A block of an H100 or H200 may have 227 KiB: CUDA C++ Programming Guide, compute capability 9.0.
_SHARED_BYTES = 227 * 1024
_BYTES = 2  # of a bfloat16
# Values of the accumulator in a thread, which has 255 registers.
_ACCUMULATED = 128

_BLOCKS_N = (32, 64, 128, 256)
_BLOCKS_K = (32, 64, 128, 256)
_GROUPS = (1, 16, 32)
_WARPS = (4, 8)
_STAGES = (2, 3, 4, 5)


@dataclass(frozen=True)
class Config:
    """What the kernel takes.

    Attributes:
        block_m, block_n, block_k: the tile: rows, columns and depth.
        group_m: blocks of rows that run side by side, for the cache.
        tma: reads both operands by the tensor memory accelerator; of the second GEMM only.
    """

    block_m: int
    block_n: int
    block_k: int
    group_m: int
    warps: int
    stages: int
    tma: bool = False

    def kernel(self) -> dict[str, int]:
        return {
            "BLOCK_SIZE_M": self.block_m,
            "BLOCK_SIZE_N": self.block_n,
            "BLOCK_SIZE_K": self.block_k,
            "GROUP_SIZE_M": self.group_m,
            "num_warps": self.warps,
            "num_stages": self.stages,
        }

    def entry(self) -> dict[str, int | bool]:
        """In SGLang's files."""
        return self.kernel() | ({"USE_TMA": True} if self.tma else {})

    @property
    def fits(self) -> bool:
        shared = self.stages * (self.block_m + self.block_n) * self.block_k * _BYTES
        accumulated = self.block_m * self.block_n / (32 * self.warps)
        return shared <= _SHARED_BYTES and accumulated <= _ACCUMULATED

    def __str__(self) -> str:
        tile = f"{self.block_m}x{self.block_n}x{self.block_k}"
        return f"{tile} g{self.group_m} w{self.warps} s{self.stages}{' tma' if self.tma else ''}"


def of(entry: Mapping[str, int | bool]) -> Config:
    """Of an entry of SGLang's. Warps and stages that are left out are Triton's own."""
    return Config(
        block_m=entry["BLOCK_SIZE_M"],
        block_n=entry["BLOCK_SIZE_N"],
        block_k=entry["BLOCK_SIZE_K"],
        group_m=entry["GROUP_SIZE_M"],
        warps=entry.get("num_warps", 4),
        stages=entry.get("num_stages", 3),
        tma=bool(entry.get("USE_TMA", False)),
    )


def blocks_m(tokens: int, top_k: int, experts: int) -> list[int]:
    """Those near the rows that an expert has on average: fewer read weights again, more compute nothing."""
    rows = tokens * top_k / experts
    return [block for block in (16, 32, 64, 128) if rows / 2 <= block <= max(16, 4 * rows)]


def enumerate_for(gemm: Gemm, block_m: int) -> list[Config]:
    """All that fit, those near to what has been found good for such shapes first."""
    tma = (False, True) if gemm == "down" else (False,)
    every = (
        Config(block_m, *values) for values in product(_BLOCKS_N, _BLOCKS_K, _GROUPS, _WARPS, _STAGES, tma)
    )
    return sorted((each for each in every if each.fits), key=surprise)


def surprise(config: Config) -> float:
    """How far from the tiles that SGLang's files of other H200 shapes have for as many rows."""
    few = config.block_m <= 32
    return (
        abs(log2(config.block_n / 128))
        + abs(log2(config.block_k / (128 if few else 64)))
        + abs(config.stages - 3) * (0.5 if few else 0.7)
        + {1: 0.3, 16: 0.0, 32: 0.6}[config.group_m]
        + (0.0 if config.warps == 4 else 0.7 if few else 0.4)
    )


# SGLang 0.5.23's own for 256 experts of 512 on an H200 with Triton 3.6.0, which 0.5.17 is without.
_KNOWN: dict[int, tuple[Config, Config]] = {
    32: (Config(16, 128, 128, 16, 4, 2), Config(16, 128, 128, 16, 4, 3, tma=True)),
    64: (Config(16, 128, 128, 16, 4, 2), Config(16, 128, 128, 32, 4, 3, tma=True)),
    256: (Config(16, 128, 128, 16, 4, 2), Config(16, 128, 128, 16, 4, 3, tma=True)),
    512: (Config(32, 128, 128, 32, 4, 2), Config(32, 128, 128, 16, 4, 2, tma=True)),
    1024: (Config(64, 128, 64, 1, 4, 3), Config(64, 128, 64, 16, 4, 3, tma=True)),
}


def known(tokens: int) -> tuple[Config, Config]:
    return _KNOWN[min(_KNOWN, key=lambda key: abs(key - tokens))]


def tasks(sizes: list[int], top_k: int, experts: int, most: int) -> Iterator[tuple[Gemm, int, Config]]:
    """What is to be compiled, in which order: GEMM, tokens, configuration.

    Triton compiles a kernel twice: where the sorted rows are a multiple of 16, as those of few tokens are,
    and where they are not. All numbers of tokens that are alike in that share a task, under the fewest.

    Args:
        most: of a GEMM for one block of rows.
    """
    found: dict[tuple[Gemm, int, Config], float] = {}
    kinds: dict[tuple[int, bool], int] = {}
    for tokens in sorted(sizes):
        for block in blocks_m(tokens, top_k, experts):
            kinds.setdefault((block, few(tokens, top_k, experts)), tokens)
    for (block, _), tokens in kinds.items():
        for config in enumerate_for("up", block)[:most]:
            found["up", tokens, config] = surprise(config)
        for config in enumerate_for("down", block)[:most]:
            found["down", tokens, config] = surprise(config)
    for tokens in sizes:
        up, down = known(tokens)
        shared = kinds.get((up.block_m, few(tokens, top_k, experts)))
        if shared is not None:
            found["up", shared, up] = found["down", shared, down] = 0.0
    yield from sorted(found, key=lambda task: found[task])


def few(tokens: int, top_k: int, experts: int) -> bool:
    """SGLang makes room for a whole block of each row; see its `moe_align_block_size`."""
    return tokens * top_k < experts + 1
