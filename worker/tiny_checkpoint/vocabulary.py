"""The tiny model's vocabulary: every byte, a few hundred whole words, and LLaDA's role tokens."""

from __future__ import annotations

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

MASK = "<|mask|>"
END_OF_TEXT = "<|endoftext|>"
SPECIAL_TOKENS = ["<|startoftext|>", END_OF_TEXT, MASK, "<role>", "</role>", "<|role_end|>"]

# Whole tokens so that a chat's frame is short; an answer never contains them.
FRAME_WORDS = ["SYSTEM", "HUMAN", "ASSISTANT", "OBSERVATION", "detailed", " thinking", " off", " on"]

PUNCTUATION = list(",.!?;:") + ["\n"]

# Each is one token with its leading space.
ENGLISH = """
a about above across after again air all almost along also always am among an and animal another answer any
are area around as ask at away back bank be bear because become bed been before began begin being below best
better between big bird black blue boat body book both box boy bread bridge bright bring brother build built
busy but buy by call came can car care carry castle cat catch center change child city class clean clear climb
close cloud coast cold color come common cook cool copper could country course cross cry cut dance dark day
deep did different dinner do doctor does dog done door down draw dream drink drive dry during each early earth
east easy eat edge eight else empty end enough even evening ever every eye face fact fall family far farm fast
father feel feet few field fight figure fill final find fine fire first fish five floor flow flower fly follow
food for forest form four free fresh friend from front fruit full game garden gave get girl give glass go gold
gone good got grass great green ground group grow had hair half hand happy hard has have he head hear heart
heat heavy help her here high hill him his hold home hope horse hot hour house how hundred idea if in inch
into iron is island it its join jump just keep kind king knew know land language large last late laugh law
lead learn leave left less let letter life light like line list listen little live long look love low made
make man many map mark market may me mean measure men might mile mind minute money month moon more morning
most mother mountain move much music must my name near need never new next night nine no noon north not note
now number ocean of often oil old once one only open or order other our out over own page paint paper part
pass past path pattern peace people perhaps person picture piece place plain plan plant play point port pose
power pull put queen question quick quiet rain ran reach read real red remember rest rich ride right river
road rock room round rule run sail salt same sand say school sea season second seem self sentence serve set
seven several shape she ship short should show side silver simple since sing six size sky sleep slow small
snow so some song soon sound south space speak spring square stand star start state stay step still stone
stood stop story street strong study such summer sun sure table take talk teach tell ten test than that the
their them then there these they thing think this those thought three through time to together told too took
top town travel tree true try turn two under unit until up us use very voice wait walk wall want war warm was
watch water wave way we weather week well went were west what wheel when where which while white who whole why
wide wild will wind window winter wish with wood word work world would write year yellow yes you young your
""".split()

# One token a character, as a run of Chinese text is cut into characters before it is looked up.
CHINESE = list(
    "的一是不了人我在有他这中大来上个国和地到们说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行"
    "所然家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者意"
    "无力它与长把机十民第公此已工使情明性知全三又关点正业外将两高间由问很最重并物手应战向头文体政美相见被利"
    "什二等产或新己制身果加西斯月话合回特代内信表化老给世位次度门任常先海通教儿原东声提立及比员解水名真论处"
    "走义各入几口认条平系气题活尔更别打女变四神总何电数安少报才结反受目太量再感建务做接必场件计管期市直德资"
    "命山金指克许统区保至队形社便空决治展马科司五基眼书非则听白却界达光放强即像难且权思王象完设式色路记南品"
)

def spoken() -> list[str]:
    """Tokens that answers are made of, in order of their ids."""
    return PUNCTUATION + [f" {word}" for word in ENGLISH] + CHINESE


def tokenizer() -> Tokenizer:
    """A byte-level tokenizer in which a listed word is one token and anything else is its bytes."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {symbol: index for index, symbol in enumerate(alphabet)}
    for word in [*FRAME_WORDS, *spoken()]:
        vocabulary.setdefault(_symbols(word), len(vocabulary))
    built = Tokenizer(models.BPE(vocab=vocabulary, merges=[], ignore_merges=True))
    built.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\p{Han}"), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    built.decoder = decoders.ByteLevel()
    built.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    return built


def _symbols(text: str) -> str:
    """Each byte of the text as the printable character that byte-level vocabularies write it with."""
    pieces = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(text)
    return "".join(symbols for symbols, _ in pieces)
