"""Output of commands, read with bounded memory."""

import asyncio
import codecs
from collections import deque
from collections.abc import Callable

CHUNK = 64 * 1024
FLOOD_PAUSE_S = 0.002
"""Pause after each full chunk, so that a flooding command slows down itself and not the server."""
DEFAULT_MAX_CHARS = 256 * 1024


class BoundedText:
    """Both ends of a long text: the start explains, the end shows how it finished."""

    def __init__(self, max_chars: int = DEFAULT_MAX_CHARS) -> None:
        self._half = max_chars // 2
        self._head: list[str] = []
        self._head_remaining = self._half
        self._tail: deque[str] = deque()
        self._tail_size = 0
        self.omitted = 0

    def add(self, text: str) -> None:
        """Add text."""
        head, rest = text[: self._head_remaining], text[self._head_remaining :]
        if head:
            self._head.append(head)
            self._head_remaining -= len(head)
        if not rest:
            return
        self._tail.append(rest)
        self._tail_size += len(rest)
        while self._tail and self._tail_size - len(self._tail[0]) >= self._half:
            dropped = len(self._tail.popleft())
            self._tail_size -= dropped
            self.omitted += dropped

    def take(self) -> tuple[str, bool]:
        """Return the text, and True if something was omitted."""
        head, tail = "".join(self._head), "".join(self._tail)
        surplus = max(0, len(tail) - self._half)
        omitted = self.omitted + surplus
        if not omitted:
            return head + tail, False
        return f"{head}{format_omission(omitted)}{tail[surplus:]}", True


class OutputReader:
    """Reader of a pipe as text."""

    def __init__(
        self, text: BoundedText, listener: Callable[[str], None] | None = None, limit: int | None = None
    ) -> None:
        """Create it. Reading stops after `limit` bytes."""
        self._text = text
        self._listener = listener
        self._limit = limit
        self.rename: Callable[[str], str] = str
        """Replaces the paths of this machine by those of the sandbox."""
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.size = 0

    @property
    def limit_exceeded(self) -> bool:
        return self._limit is not None and self.size > self._limit

    async def read(self, stream: asyncio.StreamReader) -> None:
        """Read until the pipe is closed or the limit is exceeded."""
        while chunk := await stream.read(CHUNK):
            self._add(self.rename(self._decoder.decode(chunk)))
            self.size += len(chunk)
            if self.limit_exceeded:
                return
            if len(chunk) == CHUNK:
                await asyncio.sleep(FLOOD_PAUSE_S)
        self._add(self._decoder.decode(b"", final=True))

    def add_note(self, text: str) -> None:
        """Append a note about the command to its output."""
        self._add(f"\n[{text}]")

    def _add(self, text: str) -> None:
        if not text:
            return
        self._text.add(text)
        if self._listener is not None:
            self._listener(text)


def clip_middle(text: str, limit: int) -> tuple[str, bool]:
    """Return both ends of `text`, and True if the middle was omitted. A limit of 0 keeps everything."""
    if not limit or len(text) <= limit:
        return text, False
    half = limit // 2
    return f"{text[:half]}{format_omission(len(text) - 2 * half)}{text[-half:]}", True


def format_omission(omitted: int) -> str:
    """Return the marker for omitted text."""
    return f"\n[… {omitted} characters left out …]\n"
