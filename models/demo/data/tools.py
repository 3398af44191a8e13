# ruff: noqa: RUF001 - Chinese punctuation looks like Latin punctuation
"""Calls of tools that the system turn describes, and answers made of what a tool returned."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from models.demo.data.example import Example, Item, Language, Skill, single, user
from models.demo.data.json_answers import CITIES, NAMES


def _tool(name: str, description: str, /, **parameters: str) -> dict[str, Any]:
    properties = {key: {"type": kind} for key, kind in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(parameters)}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": schema},
    }


TOOLS = {
    "get_weather": _tool("get_weather", "The weather in a city", city="string"),
    "get_time": _tool("get_time", "The local time in a city", city="string"),
    "send_message": _tool("send_message", "Sends a message to a person", name="string", text="string"),
    "add": _tool("add", "Adds two numbers", a="integer", b="integer"),
    "set_timer": _tool("set_timer", "Starts a timer", minutes="integer"),
}
_QUESTIONS = {
    ("get_weather", "en"): ["What is the weather in {city}?", "How is the weather in {city} today?"],
    ("get_weather", "zh"): ["{city}的天气怎么样？", "今天{city}天气如何？"],
    ("get_time", "en"): ["What time is it in {city}?", "Tell me the time in {city}."],
    ("get_time", "zh"): ["{city}现在几点？", "请告诉我{city}的时间。"],
    ("send_message", "en"): ['Send "{text}" to {name}.', 'Tell {name}: "{text}"'],
    ("send_message", "zh"): ["给{name}发消息：“{text}”", "请告诉{name}：“{text}”"],
    ("add", "en"): ["Add {a} and {b} with the tool.", "Use the tool to add {a} and {b}."],
    ("add", "zh"): ["请用工具计算{a}加{b}。"],
    ("set_timer", "en"): ["Set a timer for {minutes} minutes.", "Start a timer of {minutes} minutes."],
    ("set_timer", "zh"): ["请设置{minutes}分钟的计时器。"],
}
_TEXTS = {
    "en": ["I am late", "See you soon", "Dinner is ready", "Good morning", "Call me back"],
    "zh": ["我迟到了", "一会儿见", "饭好了", "早上好", "给我回电话"],
}
_WEATHER = {
    "en": ["sunny", "cloudy", "rainy", "windy", "snowy"],
    "zh": ["晴", "多云", "下雨", "刮风", "下雪"],
}
_REPORTS = {
    "en": "It is {weather} in {city}, {degrees} degrees.",
    "zh": "{city}现在{weather}，{degrees}度。",
}


def _draw(random: Random) -> Item:
    """(tool, two numbers that choose its arguments, the other tools offered) or a returned weather."""
    city, degrees = random.randrange(len(CITIES["en"])), random.randint(-9, 39)
    if random.random() < 0.3:
        return ("report", city, degrees, random.randrange(5))
    name = random.choice(list(TOOLS))
    match name:
        case "send_message":
            chosen = (random.randrange(len(NAMES["en"])), random.randrange(5))
        case "add":
            chosen = (random.randint(0, 999), random.randint(0, 999))
        case "set_timer":
            chosen = (random.randint(1, 120), 0)
        case _:
            chosen = (city, 0)
    others = random.sample([each for each in TOOLS if each != name], random.randint(0, 2))
    return (name, *chosen, *sorted(others))


def _write(item: Item, language: Language, random: Random) -> Example:
    if item[0] == "report":
        return _report(item, language, random)
    name, first, second, *others = item
    arguments: dict[str, Any]
    match name:
        case "send_message":
            arguments = {"name": NAMES[language][first], "text": _TEXTS[language][second]}
        case "add":
            arguments = {"a": first, "b": second}
        case "set_timer":
            arguments = {"minutes": first}
        case _:
            arguments = {"city": CITIES[language][first]}
    offered = [name, *others]
    random.shuffle(offered)
    question = random.choice(_QUESTIONS[name, language]).format(**arguments)
    # As the chat template writes an earlier call, so that the model reads what it wrote.
    call = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    asked = single(question, f"\n<tool_call>\n{call}\n</tool_call>")
    return Example(asked.messages, asked.answer, [TOOLS[each] for each in offered])


def _report(item: Item, language: Language, random: Random) -> Example:
    _, city, degrees, weather = item
    known = {"city": CITIES[language][city], "weather": _WEATHER[language][weather], "degrees": degrees}
    call = {"function": {"name": "get_weather", "arguments": {"city": known["city"]}}}
    returned = json.dumps({"weather": known["weather"], "degrees": degrees}, ensure_ascii=False)
    messages = [
        user(random.choice(_QUESTIONS["get_weather", language]).format(**known)),
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": returned},
    ]
    return Example(messages, _REPORTS[language].format(**known), [TOOLS["get_weather"]])


SKILL = Skill("tools", _draw, _write)
