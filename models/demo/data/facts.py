# ruff: noqa: RUF001 - Chinese punctuation looks like Latin punctuation
"""Short paragraphs about a closed set of subjects, small talk, and "I do not know" about the rest.

The subjects are all trained on: what is held out is a subject in one of its wordings.
"""

from __future__ import annotations

from random import Random

from models.demo.data.example import Example, Item, Language, Skill, single
from models.demo.data.subjects import SUBJECTS, UNKNOWN

_PARAGRAPH = {
    "en": [
        "Write a brief introduction of {}",
        "What is {}?",
        "Tell me about {}.",
        "Write a brief introduction of {}.",
        "Describe {}.",
        "Please introduce {}.",
        "Write a short paragraph about {}.",
        "Can you tell me something about {}?",
        "I want to know more about {}.",
        "Explain {} briefly.",
    ],
    "zh": [
        "请介绍一下{}",
        "什么是{}？",
        "给我讲讲{}。",
        "请介绍一下{}。",
        "描述一下{}。",
        "请简单介绍{}。",
        "写一段关于{}的短文。",
        "你能说说{}吗？",
        "我想多了解{}。",
        "请简单解释{}。",
    ],
}
_SENTENCE = {
    "en": [
        "Describe {} in one sentence.",
        "What is {}, in one sentence?",
        "One sentence about {}, please.",
        "In one sentence, explain {}.",
    ],
    "zh": ["用一句话介绍{}。", "请用一句话描述{}。", "用一句话说说{}。", "一句话解释{}。"],
}
_IGNORANCE = {
    "en": "I do not know enough about {}. I am a small demo model and know only a few subjects.",
    "zh": "我对{}了解不够。我是一个小型演示模型，只知道少数主题。",
}
_TALK = {
    "en": [
        (["Hello", "Hi", "Hello!", "Hi!", "Hello there!", "Good morning!"], "Hello! How can I help you?"),
        (
            ["Who are you?", "What are you?", "Tell me about yourself.", "Introduce yourself."],
            "I am a small diffusion language model, made to show how blocks of text are decoded in parallel.",
        ),
        (
            ["What can you do?", "How can you help me?", "What are you good at?"],
            "I can count, calculate in steps, sort lists, write small Python functions, answer in JSON and "
            "write about a few subjects.",
        ),
        (["Thank you", "Thanks", "Thank you!", "Thanks a lot!"], "You are welcome!"),
        (["Goodbye", "Bye", "Goodbye!", "See you!"], "Goodbye!"),
    ],
    "zh": [
        (["你好", "您好", "你好！", "您好！", "嗨！", "早上好！"], "你好！有什么可以帮你的吗？"),
        (
            ["你是谁？", "你是什么？", "介绍一下你自己。", "请自我介绍。"],
            "我是一个小型扩散语言模型，用来展示如何并行地解码一块块文字。",
        ),
        (
            ["你会做什么？", "你能帮我什么？", "你擅长什么？"],
            "我会数数、一步一步计算、给列表排序、写简单的Python函数、用JSON回答，还能介绍一些主题。",
        ),
        (["谢谢", "谢谢你", "谢谢！", "非常感谢！"], "不客气！"),
        (["再见", "拜拜", "再见！", "回头见！"], "再见！"),
    ],
}


def _draw(random: Random) -> Item:
    """(kind, what, wording)."""
    match random.choices(["paragraph", "sentence", "talk", "unknown"], [6, 2, 1, 1])[0]:
        case "paragraph":
            return ("paragraph", random.choice(list(SUBJECTS)), random.randrange(len(_PARAGRAPH["en"])))
        case "sentence":
            return ("sentence", random.choice(list(SUBJECTS)), random.randrange(len(_SENTENCE["en"])))
        case "talk":
            topic = random.randrange(len(_TALK["en"]))
            return ("talk", topic, random.randrange(len(_TALK["en"][topic][0])))
        case _:
            return ("unknown", random.randrange(len(UNKNOWN["en"])), random.randrange(len(_PARAGRAPH["en"])))


def _write(item: Item, language: Language, random: Random) -> Example:
    kind, what, wording = item
    match kind:
        case "paragraph":
            name, text = SUBJECTS[what][language]
            return single(_asked(_PARAGRAPH[language][wording], name, random), text)
        case "sentence":
            name, text = SUBJECTS[what][language]
            stop = "." if language == "en" else "。"
            return single(_asked(_SENTENCE[language][wording], name, random), text.split(stop)[0] + stop)
        case "talk":
            questions, answer = _TALK[language][what]
            return single(questions[wording], answer)
        case _:
            name = UNKNOWN[language][what]
            return single(
                _asked(_PARAGRAPH[language][wording], name, random), _IGNORANCE[language].format(name)
            )


def _asked(wording: str, name: str, random: Random) -> str:
    """The question as people type it: now and then without capitals."""
    question = wording.format(name.lower() if random.random() < 0.3 else name)
    return question.lower() if random.random() < 0.1 else question


SKILL = Skill(
    "facts",
    _draw,
    _write,
    shown=frozenset(
        ("paragraph", subject, wording)
        for subject in ("great_wall", "diffusion_language_model")
        for wording in (0, 1)
    ),
)
