"""The rows of one round on the engine's device, and a denoise step of all of them at once.

Shapes: B rows, L tokens of a block, V tokens of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from worker.dllm import evidence
from worker.dllm.algorithms.algorithm import Algorithm, Block, Carried, Change
from worker.dllm.algorithms.table import AlgorithmTable
from worker.dllm.drawing import Drawing
from worker.dllm.evidence import Evidence
from worker.dllm.report import Report, send
from worker.dllm.requests import BlockState

MAX_STEPS = 1024
"""Of a block, where the request does not say. The built-in algorithms end long before."""

DONE, MASKED, CHANGED, EDITS, IDS = range(5)
"""Columns of a step's report; the ids take the rest."""


@dataclass
class _Group:
    """The rows of one algorithm.

    Attributes:
        rows: their numbers in the batch.
        index: the same on the device.
        parameters: float32 [b, 1] each.
        carried: the algorithm's, [b, ...] each.
    """

    algorithm: Algorithm
    rows: list[int]
    index: Tensor
    parameters: dict[str, Tensor]
    carried: Carried


class Batch:
    def __init__(
        self,
        states: Sequence[BlockState],
        table: AlgorithmTable,
        length: int,
        mask_id: int,
        device: torch.device,
    ) -> None:
        self._states, self._length, self._mask_id, self._device = states, length, mask_id, device
        counts = [[state.known, state.forwards, _max_steps(state, table)] for state in states]
        known, self._forwards, self._max_steps = send(counts, torch.int32, device).T[:, :, None]
        self._fixed = torch.arange(length, device=device) < known
        self._place = torch.arange(len(states) * length, device=device).view(-1, length)
        self._finished = torch.zeros(len(states), 1, dtype=torch.bool, device=device)
        self._groups = self._grouped(table)
        self._penalty = self._penalties()
        samples = any(state.sampling.temperature for state in states)
        self._drawing = Drawing(states, length, mask_id, device) if samples else None

    def step(self, ids: Tensor, logits: Tensor) -> Report:
        """A denoise step of all rows that are not finished. Nothing waits for the device.

        Args:
            ids: int64 [B x L]; changed in place.
            logits: [B x L, V].

        Returns:
            int64 [B, 4 + L].
        """
        before = ids.view(-1, self._length)
        masked = (before == self._mask_id) & ~self._fixed
        block = self._block(before, masked, logits)
        self._forwards = self._forwards + 1
        change = self._limited(block, self._change(block, logits))
        after = torch.where(self._finished, before, change.ids)
        changed = after != before
        row_changed = changed.any(dim=1, keepdim=True)
        # The KV of what has just been changed is not stored yet.
        self._finished = self._finished | (change.done[:, None] & ~row_changed)
        report = Report(
            torch.cat(
                [
                    self._finished,
                    ((after == self._mask_id) & ~self._fixed).sum(dim=1, keepdim=True),
                    row_changed,
                    (changed & ~masked).sum(dim=1, keepdim=True),
                    after,
                ],
                dim=1,
            )
        )
        ids.copy_(after.view(-1))
        return report

    def hand_back(self) -> None:
        """Leaves with each row's state what its algorithm carries to the next round."""
        for group in self._groups:
            for place, row in enumerate(group.rows):
                self._states[row].carried = {
                    name: tensor[place : place + 1] for name, tensor in group.carried.items()
                }

    def _look(self, before: Tensor, logits: Tensor) -> Evidence:
        penalised = None
        if self._penalty is not None:
            penalised = torch.nn.functional.pad(before[:, :-1], (1, 0), value=-1).view(-1)
        draw = None if self._drawing is None else self._drawing.of(logits)
        return evidence.read(
            logits, mask_id=self._mask_id, penalised=penalised, penalty=self._penalty, draw=draw
        )

    def _block(self, before: Tensor, masked: Tensor, logits: Tensor) -> Block:
        seen = self._look(before, logits)
        place = self._place
        return Block(
            ids=before,
            masked=masked,
            fixed=self._fixed,
            token=seen.token.view_as(before),
            probability=seen.probability.view_as(before),
            entropy=seen.entropy.view_as(before),
            logit=seen.logit.view_as(before),
            normalizer=seen.normalizer.view_as(before),
            logits_of=lambda tokens: logits[place[..., None], tokens].float(),
        )

    def _part(self, block: Block, index: Tensor, logits: Tensor) -> Block:
        """The rows of one algorithm. The logits stay where they are."""
        place = self._place[index]
        return Block(
            ids=block.ids[index],
            masked=block.masked[index],
            fixed=block.fixed[index],
            token=block.token[index],
            probability=block.probability[index],
            entropy=block.entropy[index],
            logit=block.logit[index],
            normalizer=block.normalizer[index],
            logits_of=lambda tokens: logits[place[..., None], tokens].float(),
        )

    def _change(self, block: Block, logits: Tensor) -> Change:
        if len(self._groups) == 1:
            group = self._groups[0]
            return group.algorithm.step(block, group.parameters, group.carried)
        ids, done = torch.empty_like(block.ids), torch.empty_like(block.masked[:, 0])
        for group in self._groups:
            part = self._part(block, group.index, logits)
            change = group.algorithm.step(part, group.parameters, group.carried)
            ids[group.index], done[group.index] = change.ids, change.done
        return Change(ids, done)

    def _limited(self, block: Block, change: Change) -> Change:
        """A row at its last step commits all that it would leave masked, and is done with the forward after
        that.
        """
        last, over = self._forwards == self._max_steps, self._forwards > self._max_steps
        left = (change.ids == self._mask_id) & ~self._fixed
        ids = torch.where(last & left, block.token, change.ids)
        done = change.done & ~block.masked.any(dim=1)
        return Change(torch.where(over, block.ids, ids), done | over[:, 0])

    def _grouped(self, table: AlgorithmTable) -> list[_Group]:
        rows_of: dict[str, list[int]] = {}
        for row, state in enumerate(self._states):
            rows_of.setdefault(state.decision.algorithm, []).append(row)
        return [self._group(table[name], rows) for name, rows in rows_of.items()]

    def _group(self, algorithm: Algorithm, rows: list[int]) -> _Group:
        values = [list(self._values(algorithm, row).values()) for row in rows]
        numbers = send(values, torch.float32, self._device)
        return _Group(
            algorithm,
            rows,
            send(rows, torch.int64, self._device),
            {name: numbers[:, place, None] for place, name in enumerate(algorithm.defaults)},
            self._carried(algorithm, rows),
        )

    def _values(self, algorithm: Algorithm, row: int) -> dict[str, float]:
        given = self._states[row].decision.parameters
        return {name: given.get(name, default) for name, default in algorithm.defaults.items()}

    def _carried(self, algorithm: Algorithm, rows: list[int]) -> Carried:
        fresh = {
            name: tensor.to(self._device) for name, tensor in algorithm.begin(len(rows), self._length).items()
        }
        return {
            name: torch.cat(
                [self._states[row].carried.get(name, tensor[i : i + 1]) for i, row in enumerate(rows)]
            )
            for name, tensor in fresh.items()
        }

    def _penalties(self) -> Tensor | None:
        """float32 [B x L]; None where no row has one."""
        penalties = [0.0] * len(self._states)
        for group in self._groups:
            for row in group.rows:
                penalties[row] = group.algorithm.penalty(self._values(group.algorithm, row))
        if not any(penalties):
            return None
        return send(penalties, torch.float32, self._device).repeat_interleave(self._length)


def _max_steps(state: BlockState, table: AlgorithmTable) -> int:
    own = table[state.decision.algorithm].defaults.get("max_steps", MAX_STEPS)
    return int(state.decision.parameters.get("max_steps", own))
