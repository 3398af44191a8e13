# ruff: noqa: RUF001 - Chinese punctuation looks like Latin punctuation
"""First questions of a conversation, and those that refer to their answers."""

from __future__ import annotations

from models.demo.data.example import Language
from models.demo.data.wordings import Wordings

OPENING: dict[tuple[str, Language], Wordings] = {
    ("sum", "en"): Wordings(
        "en", "compute {} + {}\nadd {} and {}", "What is {} + {}?\n{} + {}\n{}+{}=?\n{} plus {}"
    ),
    ("sum", "zh"): Wordings("zh", "计算{} + {}\n算一下{}加{}", "{} + {}等于多少？\n{}加{}是多少？\n{}+{}=?"),
    ("up", "en"): Wordings(
        "en", "sort {}\nsort this list: [{}]\nput {} in ascending order\nsort these numbers: {}"
    ),
    ("down", "en"): Wordings("en", "sort {} in descending order\nsort [{}] from largest to smallest"),
    ("reverse", "en"): Wordings("en", "reverse {}\nreverse this list: [{}]\nwrite {} backwards"),
    ("up", "zh"): Wordings("zh", "把{}排序\n把这个列表排序：[{}]\n从小到大排序：{}"),
    ("down", "zh"): Wordings("zh", "把{}从大到小排序\n将[{}]按降序排列"),
    ("reverse", "zh"): Wordings("zh", "把{}倒过来\n把这个列表倒过来：[{}]"),
    ("count", "en"): Wordings(
        "en", "count from {} to {}\nwrite the numbers from {} to {}\nlist the numbers {} to {}"
    ),
    ("count", "zh"): Wordings("zh", "从{}数到{}\n写出从{}到{}的数字"),
}
FOLLOWING: dict[tuple[str, Language], Wordings] = {
    ("plus", "en"): Wordings(
        "en",
        "add {}\nadd {} to that\nadd {} to it\nadd another {}\nadd {} more\nincrease it by {}",
        "And plus {}?\nPlus {}?\nNow plus {}\n+ {}\nAnd {} more?\nWhat if I add {}?\nWhat is that plus {}?",
        "What if there were {} more of it?",
    ),
    ("minus", "en"): Wordings(
        "en",
        "subtract {}\nsubtract {} from that\ntake away {}\ntake {} from it\nreduce it by {}",
        "And minus {}?\nMinus {}?\nNow minus {}\n- {}\nAnd {} less?\nWhat is that minus {}?",
        "What if there were {} fewer of it?",
    ),
    ("times", "en"): Wordings(
        "en",
        "multiply by {}\nmultiply it by {}\nmultiply that by {}\nmultiply the result by {}",
        "And times {}?\nTimes {}?\n* {}\nWhat is that times {}?",
        "And {} times as much?",
    ),
    ("plus", "zh"): Wordings(
        "zh", "再加{}\n加上{}\n再加上{}\n给结果加{}", "再加{}呢？\n加{}等于多少？\n+ {}", "要是多{}呢？"
    ),
    ("minus", "zh"): Wordings(
        "zh", "再减{}\n减去{}\n再减去{}\n从结果里减{}", "再减{}呢？\n减{}等于多少？\n- {}", "要是少{}呢？"
    ),
    ("times", "zh"): Wordings(
        "zh", "乘以{}\n再乘{}\n把结果乘以{}", "乘以{}呢？\n再乘{}等于多少？\n* {}", "它的{}倍呢？"
    ),
    ("up", "en"): Wordings(
        "en",
        """
        sort it in ascending order
        sort that list in ascending order
        sort them from smallest to largest
        put it in ascending order
        sort that ascending
        """,
        "Now ascending\nAnd in ascending order?\nNow from smallest to largest\nSmallest first?",
        "And with the small ones in front?",
    ),
    ("down", "en"): Wordings(
        "en",
        """
        sort that list descending
        sort it in descending order
        sort that list in descending order
        sort them from largest to smallest
        put it in descending order
        """,
        "Now descending\nAnd in descending order?\nNow from largest to smallest\nLargest first?",
        "And with the big ones in front?",
    ),
    ("reverse", "en"): Wordings(
        "en",
        "reverse it\nreverse that\nreverse that list\nturn it around\nwrite it backwards\nreverse the result",
        "Now in reverse\nNow backwards\nAnd in reverse?\nAnd the other way round?",
        "How does it read from its end?",
    ),
    ("up", "zh"): Wordings(
        "zh", "把它按升序排列\n从小到大排序\n改成升序", "升序呢？\n从小到大呢？", "小的在前呢？"
    ),
    ("down", "zh"): Wordings(
        "zh", "把它按降序排列\n从大到小排序\n改成降序", "降序呢？\n从大到小呢？", "大的在前呢？"
    ),
    ("reverse", "zh"): Wordings(
        "zh", "把它倒过来\n倒过来写\n反转结果\n反过来", "倒过来呢？\n反过来呢？", "从末尾念起呢？"
    ),
    ("on", "en"): Wordings(
        "en",
        "go on to {}\ncontinue to {}\nkeep counting to {}\ncontinue up to {}\ncount on to {}",
        "And on to {}?\nNow up to {}",
        "And what follows, until {}?",
    ),
    ("back", "en"): Wordings(
        "en",
        "count backwards\nreverse it\ncount back down\nwrite them in reverse\ngo back down",
        "Now in reverse\nNow backwards\nAnd backwards?\nAnd in reverse order?",
        "And the same way back?",
    ),
    ("on", "zh"): Wordings(
        "zh", "继续数到{}\n接着数到{}\n往下数到{}", "接着到{}呢？", "后面的呢，到{}为止？"
    ),
    ("back", "zh"): Wordings("zh", "倒过来\n倒着数\n倒数回去\n反过来写", "倒过来呢？", "原路数回去呢？"),
    ("first", "en"): Wordings(
        "en",
        "tell me what I asked first\nrepeat my first question",
        """
        What did I ask first?
        What was my first question?
        What was the first thing I asked?
        What did I say first?
        """,
        "With which words did I begin?",
    ),
    ("before", "en"): Wordings(
        "en",
        "repeat my last question\ntell me what I just asked",
        "What did I just ask?\nWhat was my last question?\nWhat did I ask before this?\nWhat did I just say?",
        "Which words of mine came right before these?",
    ),
    ("first", "zh"): Wordings(
        "zh",
        "重复我的第一个问题\n告诉我我先问了什么",
        "我先问了什么？\n我的第一个问题是什么？\n我第一句说了什么？",
        "我开头的话是什么？",
    ),
    ("before", "zh"): Wordings(
        "zh",
        "重复我的上一个问题\n告诉我我刚才问了什么",
        "我刚才问了什么？\n我的上一个问题是什么？\n我刚刚说了什么？",
        "这句之前我说的是什么？",
    ),
}
