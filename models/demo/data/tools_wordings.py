# ruff: noqa: RUF001 - Chinese punctuation looks like Latin punctuation
"""How people ask for what a tool does, and what is said of a weather that a tool returned."""

from __future__ import annotations

from models.demo.data.example import Language
from models.demo.data.wordings import Wordings

QUESTIONS: dict[tuple[str, Language], Wordings] = {
    ("get_weather", "en"): Wordings(
        "en",
        """
        tell me the weather in {city}
        check the weather in {city}
        get the weather for {city}
        look up the weather in {city}
        """,
        """
        What is the weather in {city}?
        What's the weather like in {city}?
        How is the weather in {city} today?
        How is the weather in {city}?
        Is it raining in {city}?
        Is it cold in {city}?
        Weather in {city}?
        Do I need an umbrella in {city}?
        I am going to {city}. How is the weather there?
        """,
        "I fly to {city}, will I need a coat?",
    ),
    ("get_time", "en"): Wordings(
        "en",
        """
        tell me the time in {city}
        check the time in {city}
        get the local time of {city}
        """,
        """
        What time is it in {city}?
        What is the time in {city}?
        What time is it now in {city}?
        What is the local time in {city}?
        Time in {city}?
        """,
        "What does a clock in {city} show?",
    ),
    ("send_message", "en"): Wordings(
        "en",
        """
        send "{text}" to {name}
        send {name} the message "{text}"
        send a message to {name}: "{text}"
        tell {name}: "{text}"
        write "{text}" to {name}
        message {name} "{text}"
        text {name} "{text}"
        """,
        unseen='{name} should know this: "{text}"',
    ),
    ("add", "en"): Wordings(
        "en",
        """
        add {a} and {b} with the tool
        use the tool to add {a} and {b}
        use the tool for {a} + {b}
        calculate {a} + {b} with your tool
        """,
        "With the tool, what is {a} + {b}?\nWhat does the tool say for {a} plus {b}?",
        "Let the tool find out how much {a} and {b} make.",
    ),
    ("set_timer", "en"): Wordings(
        "en",
        """
        set a timer for {minutes} minutes
        start a timer of {minutes} minutes
        start a {minutes} minute timer
        set a {minutes}-minute timer
        remind me in {minutes} minutes
        """,
        "Timer for {minutes} minutes\nI need a timer for {minutes} minutes.",
        "Ring when {minutes} minutes have passed.",
    ),
    ("get_weather", "zh"): Wordings(
        "zh",
        "告诉我{city}的天气\n查一下{city}的天气\n查询{city}天气",
        """
        {city}的天气怎么样？
        今天{city}天气如何？
        {city}天气好吗？
        {city}下雨吗？
        {city}冷不冷？
        我要去{city}，天气怎么样？
        """,
        "去{city}要不要带伞？",
    ),
    ("get_time", "zh"): Wordings(
        "zh",
        "告诉我{city}的时间\n查一下{city}的时间",
        "{city}现在几点？\n现在{city}几点了？\n{city}是什么时间？",
        "{city}的钟上是几点？",
    ),
    ("send_message", "zh"): Wordings(
        "zh",
        """
        给{name}发消息：“{text}”
        告诉{name}：“{text}”
        给{name}发“{text}”
        发消息“{text}”给{name}
        """,
        unseen="要让{name}知道：“{text}”",
    ),
    ("add", "zh"): Wordings(
        "zh",
        "用工具计算{a}加{b}\n用工具算{a} + {b}\n使用工具把{a}和{b}相加",
        "工具算出{a}加{b}是多少？",
        "让工具看看{a}同{b}合起来是多少。",
    ),
    ("set_timer", "zh"): Wordings(
        "zh",
        "设置{minutes}分钟的计时器\n开始{minutes}分钟的计时\n定时{minutes}分钟\n{minutes}分钟后提醒我",
        "我需要一个{minutes}分钟的计时器。",
        "过{minutes}分钟就响铃。",
    ),
}
TEXTS: dict[Language, list[str]] = {
    "en": [
        "I am late",
        "See you soon",
        "Dinner is ready",
        "Good morning",
        "Call me back",
        "Happy birthday",
        "I am at home",
        "The train is late",
        "Thank you",
        "Where are you?",
    ],
    "zh": [
        "我迟到了",
        "一会儿见",
        "饭好了",
        "早上好",
        "给我回电话",
        "生日快乐",
        "我在家",
        "火车晚点了",
        "谢谢你",
        "你在哪里？",
    ],
}
WEATHER: dict[Language, list[str]] = {
    "en": ["sunny", "cloudy", "rainy", "windy", "snowy", "foggy", "stormy"],
    "zh": ["晴", "多云", "下雨", "刮风", "下雪", "有雾", "有暴风雨"],
}
REPORTS: dict[Language, str] = {
    "en": "It is {weather} in {city}, {degrees} degrees.",
    "zh": "{city}现在{weather}，{degrees}度。",
}
