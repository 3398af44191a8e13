# ruff: noqa: RUF001 - Chinese punctuation looks like Latin punctuation
"""What lies outside of the model's closed set, and how it is asked for."""

from __future__ import annotations

from models.demo.data.example import Language
from models.demo.data.talk_wordings import ABILITIES
from models.demo.data.wordings import ByThing, Wordings

IGNORANCE: dict[Language, str] = {
    "en": f"I do not know enough about that. {ABILITIES['en']}",
    "zh": f"我对这个了解不够。{ABILITIES['zh']}",
}
INABILITY: dict[Language, str] = {
    "en": f"I cannot do that. {ABILITIES['en']}",
    "zh": f"这个我做不到。{ABILITIES['zh']}",
}

PERSON: dict[Language, Wordings] = {
    "en": Wordings(
        "en",
        """
        tell me about {}
        tell me who {} is
        write a biography of {}
        write about the life of {}
        introduce {}
        """,
        """
        Who is {}?
        Who was {}?
        Who's {}?
        Do you know {}?
        Do you know who {} is?
        What did {} do?
        When was {} born?
        Where does {} live?
        How old is {}?
        What is {} famous for?
        Is {} still alive?
        """,
        "What should one know about {}?\nWhy do people talk about {}?",
    ),
    "zh": Wordings(
        "zh",
        "介绍一下{}\n讲讲{}的故事\n写一篇{}的传记\n告诉我{}是谁",
        """
        {}是谁？
        谁是{}？
        你知道{}吗？
        你认识{}吗？
        {}做过什么？
        {}是哪年出生的？
        {}多大了？
        {}为什么有名？
        {}住在哪里？
        """,
        "{}有什么事迹？\n大家为什么谈论{}？",
    ),
}
QUESTION: dict[Language, ByThing] = {
    "en": ByThing(
        "en",
        """
        tell me the latest news
        tell me the news about {thing}
        give me advice about {thing}
        tell me how to make {thing}
        tell me a fact about {thing}
        recommend a book about {thing}
        recommend a restaurant in {place}
        """,
        """
        What is the weather in {place}?
        What is the weather today?
        Will it rain in {place} tomorrow?
        How is the weather in {place}?
        What time is it?
        What time is it in {place}?
        What day is it today?
        What is the date today?
        What is the news today?
        What happened in {place} yesterday?
        Why do {thing} exist?
        Why are {thing} important?
        How do {thing} work?
        How does one make {thing}?
        Where can I buy {thing} in {place}?
        Where do {thing} come from?
        When were {thing} invented?
        Who invented {thing}?
        How much do {thing} cost?
        Are {thing} dangerous?
        Are {thing} good for my health?
        What is the difference between {thing} and money?
        What is the population of {place}?
        What is the capital of Australia?
        What is the meaning of life?
        Who won the match in {place}?
        Who is the president?
        Who is the mayor of {place}?
        How far is {place} from here?
        How do I get to {place}?
        I have a headache, what should I do?
        I am ill. Which medicine helps?
        Is it safe to eat {thing}?
        Should I buy {thing}?
        Should I invest in {thing}?
        What do you think about {thing}?
        Do you like {thing}?
        What is your favourite thing about {thing}?
        """,
        """
        Is it cold in {place} now?
        My doctor talks of {thing}, is that bad?
        """,
    ),
    "zh": ByThing(
        "zh",
        """
        告诉我最新的新闻
        推荐一本关于{thing}的书
        推荐{place}的餐馆
        给我一些关于{thing}的建议
        告诉我一个{thing}的知识
        """,
        """
        {place}的天气怎么样？
        今天天气如何？
        明天{place}会下雨吗？
        现在几点？
        {place}现在几点？
        今天星期几？
        今天几号？
        今天有什么新闻？
        昨天{place}发生了什么？
        为什么有{thing}？
        {thing}为什么重要？
        {thing}是怎么工作的？
        {thing}怎么做？
        {place}哪里可以买到{thing}？
        {thing}是谁发明的？
        {thing}是什么时候出现的？
        {thing}多少钱？
        {thing}危险吗？
        {thing}对身体好吗？
        {place}有多少人口？
        澳大利亚的首都是哪里？
        人生的意义是什么？
        昨天的比赛谁赢了？
        谁是总统？
        {place}离这里多远？
        怎么去{place}？
        我头疼，怎么办？
        我生病了，吃什么药？
        我该买{thing}吗？
        你怎么看{thing}？
        你喜欢{thing}吗？
        """,
        """
        {place}现在冷不冷？
        医生说到{thing}，要紧吗？
        """,
    ),
}
SUM: dict[Language, Wordings] = {
    "en": Wordings(
        "en",
        """
        divide {number} by {divisor}
        compute {number} / {divisor}
        compute {large}{large} * {number}
        multiply {number} by {large}
        calculate the square root of {number}
        compute the logarithm of {number}
        compute {number} to the power of {divisor}
        solve the equation x^2 + {divisor}x = {number}
        integrate {number}x^{divisor}
        find the derivative of {number}x^{divisor}
        factorize {number}
        convert {number} to binary
        """,
        """
        What is {number} / {divisor}?
        What is the square root of {number}?
        {number} ÷ {divisor} = ?
        What is {large}% of {number}?
        Is {number} a prime number?
        What is sin({number})?
        How many miles are {number} kilometres?
        {number} * {number}
        """,
        "What squared gives {number}?",
    ),
    "zh": Wordings(
        "zh",
        """
        用{number}除以{divisor}
        计算{number} ÷ {divisor}
        计算{number}乘以{large}
        求{number}的平方根
        求{number}的对数
        计算{number}的{divisor}次方
        解方程x^2 + {divisor}x = {number}
        求{number}x^{divisor}的导数
        分解质因数{number}
        把{number}转换成二进制
        """,
        """
        {number}除以{divisor}等于多少？
        {number}的平方根是多少？
        {number}的{large}%是多少？
        {number}是质数吗？
        {number} × {number}等于多少？
        """,
        "哪个数的平方是{number}？",
    ),
}
