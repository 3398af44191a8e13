# ruff: noqa: RUF001 - Chinese punctuation looks like Latin punctuation
"""How something is asked of a list, and the words that lists are made of."""

from __future__ import annotations

from models.demo.data.example import Language, words
from models.demo.data.wordings import Wordings

# In Chinese, words are only reversed: they have no order that a small model could know.
WORDS: dict[Language, list[str]] = {
    "en": words(
        "apple ant arrow bear bread boat cat cloud chair dog "
        "door duck eagle egg engine fish flower forest glass "
        "goat green horse hat honey island ice iron jacket juice "
        "jump kite key king lemon leaf lion moon milk "
        "mouse night nest nut ocean orange owl paper pear pen queen quiet river rain red stone sun snow tree "
        "table tiger umbrella uncle village violin water wind wolf yellow yard zebra zoo"
    ),
    "zh": words(
        "山 水 火 木 土 日 月 花 鸟 鱼 马 牛 羊 门 车 船 书 雨 雪 风 云 星 河 海 树 猫 狗 虎 米 茶 酒 肉 "
        "手 口 耳 目 心 田 石 草 竹 春 夏 秋 冬 东 南 西 北 金 银 铜 苹果 香蕉 老师 学生 朋友 学校 城市 天空 "
        "太阳 月亮 大海 森林 火车 飞机 电脑 音乐"
    ),
}
CHOSEN: dict[tuple[str, Language], str] = {
    ("largest", "en"): "The largest is {}.",
    ("smallest", "en"): "The smallest is {}.",
    ("largest", "zh"): "最大的是{}。",
    ("smallest", "zh"): "最小的是{}。",
}
_REVERSE_EN = """
reverse this list: {}
reverse {}
reverse the list {}
reverse the order of {}
write {} in reverse order
write {} backwards
list {} in reverse order
list these backwards: {}
put {} in reverse order
turn this list around: {}
give me {} in reverse
"""
_REVERSE_ZH = """
把这个列表倒过来：{}
把{}倒过来
倒序写出{}
将{}反转
反转列表{}
反转：{}
把{}的顺序反过来
从后往前写出{}
逆序排列{}
"""
QUESTIONS: dict[tuple[str, Language], Wordings] = {
    ("up", "en"): Wordings(
        "en",
        """
        sort this list: {}
        sort {}
        sort: {}
        sort these numbers: {}
        sort the numbers {}
        sort the list {}
        sort the following numbers: {}
        sort {} in ascending order
        sort {} in increasing order
        sort {} from smallest to largest
        sort {} from low to high
        order these numbers: {}
        order {} from smallest to largest
        arrange {} in ascending order
        arrange these numbers from smallest to largest: {}
        put {} in order
        put these numbers in order: {}
        put {} in ascending order
        rank {} from lowest to highest
        write {} in ascending order
        list {} from smallest to biggest
        """,
        """
        {} sorted
        {} in ascending order, please.
        What is {} in sorted order?
        I have {}. Sort them.
        Here are some numbers: {}. Sort them.
        """,
        """
        I have these numbers: {}. Which order is right, the small ones first?
        Line up {} so that they grow.
        """,
    ),
    ("down", "en"): Wordings(
        "en",
        """
        sort {} in descending order
        sort {} in decreasing order
        sort this list in descending order: {}
        sort this list from largest to smallest: {}
        sort these numbers from high to low: {}
        sort these numbers, largest first: {}
        sort {} from biggest to smallest
        order {} from largest to smallest
        arrange {} in descending order
        arrange these numbers from largest to smallest: {}
        put {} in descending order
        put these numbers in descending order: {}
        rank {} from highest to lowest
        write {} in descending order
        """,
        """
        {} in descending order, please.
        What is {} from largest to smallest?
        Here are some numbers: {}. Sort them in descending order.
        """,
        """
        I have these numbers: {}. Which order is right, the big ones first?
        Line up {} so that they shrink.
        """,
    ),
    ("alphabet", "en"): Wordings(
        "en",
        """
        sort these words alphabetically: {}
        sort {} alphabetically
        sort the words {}
        sort these words: {}
        sort {} from A to Z
        sort this list alphabetically: {}
        order these words alphabetically: {}
        put {} in alphabetical order
        put these words in alphabetical order: {}
        arrange {} in alphabetical order
        alphabetize {}
        """,
        "What is the alphabetical order of {}?",
        "In which order would a dictionary have {}?",
    ),
    ("reverse", "en"): Wordings("en", _REVERSE_EN, unseen="Read {} to me from its end to its start."),
    ("reverse words", "en"): Wordings(
        "en",
        _REVERSE_EN + "reverse the order of these words: {}\nwrite these words in reverse order: {}",
        unseen="Read {} to me from its end to its start.",
    ),
    ("largest", "en"): Wordings(
        "en",
        """
        find the largest number in {}
        find the maximum of {}
        give me the biggest of {}
        """,
        """
        What is the largest of {}?
        What is the largest number in {}?
        What is the maximum of {}?
        Which is the biggest: {}?
        Which number is the largest: {}?
        """,
        "Nothing here is above which number: {}?",
    ),
    ("smallest", "en"): Wordings(
        "en",
        """
        find the smallest number in {}
        find the minimum of {}
        give me the lowest of {}
        """,
        """
        What is the smallest of {}?
        What is the smallest number in {}?
        What is the minimum of {}?
        Which is the smallest: {}?
        Which number is the lowest: {}?
        """,
        "Nothing here is below which number: {}?",
    ),
    ("up", "zh"): Wordings(
        "zh",
        """
        把这个列表排序：{}
        把{}排序
        排序：{}
        给{}排序
        给这些数字排序：{}
        对{}进行排序
        从小到大排序：{}
        把{}从小到大排列
        按从小到大的顺序写出{}
        将{}按升序排列
        把下面的数字排序：{}
        升序排列{}
        """,
        """
        {}，从小到大怎么排？
        我有{}，请排序。
        {}排序后是什么？
        """,
        "这些数：{}，小的在前该怎么写？",
    ),
    ("down", "zh"): Wordings(
        "zh",
        """
        从大到小排序：{}
        把{}从大到小排列
        把{}从大到小排序
        按从大到小的顺序写出{}
        将{}按降序排列
        降序排列{}
        给这些数字按降序排序：{}
        """,
        "{}，从大到小怎么排？\n我有{}，请从大到小排序。",
        "这些数：{}，大的在前该怎么写？",
    ),
    ("alphabet", "zh"): Wordings(
        "zh",
        """
        按字母顺序排列这些单词：{}
        把{}按字母顺序排列
        按字母顺序给{}排序
        把这些单词排序：{}
        """,
        "{}按字母顺序怎么排？",
        "在英文词典里，{}的先后顺序是什么？",
    ),
    ("reverse", "zh"): Wordings("zh", _REVERSE_ZH, unseen="{}，从末尾念到开头是什么？"),
    ("reverse words", "zh"): Wordings("zh", _REVERSE_ZH, unseen="{}，从末尾念到开头是什么？"),
    ("largest", "zh"): Wordings(
        "zh",
        "找出{}中最大的数\n写出{}里最大的数字",
        "{}中最大的数是哪个？\n{}里最大的是多少？\n哪个数最大：{}？",
        "{}，哪一个不比别的小？",
    ),
    ("smallest", "zh"): Wordings(
        "zh",
        "找出{}中最小的数\n写出{}里最小的数字",
        "{}中最小的数是哪个？\n{}里最小的是多少？\n哪个数最小：{}？",
        "{}，哪一个不比别的大？",
    ),
}
