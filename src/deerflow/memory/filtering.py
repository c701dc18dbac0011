"""What of a conversation may be learned from: what people wrote themselves, and what they were answered."""

from collections.abc import Collection, Iterable, Sequence

from deerflow.domain.learning import Heard
from deerflow.domain.search import SaidMessage

UPLOAD_BLOCKS = ("uploaded_files", "current_uploads")
"""Lists of files that some programs put into the messages of people; files come and go with a thread."""
MOST_CHARS = 4000
CUT_MARK = "\n[…]\n"


def worth_learning(said: Iterable[SaidMessage], steps: Collection[str]) -> Sequence[Heard]:
    """The messages of people and the answers to them; `steps` are replies that only call tools on the way to one.

    Of a message that only brings files nothing is left, nor of the answer to it.
    """
    kept: list[Heard] = []
    is_answer_wanted = True
    for message in said:
        if message.role == "human":
            text = without_uploads(message.text).strip()
            is_answer_wanted = bool(text)
            if text:
                kept.append(Heard(message.message_id, "human", shortened(text)))
        elif message.role == "ai" and is_answer_wanted and message.message_id not in steps and message.text.strip():
            kept.append(Heard(message.message_id, "ai", shortened(message.text.strip())))
    return kept


def without_uploads(text: str) -> str:
    """`text` without lists of files; one that never ends takes the rest with it."""
    for name in UPLOAD_BLOCKS:
        begins, ends = f"<{name}>", f"</{name}>"
        pieces = text.split(begins)
        text = pieces[0] + "".join(piece.partition(ends)[2] for piece in pieces[1:])
    return text


def shortened(text: str, limit: int = MOST_CHARS) -> str:
    """Both ends of a text that is too long."""
    if len(text) <= limit:
        return text
    half = (limit - len(CUT_MARK)) // 2
    return f"{text[:half]}{CUT_MARK}{text[-half:]}"
