"""A progress bar on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


@contextmanager
def bar(
    console: Console, what: str, total: int, done: int = 0, *, shown: bool
) -> Iterator[Callable[[bool], None]]:
    """Gives what is to be called with each one's success."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[failed]}"),
    )
    # Four times a second, however many end.
    with Progress(*columns, console=console, disable=not shown, refresh_per_second=4) as progress:
        task = progress.add_task(what, total=total, completed=done, failed="")
        failed = 0

        def advance(success: bool) -> None:
            nonlocal failed
            failed += not success
            progress.update(task, advance=1, failed=f"{failed} failed" if failed else "")

        yield advance
