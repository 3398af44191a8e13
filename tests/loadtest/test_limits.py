"""What the load on limits counts of what its clients have seen."""

from __future__ import annotations

from dllm_stack.tenants import Limits
from loadtest.limits import Minutes, Sent, Tally, minutes, most_open


def test_a_minute_holds_what_surely_began_in_it() -> None:
    tally = Tally(Limits(requests_per_minute=2))
    tally.sent = [
        Sent(sent=1.0, first=1.5, ended=2.0, least=10, most=20),
        Sent(sent=59.0, first=59.5, ended=60.0, least=30, most=30),
        Sent(sent=60.3, first=60.8, ended=61.0, least=5, most=5),
    ]
    assert minutes(tally, 0.0, 60.0, tokens=False) == Minutes(fullest=2, emptiest=2)
    # From 1.25 on the first may have begun before, or not.
    assert minutes(tally, 1.25, 61.25, tokens=False) == Minutes(fullest=2, emptiest=3)
    assert minutes(tally, 0.0, 61.25, tokens=True) == Minutes(fullest=40, emptiest=50)


def test_how_many_were_open_at_once() -> None:
    tally = Tally(Limits(concurrency=1))
    tally.sent = [Sent(0, 1, 2, 0, 0), Sent(0, 1.5, 3, 0, 0), Sent(0, 2.0, 4, 0, 0)]
    assert most_open(tally) == 2
