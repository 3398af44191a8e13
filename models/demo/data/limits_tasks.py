# ruff: noqa: RUF001 - Chinese punctuation looks like Latin punctuation
"""Tasks that are beyond the model."""

from __future__ import annotations

from models.demo.data.example import Language
from models.demo.data.wordings import ByThing

TASK: dict[Language, ByThing] = {
    "en": ByThing(
        "en",
        """
        write a poem about {thing}
        write a poem
        write a haiku about {thing}
        write a story about {thing}
        write a short story
        write a song about {thing}
        write an essay about {thing}
        write an essay on {thing} and {place}
        write a letter to my friend in {place}
        write an email to my boss
        write an email about {thing}
        write a speech about {thing}
        write a novel about {place}
        prove that there are infinitely many primes
        write a joke about {thing}
        write a review of {thing}
        write an advertisement for {thing}
        translate "{thing}" into {tongue}
        translate {thing} to {tongue}
        translate this into {tongue}: I like {thing}
        translate the following text to {tongue}
        say "{thing}" in {tongue}
        teach me {tongue}
        speak {tongue}
        write a {code} program
        write quicksort in {code}
        write bubble sort in {code}
        write a function in {code}
        write hello world in {code}
        write a web site in {code}
        debug my {code} code
        explain this {code} code
        build an app for {thing}
        write a game in Python
        write a web server in Python
        draw a picture of {thing}
        draw {thing}
        paint {place}
        sing a song
        play a game with me
        play chess with me
        play music
        search the web for {thing}
        look up {thing}
        open the browser
        book a flight to {place}
        book a hotel in {place}
        order {thing} for me
        buy {thing}
        call my mother
        plan a trip to {place}
        plan my week
        give me a recipe with {thing}
        summarize this text
        summarize a book about {thing}
        correct my grammar
        check my spelling
        rewrite this text
        read this file
        read the article about {thing}
        make a table of {thing}
        solve my homework about {thing}
        predict the price of {thing}
        diagnose my illness
        compare {thing} and {place}
        give me ten ideas about {thing}
        name five kinds of {thing}
        """,
        """
        How do you say "{thing}" in {tongue}?
        What does "{thing}" mean in {tongue}?
        I need an essay about {thing}.
        I need a poem for a friend in {place}.
        How do I write a loop in {code}?
        """,
        """
        Put {thing} into verse.
        Do my taxes.
        What would "{thing}" be in {tongue}?
        My teacher wants two pages on {thing}, do them.
        """,
    ),
    "zh": ByThing(
        "zh",
        """
        写一首关于{thing}的诗
        写一首诗
        写一个关于{thing}的故事
        写一个小故事
        写一首关于{thing}的歌
        写一篇关于{thing}的文章
        写一篇关于{thing}的作文
        写一封信给{place}的朋友
        写一封邮件
        写一封关于{thing}的邮件
        写一篇演讲稿
        写一部关于{place}的小说
        写一个{thing}的广告
        把“{thing}”翻译成{tongue}
        翻译成{tongue}：我喜欢{thing}
        把这段话翻译成{tongue}
        用{tongue}说“{thing}”
        教我{tongue}
        用{code}写快速排序
        用{code}写一个程序
        用{code}写一个函数
        用{code}写冒泡排序
        调试我的{code}代码
        解释这段{code}代码
        用Python写一个游戏
        用Python写一个网站
        画一张{thing}的图
        画{thing}
        唱首歌
        陪我玩游戏
        陪我下棋
        播放音乐
        上网搜索{thing}
        查一下{thing}
        打开浏览器
        订一张去{place}的机票
        订{place}的酒店
        买{thing}
        给我妈妈打电话
        安排去{place}的旅行
        给我一个{thing}的菜谱
        总结这段文字
        总结一本关于{thing}的书
        改正我的语法
        改写这段话
        读这个文件
        预测{thing}的价格
        诊断我的病
        比较{thing}和{place}
        列举五种{thing}
        给我十个关于{thing}的主意
        """,
        """
        “{thing}”用{tongue}怎么说？
        “{thing}”的{tongue}是什么？
        我要一篇关于{thing}的作文。
        {code}怎么写循环？
        """,
        """
        用诗的形式表现{thing}。
        帮我把税报了吧。
        老师要两页关于{thing}的文字，你来写。
        """,
    ),
}
