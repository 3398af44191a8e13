"""What of an unfinished answer may be shown, against a reference that knows how the answer ends."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models

from worker.text import Detokenizer, TextGate

UNDECODED = "\N{REPLACEMENT CHARACTER}"


def pieces(texts: list[str], stop: list[str]) -> list[str]:
    """What a client is sent when the answer grows through `texts`; the last of them is the whole."""
    gate = TextGate(stop)
    return [*(gate.push(text) for text in texts[:-1]), gate.finish(texts[-1])]


def growing(chunks: list[bytes]) -> list[str]:
    """The answer after each chunk, as a detokenizer shows it: undecodable bytes are replaced."""
    total = b"".join(chunks)
    ends = [sum(map(len, chunks[: n + 1])) for n in range(len(chunks))]
    return [total[:end].decode(errors="replace") for end in ends] or [""]


@st.composite
def cut_text(draw: st.DrawFn, alphabet: st.SearchStrategy[str]) -> tuple[str, list[bytes]]:
    """A text and its UTF-8 bytes in random chunks."""
    text = draw(st.text(alphabet, max_size=40))
    data = text.encode()
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=12)))
    return text, [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


CHARACTERS = st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("aé中🙂"))


@given(cut_text(CHARACTERS))
@example(("🙂", [b"\xf0", b"\x9f", b"\x99", b"\x82"]))
def test_a_cut_character_is_sent_once_and_whole(cut: tuple[str, list[bytes]]) -> None:
    text, chunks = cut
    sent = pieces(growing(chunks), stop=[])
    assert "".join(sent) == text
    shown = ""
    for piece, chunk_end in zip(sent, range(1, len(chunks) + 1), strict=True):
        shown += piece
        # Exactly the whole characters: nothing undecoded, and nothing withheld that is decoded, except
        # replacement characters that the text itself ends with here.
        decoder = codecs.getincrementaldecoder("utf-8")()
        whole = decoder.decode(b"".join(chunks[:chunk_end]))
        if chunk_end < len(chunks):
            assert whole.rstrip(UNDECODED) == shown.rstrip(UNDECODED)
        assert text.startswith(shown)


@given(st.lists(st.binary(max_size=6), max_size=10))
@example([b"\xff" * 5, b"a"])
def test_bytes_that_are_no_text_come_out_as_in_the_whole_answer(chunks: list[bytes]) -> None:
    texts = growing(chunks)
    assert "".join(pieces(texts, stop=[])) == texts[-1]


def test_bytes_that_are_no_character_are_held_back_until_something_else_follows() -> None:
    gate = TextGate()
    assert gate.push("a" + 2 * UNDECODED) == "a"
    assert gate.push("a" + 5 * UNDECODED) == ""
    assert gate.push("a" + 5 * UNDECODED + "b") == 5 * UNDECODED + "b"


def byte_fallback() -> Tokenizer:
    """As Llama's and Gemma's: what has no token of its own is bytes, and a run of them is decoded whole."""
    vocabulary = {f"<0x{byte:02X}>": byte for byte in range(256)}
    for word in ("<unk>", "\u2581", "\u2581a", "b"):
        vocabulary[word] = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocabulary, [], byte_fallback=True, unk_token="<unk>"))
    replace = decoders.Replace("\u2581", " ")
    tokenizer.decoder = decoders.Sequence([replace, decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


BYTE_FALLBACK = byte_fallback()


@given(cut_text(st.sampled_from("aé中🙂")))
@example(("🙂你好中文", [bytes([byte]) for byte in "🙂你好中文".encode()]))
@example(("你好中文字", ["你好中文字".encode()[:8], "你好中文字".encode()[8:]]))
def test_a_run_of_bytes_is_sent_once_and_as_text(cut: tuple[str, list[bytes]]) -> None:
    text, chunks = cut
    detokenizer = Detokenizer(BYTE_FALLBACK.decode, BYTE_FALLBACK.encode("b").ids)
    texts = [""]
    for chunk in chunks:
        detokenizer.add(list(chunk))
        texts.append(detokenizer.text)
    assert "".join(pieces(texts, stop=[])) == text


@given(cut_text(st.sampled_from("ab中")), st.lists(st.text(st.sampled_from("ab中"), max_size=4), max_size=3))
@example(("aab", [b"a", b"a", b"b"]), ["ab"])
@example(("aba", [b"aba"]), ["abb", "bab"])
def test_nothing_is_sent_that_may_be_of_a_stop_string(cut: tuple[str, list[bytes]], stop: list[str]) -> None:
    stop = [each for each in stop if each]
    texts = growing(cut[1])
    if any(each in text for each in stop for text in texts):
        return  # the answer has ended before
    sent = pieces(texts, stop)
    assert "".join(sent) == texts[-1]
    shown = ""
    for piece, text in zip(sent[:-1], texts[:-1], strict=True):
        shown += piece
        visible = text.rstrip(UNDECODED)
        # Any place from which a stop string may stand once the answer goes on.
        places = [at for at in range(len(visible)) for s in stop if s.startswith(visible[at:])]
        assert shown == visible[: min(places, default=len(visible))]


def test_a_text_that_the_stop_string_cuts_off_is_never_taken_back() -> None:
    gate = TextGate(["STOP"])
    assert gate.push("one ST") == "one "
    assert gate.push("one STAR STO") == "STAR "
    assert gate.finish("one STAR ") == ""


def test_a_text_goes_on_where_it_was_left() -> None:
    gate = TextGate(["STOP"], sent=4)
    assert gate.push("one") == ""
    assert gate.push("one two") == "two"


def bytes_of(token_ids: list[int]) -> str:
    return bytes(token_ids).decode(errors="replace").removeprefix(" ")


@given(
    st.lists(st.lists(st.integers(0, 255) | st.sampled_from(b" a\xf0\x9f\x99\x82"), max_size=5), max_size=9)
)
@example([[0xF0, 0x9F], [0x99], [0x82]])
def test_the_text_of_chunks_is_the_text_of_the_whole(chunks: list[list[int]]) -> None:
    detokenizer = Detokenizer(bytes_of, [65])
    token_ids: list[int] = []
    for chunk in chunks:
        token_ids += chunk
        assert detokenizer.text_with(chunk) == bytes_of([65, *token_ids])[1:]
        detokenizer.add(chunk)
        assert detokenizer.text == bytes_of([65, *token_ids])[1:]


def test_a_space_that_a_text_loses_at_its_beginning_is_remembered() -> None:
    detokenizer = Detokenizer(bytes_of, [])
    detokenizer.add([32])
    assert detokenizer.text == ""
    detokenizer.add([32])
    assert detokenizer.text == " "


@pytest.mark.parametrize("token_id", [66, 0], ids=["shown", "not shown"])
def test_tokens_are_decoded_about_twice(token_id: int) -> None:
    decoded = 0

    def decode(token_ids: list[int]) -> str:
        nonlocal decoded
        decoded += len(token_ids)
        return bytes_of([each for each in token_ids if each != 0])

    detokenizer = Detokenizer(decode, [65])
    for _ in range(100):
        detokenizer.add([token_id] * 32)
    assert decoded < 3.1 * 3200
