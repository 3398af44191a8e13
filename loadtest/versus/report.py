"""The tables that a run prints."""

from __future__ import annotations

import math

from loadtest.versus.results import Results
from loadtest.versus.speed import Measured
from loadtest.versus.stands import DIRECT, OURS

_WIDTH = 22


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
    return f"{value:.1f}" if direct is None else f"{value - direct.ms(times, percent):+.1f}"


def memory(results: Results) -> str:
    return "MiB after the load: " + ", ".join(
        f"{name} {size / 2**20:.0f}" for name, size in results.memory.items() if size
    )


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
