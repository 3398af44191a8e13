"""The files of a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from dllm_stack.bench import result
from dllm_stack.bench.problem import Problem
from dllm_stack.bench.result import Result


@dataclass(frozen=True)
class Writer:
    """Attributes: stem: of the files, without an ending; None: none are written."""

    stem: Path | None

    @classmethod
    def at(cls, stem: Path | None) -> Writer:
        """
        Raises:
            Problem: nothing can be written there. Better known before a run than after it.
        """
        if stem is None:
            return cls(None)
        if find_spec("matplotlib") is None:
            raise Problem("--output", "its pictures need matplotlib: pip install 'dllm-stack[bench]'")
        stem = stem.with_suffix("") if stem.suffix == ".json" else stem
        file = _file(stem, ".json")
        try:
            stem.parent.mkdir(parents=True, exist_ok=True)
            with file.open("ab") as opened:
                is_new = not opened.tell()
            if is_new:  # and stays away, should there be no run
                file.unlink()
        except OSError as error:
            raise Problem("--output", f"{stem}: {error.strerror}") from None
        return cls(stem)

    def write(self, found: Result) -> Iterator[str]:
        """Says what it has written. JSON first: it is what all else can be made of again."""
        if self.stem is None:
            return
        result.save_json(found, file := _file(self.stem, ".json"))
        yield f"Written: {file}"
        result.save_csv(found.records, file := _file(self.stem, ".csv"))
        yield f"Written: {file}"
        yield from draw(found, self.stem)


def draw(found: Result, stem: Path) -> Iterator[str]:
    """Pictures and page of a run."""
    from dllm_stack.bench import page, plots  # which take half a second

    figure = plots.draw(found)
    plots.save_png(figure, file := _file(stem, ".png"))
    yield f"Written: {file}"
    _file(stem, ".html").write_text(page.page(found, plots.svg(figure)), "utf-8")
    yield f"Written: {_file(stem, '.html')}"


def _file(stem: Path, ending: str) -> Path:
    return stem.with_name(stem.name + ending)
