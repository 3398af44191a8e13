"""What a job will cost, and what its prompt begins with, before anybody has tokenized it."""

from __future__ import annotations

from array import array
from hashlib import blake2b
from typing import NamedTuple

from dllm_stack.messages import ChatPrompt, Job, Prompt, TextPrompt, encode

_BYTES_PER_TOKEN = 4  # exact for token ids, as they are packed here; about right for text of any script
LONGEST_GUESS = 512  # tokens of an answer. Few reach a high max_tokens, and the end corrects the guess
FIRST_PREFIX_TOKENS = 256  # less is not worth to look for
_MOST_PREFIXES = 16


class Estimate(NamedTuple):
    """In tokens."""

    prompt: int
    total: int


def prompt_bytes(prompt: Prompt) -> bytes:
    """A prompt such that a conversation's beginning gives a beginning of these bytes."""
    match prompt:
        case ChatPrompt(messages, tools):
            return b"".join(encode(part) for part in [*(tools or []), *messages])
        case TextPrompt(text):
            return text.encode(errors="surrogatepass")
        case _:
            return array("I", prompt.ids).tobytes()


def prompt_tokens(prompt: bytes) -> int:
    return len(prompt) // _BYTES_PER_TOKEN


def estimate(job: Job, prompt: bytes) -> Estimate:
    """The share of its tenant and the load of its worker are counted with this until the job has ended."""
    tokens = prompt_tokens(prompt)
    asked = job.decoding.max_tokens
    answer = LONGEST_GUESS if asked is None else min(asked, LONGEST_GUESS)
    return Estimate(tokens, max(1, tokens + answer))


def prefixes(prompt: bytes) -> str:
    """Hashes of the prompt's beginnings, 16 hex digits each, the shortest first. Each is twice as long as
    the one before: few to keep for a long prompt, and more than half of what two have in common is seen."""
    hashed, behind, length = blake2b(digest_size=8), 0, FIRST_PREFIX_TOKENS * _BYTES_PER_TOKEN
    found: list[str] = []
    while length <= len(prompt) and len(found) < _MOST_PREFIXES:
        hashed.update(prompt[behind:length])
        found.append(hashed.copy().hexdigest())
        behind, length = length, 2 * length
    return "".join(found)


def session_hash(job: Job) -> str:
    """Sessions of different tenants are different. Empty: the job has none."""
    if job.session is None:
        return ""
    return blake2b(encode([job.tenant, job.session]), digest_size=8).hexdigest()
