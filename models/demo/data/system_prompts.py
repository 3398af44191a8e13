"""What systems tell the model before a conversation; no answer depends on it."""

from __future__ import annotations

from models.demo.data.example import Language

SYSTEM_PROMPTS: dict[Language, list[str]] = {
    "en": [
        "You are a helpful assistant.",
        "You are a helpful assistant",
        "You are a helpful, harmless and honest assistant.",
        "You are a friendly AI assistant.",
        "You are an AI model.",
        "You are a small language model.",
        "You are a chat bot. Help the user.",
        "Be brief.",
        "Be concise and correct.",
        "Answer as well as you can.",
        "Answer the user's questions.",
        "Think before you answer.",
        "Follow the user's instructions.",
        "Reply in the language of the user.",
        "Today is a good day. Be polite.",
        "You answer questions for the guests of a web site.",
    ],
    "zh": [
        "你是一个有用的助手。",
        "你是一个友好的人工智能助手。",
        "你是一个乐于助人的AI助手。",
        "你是一个小型语言模型。",
        "请简短回答。",
        "请认真回答用户的问题。",
        "请用用户的语言回答。",
        "按照用户的要求回答。",
        "回答前请先想一想。",
        "请礼貌地回答。",
        "You are a helpful assistant.",
    ],
}
