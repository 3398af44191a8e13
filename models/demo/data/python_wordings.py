# ruff: noqa: RUF001 - Chinese punctuation looks like Latin punctuation
"""How Python functions are asked for: of the grammar in three parts, programs by what they are called."""

from __future__ import annotations

from models.demo.data.example import Language
from models.demo.data.wordings import Wordings

QUESTIONS: dict[tuple[str, Language], Wordings] = {
    ("comprehension", "en"): Wordings(
        "en",
        """
        write a Python function that returns {}{}{} in a list
        write a function in Python which returns {}{}{} in a list
        write a Python function to get {}{}{} in a list
        write a Python function to compute {}{}{} in a list
        write Python code that gives {}{}{} in a list
        write a function that returns {}{}{} in a list
        create a Python function that returns {}{}{} in a list
        implement a Python function for {}{}{} in a list
        define a Python function returning {}{}{} in a list
        give me a Python function that returns {}{}{} in a list
        code a Python function for {}{}{} in a list
        """,
        """
        Python function: return {}{}{} in a list.
        I need a Python function that returns {}{}{} in a list.
        How do I get {}{}{} in a list with Python?
        How can I compute {}{}{} in a list in Python?
        """,
        """
        In Python I have a list and want {}{}{} in it. What function does that?
        """,
    ),
    ("loop", "en"): Wordings(
        "en",
        """
        write a Python function with a loop that returns {}{}{} in a list
        write a Python function that uses a loop to return {}{}{} in a list
        use a loop to write a Python function that returns {}{}{} in a list
        write a function with a for loop that returns {}{}{} in a list
        give me a Python function with a loop for {}{}{} in a list
        """,
        """
        With a loop, write a Python function that returns {}{}{} in a list.
        Python function with a loop: return {}{}{} in a list.
        How do I get {}{}{} in a list with a Python loop?
        """,
        """
        In Python I have a list and want {}{}{} in it. What function does that by looping?
        """,
    ),
    ("comprehension", "zh"): Wordings(
        "zh",
        """
        写一个Python函数，返回列表中{2}{1}{0}
        用Python写函数：返回列表中{2}{1}{0}
        写一个函数，求列表中{2}{1}{0}
        用Python写一个函数，计算列表中{2}{1}{0}
        实现一个Python函数，得到列表中{2}{1}{0}
        给我一个Python函数，返回列表中{2}{1}{0}
        """,
        """
        Python函数：返回列表中{2}{1}{0}。
        用Python怎么求列表中{2}{1}{0}？
        我需要一个Python函数，返回列表中{2}{1}{0}。
        """,
        "有一个列表，想要其中{2}{1}{0}，Python函数该怎么写？",
    ),
    ("loop", "zh"): Wordings(
        "zh",
        """
        用循环写一个Python函数，返回列表中{2}{1}{0}
        写一个带循环的Python函数，返回列表中{2}{1}{0}
        用for循环写一个函数，求列表中{2}{1}{0}
        """,
        "用Python循环怎么求列表中{2}{1}{0}？",
        "有一个列表，想要其中{2}{1}{0}，用循环的Python函数该怎么写？",
    ),
}
PROGRAM_QUESTIONS: dict[Language, Wordings] = {
    "en": Wordings(
        "en",
        """
        write {} in Python
        implement {} in Python
        show me {} in Python
        give me Python code for {}
        give me {} in Python
        write Python code for {}
        write a Python program for {}
        code {} in Python
        program {} in Python
        show me how to write {} in Python
        create {} in Python
        write {}
        implement {}
        """,
        """
        I need {} in Python.
        How do I write {} in Python?
        How do you implement {} in Python?
        Python code for {}
        {} in Python
        What does {} look like in Python?
        """,
        """
        My Python project lacks {}, what do I paste?
        """,
    ),
    "zh": Wordings(
        "zh",
        """
        用Python写{}
        用Python实现{}
        写一个Python程序：{}
        给我{}的Python代码
        写出{}的Python代码
        用Python编写{}
        写{}的代码
        实现{}
        展示{}的Python代码
        """,
        """
        我需要{}的Python代码。
        用Python怎么写{}？
        怎么用Python实现{}？
        {}的Python代码
        Python的{}怎么写？
        """,
        "我的Python项目里缺{}，该怎么写？",
    ),
}
