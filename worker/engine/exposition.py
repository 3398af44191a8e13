"""What an SGLang server says of itself at its /metrics, made fit to stand behind the worker's own."""

from __future__ import annotations

import re

# Ranks of one engine count the same requests. SGLang lets only the first of each kind tell, unless it is
# started with --enable-metrics-for-all-schedulers.
_OTHER_RANK = re.compile(rb'[{,](?:tp|pp|moe_ep)_rank="(?!0")')
# Two of its gauges have the process among their labels, and so would begin anew with every start.
_PROCESS = re.compile(rb'(?<=[{,])pid="[^"]*",?')


def one_series(text: bytes) -> bytes:
    """Drops what ranks other than the first say, and process numbers."""
    lines = (line for line in text.splitlines(keepends=True) if not _OTHER_RANK.search(line))
    return b"".join(_PROCESS.sub(b"", line, count=1) for line in lines)
