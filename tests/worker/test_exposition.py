"""What an engine says of itself, behind the worker's own."""

from __future__ import annotations

from worker.engine.exposition import one_series

FIRST = b'sglang:gen_throughput{model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 8.0\n'
TEXT = b"# HELP sglang:gen_throughput Tokens a second.\n# TYPE sglang:gen_throughput gauge\n" + FIRST


def test_other_ranks_count_the_same_again() -> None:
    others = [
        FIRST.replace(b'%s="0"' % rank, b'%s="1"' % rank) for rank in (b"tp_rank", b"pp_rank", b"moe_ep_rank")
    ]
    assert one_series(TEXT + b"".join(others)) == TEXT


def test_data_parallel_ranks_count_each_their_own() -> None:
    second = FIRST.replace(b"pp_rank", b"dp_rank").replace(b'dp_rank="0"', b'dp_rank="1"')
    assert one_series(TEXT + second) == TEXT + second


def test_a_process_is_not_told() -> None:
    assert one_series(TEXT.replace(b"pp_rank", b'pid="123",pp_rank')) == TEXT
