"""A run in pictures."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

from dllm_stack.bench import metrics
from dllm_stack.bench.records import Record
from dllm_stack.bench.result import Result

_SIZE = (15.0, 8.0)  # inches
_DPI = 110
_BINS = 60
_COLORS = ("#2a6fbb", "#d1662a", "#3a8f5c", "#8455a8", "#b03a5b", "#6b6b6b")
_STYLE: Any = {  # its keys are typed as the literals that matplotlib knows
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "font.size": 9,
    "legend.frameon": False,
    "text.parse_math": False,  # a model may have a dollar in its name
    "svg.hashsalt": "dllm-stack",  # the same run makes the same file
    "svg.fonttype": "none",
}
_Panel = Callable[[Axes, Sequence[Record]], None]


def draw(found: Result) -> Figure:
    """Six panels of the answered requests."""
    answered = [record for record in found.records if record.answered]
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=_SIZE, dpi=_DPI, layout="constrained")
        FigureCanvasAgg(figure)
        panels: list[_Panel] = [_latencies, _gaps, _over_time, _starts, _chunks, _lengths]
        axes: list[Axes] = list(figure.subplots(2, 3).flat)
        for axis, panel in zip(axes, panels, strict=True):
            panel(axis, answered)
        load = found.load
        how = f"{load.rate} requests/s" if load.arrivals else f"concurrency {load.concurrency or 'unlimited'}"
        figure.suptitle(f"{load.model}  {load.backend}  {how}  {len(answered)} requests  {found.began}")
    return figure


def save_png(figure: Figure, file: Path) -> None:
    with mpl.rc_context(_STYLE):
        figure.savefig(file, metadata={"Software": None})


def svg(figure: Figure) -> str:
    """To be put into a page."""
    written = io.StringIO()
    with mpl.rc_context(_STYLE):
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    text = written.getvalue()
    return text[text.index("<svg") :]


def _latencies(axis: Axes, answered: Sequence[Record]) -> None:
    axis.set(title="Latency of requests", xlabel="ms", ylabel="share of requests")
    _shares(axis, {"TTFT": metrics.milliseconds(answered, metrics.ttft)}, _COLORS[0])
    _shares(axis, {"end to end": metrics.milliseconds(answered, metrics.e2e)}, _COLORS[1])
    _logarithmic(axis, "x")


def _gaps(axis: Axes, answered: Sequence[Record]) -> None:
    axis.set(title="Between tokens, between chunks", xlabel="ms", ylabel="share")
    _shares(axis, {"ITL": metrics.milliseconds(answered, metrics.itl)}, _COLORS[0])
    gaps = [gap * 1000 for record in answered for gap, _ in record.gaps()]
    _shares(axis, {"inter-chunk": gaps}, _COLORS[1])
    _logarithmic(axis, "x")


def _over_time(axis: Axes, answered: Sequence[Record]) -> None:
    axis.set(title="Over time", xlabel="s", ylabel="output tokens/s")
    if not answered:
        return
    end = max(record.sent_s + record.latency_s for record in answered)
    edges = np.linspace(0, max(end, 1e-3), _BINS + 1)
    width = edges[1] - edges[0]
    chunks = [
        (record.sent_s + chunk.at_s, chunk.tokens or 1) for record in answered for chunk in record.chunks
    ]
    times, tokens = np.array(chunks or [(0.0, 0)]).T
    rate = np.histogram(times, edges, weights=tokens)[0] / width
    axis.stairs(rate, edges, color=_COLORS[0], fill=True, alpha=0.4)
    beside = axis.twinx()
    beside.grid(visible=False)
    middle = (edges[:-1] + edges[1:]) / 2
    open_at = [
        sum(record.sent_s <= moment < record.sent_s + record.latency_s for record in answered)
        for moment in middle
    ]
    beside.plot(middle, open_at, color=_COLORS[1], linewidth=1.2)
    beside.set(ylim=(0, None))
    beside.set_ylabel("open requests", color=_COLORS[1])


def _starts(axis: Axes, answered: Sequence[Record]) -> None:
    axis.set(title="TTFT by the time of sending", xlabel="s", ylabel="ms")
    _logarithmic(axis, "y")
    groups: dict[str, list[tuple[float, float]]] = {}
    for record in answered:
        if record.ttft_s is not None:
            name = f"{record.tenant} {record.model}".strip()
            groups.setdefault(name, []).append((record.sent_s, record.ttft_s * 1000))
    for place, (name, points) in enumerate(sorted(groups.items())):
        sent, ttft = zip(*points, strict=True)
        axis.scatter(sent, ttft, s=9, alpha=0.7, color=_COLORS[place % len(_COLORS)], label=name)
    if len(groups) > 1:
        axis.legend()


def _chunks(axis: Axes, answered: Sequence[Record]) -> None:
    axis.set(title="Tokens per chunk", xlabel="tokens", ylabel="chunks")
    sizes = [chunk.tokens for record in answered for chunk in record.chunks if chunk.tokens]
    if sizes:
        axis.hist(sizes, bins=min(max(sizes), _BINS), color=_COLORS[0], alpha=0.7)


def _lengths(axis: Axes, answered: Sequence[Record]) -> None:
    """Of a diffusion model how many tokens a forward commits; else how long answers took."""
    costs = [each.blocks for each in answered if each.blocks is not None]
    rates = [each.tokens / each.forwards for each in costs if each.forwards]
    if rates:
        axis.set(title="Tokens per forward (TPF)", xlabel="tokens per forward", ylabel="requests")
        axis.hist(rates, bins=30, color=_COLORS[2], alpha=0.7)
        return
    axis.set(title="End to end by length", xlabel="output tokens", ylabel="ms")
    lengths = [record.generated for record in answered]
    axis.scatter(lengths, [record.latency_s * 1000 for record in answered], s=9, alpha=0.7, color=_COLORS[2])


def _shares(axis: Axes, named: dict[str, list[float]], color: str) -> None:
    for name, values in named.items():
        if values:
            axis.ecdf(values, label=name, color=color)
            axis.legend(loc="upper left")


def _logarithmic(axis: Axes, which: Literal["x", "y"]) -> None:
    axis.set(**{f"{which}scale": "log"})
    line = axis.xaxis if which == "x" else axis.yaxis
    line.set_major_formatter(_Plain())
    line.set_minor_formatter(_Plain(minor_thresholds=(1.5, 0.7)))
    line.set_tick_params(which="minor", labelsize=7)


class _Plain(LogFormatter):
    """A number as it is. matplotlib's own are formulas, and formulas are off."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return f"{x:g}" if super().__call__(x, pos) else ""
