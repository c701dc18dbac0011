"""Snapshots of web pages that agents have fetched, kept for checking citations."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable
from urllib.parse import quote, unquote_to_bytes, urlsplit

DEFAULT_PORTS = {"http": 80, "https": 443}
SAFE_CHARS = "!$&'()*+,;=:@/-._~"
"""Characters besides letters and digits that are never percent-encoded."""


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """The result of fetching a page: its text, or a problem."""

    asked_url: str
    url: str
    """The URL after redirects."""
    title: str = ""
    content_type: str = ""
    text: str = ""
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class PageSnapshot:
    """The immutable metadata of a fetched page."""

    snapshot_id: str
    """A hash of the following fields without the time."""
    asked_url: str
    url: str
    title: str
    content_type: str
    text_hash: str | None
    """SHA-256 of the text; None when there is none."""
    chars: int
    problem: str | None
    """The reason why the page could not be read."""
    fetched_at: datetime
    """The time of the first fetch with this content."""
    is_kept: bool = True
    """True if the text is stored; False when the thread had too much already."""


@runtime_checkable  # LangChain validates the run context with isinstance
class ThreadPages(Protocol):
    """The fetched pages of one thread."""

    async def save(self, page: FetchedPage) -> PageSnapshot | None:
        """Store a fetched page and return its snapshot; None when the thread has too many already."""
        ...

    async def list(self) -> Sequence[PageSnapshot]:
        """Return all snapshots, also of failed fetches, oldest first."""
        ...

    async def read_texts(self, hashes: Sequence[str]) -> dict[str, str]:
        """Return the stored texts by hash; missing ones are left out."""
        ...


def canonicalize_url(url: str) -> str:
    """Return the canonical form of a URL.

    Fragment, default port, trailing slash, case of scheme and host, and percent-encoding of characters that need none
    make no difference.
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        return url.strip()
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        return url.strip()
    scheme, host = parts.scheme, to_ascii_host(parts.hostname.removesuffix("."))
    host = f"[{host}]" if ":" in host else host
    netloc = host if port in (None, DEFAULT_PORTS.get(scheme)) else f"{host}:{port}"
    path = normalize_encoding(parts.path).rstrip("/")
    return f"{scheme}://{netloc}{path}" + (f"?{normalize_encoding(parts.query, '?')}" if parts.query else "")


def to_ascii_host(host: str) -> str:
    """Return the IDNA form of a host; the host itself when it has none."""
    try:
        return host.encode("idna").decode("ascii") if not host.isascii() else host
    except UnicodeError:
        return host


def normalize_encoding(text: str, more: str = "") -> str:
    """Return a part of a URL with uniform percent-encoding; encoded separators stay encoded."""
    kept = {"%2F": "\x01", "%26": "\x02", "%3D": "\x03", "%23": "\x04", "%3F": "\x05", "%2B": "\x06", "%25": "\x07"}
    for code, mark in kept.items():
        text = text.replace(code, mark).replace(code.lower(), mark)
    text = quote(unquote_to_bytes(text), safe=SAFE_CHARS + more)
    for code, mark in kept.items():
        text = text.replace(f"%{ord(mark):02X}", code)
    return text
