# ruff: noqa: RUF001 - Chinese punctuation looks like Latin punctuation
"""The closed set of subjects that the model can write about: a name and a paragraph in each language."""

from __future__ import annotations

from models.demo.data.example import Language

Subject = dict[Language, tuple[str, str]]

SUBJECTS: dict[str, Subject] = {
    "great_wall": {
        "en": (
            "the Great Wall",
            "The Great Wall is a long line of walls and towers in the north of China. It was built "
            "over many centuries to protect the country from attacks. Most of what stands today was "
            "built in the Ming dynasty. Soldiers on its towers sent signals with smoke and fire. "
            "Today people from all over the world come to walk on it.",
        ),
        "zh": (
            "长城",
            "长城是中国北方的一道长长的城墙。它修建了许多个世纪，用来保护国家不受进攻。今天看到的大部分"
            "是明朝修建的。士兵在烽火台上用烟和火传递消息。如今世界各地的人都来这里参观。",
        ),
    },
    "diffusion_language_model": {
        "en": (
            "a diffusion language model",
            "A diffusion language model is a language model that writes many tokens at once. It "
            "starts from a block of masked tokens and fills them in over a few denoising steps. In "
            "each step it keeps the tokens that it is sure of and looks at the others again. So it "
            "needs fewer steps than a model that writes one token after another. Some of these models "
            "can also correct tokens that they wrote before.",
        ),
        "zh": (
            "扩散语言模型",
            "扩散语言模型是一种一次写出多个词的语言模型。它从一块被遮住的词开始，用几步去噪把它们填好。"
            "每一步它留下有把握的词，再看其余的词。所以它比一个词一个词写的模型需要更少的步骤。有些这样"
            "的模型还能改正已经写出的词。",
        ),
    },
    "moon": {
        "en": (
            "the Moon",
            "The Moon is the only natural satellite of the Earth. It moves around the Earth in about "
            "27 days. It has no light of its own and shines with the light of the Sun. Its pull makes "
            "the tides of the sea. People first walked on it in 1969.",
        ),
        "zh": (
            "月亮",
            "月亮是地球唯一的天然卫星。它大约27天绕地球一圈。它自己不发光，反射太阳的光。它的引力引起"
            "海洋的潮汐。人类在1969年第一次登上月亮。",
        ),
    },
    "sun": {
        "en": (
            "the Sun",
            "The Sun is the star at the centre of our solar system. It is a very hot ball of gas. Its "
            "light needs about 8 minutes to reach the Earth. Almost all life on Earth lives on its "
            "energy.",
        ),
        "zh": (
            "太阳",
            "太阳是太阳系中心的恒星。它是一个非常热的气体球。它的光大约8分钟到达地球。地球上几乎所有生"
            "命都靠它的能量。",
        ),
    },
    "water": {
        "en": (
            "water",
            "Water is a clear liquid made of hydrogen and oxygen. It freezes at 0 degrees and boils "
            "at 100 degrees Celsius. Most of the surface of the Earth is covered by it. All plants "
            "and animals need it to live.",
        ),
        "zh": (
            "水",
            "水是由氢和氧组成的透明液体。它在0度结冰，在100度沸腾。地球表面大部分被水覆盖。所有动物"
            "和植物都需要水。",
        ),
    },
    "python": {
        "en": (
            "Python",
            "Python is a programming language that is easy to read. It was first released in 1991. "
            "Blocks of code are marked by indentation. It is used for web services, data and machine "
            "learning.",
        ),
        "zh": (
            "Python",
            "Python是一种容易阅读的编程语言。它在1991年首次发布。代码块用缩进表示。它用于网络"
            "服务、数据和机器学习。",
        ),
    },
    "paris": {
        "en": (
            "Paris",
            "Paris is the capital of France. It lies on the river Seine. The Eiffel Tower is its best "
            "known building. Its museums and cafes draw many visitors each year.",
        ),
        "zh": (
            "巴黎",
            "巴黎是法国的首都。它位于塞纳河边。埃菲尔铁塔是它最有名的建筑。它的博物馆和咖啡馆每年吸引许"
            "多游客。",
        ),
    },
    "beijing": {
        "en": (
            "Beijing",
            "Beijing is the capital of China. It has been an important city for many centuries. The "
            "old imperial palace stands at its centre. More than 20 million people live there.",
        ),
        "zh": (
            "北京",
            "北京是中国的首都。许多个世纪以来它都是重要的城市。故宫位于它的中心。那里住着两千多万人。",
        ),
    },
    "tea": {
        "en": (
            "tea",
            "Tea is a drink made from leaves in hot water. It was first drunk in China. Green tea and "
            "black tea come from the same plant. After water it is the most common drink in the "
            "world.",
        ),
        "zh": (
            "茶",
            "茶是用热水泡叶子做成的饮料。它最早在中国饮用。绿茶和红茶来自同一种植物。除了水，它是世界上"
            "最常见的饮料。",
        ),
    },
    "bicycle": {
        "en": (
            "a bicycle",
            "A bicycle is a vehicle with two wheels that its rider moves with pedals. A chain carries "
            "the force to the back wheel. It needs no fuel and makes no noise. Many people ride it to "
            "work.",
        ),
        "zh": (
            "自行车",
            "自行车是骑车人用脚踏板推动的两轮车。链条把力量传到后轮。它不需要燃料，也没有噪音。许多人骑"
            "它上班。",
        ),
    },
    "elephant": {
        "en": (
            "an elephant",
            "An elephant is the largest animal that lives on land. It lives in Africa and Asia. With "
            "its trunk it drinks, eats and greets others. Elephants live in families and remember for "
            "a long time.",
        ),
        "zh": (
            "大象",
            "大象是陆地上最大的动物。它生活在非洲和亚洲。它用鼻子喝水、吃东西和打招呼。大象成群生活，记"
            "忆力很好。",
        ),
    },
    "bee": {
        "en": (
            "a bee",
            "A bee is a small insect that collects nectar from flowers. It carries pollen from one "
            "flower to another. Honey bees live in large colonies with one queen. Without bees many "
            "fruits would not grow.",
        ),
        "zh": (
            "蜜蜂",
            "蜜蜂是从花中采蜜的小昆虫。它把花粉从一朵花带到另一朵花。蜜蜂成群生活，有一只蜂王。没有蜜蜂"
            "，许多水果就不能生长。",
        ),
    },
    "piano": {
        "en": (
            "a piano",
            "A piano is an instrument with 88 keys. Each key moves a hammer that hits a string. It "
            "can play soft and loud. It was invented in Italy about 300 years ago.",
        ),
        "zh": (
            "钢琴",
            "钢琴是有88个键的乐器。每个键带动一个小锤敲打琴弦。它能弹得轻，也能弹得响。它大约300年"
            "前在意大利发明。",
        ),
    },
    "kubernetes": {
        "en": (
            "Kubernetes",
            "Kubernetes is a system that runs containers on many machines. You describe what should "
            "run, and it keeps it running. When a machine fails, it starts the work on another one. "
            "It can also add copies when the load grows.",
        ),
        "zh": (
            "Kubernetes",
            "Kubernetes是在许多机器上运行容器的系统。你描述要运行什么，它就让它一直运行。机器"
            "坏了，它在另一台上重新启动。负载增加时，它还能增加副本。",
        ),
    },
    "rainbow": {
        "en": (
            "a rainbow",
            "A rainbow is an arc of colours in the sky. It appears when the Sun shines on drops of "
            "rain. Each drop bends the light and splits it into colours. Red is on the outside and "
            "violet on the inside.",
        ),
        "zh": (
            "彩虹",
            "彩虹是天空中的彩色弧线。太阳照在雨滴上时它就出现。每一滴雨把光弯曲并分成各种颜色。红色在外"
            "面，紫色在里面。",
        ),
    },
    "chess": {
        "en": (
            "chess",
            "Chess is a game for two players on a board of 64 squares. Each player has 16 pieces. The "
            "aim is to attack the other king so that it cannot escape. It has been played for more "
            "than a thousand years.",
        ),
        "zh": (
            "国际象棋",
            "国际象棋是两个人在64格棋盘上玩的游戏。每人有16个棋子。目标是让对方的王无处可逃。它已有"
            "一千多年的历史。",
        ),
    },
}

# Other names of subjects.
ALIASES: dict[str, dict[Language, list[str]]] = {
    "great_wall": {"en": ["the Great Wall of China", "the great wall"], "zh": ["万里长城"]},
    "diffusion_language_model": {
        "en": ["diffusion language models", "diffusion LLMs", "a diffusion LLM", "a dLLM"],
        "zh": ["扩散大语言模型", "语言扩散模型"],
    },
    "moon": {"zh": ["月球"]},
    "python": {"en": ["the Python language", "Python programming"], "zh": ["Python语言"]},
    "paris": {"en": ["the city of Paris"], "zh": ["巴黎市"]},
    "beijing": {"en": ["the city of Beijing"], "zh": ["北京市"]},
    "tea": {"zh": ["茶叶"]},
    "bicycle": {"en": ["bicycles", "a bike", "bikes"], "zh": ["单车"]},
    "elephant": {"en": ["elephants", "the elephant"]},
    "bee": {"en": ["bees", "honey bees"]},
    "piano": {"en": ["the piano", "pianos"]},
    "kubernetes": {"en": ["k8s"], "zh": ["k8s"]},
    "rainbow": {"en": ["rainbows", "the rainbow"]},
    "chess": {"en": ["the game of chess"]},
}
