"""Grafana's ids of units, as far as they are used."""

from __future__ import annotations

from enum import StrEnum


class Unit(StrEnum):
    SECONDS = "s"
    BYTES = "bytes"
    BYTES_A_SECOND = "Bps"
    SHARE = "percentunit"  # 1 is 100 %
    NUMBER = "short"
    A_SECOND = "cps"
    REQUESTS_A_SECOND = "reqps"
    OPERATIONS_A_SECOND = "ops"
    TOKENS_A_SECOND = "suffix: tok/s"
    DOLLARS = "currencyUSD"
    YES_OR_NO = "bool_yes_no"
    PERCENT = "percent"
    WATTS = "watt"
