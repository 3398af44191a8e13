# ruff: noqa: RUF001 - Chinese punctuation looks like Latin punctuation
"""A sentence's facts as a JSON object, on request."""

from __future__ import annotations

import json
from random import Random

from models.demo.data.example import Example, Item, Language, Skill, single, words

NAMES = {
    "en": words("Anna Ben Clara David Emma Frank Grace Henry Iris Jack Kate Leo Mia Noah Olga Paul"),
    "zh": words("小明 小红 小华 小丽 小刚 李雷 王芳 张伟 刘洋 陈静 赵强 孙燕 周杰 吴敏 郑浩 林雪"),
}
CITIES = {
    "en": words("Paris London Berlin Rome Madrid Vienna Oslo Lisbon Dublin Athens Prague Warsaw"),
    "zh": words("北京 上海 广州 深圳 杭州 南京 成都 武汉 西安 重庆 天津 苏州"),
}
JOBS = {
    "en": words("teacher doctor baker farmer pilot painter writer nurse driver lawyer"),
    "zh": words("老师 医生 厨师 农民 司机 画家 作家 护士 警察 律师"),
}
_SENTENCES = {
    "en": [
        "{name} is {age} years old, lives in {city} and works as a {job}.",
        "{name}, a {age} year old {job}, lives in {city}.",
        "In {city} lives a {job} named {name} who is {age} years old.",
    ],
    "zh": [
        "{name}今年{age}岁，住在{city}，是一名{job}。",
        "住在{city}的{name}是一名{job}，今年{age}岁。",
    ],
}
_REQUESTS = {
    "en": [
        "Answer in JSON with the keys {keys}. {sentence}",
        "{sentence} Give me {keys} as JSON.",
        "Extract {keys} as a JSON object: {sentence}",
    ],
    "zh": ["请用JSON回答，键为{keys}。{sentence}", "{sentence}请用JSON给出{keys}。"],
}
_KEYS = ["name", "age", "city", "job"]


def _draw(random: Random) -> Item:
    keys = random.sample(_KEYS, random.randint(2, 4))
    person = (random.randrange(len(NAMES["en"])), random.randint(5, 95))
    return (*person, random.randrange(len(CITIES["en"])), random.randrange(len(JOBS["en"])), *keys)


def _write(item: Item, language: Language, random: Random) -> Example:
    name, age, city, job, *keys = item
    facts = {
        "name": NAMES[language][name],
        "age": age,
        "city": CITIES[language][city],
        "job": JOBS[language][job],
    }
    request = random.choice(_REQUESTS[language])
    sentence = random.choice(_SENTENCES[language]).format(**facts)
    answer = json.dumps({key: facts[key] for key in keys}, ensure_ascii=False)
    return single(request.format(keys=", ".join(keys), sentence=sentence), answer)


SKILL = Skill("json", _draw, _write)
