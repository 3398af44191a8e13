"""Things, people and places that the model knows nothing about."""

from __future__ import annotations

from models.demo.data.example import Language, words

_THINGS_EN = """
airports algebra ants architecture asthma astronomy
atoms bacteria bananas banking baseball basketball batteries
bears beer biology bitcoin blockchain books boxing
brains bread bridges buses butterflies butter cactuses cakes
cancer carpets cars castles cats caves cheese chemistry chocolate cinema clocks clouds coal coffee comets
computers concrete cooking copper corn cotton cows credit cricket dancing deserts diabetes dinosaurs dogs
dolphins dragons dreams drums ducks eagles earthquakes economics eggs electricity elections electrons engines
evolution farming fashion fire fishing flags flowers football forests foxes frogs gardens gas genes geometry
ghosts giraffes glaciers glass gold golf gravity grass guitars hats hearts helicopters history honey hospitals
hotels hurricanes ice inflation insects insurance iron islands jazz jeans kangaroos knights lakes lamps lasers
law leather lemons libraries light lightning lions lizards logic magnets maps marriage mathematics medicine
metal mice milk mirrors money monkeys mountains movies museums mushrooms music myths needles nerves neutrons
novels numbers nuts oceans oil olives onions opera oranges owls oxygen paint painting paper parrots penguins
pepper philosophy phones photography physics pigs pirates pizza plastic poetry politics potatoes psychology
pumpkins quantum-computers radar radio rain religion rice rivers robots rockets roses rubber rugby salt sand
sandwiches satellites schools scissors sculpture sharks sheep ships shoes silk silver skiing sleep snakes snow
soap soccer soil spaceships spiders sports stars statistics steel stocks stones storms stress strawberries
submarines sugar swimming taxes teeth telescopes television temples tennis theatre tigers time tomatoes towers
toys trains trees trucks tsunamis turtles universities vaccines vegetables violins viruses vitamins volcanoes
wars watches whales wheat wind windows wine winter wolves wood wool yoga zebras
Mars Venus Jupiter Saturn London Tokyo Berlin Rome Madrid
Moscow Cairo Sydney Delhi Lima Oslo Egypt France Japan
Brazil Canada Kenya Peru India Greece Norway Iceland Australia Africa Europe America Asia Linux Windows Docker
Redis Java JavaScript Rust Google Microsoft Apple Wikipedia transformers autoregressive-models
"""
_THINGS_ZH = """
机场 代数 蚂蚁 建筑 哮喘 天文学 原子 细菌 香蕉 银行 棒球
篮球 电池 熊 啤酒 生物学 区块链 书籍 拳击 大脑 面包 桥梁
公交车 蝴蝶 黄油 仙人掌 蛋糕 癌症 地毯 汽车 城堡 猫 洞穴
奶酪 化学 巧克力 电影 时钟 云 煤 咖啡 彗星 电脑 水泥 烹饪
铜 玉米 棉花 奶牛 信用 板球 舞蹈 沙漠 糖尿病 恐龙 狗 海豚
龙 梦 鼓 鸭子 老鹰 地震 经济学 鸡蛋 电 选举 电子 发动机
进化 农业 时尚 火 钓鱼 国旗 花 足球 森林 狐狸 青蛙 花园
煤气 基因 几何 鬼 长颈鹿 冰川 玻璃 黄金 高尔夫 重力 草 吉他
帽子 心脏 直升机 历史 蜂蜜 医院 酒店 台风 冰 通货膨胀 昆虫
保险 铁 岛屿 爵士乐 牛仔裤 袋鼠 骑士 湖泊 灯 激光 法律
皮革 柠檬 图书馆 光 闪电 狮子 蜥蜴 逻辑 磁铁 地图 婚姻
数学 医学 金属 老鼠 牛奶 镜子 货币 猴子 高山 博物馆 蘑菇
音乐 神话 针 神经 小说 坚果 海洋 石油 橄榄 洋葱 歌剧
橙子 猫头鹰 氧气 油漆 绘画 纸 鹦鹉 企鹅 胡椒 哲学 手机 摄影
物理学 猪 海盗 披萨 塑料 诗歌 政治 土豆 心理学 南瓜
量子计算机 雷达 收音机 雨 宗教 大米 河流 机器人 火箭 玫瑰 橡胶
盐 沙子 卫星 学校 剪刀 雕塑 鲨鱼 绵羊 轮船 鞋子 丝绸 银
滑雪 睡眠 蛇 雪 肥皂 土壤 飞船 蜘蛛 体育 星星 统计学 钢
股票 石头 暴风雨 压力 草莓 潜艇 糖 游泳 税收 牙齿 望远镜
电视 寺庙 网球 戏剧 老虎 时间 西红柿 塔 玩具 火车 树 卡车
海啸 乌龟 大学 疫苗 蔬菜 小提琴 病毒 维生素 火山 战争 手表
鲸鱼 小麦 风 窗户 葡萄酒 冬天 狼 木头 羊毛 瑜伽 斑马
火星 金星 木星 土星 伦敦 东京 柏林 罗马 马德里 莫斯科 开罗
悉尼 上海 广州 西安 埃及 法国 日本 巴西 加拿大 印度 希腊
挪威 冰岛 澳大利亚 非洲 欧洲 美国 亚洲 故宫 黄河 长江 泰山
兵马俑 春节 京剧 书法 武术 太极拳 饺子 火锅 孔子 唐诗 红楼梦
"""
THINGS: dict[Language, list[str]] = {
    "en": [each.replace("-", " ") for each in dict.fromkeys(words(_THINGS_EN))],
    "zh": list(dict.fromkeys(words(_THINGS_ZH))),
}
AROUND: dict[Language, list[str]] = {
    "en": [
        "the history of {}",
        "the future of {}",
        "the price of {}",
        "the origin of {}",
        "the science of {}",
        "the chemistry of {}",
        "the meaning of {}",
        "the theory of {}",
        "the biggest problem of {}",
        "the best book about {}",
        "the culture of {}",
        "the war of {}",
        "the colour of {}",
        "ancient {}",
        "modern {}",
        "wild {}",
        "cheap {}",
        "famous {}",
        "{} in the Middle Ages",
        "{} in Europe",
        "{} and health",
        "{} for children",
        "{} and its uses",
        "a {} museum",
        "a {} factory",
    ],
    "zh": [
        "{}的历史",
        "{}的未来",
        "{}的价格",
        "{}的起源",
        "{}的科学",
        "{}的意义",
        "{}的理论",
        "{}的问题",
        "{}的文化",
        "{}的颜色",
        "{}的好处",
        "{}的种类",
        "{}的用途",
        "古代的{}",
        "现代的{}",
        "便宜的{}",
        "有名的{}",
        "欧洲的{}",
        "{}与健康",
        "{}博物馆",
        "{}工厂",
    ],
}
GIVEN: dict[Language, list[str]] = {
    "en": words(
        "Albert Isaac Marie Barack Donald Elon Bill Steve "
        "Taylor Michael Napoleon Julius Leonardo William Charles "
        "Ada Alan Nelson Mahatma George Angela Vladimir Joe Lionel "
        "Serena John Mary James Linda Robert Susan Peter "
        "Karen Laura Kevin Brian Nancy Jason Helen Victor Olivia Walter Diana"
    ),
    "zh": words("李 王 张 刘 陈 杨 赵 黄 周 吴 徐 孙 胡 朱 高 林 何 郭 马 罗 梁 宋 郑 谢 韩 唐 冯 于 董 萧"),
}
FAMILY: dict[Language, list[str]] = {
    "en": words(
        "Einstein Newton Curie Obama Trump Musk Gates Jobs "
        "Swift Jordan Bonaparte Caesar Shakespeare Darwin Lovelace "
        "Turing Mandela Gandhi Washington Merkel Lincoln Messi Williams "
        "Smith Miller Brown Carter Hill Baker Young "
        "Wright Scott Green Adams Nelson Parker Evans Collins Stone Fisher Palmer"
    ),
    "zh": words(
        "白 世民 自成 时珍 小龙 清照 伟 芳 娜 敏 静 丽 强 磊 军 "
        "洋 勇 艳 杰 娟 涛 明 超 秀英 霞 平 刚 桂英 文 "
        "建国 德华 一鸣 云 化腾 学友"
    ),
}
FULL_NAME: dict[Language, str] = {"en": "{} {}", "zh": "{}{}"}
PLACES: dict[Language, list[str]] = {
    "en": words(
        "Paris London Berlin Beijing Tokyo Rome Madrid Cairo Sydney Toronto Boston Chicago Delhi Oslo Lima"
    ),
    "zh": words("北京 上海 广州 深圳 杭州 南京 成都 武汉 西安 重庆 东京 巴黎 伦敦 纽约 柏林"),
}
TONGUES: dict[Language, list[str]] = {
    "en": words(
        "French German Spanish Italian Russian Japanese Korean Chinese Arabic Latin Greek Dutch Swedish"
    ),
    "zh": words("英文 法语 德语 西班牙语 意大利语 俄语 日语 韩语 阿拉伯语 拉丁语 希腊语 荷兰语"),
}
CODES = [
    "Java",
    "C",
    "C++",
    "JavaScript",
    "Rust",
    "Go",
    "Ruby",
    "PHP",
    "SQL",
    "Haskell",
    "TypeScript",
    "Kotlin",
]
