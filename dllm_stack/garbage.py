"""What a process has made when it begins to serve is no garbage."""

from __future__ import annotations

import gc

# Python's own 700 is reached by the objects of a handful of requests under way: each would be looked through
# three times, to find none that nobody holds. A collection of so many takes about a millisecond.
MOST_NEW = 20_000


def keep() -> None:
    """Leaves all that is there now out of every later collection. Modules and schemas are a hundred thousand
    objects; to look through them, every few hundred requests, would keep all streams waiting for 30 ms."""
    gc.set_threshold(MOST_NEW, 10, 10)
    gc.collect()
    gc.freeze()
    # A full collection waits for a quarter as much as the last one left, which was all that is frozen now.
    gc.collect()
