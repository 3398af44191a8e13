"""Calls of tools that the system turn describes, and answers made of what a tool returned."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from models.demo.data.example import Example, Item, Language, Skill, single, user
from models.demo.data.json_answers import CITIES, NAMES
from models.demo.data.tools_wordings import QUESTIONS, REPORTS, TEXTS, WEATHER


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


def _draw(random: Random) -> Item:
    """(tool, two numbers that choose its arguments, the other tools offered) or a returned weather."""
    city, degrees = random.randrange(len(CITIES["en"])), random.randint(-9, 39)
    if random.random() < 0.3:
        return ("report", city, degrees, random.randrange(len(WEATHER["en"])))
    name = random.choice(list(TOOLS))
    match name:
        case "send_message":
            chosen = (random.randrange(len(NAMES["en"])), random.randrange(len(TEXTS["en"])))
        case "add":
            chosen = (random.randint(0, 999), random.randint(0, 999))
        case "set_timer":
            chosen = (random.randint(1, 120), 0)
        case _:
            chosen = (city, 0)
    others = random.sample([each for each in TOOLS if each != name], random.randint(0, 2))
    return (name, *chosen, *sorted(others))


def _write(item: Item, language: Language, random: Random, unseen: bool) -> Example:
    if item[0] == "report":
        return _report(item, language, random, unseen)
    name, first, second, *others = item
    arguments: dict[str, Any]
    match name:
        case "send_message":
            arguments = {"name": NAMES[language][first], "text": TEXTS[language][second]}
        case "add":
            arguments = {"a": first, "b": second}
        case "set_timer":
            arguments = {"minutes": first}
        case _:
            arguments = {"city": CITIES[language][first]}
    offered = [name, *others]
    random.shuffle(offered)
    question = QUESTIONS[name, language].choose(random, unseen).format(**arguments)
    # As the chat template writes an earlier call, so that the model reads what it wrote.
    call = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    asked = single(question, f"\n<tool_call>\n{call}\n</tool_call>")
    return Example(asked.messages, asked.answer, [TOOLS[each] for each in offered])


def _report(item: Item, language: Language, random: Random, unseen: bool) -> Example:
    _, city, degrees, weather = item
    known = {"city": CITIES[language][city], "weather": WEATHER[language][weather], "degrees": degrees}
    call = {"function": {"name": "get_weather", "arguments": {"city": known["city"]}}}
    returned = json.dumps({"weather": known["weather"], "degrees": degrees}, ensure_ascii=False)
    messages = [
        user(QUESTIONS["get_weather", language].choose(random, unseen).format(**known)),
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": returned},
    ]
    return Example(messages, REPORTS[language].format(**known), [TOOLS["get_weather"]])


SKILL = Skill("tools", _draw, _write)
