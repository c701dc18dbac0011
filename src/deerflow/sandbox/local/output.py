"""What a command prints, kept within bounds while it comes."""

import asyncio
import codecs
from collections import deque
from collections.abc import Callable

CHUNK = 64 * 1024
PAUSE_S = 0.002
"""After each chunk, so that a command that floods us slows down itself and not the server."""
DEFAULT_KEPT = 256 * 1024


class BoundedText:
    """Both ends of a text of any length: what came first explains, what came last says how it ended."""

    def __init__(self, kept: int = DEFAULT_KEPT) -> None:
        self._half = kept // 2
        self._head: list[str] = []
        self._head_room = self._half
        self._tail: deque[str] = deque()
        self._tail_size = 0
        self.left_out = 0

    def add(self, text: str) -> None:
        """Take in what came next."""
        head, rest = text[: self._head_room], text[self._head_room :]
        if head:
            self._head.append(head)
            self._head_room -= len(head)
        if not rest:
            return
        self._tail.append(rest)
        self._tail_size += len(rest)
        while self._tail and self._tail_size - len(self._tail[0]) >= self._half:
            gone = len(self._tail.popleft())
            self._tail_size -= gone
            self.left_out += gone

    def take(self) -> tuple[str, bool]:
        """What is kept, and whether something is missing from it."""
        head, tail = "".join(self._head), "".join(self._tail)
        surplus = max(0, len(tail) - self._half)
        left_out = self.left_out + surplus
        if not left_out:
            return head + tail, False
        return f"{head}{note(left_out)}{tail[surplus:]}", True


class OutputReader:
    """Reads one end of a pipe to its end, as text."""

    def __init__(
        self, text: BoundedText, listener: Callable[[str], None] | None = None, limit: int | None = None
    ) -> None:
        """`limit` is after how many bytes the flood is given up."""
        self._text = text
        self._listener = listener
        self._limit = limit
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.size = 0

    @property
    def is_flooded(self) -> bool:
        return self._limit is not None and self.size > self._limit

    async def read(self, stream: asyncio.StreamReader) -> None:
        """Take in everything until the pipe is closed or there is too much of it."""
        while chunk := await stream.read(CHUNK):
            self._take(self._decoder.decode(chunk))
            self.size += len(chunk)
            if self.is_flooded:
                return
            if len(chunk) == CHUNK:
                await asyncio.sleep(PAUSE_S)
        self._take(self._decoder.decode(b"", final=True))

    def add_note(self, text: str) -> None:
        """Say something about the command, after what it has said."""
        self._take(f"\n[{text}]")

    def _take(self, text: str) -> None:
        if not text:
            return
        self._text.add(text)
        if self._listener is not None:
            self._listener(text)


def clip_middle(text: str, limit: int) -> tuple[str, bool]:
    """Both ends of `text`, and whether something is missing between them. No limit: 0."""
    if not limit or len(text) <= limit:
        return text, False
    half = limit // 2
    return f"{text[:half]}{note(len(text) - 2 * half)}{text[-half:]}", True


def note(left_out: int) -> str:
    """What stands where something is missing."""
    return f"\n[… {left_out} characters left out …]\n"
