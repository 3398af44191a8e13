"""Qwen3, as SGLang has it."""

from sglang.srt.models.qwen3 import EntryClass

__all__ = ["EntryClass"]
