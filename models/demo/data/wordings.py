# ruff: noqa: RUF001 - Chinese punctuation looks like Latin punctuation
"""The ways of asking for one thing: those trained on, dressed as people dress them, and those kept back."""

from __future__ import annotations

from random import Random

from models.demo.data.example import Language

# Around a request ("count to {}") and around a question ("What is {}?").
_AROUND_REQUEST: dict[Language, list[str]] = {
    "en": [
        *["{}"] * 6,
        *["please {}"] * 2,
        *["can you {}?"] * 2,
        "{} please",
        "could you {}?",
        "can you please {}?",
        "would you {}?",
        "will you {} for me?",
        "I need you to {}",
        "I want you to {}",
        "I'd like you to {}",
        "help me: {}",
        "hi, {}",
        "hello! Please {}",
        "OK, {}",
        "now {}",
        "your task: {}",
        "{}, thanks",
    ],
    "zh": [
        *["{}"] * 5,
        *["请{}"] * 3,
        *["请你{}", "帮我{}", "请帮我{}", "麻烦你{}", "麻烦{}", "我想让你{}", "我需要你{}", "你好，请{}"],
        *["你能{}吗？", "能不能{}？", "可以{}吗？", "可以帮我{}吗？", "现在{}", "好，{}", "{}，谢谢"],
    ],
}
_AROUND_QUESTION: dict[Language, list[str]] = {
    "en": [*["{}"] * 12, "Hi, {}", "Hello! {}", "I have a question: {}", "Tell me: {}", "Quick question: {}"],
    "zh": [*["{}"] * 10, "请问{}", "你好，{}", "我想问一下，{}", "告诉我：{}", "请回答：{}"],
}
_ENDS: dict[Language, list[str]] = {
    "en": [".", ".", ".", "", "", "!"],
    "zh": ["。", "。", "。", "", "", "！"],
}
_AS_WRITTEN_SHARE = 0.2
# The first wording is the one that is shown: asked for as it stands more often than the others.
_FIRST_SHARE = 0.08
_WITHOUT_CAPITALS_SHARE = 0.2
_WITHOUT_QUESTION_MARK_SHARE = 0.15


class Wordings:
    """Templates for str.format, one a line of each text.

    Requests are verbs in the imperative ("count to {}"), without a final stop; questions are whole sentences.
    The unseen are whole sentences too, never trained on, to see how the model does on others' words.
    """

    def __init__(self, language: Language, requests: str = "", questions: str = "", unseen: str = "") -> None:
        self._language = language
        self._requests = _lines(requests)
        self._seen = self._requests + _lines(questions)
        self._unseen = _lines(unseen)

    def __len__(self) -> int:
        return len(self._seen)

    def place(self, wording: str) -> int:
        return self._seen.index(wording)

    def choose(self, random: Random, unseen: bool) -> str:
        if not unseen and random.random() < _FIRST_SHARE:
            return _capitalized(self._seen[0])
        return self.numbered(0, 1, random, unseen)

    def numbered(self, number: int, count: int, random: Random, unseen: bool) -> str:
        """Of the seen, dealt out to `count` places, one of those at place `number`, in some dress; any of the
        unseen where these are wanted."""
        if unseen:
            return random.choice(self._unseen)
        number = random.choice(range(number, len(self), count))
        wording = self._seen[number]
        if number < len(self._requests):
            if random.random() < _AS_WRITTEN_SHARE:
                return _capitalized(wording)
            wording = random.choice(_AROUND_REQUEST[self._language]).replace("{}", wording, 1)
            if wording[-1] not in "?？:：":
                wording += random.choice(_ENDS[self._language])
        elif wording[-1] in "?？":
            wording = random.choice(_AROUND_QUESTION[self._language]).replace("{}", wording, 1)
        if wording[-1] in "?？" and random.random() < _WITHOUT_QUESTION_MARK_SHARE:
            wording = wording[:-1]
        if random.random() < _WITHOUT_CAPITALS_SHARE:
            return wording.lower()
        return _capitalized(wording)


def _capitalized(wording: str) -> str:
    return wording[0].upper() + wording[1:]


class ByThing:
    """Wordings of which some name a {thing}: those, and the others."""

    def __init__(self, language: Language, requests: str = "", questions: str = "", unseen: str = "") -> None:
        texts = [_lines(text) for text in (requests, questions, unseen)]
        about = ["\n".join(line for line in text if "{thing}" in line) for text in texts]
        plain = ["\n".join(line for line in text if "{thing}" not in line) for text in texts]
        self.about = Wordings(language, *about)
        self.plain = Wordings(language, *plain)


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]
