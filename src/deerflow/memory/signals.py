"""Whether a person corrects what they were told, or approves of it: by phrases, in English and Chinese.

A hint for whoever reads the conversation, no more. Texts are searched for fixed phrases, so it takes linear time.
"""

from collections.abc import Iterable

from deerflow.domain.learning import Heard, Signs

LATEST = 6
"""So many of a person's latest messages are looked at."""
MOST_CHARS = 2000
"""People correct and praise at the beginning of what they say."""

CORRECTIONS = (
    *("thats wrong", "that is wrong", "this is wrong", "its wrong", "youre wrong", "you are wrong", "wrong answer"),
    *("thats not right", "that is not right", "thats not correct", "that is not correct", "isnt right", "isnt correct"),
    *("thats incorrect", "that is incorrect", "you misunderstood", "you got it wrong", "you got that wrong"),
    *("you made a mistake", "not what i asked", "not what i meant", "not what i wanted", "not what i said"),
    *("i meant", "i said", "i told you", "i didnt ask", "i didnt say", "try again", "do it again", "redo it"),
    *("correction", "stop doing", "dont do that", "never do that", "please dont", "actually no"),
)
CORRECTIONS_ZH = (
    *(
        "不对",
        "错了",
        "不正确",
        "有误",
        "搞错",
        "弄错",
        "说错",
        "你误解",
        "误会了",
        "理解错",
        "不是这样",
        "不是这个意思",
    ),
    *(
        "我的意思是",
        "我说的是",
        "我要的是",
        "重试",
        "重新来",
        "再试一次",
        "重做",
        "纠正",
        "更正",
        "不要再",
        "别再",
        "应该是",
    ),
)
NO_CORRECTIONS_ZH = ("对不对", "不对称", "没有错", "没错", "不错了", "错了吗", "不要再见")

PRAISE = (
    *("thats right", "that is right", "thats correct", "that is correct", "youre right", "you are right", "exactly"),
    *("perfect", "spot on", "well done", "great job", "good job", "nice work", "keep doing", "keep it up", "love it"),
    *("that works", "just what i wanted", "what i wanted", "just what i needed", "thats what i meant", "much better"),
)
PRAISE_ZH = (
    *(
        "没错",
        "完全正确",
        "说得对",
        "你是对的",
        "就是这样",
        "正是我",
        "太棒了",
        "太好了",
        "很好",
        "非常好",
        "完美",
        "做得好",
    ),
    *("干得好", "继续这样", "保持这样", "就要这样", "好多了", "正合我意"),
)
NO_PRAISE_ZH = ("不是很好", "不太好", "不很好", "不够好", "不完美", "没有很好", "好不好", "不是就是这样", "并不完美")
DENIALS = frozenset({"not", "isnt", "arent", "wasnt", "never", "hardly", "no", "dont", "doesnt", "didnt", "nothing"})


def signs_in(messages: Iterable[Heard]) -> Signs:
    """What a person's latest messages let on."""
    texts = [message.text[:MOST_CHARS] for message in messages if message.role == "human"][-LATEST:]
    return Signs(any(map(corrects, texts)), any(map(approves, texts)))


def corrects(text: str) -> bool:
    """Whether somebody says that something was wrong."""
    words = _in_plain_words(text)
    return any(f" {phrase} " in words for phrase in CORRECTIONS) or _says(text, CORRECTIONS_ZH, NO_CORRECTIONS_ZH)


def approves(text: str) -> bool:
    """Whether somebody says that something was right."""
    words = _in_plain_words(text)
    return any(_is_meant(phrase, words) for phrase in PRAISE) or _says(text, PRAISE_ZH, NO_PRAISE_ZH)


def _in_plain_words(text: str) -> str:
    """`text` in small letters, its words between single blanks and without their apostrophes."""
    joined = text.casefold().replace("'", "").replace("’", "")
    return f" {' '.join(''.join(each if each.isalnum() else ' ' for each in joined).split())} "


def _is_meant(phrase: str, words: str) -> bool:
    """Whether a phrase is there and not denied by the word before it."""
    before, found, _ = words.partition(f" {phrase} ")
    return bool(found) and before.rpartition(" ")[2] not in DENIALS


def _says(text: str, phrases: Iterable[str], unless: Iterable[str]) -> bool:
    for harmless in unless:
        text = text.replace(harmless, " ")
    return any(phrase in text for phrase in phrases)
