"""Why a checkpoint is not there."""

from __future__ import annotations


class FetchError(Exception):
    """The download has failed; another try may not."""


class FetchRefused(Exception):
    """Settings with which no try can succeed, or none should."""
