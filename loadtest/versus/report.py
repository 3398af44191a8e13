"""The tables that a run prints."""

from __future__ import annotations

import math

from loadtest.versus.results import Results
from loadtest.versus.speed import Measured, Workload
from loadtest.versus.stands import DIRECT, OURS

_WIDTH, _CELL = 22, 13


def speed(results: Results, workload: str) -> str:
    """Times of direct, and what each gateway adds to them."""
    lines = [
        f"{workload:<{_WIDTH}}  TTFT p50      p99   whole p50      p99  requests/s  CPU ms  wrong",
    ]
    direct = results.speed.get((DIRECT, workload))
    for name, version in results.versions.items():
        measured = results.speed[name, workload]
        base = None if name == DIRECT else direct
        cells = [
            _ms(measured, base, times, percent) for times in ("ttft_s", "total_s") for percent in (50, 99)
        ]
        cpu = f"{measured.cpu_ms():7.2f}" if measured.cpu_s else " " * 7
        lines.append(
            f"{f'{name} {version}':<{_WIDTH}} {cells[0]:>9} {cells[1]:>8}   {cells[2]:>9} {cells[3]:>8}"
            f"  {measured.rate:10.1f} {cpu}  {measured.wrong or '':>5}"
        )
    if ours := results.speed.get((OURS, workload)):
        parts = sorted(ours.cpu_s, key=ours.cpu_ms, reverse=True)
        lines.append(f"  {OURS}'s CPU ms: " + ", ".join(f"{each} {ours.cpu_ms(each):.2f}" for each in parts))
    return "\n".join(lines)


def _ms(measured: Measured, direct: Measured | None, times: str, percent: int) -> str:
    value = measured.ms(times, percent)
    return f"{value:.2f}" if direct is None else f"{value - direct.ms(times, percent):+.2f}"


def summary(results: Results, workloads: list[Workload]) -> str:
    """Of one client what is added to its median TTFT, of many the requests a second and what one costs."""
    heads = [workload.name.partition(", ") for workload in workloads]
    lines = [
        " " * _WIDTH + "".join(f"{head[row]:>{_CELL}}" for head in heads) + f"{last:>6}"
        for row, last in ((0, ""), (2, "MiB"))
    ]
    for name, version in results.versions.items():
        cells = [f"{_cell(results, name, workload):>{_CELL}}" for workload in workloads]
        size = results.memory[name] / 2**20
        cells.append(f"{size:6.0f}" if size else "")
        lines.append(f"{f'{name} {version}':<{_WIDTH}}" + "".join(cells))
    return "\n".join(lines)


def _cell(results: Results, name: str, workload: Workload) -> str:
    measured, direct = results.speed[name, workload.name], results.speed.get((DIRECT, workload.name))
    if workload.clients > 1:
        return f"{measured.rate:.0f}/s" + (f" {measured.cpu_ms():5.2f}" if measured.cpu_s else "")
    return _ms(measured, None if name == DIRECT else direct, "ttft_s", 50)


def trials(results: Results) -> str:
    heads = [
        ("light tenant at 2 x load", "TTFT p50     p99  no text"),
        ("engine killed: lost", "streams       JSON   longest"),
        ("herd gone: engines", "free after  left   honest"),
    ]
    lines = ["   ".join([" " * _WIDTH, *(f"{head[row]:<28}" for head in heads)]) for row in (0, 1)]
    for name, found in results.trials.items():
        overload, killed, herd = found.overload, found.killed, found.herd
        none = _of(overload.unanswered, len(overload.ttft_s))
        lost = [_of(lost, asked) for lost, asked in zip(killed.lost, killed.asked, strict=True)]
        cells = [
            f"{overload.ms(50):8.0f} {overload.ms(99):7.0f} {none:>8}",
            f"{lost[0]:>8} {lost[1]:>10} {_s(killed.longest_s):>9}",
            f"{_s(herd.freed_s):>10} {herd.left:5d} {_of(herd.right, herd.asked):>8}",
        ]
        lines.append(
            "   ".join(
                [f"{f'{name} {results.versions[name]}':<{_WIDTH}}", *(f"{c:<28}" for c in cells)]
            ).rstrip()
        )
    return "\n".join(lines)


def _of(part: int, whole: int) -> str:
    return f"{part} of {whole}"


def _s(seconds: float) -> str:
    return f"{seconds:.2f} s" if math.isfinite(seconds) else "never"
