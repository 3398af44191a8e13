"""Training rows: documents packed one after another, each on whole blocks, as the engine decodes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from models.demo.chat import Chat
from models.demo.data import corpus
from models.demo.data.example import Example, Skill
from models.demo.shape import BLOCK_SIZE
from worker.tiny_checkpoint.vocabulary import END_OF_TEXT

PADDING = -1
# Documents kept back for a row that they fit in.
_KEPT_BACK = 64


@dataclass(frozen=True)
class Document:
    ids: list[int]  # of whole blocks
    prompt_tokens: int


class Encoder:
    """Examples as token ids."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._chat = Chat()
        (self.end,) = tokenizer.encode(END_OF_TEXT).ids

    def prompt(self, example: Example) -> list[int]:
        ids: list[int] = self._tokenizer.encode(self._chat.render(example)).ids
        return ids

    def answer(self, example: Example) -> list[int]:
        ids: list[int] = self._tokenizer.encode(example.answer).ids
        return ids

    def document(self, example: Example) -> Document:
        """Prompt, answer and at least one end, as many as the last block has room for."""
        prompt = self.prompt(example)
        ids = [*prompt, *self.answer(example), self.end]
        return Document(ids + [self.end] * (-len(ids) % BLOCK_SIZE), len(prompt))


class Rows(IterableDataset[dict[str, Tensor]]):  # type: ignore[misc]
    """Endless rows. Each is a dict of int64 tensors [row_tokens]:

    ids; document, its number in the row or PADDING; position in the document; answer, 1 where there is
    a loss. Longer documents are passed over.
    """

    def __init__(self, tokenizer: Tokenizer, skills: Sequence[Skill], row_tokens: int, seed: int) -> None:
        self._tokenizer, self._skills, self._row_tokens, self._seed = tokenizer, skills, row_tokens, seed

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        worker = get_worker_info()
        encoder = Encoder(self._tokenizer)
        examples = corpus.training(self._skills, self._seed * 1000 + (worker.id if worker else 0))
        fitting = (
            document for document in map(encoder.document, examples) if len(document.ids) <= self._row_tokens
        )
        for documents in _packed(fitting, self._row_tokens):
            yield row(documents, self._row_tokens, encoder.end)


def _packed(documents: Iterator[Document], row_tokens: int) -> Iterator[list[Document]]:
    waiting: list[Document] = []
    while True:
        chosen: list[Document] = []
        room = row_tokens
        waiting += [next(documents) for _ in range(_KEPT_BACK - len(waiting))]
        for document in list(waiting):
            if len(document.ids) <= room:
                waiting.remove(document)
                chosen.append(document)
                room -= len(document.ids)
        yield chosen


def row(documents: Sequence[Document], row_tokens: int, end: int) -> dict[str, Tensor]:
    padding = row_tokens - sum(len(document.ids) for document in documents)
    columns: dict[str, list[int]] = {"ids": [], "document": [], "position": [], "answer": []}
    for number, document in enumerate(documents):
        length = len(document.ids)
        columns["ids"] += document.ids
        columns["document"] += [number] * length
        columns["position"] += range(length)
        columns["answer"] += [0] * document.prompt_tokens + [1] * (length - document.prompt_tokens)
    columns["ids"] += [end] * padding
    columns["document"] += [PADDING] * padding
    columns["position"] += range(padding)
    columns["answer"] += [0] * padding
    return {name: torch.tensor(column) for name, column in columns.items()}
