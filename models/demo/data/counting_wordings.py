# ruff: noqa: RUF001 - Chinese punctuation looks like Latin punctuation
"""How a range of numbers is asked for: {0} and {1} are its ends, {2} the distance of its numbers."""

from __future__ import annotations

from models.demo.data.example import Language
from models.demo.data.wordings import Wordings

QUESTIONS: dict[tuple[str, Language], Wordings] = {
    ("up", "en"): Wordings(
        "en",
        """
        write the number from {0} to {1}
        write the numbers from {0} to {1}
        write all numbers from {0} to {1}
        write down the numbers from {0} to {1}
        write out the numbers {0} to {1}
        write the numbers between {0} and {1}
        write {0} to {1}
        count from {0} to {1}
        count from {0} up to {1}
        count up from {0} to {1}
        count {0} to {1}
        count {0}-{1}
        count the numbers {0} through {1}
        start at {0} and count to {1}
        list all numbers from {0} to {1}
        list the numbers {0} to {1}
        list every integer from {0} to {1}
        print the numbers from {0} to {1}
        print {0} to {1}
        print numbers {0}-{1}
        show me the numbers from {0} to {1}
        give me the numbers from {0} to {1}
        give me all the integers from {0} through {1}
        say the numbers from {0} to {1}
        output the numbers {0} to {1}
        enumerate the numbers from {0} to {1}
        """,
        """
        Numbers from {0} to {1}
        The numbers {0}-{1}, please.
        From {0} to {1}, what are the numbers?
        What are the numbers from {0} to {1}?
        Which numbers are there from {0} to {1}?
        {0} to {1}
        {0}, ..., {1}
        """,
        """
        Recite each whole number beginning with {0} and ending with {1}.
        I am learning to count: what comes from {0} until {1}?
        """,
    ),
    ("to", "en"): Wordings(
        "en",
        """
        count to {1}
        count up to {1}
        count to {1} for me
        count all the way to {1}
        write the numbers up to {1}
        write the first {1} numbers
        list the numbers up to {1}
        say the numbers to {1}
        show me how you count to {1}
        """,
        """
        Counting to {1}
        Do you know how to count to {1}?
        How do you count to {1}?
        """,
        """
        Show off your counting, all the numbers until {1}.
        """,
    ),
    ("down", "en"): Wordings(
        "en",
        """
        count down from {0} to {1}
        count backwards from {0} to {1}
        count from {0} to {1}
        count from {0} down to {1}
        count in reverse from {0} to {1}
        write the numbers from {0} down to {1}
        write the numbers from {0} to {1}
        list the numbers from {0} to {1}
        list the numbers from {0} back to {1}
        print the numbers {0} to {1} in descending order
        do a countdown from {0} to {1}
        give me a countdown from {0} to {1}
        """,
        """
        Countdown from {0} to {1}
        Numbers from {0} to {1}
        """,
        """
        Begin with {0} and go backwards until you reach {1}.
        """,
    ),
    ("in steps", "en"): Wordings(
        "en",
        """
        count from {0} to {1} in steps of {2}
        count from {0} to {1} by {2}
        count by {2} from {0} to {1}
        count up from {0} to {1}, adding {2} each time
        write every number from {0} to {1} in steps of {2}
        write the numbers from {0} to {1} with a step of {2}
        list the numbers from {0} to {1} in steps of {2}
        print {0} to {1} in steps of {2}
        start at {0} and add {2} until {1}
        """,
        """
        Numbers from {0} to {1}, step {2}
        """,
        """
        Go from {0} up to {1}, each time {2} more.
        """,
    ),
    ("down in steps", "en"): Wordings(
        "en",
        """
        count down from {0} to {1} in steps of {2}
        count down from {0} to {1} by {2}
        count backwards from {0} to {1} by {2}
        count from {0} down to {1}, subtracting {2} each time
        write the numbers from {0} down to {1} in steps of {2}
        """,
        unseen="Go from {0} down to {1}, each time {2} less.",
    ),
    ("even", "en"): Wordings(
        "en",
        """
        write the even numbers from {0} to {1}
        write all even numbers between {0} and {1}
        list the even numbers from {0} to {1}
        count from {0} to {1} in even numbers
        give me the even numbers {0}-{1}
        print every even number from {0} to {1}
        """,
        "What are the even numbers from {0} to {1}?",
        "Which of the numbers from {0} to {1} are even?",
    ),
    ("odd", "en"): Wordings(
        "en",
        """
        write the odd numbers from {0} to {1}
        write all odd numbers between {0} and {1}
        list the odd numbers from {0} to {1}
        count from {0} to {1} in odd numbers
        give me the odd numbers {0}-{1}
        print every odd number from {0} to {1}
        """,
        "What are the odd numbers from {0} to {1}?",
        "Which of the numbers from {0} to {1} are odd?",
    ),
    ("multiples", "en"): Wordings(
        "en",
        """
        write the multiples of {2} up to {1}
        list the multiples of {2} up to {1}
        list all multiples of {2} from {2} to {1}
        count to {1} by {2}
        """,
        "What are the multiples of {2} up to {1}?",
        "Which multiples of {2} are not above {1}?",
    ),
    ("up", "zh"): Wordings(
        "zh",
        """
        写出从{0}到{1}的数字
        写出从{0}到{1}的所有数字
        写出{0}到{1}
        写下{0}到{1}的数
        写出{0}到{1}之间的整数
        写{0}到{1}
        从{0}数到{1}
        从{0}开始数到{1}
        由{0}数到{1}
        列出{0}到{1}的数字
        列出从{0}到{1}的整数
        列出{0}-{1}
        打印{0}到{1}
        输出{0}到{1}的数字
        给我{0}到{1}的数字
        按顺序写出{0}到{1}
        说出从{0}到{1}的数
        依次写出{0}至{1}
        """,
        """
        {0}到{1}
        {0}到{1}的数字有哪些？
        从{0}到{1}都有哪些数？
        """,
        """
        我在学数数，{0}一直到{1}怎么数？
        把{0}至{1}的每个整数念一遍。
        """,
    ),
    ("to", "zh"): Wordings(
        "zh",
        """
        数到{1}
        数数，数到{1}
        从头数到{1}
        写出前{1}个数字
        一直数到{1}
        从一开始数到{1}
        """,
        "你会数到{1}吗？",
        "数给我听，到{1}为止。",
    ),
    ("down", "zh"): Wordings(
        "zh",
        """
        从{0}倒数到{1}
        从{0}倒着数到{1}
        从{0}数到{1}
        倒数，从{0}到{1}
        写出从{0}到{1}的数字
        从大到小写出{0}到{1}
        倒序列出{0}到{1}
        """,
        "{0}到{1}的倒计时",
        "由{0}开始往回数，到{1}停。",
    ),
    ("in steps", "zh"): Wordings(
        "zh",
        """
        从{0}数到{1}，每次加{2}
        从{0}到{1}，每次加{2}，写出所有数字
        写出从{0}到{1}的数字，间隔{2}
        列出{0}到{1}，步长为{2}
        从{0}开始每次加{2}，数到{1}
        """,
        unseen="{0}起，{1}止，每隔{2}写一个数。",
    ),
    ("down in steps", "zh"): Wordings(
        "zh",
        """
        从{0}倒数到{1}，每次减{2}
        从{0}开始每次减{2}，数到{1}
        写出从{0}到{1}的数字，每次减{2}
        """,
        unseen="{0}起往回数，{1}止，每次少{2}。",
    ),
    ("even", "zh"): Wordings(
        "zh",
        """
        写出{0}到{1}的偶数
        列出从{0}到{1}的所有偶数
        写出{0}到{1}之间的双数
        """,
        "{0}到{1}有哪些偶数？",
        "{0}至{1}里面，哪些数是偶数？",
    ),
    ("odd", "zh"): Wordings(
        "zh",
        """
        写出{0}到{1}的奇数
        列出从{0}到{1}的所有奇数
        写出{0}到{1}之间的单数
        """,
        "{0}到{1}有哪些奇数？",
        "{0}至{1}里面，哪些数是奇数？",
    ),
    ("multiples", "zh"): Wordings(
        "zh",
        """
        写出{1}以内{2}的倍数
        列出不超过{1}的{2}的倍数
        """,
        "{1}以内{2}的倍数有哪些？",
        "哪些数是{2}的倍数而且不大于{1}？",
    ),
}
