"""Pages that agents have read in a thread, kept as they were then, so that what is said of them can be checked."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable
from urllib.parse import quote, unquote_to_bytes, urlsplit

DEFAULT_PORTS = {"http": 80, "https": 443}
PLAIN = "!$&'()*+,;=:@/-._~"
"""What is never written as a percent sign and a number in an address, except for letters and digits."""


@dataclass(frozen=True, slots=True)
class ReadPage:
    """What came of reading a page: its text, or a problem."""

    asked_url: str
    url: str
    """Where the redirects led."""
    title: str = ""
    content_type: str = ""
    text: str = ""
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class PageSnapshot:
    """What is known of a page that was read; it never changes."""

    snapshot_id: str
    """A hash of all that follows, but for the time."""
    asked_url: str
    url: str
    title: str
    content_type: str
    text_hash: str | None
    """SHA-256 of the text; None when there is none."""
    chars: int
    problem: str | None
    """Why the page could not be read, if so."""
    fetched_at: datetime
    """When it was first seen so."""
    is_kept: bool = True
    """Whether the text is here; False when the thread held too much already."""


@runtime_checkable  # LangChain validates the run context with isinstance
class ThreadPages(Protocol):
    """The pages of one thread."""

    async def keep(self, page: ReadPage) -> PageSnapshot | None:
        """Keep what came of reading a page; None when the thread holds too many already."""
        ...

    async def all(self) -> Sequence[PageSnapshot]:
        """Every page that was read, and every one that could not be, oldest first."""
        ...

    async def texts(self, hashes: Sequence[str]) -> dict[str, str]:
        """Texts by their hashes, as far as they are kept."""
        ...


def same_page(url: str) -> str:
    """What all ways to write the address of a page have in common.

    Not told apart are what the browser keeps to itself (the fragment), the default port, a slash at the end, the case
    of scheme and host, and whether a character is written as itself or by its number.
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        return url.strip()
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        return url.strip()
    scheme, host = parts.scheme, in_ascii(parts.hostname.removesuffix("."))
    host = f"[{host}]" if ":" in host else host
    place = host if port in (None, DEFAULT_PORTS.get(scheme)) else f"{host}:{port}"
    path = spelled(parts.path).rstrip("/")
    return f"{scheme}://{place}{path}" + (f"?{spelled(parts.query, '?')}" if parts.query else "")


def in_ascii(host: str) -> str:
    """A host in A-labels, as far as it can be."""
    try:
        return host.encode("idna").decode("ascii") if not host.isascii() else host
    except UnicodeError:
        return host


def spelled(text: str, more: str = "") -> str:
    """A part of an address with each character written in one way; what separates is not unquoted."""
    kept = {"%2F": "\x01", "%26": "\x02", "%3D": "\x03", "%23": "\x04", "%3F": "\x05", "%2B": "\x06", "%25": "\x07"}
    for code, mark in kept.items():
        text = text.replace(code, mark).replace(code.lower(), mark)
    text = quote(unquote_to_bytes(text), safe=PLAIN + more)
    for code, mark in kept.items():
        text = text.replace(f"%{ord(mark):02X}", code)
    return text
