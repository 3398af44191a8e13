"""LLaDA2, as SGLang has it."""

from sglang.srt.models.llada2 import EntryClass

__all__ = ["EntryClass"]
