"""Selection of the messages to extract from, and detection of feedback in them."""

from collections.abc import Collection, Iterable, Sequence

from deerflow.domain.memory import ConversationMessage, FeedbackSignals
from deerflow.domain.threads import SearchableMessage

UPLOAD_BLOCKS = ("uploaded_files", "current_uploads")
"""Tags of file lists in user messages. Files belong to a thread and are not remembered."""
MAX_MESSAGE_CHARS = 4000
CUT_MARK = "\n[…]\n"


def select_messages(messages: Iterable[SearchableMessage], steps: Collection[str]) -> Sequence[ConversationMessage]:
    """Return user messages and the answers to them; `steps` are ids of replies that only call tools.

    A message that only lists files is dropped together with its answer.
    """
    kept: list[ConversationMessage] = []
    is_answer_wanted = True
    for message in messages:
        if message.role == "human":
            text = remove_uploads(message.text).strip()
            is_answer_wanted = bool(text)
            if text:
                kept.append(ConversationMessage(message.message_id, "human", shorten(text)))
        elif message.role == "ai" and is_answer_wanted and message.message_id not in steps and message.text.strip():
            kept.append(ConversationMessage(message.message_id, "ai", shorten(message.text.strip())))
    return kept


def remove_uploads(text: str) -> str:
    """Return `text` without file lists; an unclosed list extends to the end."""
    for name in UPLOAD_BLOCKS:
        begins, ends = f"<{name}>", f"</{name}>"
        pieces = text.split(begins)
        text = pieces[0] + "".join(piece.partition(ends)[2] for piece in pieces[1:])
    return text


def shorten(text: str, limit: int = MAX_MESSAGE_CHARS) -> str:
    """Return both ends of a text that is too long."""
    if len(text) <= limit:
        return text
    half = (limit - len(CUT_MARK)) // 2
    return f"{text[:half]}{CUT_MARK}{text[-half:]}"


RECENT_MESSAGES = 6
"""Number of the latest user messages that are checked."""
MAX_CHARS = 2000
"""Checked length of a message: feedback usually comes first."""

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
NOT_CORRECTIONS_ZH = ("对不对", "不对称", "没有错", "没错", "不错了", "错了吗", "不要再见")

APPROVALS = (
    *("thats right", "that is right", "thats correct", "that is correct", "youre right", "you are right", "exactly"),
    *("perfect", "spot on", "well done", "great job", "good job", "nice work", "keep doing", "keep it up", "love it"),
    *("that works", "just what i wanted", "what i wanted", "just what i needed", "thats what i meant", "much better"),
)
APPROVALS_ZH = (
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
NOT_APPROVALS_ZH = (
    "不是很好",
    "不太好",
    "不很好",
    "不够好",
    "不完美",
    "没有很好",
    "好不好",
    "不是就是这样",
    "并不完美",
)
NEGATIONS = frozenset({"not", "isnt", "arent", "wasnt", "never", "hardly", "no", "dont", "doesnt", "didnt", "nothing"})


def detect_feedback(messages: Iterable[ConversationMessage]) -> FeedbackSignals:
    """Return the feedback in the latest user messages."""
    texts = [message.text[:MAX_CHARS] for message in messages if message.role == "human"][-RECENT_MESSAGES:]
    return FeedbackSignals(any(map(is_correction, texts)), any(map(is_approval, texts)))


def is_correction(text: str) -> bool:
    """Return whether a message says that something was wrong."""
    words = _normalize(text)
    return any(f" {phrase} " in words for phrase in CORRECTIONS) or _contains_any(
        text, CORRECTIONS_ZH, NOT_CORRECTIONS_ZH
    )


def is_approval(text: str) -> bool:
    """Return whether a message says that something was right."""
    words = _normalize(text)
    return any(_is_affirmed(phrase, words) for phrase in APPROVALS) or _contains_any(
        text, APPROVALS_ZH, NOT_APPROVALS_ZH
    )


def _normalize(text: str) -> str:
    """Return `text` in lower case, with words separated by single spaces and without apostrophes."""
    joined = text.casefold().replace("'", "").replace("’", "")
    return f" {' '.join(''.join(each if each.isalnum() else ' ' for each in joined).split())} "


def _is_affirmed(phrase: str, words: str) -> bool:
    """Return whether a phrase occurs without a negation before it."""
    before, found, _ = words.partition(f" {phrase} ")
    return bool(found) and before.rpartition(" ")[2] not in NEGATIONS


def _contains_any(text: str, phrases: Iterable[str], unless: Iterable[str]) -> bool:
    for harmless in unless:
        text = text.replace(harmless, " ")
    return any(phrase in text for phrase in phrases)
