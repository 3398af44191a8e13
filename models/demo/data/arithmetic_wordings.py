# ruff: noqa: RUF001 - Chinese punctuation looks like Latin punctuation
"""How sums and the like are asked for, and how their answers end."""

from __future__ import annotations

from models.demo.data.example import Language, words
from models.demo.data.wordings import Wordings

CONCLUSION: dict[Language, str] = {"en": "The answer is {}.", "zh": "答案是{}。"}
REMAINDER: dict[Language, str] = {"en": "{}, remainder {}", "zh": "{}余{}"}

# Spellings of an operator; those at the same place look alike.
OPERATORS: dict[tuple[str, Language], list[str]] = {
    ("+", "en"): [" + ", " + ", "+", "+", " plus ", " plus "],
    ("-", "en"): [" - ", " - ", "-", "-", " minus ", " minus "],
    ("*", "en"): [" * ", " × ", "*", "×", " times ", " multiplied by ", " x "],
    ("/", "en"): [" / ", " ÷ ", "/", "÷", " divided by ", " divided by "],
    ("+", "zh"): [" + ", " + ", "+", "+", "加", "加上"],
    ("-", "zh"): [" - ", " - ", "-", "-", "减", "减去"],
    ("*", "zh"): [" * ", " × ", "*", "×", "乘", "乘以"],
    ("/", "zh"): [" / ", " ÷ ", "/", "÷", "除以", "除以"],
}

QUESTIONS: dict[Language, Wordings] = {
    "en": Wordings(
        "en",
        """
        compute {}
        calculate {}
        calculate {} step by step
        compute {} in steps
        work out {}
        work out {} step by step
        solve {}
        solve this: {}
        evaluate {}
        tell me what {} is
        tell me the result of {}
        give me the answer to {}
        find {}
        do the math: {}
        """,
        """
        What is {}?
        What's {}?
        what is {}
        {} = ?
        {}=?
        {} =
        {}=
        {}
        {}?
        How much is {}?
        What does {} equal?
        What does {} make?
        What do you get for {}?
        What is the result of {}?
        {} is what?
        {} equals what?
        """,
        """
        My homework says {}, so what do I write?
        If I type {} into a calculator, what does it show?
        """,
    ),
    "zh": Wordings(
        "zh",
        """
        计算{}
        一步一步计算{}
        算一下{}
        算算{}
        求{}
        求{}的结果
        求{}的值
        写出{}的结果
        告诉我{}等于几
        """,
        """
        {}等于多少？
        {}等于几？
        {}是多少？
        {}得多少？
        {}=几？
        {} = 多少？
        {}等于
        {}得几？
        {}的结果是什么？
        {}的答案是多少？
        """,
        """
        作业里有一道题：{}，该填什么数？
        用计算器按{}，会显示多少？
        """,
    ),
}
# With the operation as a noun or a verb.
NAMED: dict[tuple[str, Language], Wordings] = {
    ("sum", "en"): Wordings(
        "en",
        """
        add {0} and {1}
        add {1} to {0}
        add up {0} and {1}
        sum {0} and {1}
        find the sum of {0} and {1}
        calculate the sum of {0} and {1}
        """,
        "What is the sum of {0} and {1}?\nHow much are {0} and {1} together?",
        "Put {0} and {1} together: which number comes out?",
    ),
    ("difference", "en"): Wordings(
        "en",
        """
        subtract {1} from {0}
        take {1} away from {0}
        take {1} from {0}
        deduct {1} from {0}
        """,
        "What is {0} less {1}?\nWhat is left of {0} without {1}?",
        "Starting with {0}, I remove {1}: which number comes out?",
    ),
    ("product", "en"): Wordings(
        "en",
        """
        multiply {0} by {1}
        multiply {0} and {1}
        multiply {0} with {1}
        find the product of {0} and {1}
        calculate the product of {0} and {1}
        """,
        "What is the product of {0} and {1}?",
        "Take {0} exactly {1} times: which number comes out?",
    ),
    ("quotient", "en"): Wordings(
        "en",
        """
        divide {0} by {1}
        split {0} by {1}
        """,
        "How many times does {1} go into {0}?\nWhat is {0} over {1}?",
        "{0} shared among {1}: how many for each?",
    ),
    ("sum", "zh"): Wordings(
        "zh",
        "求{0}与{1}的和\n把{0}和{1}加起来\n将{0}加上{1}\n计算{0}和{1}的和",
        "{0}与{1}的和是多少？\n{0}和{1}一共是多少？",
        "{0}跟{1}合在一起是多少？",
    ),
    ("difference", "zh"): Wordings(
        "zh",
        "求{0}与{1}的差\n从{0}中减去{1}\n用{0}减{1}\n计算{0}和{1}的差",
        "{0}与{1}的差是多少？\n{0}减掉{1}还剩多少？",
        "有{0}，去掉{1}，还有多少？",
    ),
    ("product", "zh"): Wordings(
        "zh",
        "求{0}与{1}的积\n把{0}和{1}相乘\n用{0}乘{1}\n计算{0}和{1}的乘积",
        "{0}与{1}的积是多少？\n{0}和{1}的乘积是多少？",
        "{1}个{0}加在一起是多少？",
    ),
    ("quotient", "zh"): Wordings(
        "zh",
        "求{0}除以{1}的商\n用{0}除以{1}\n把{0}除以{1}",
        "{0}里面有几个{1}？",
        "{0}平均分成{1}份，每份多少？",
    ),
}

# Those trained on, those not.
STORIES: dict[Language, tuple[list[str], list[str]]] = {
    "en": (
        [
            "{name} has {a} {thing}, gets {b} more and gives away {c}. "
            "How many {thing} does {name} have now?",
            "{name} had {a} {thing}. Then {name} bought {b} more and lost {c}. How many are left?",
            "There are {a} {thing} in a box. {name} puts in {b} more and takes out {c}. "
            "How many {thing} are there?",
            "{name} has {a} {thing} and {b} more at home. {name} sells {c} of them. How many {thing} remain?",
            "{name} finds {a} {thing} on Monday and {b} on Tuesday, and gives {c} to a friend. "
            "How many {thing} are left?",
        ],
        [
            "{name} owns {a} {thing}. A friend brings {b}, a neighbour takes {c}. "
            "How many does {name} own in the end?"
        ],
    ),
    "zh": (
        [
            "{name}有{a}个{thing}，又得到{b}个，送出{c}个。{name}现在有多少个{thing}？",
            "{name}原来有{a}个{thing}，又买了{b}个，丢了{c}个。还剩多少个？",
            "盒子里有{a}个{thing}，{name}放进{b}个，又拿走{c}个。盒子里有多少个{thing}？",
            "{name}周一找到{a}个{thing}，周二找到{b}个，给朋友{c}个。还有几个？",
        ],
        ["{name}手里有{a}个{thing}，朋友带来{b}个，邻居借走{c}个。最后{name}手里有几个？"],
    ),
}
NAMES: dict[Language, list[str]] = {
    "en": words("Anna Tom Mia Ben Lena Sam Ella Max Ruth Omar Nina Hugo"),
    "zh": words("小明 小红 小华 小丽 小刚 小芳 小军 小云 小林 小雪"),
}
THINGS: dict[Language, list[str]] = {
    "en": words("apples books coins stamps pens cards shells eggs marbles balls cookies oranges"),
    "zh": words("苹果 橘子 鸡蛋 硬币 球 梨 贝壳 饼干 桃子 杯子"),
}
