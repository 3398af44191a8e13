"""Trains the demo model.

    python -m models.demo.train FOLDER --minutes 25

FOLDER gets `checkpoint/`, which SGLang loads, and `state.pt`, from which the same command goes on after
a cut: the minutes count over all its runs.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from models.demo import checkpoint, objective, shape, tokenizer, visibility
from models.demo.data import corpus
from models.demo.model import Model
from models.demo.noise import noise
from models.demo.rows import Rows

_WARMUP_STEPS = 200
_DECAY_FROM = 0.6  # of the minutes; then the rate falls to nothing
_BALANCE_RATE = 1e-3


@dataclass(frozen=True)
class Settings:
    folder: Path
    minutes: float
    size: shape.Size
    skills: list[str]
    row_tokens: int
    batch_rows: int
    learning_rate: float
    data_workers: int
    save_minutes: float
    device: str
    seed: int


class Training:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.device = torch.device(settings.device)
        torch.manual_seed(settings.seed)
        self.tokenizer = tokenizer.load()
        self.config = shape.config(settings.size, self.tokenizer)
        self.model = Model(self.config).to(self.device)
        self.optimizer = _optimizer(self.model, settings.learning_rate, self.device)
        self.step, self.seconds = 0, 0.0  # of all runs so far
        self._state = settings.folder / "state.pt"
        if self._state.is_file():
            self._restore()

    def run(self) -> None:
        settings = self.settings
        settings.folder.mkdir(parents=True, exist_ok=True)
        losses = self._losses()
        rows = self._rows()
        seen, reported, saved, before = 0, time.monotonic(), time.monotonic(), time.monotonic()
        while self.seconds < 60 * settings.minutes:
            batch = next(rows)
            found = self._update(batch, losses)
            seen += batch["ids"].numel()
            now = time.monotonic()
            self.seconds += now - before
            before = now
            if self.step % 50 == 0:
                self._report(found, seen / (now - reported))
                seen, reported = 0, time.monotonic()
            if now - saved > 60 * settings.save_minutes:
                self.save()
                saved = time.monotonic()
        self.save()

    def save(self) -> None:
        """Both files; each is replaced whole."""
        checkpoint.save(self.model, self.tokenizer, self.settings.folder / "checkpoint")
        partial = self._state.with_suffix(".partial")
        torch.save(
            {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "step": self.step,
                "seconds": self.seconds,
            },
            partial,
        )
        partial.rename(self._state)

    def _restore(self) -> None:
        state = torch.load(self._state, map_location=self.device)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.seconds = state["step"], state["seconds"]

    def _losses(self) -> Callable[..., objective.Losses]:
        return torch.compile(objective.losses) if self.device.type == "cuda" else objective.losses

    def _rows(self) -> Iterator[dict[str, Tensor]]:
        settings = self.settings
        # A run that goes on reads other rows than the one before it.
        seed = settings.seed + self.step
        loader = DataLoader(
            Rows(self.tokenizer, corpus.named(settings.skills), settings.row_tokens, seed),
            batch_size=settings.batch_rows,
            num_workers=settings.data_workers,
            pin_memory=self.device.type == "cuda",
            prefetch_factor=8 if settings.data_workers else None,
        )
        for batch in loader:
            yield {name: column.to(self.device, non_blocking=True) for name, column in batch.items()}

    def _update(self, batch: dict[str, Tensor], losses: Callable[..., objective.Losses]) -> objective.Losses:
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.learning_rate * self._rate()
        noised = noise(batch["ids"], batch["answer"], self.config["mask_token_id"], self.config["vocab_size"])
        cuda = self.device.type == "cuda"
        see = visibility.two_streams_sparse if cuda else visibility.two_streams
        with torch.autocast(self.device.type, torch.bfloat16, enabled=cuda):
            found = losses(self.model, batch, noised, see(batch["document"]))
        self.optimizer.zero_grad()
        found.total.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        for router in self.model.routers():
            router.balance(_BALANCE_RATE)
        self.step += 1
        return found

    def _rate(self) -> float:
        progress = self.seconds / (60 * self.settings.minutes)
        decay = (1 - progress) / (1 - _DECAY_FROM)
        return max(0.0, min(1.0, (self.step + 1) / _WARMUP_STEPS, decay))

    def _report(self, found: objective.Losses, tokens_per_second: float) -> None:
        line: dict[str, Any] = {
            "step": self.step,
            "minutes": round(self.seconds / 60, 2),
            "tokens_per_s": round(tokens_per_second),
        }
        line |= {name: round(value.detach().item(), 4) for name, value in vars(found).items()}
        print(json.dumps(line), flush=True)
        if not math.isfinite(line["total"]):
            raise RuntimeError("the loss is no number any more")
        with (self.settings.folder / "log.jsonl").open("a") as log:
            log.write(json.dumps(line) + "\n")


def _optimizer(model: Model, learning_rate: float, device: torch.device) -> torch.optim.Optimizer:
    matrices = [p for p in model.parameters() if p.dim() == 2]
    scales = [p for p in model.parameters() if p.dim() != 2]
    return torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": scales, "weight_decay": 0.0}],
        lr=learning_rate,
        betas=(0.9, 0.95),
        fused=device.type == "cuda",
    )


def _settings() -> Settings:
    parser = argparse.ArgumentParser(prog="python -m models.demo.train", description="Train the demo model.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, required=True, help="of training, over all runs")
    parser.add_argument("--size", choices=get_args(shape.Size), default="demo")
    parser.add_argument("--skills", nargs="*", default=[], help="all, if none is named")
    parser.add_argument("--row-tokens", type=int, default=512, help="longer documents are passed over")
    parser.add_argument("--batch-rows", type=int, default=96)
    parser.add_argument("--learning-rate", type=float, default=1.5e-3)
    parser.add_argument("--data-workers", type=int, default=0, help="processes that make rows")
    parser.add_argument("--save-minutes", type=float, default=2)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seed", type=int, default=0)
    return Settings(**vars(parser.parse_args()))


if __name__ == "__main__":
    settings = _settings()
    print(json.dumps(asdict(settings), default=str), flush=True)
    Training(settings).run()
