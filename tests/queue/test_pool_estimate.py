"""What is known of a prompt before it is tokenized."""

from __future__ import annotations

from dllm_stack.messages import ChatPrompt, Decoding, Job, Prompt, TextPrompt, TokenPrompt
from dllm_stack.queue.estimate import estimate, prefixes, prompt_bytes, session_hash


def job(prompt: Prompt, max_tokens: int | None = None, tenant: str = "me", session: str | None = None) -> Job:
    decoding = Decoding(max_tokens=max_tokens)
    return Job(
        id="0", pool="p", gateway="g", prompt=prompt, decoding=decoding, tenant=tenant, session=session
    )


def tokens(prompt: Prompt, max_tokens: int | None) -> tuple[int, int]:
    return estimate(job(prompt, max_tokens), prompt_bytes(prompt))


def test_a_guess_counts_prompt_and_answer() -> None:
    assert tokens(TokenPrompt([5] * 7), 10) == (7, 17)
    assert tokens(TextPrompt("word" * 7), None) == (7, 7 + 512)
    assert tokens(TextPrompt("word" * 7), 100_000) == (7, 7 + 512)
    assert tokens(TextPrompt(""), 0) == (0, 1)
    prompt, _ = tokens(ChatPrompt([{"role": "user", "content": "word" * 100}]), 1)
    assert 100 <= prompt <= 110


def test_what_two_prompts_begin_with_is_seen() -> None:
    system = {"role": "system", "content": "s" * 3000}
    turns = [system, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "a" * 3000}]
    hashes = [prefixes(prompt_bytes(ChatPrompt(turns[:n]))) for n in (1, 2, 3)]
    assert [len(found) for found in hashes] == [2 * 16, 2 * 16, 3 * 16]
    assert hashes[0] == hashes[1] == hashes[2][: 2 * 16]
    other = [{"role": "system", "content": "s" * 2000 + "t" * 1000}]
    assert prefixes(prompt_bytes(ChatPrompt(other)))[:16] == hashes[0][:16]
    assert prefixes(prompt_bytes(ChatPrompt(other)))[16:] != hashes[0][16:]
    with_tools = ChatPrompt(turns, tools=[{"type": "function"}])
    assert prefixes(prompt_bytes(with_tools))[:16] != hashes[0][:16]
    assert prefixes(b"short") == ""


def test_sessions_belong_to_their_tenant() -> None:
    prompt = TextPrompt("hi")
    mine, same, yours = (
        session_hash(job(prompt, session="s", tenant=tenant)) for tenant in ("me", "me", "you")
    )
    assert mine == same != yours
    assert session_hash(job(prompt)) == ""
