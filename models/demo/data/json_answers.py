# ruff: noqa: RUF001 - Chinese punctuation looks like Latin punctuation
"""A sentence's facts as a JSON object, on request."""

from __future__ import annotations

import json
from random import Random

from models.demo.data.example import Example, Item, Language, Skill, single, words
from models.demo.data.wordings import Wordings

NAMES = {
    "en": words(
        "Anna Ben Clara David Emma Frank Grace Henry Iris Jack Kate Leo Mia Noah Olga Paul "
        "Rosa Sam Tina Victor Wendy Yusuf Zoe Maria Peter Lucy"
    ),
    "zh": words(
        "小明 小红 小华 小丽 小刚 李雷 王芳 张伟 刘洋 陈静 赵强 孙燕 周杰 吴敏 郑浩 林雪 "
        "小王 小李 小张 小陈 黄磊 徐洁 何平 高峰 罗兰 马超"
    ),
}
CITIES = {
    "en": words(
        "Paris London Berlin Rome Madrid Vienna Oslo Lisbon Dublin Athens Prague Warsaw "
        "Boston Tokyo Cairo Lima Sydney Beijing Toronto Chicago"
    ),
    "zh": words(
        "北京 上海 广州 深圳 杭州 南京 成都 武汉 西安 重庆 天津 苏州 青岛 大连 长沙 昆明 东京 纽约 香港 厦门"
    ),
}
JOBS = {
    "en": words(
        "teacher doctor baker farmer pilot painter writer nurse driver lawyer "
        "singer waiter plumber student chemist gardener"
    ),
    "zh": words("老师 医生 厨师 农民 司机 画家 作家 护士 警察 律师 歌手 服务员 工人 学生 记者 园丁"),
}
_SENTENCES = {
    "en": [
        "{name} is {age} years old, lives in {city} and works as a {job}.",
        "{name}, a {age} year old {job}, lives in {city}.",
        "In {city} lives a {job} named {name} who is {age} years old.",
        "{name} ({age}) is a {job} in {city}.",
        "My name is {name}. I am {age} and I work as a {job} in {city}.",
        "The {job} {name} from {city} is {age} years old.",
        "{name} works in {city} as a {job}. {name} is {age}.",
        "At the age of {age}, {name} is a {job} in {city}.",
    ],
    "zh": [
        "{name}今年{age}岁，住在{city}，是一名{job}。",
        "住在{city}的{name}是一名{job}，今年{age}岁。",
        "{name}，{age}岁，{city}的{job}。",
        "我叫{name}，今年{age}岁，在{city}当{job}。",
        "{city}有一名{job}叫{name}，{age}岁。",
        "{age}岁的{job}{name}住在{city}。",
    ],
}
# The sentence may hold anything, so that only what is around it is dressed.
_REQUESTS: dict[Language, Wordings] = {
    "en": Wordings(
        "en",
        """
        answer in JSON with the keys {keys}: {sentence}
        extract {keys} as a JSON object: {sentence}
        extract {keys} as JSON from this: {sentence}
        extract the {keys} from this text as JSON: {sentence}
        return a JSON object with {keys}: {sentence}
        give me {keys} in JSON: {sentence}
        write {keys} as JSON: {sentence}
        convert this to JSON with the keys {keys}: {sentence}
        output JSON with {keys} for this sentence: {sentence}
        turn this into a JSON object with {keys}: {sentence}
        """,
        """
        Answer in JSON with the keys {keys}. {sentence}
        {sentence} Give me {keys} as JSON.
        {sentence} What are {keys}? Answer in JSON.
        {sentence} Return {keys} as a JSON object.
        JSON with {keys}: {sentence}
        Reply only with JSON. Keys: {keys}. Text: {sentence}
        """,
        """
        {sentence} My program reads JSON and looks for {keys}.
        Fill a JSON object that has {keys} from these words: {sentence}
        """,
    ),
    "zh": Wordings(
        "zh",
        """
        用JSON回答，键为{keys}：{sentence}
        从下面的句子提取{keys}，用JSON回答：{sentence}
        把这句话转换成JSON，键为{keys}：{sentence}
        返回含有{keys}的JSON对象：{sentence}
        用JSON给出{keys}：{sentence}
        """,
        """
        请用JSON回答，键为{keys}。{sentence}
        {sentence}请用JSON给出{keys}。
        {sentence}请以JSON格式返回{keys}。
        JSON，键为{keys}：{sentence}
        """,
        "{sentence}我的程序读JSON，要用到{keys}。",
    ),
}
_JOINED: dict[Language, list[str]] = {"en": [", ", ", ", " and ", ","], "zh": [", ", "、", "和", "，"]}
_KEYS = ["name", "age", "city", "job"]


def _draw(random: Random) -> Item:
    keys = random.sample(_KEYS, random.randint(2, 4))
    person = (random.randrange(len(NAMES["en"])), random.randint(5, 95))
    return (*person, random.randrange(len(CITIES["en"])), random.randrange(len(JOBS["en"])), *keys)


def _write(item: Item, language: Language, random: Random, unseen: bool) -> Example:
    name, age, city, job, *keys = item
    facts = {
        "name": NAMES[language][name],
        "age": age,
        "city": CITIES[language][city],
        "job": JOBS[language][job],
    }
    request = _REQUESTS[language].choose(random, unseen)
    sentence = random.choice(_SENTENCES[language]).format(**facts)
    if request.split("{sentence}")[1].startswith(tuple(".!?,。！？，吗")):
        sentence = sentence[:-1]
    answer = json.dumps({key: facts[key] for key in keys}, ensure_ascii=False)
    return single(request.format(keys=random.choice(_JOINED[language]).join(keys), sentence=sentence), answer)


SKILL = Skill("json", _draw, _write)
