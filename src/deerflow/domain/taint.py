"""Taint tracking: untrusted content that was read in a run, the URLs in it, and its invisible characters."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

UNTRUSTED_MARK, READ_URLS_MARK = "untrusted", "read_addresses"
"""Keys of a tool message: the source of its untrusted content, and the URLs in it that subagents have read."""
WEBHOOK = "webhook"
"""Source of untrusted content: the payload of a webhook, in the first message of a run."""
MAX_URLS = 50_000
URL_PATTERN = re.compile(r"https?://[^\s<>\"'`\\\x00-\x1f]{1,4000}", re.IGNORECASE)
# Characters that may follow the end of a URL: punctuation, Markdown, JSON.
URL_END = re.compile(r"/?[.,;:!?)\]}*_|]*(?:#\S*)?(?:[\s<>\"'`\\]|\Z)")


@dataclass(slots=True)
class TaintTracker:
    """The untrusted content read by the agents of one run; shared by all of them."""

    is_resumed: bool = False
    """True if an earlier process may have read content that is not recorded here."""
    sources: set[str] = field(default_factory=set)
    """The sources of the content."""
    urls: set[str] = field(default_factory=set)
    """Normalized URLs that subagents have read."""
    user_texts: tuple[str, ...] = ()
    """Messages of the user before work was delegated to subagents."""
    untrusted_texts: tuple[tuple[str, str], ...] = ()
    """Untrusted texts before that, each with its source."""

    def add_urls(self, text: str) -> None:
        """Add the URLs in a text that a subagent has read."""
        for url in extract_urls(text):
            if len(self.urls) < MAX_URLS:
                self.urls.add(url)


def normalize_url(url: str) -> str:
    """Return a URL for comparison: without scheme and trailing slash, with the host in lower case.

    The fragment is kept: some providers read pages in a browser, where scripts see it.
    """
    text = url.strip()
    parts = urlsplit(text if "://" in text else f"https://{text}")
    rest = f"{parts.path}?{parts.query}" if parts.query else parts.path.rstrip("/")
    return f"{parts.netloc.lower()}{rest}" + (f"#{parts.fragment}" if parts.fragment else "")


def is_url(text: str) -> bool:
    """Return True if the whole text is a URL."""
    return URL_PATTERN.fullmatch(text.strip()) is not None


def extract_host(text: str) -> str:
    """Return the host of a URL in lower case; empty when there is none."""
    try:
        return (urlsplit(text.strip()).hostname or "").lower()
    except ValueError:
        return ""


def extract_urls(text: str) -> Iterator[str]:
    """Yield the normalized URLs in a text, each also without trailing punctuation."""
    for match in URL_PATTERN.finditer(text):
        url = match[0]
        yield from (normalize_url(each) for each in {url, url.rstrip(".,;:!?)]}*_|")} if is_parsable(each))


def is_parsable(url: str) -> bool:
    """Return True if a URL can be parsed."""
    try:
        urlsplit(url)
    except ValueError:
        return False
    return True


def contains_url(text: str, wanted: str) -> bool:
    """Return True if a text contains a normalized URL that ends where it ends in the text."""
    folded = text if wanted in text else lowercase_host(text, wanted)
    start = folded.find(wanted)
    while start >= 0:
        if URL_END.match(folded, start + len(wanted)):
            return True
        start = folded.find(wanted, start + 1)
    return False


def lowercase_host(text: str, wanted: str) -> str:
    """Return `text` with each occurrence of the URL's host in lower case."""
    host = wanted.partition("/")[0].partition("?")[0].partition("#")[0]
    return re.sub(re.escape(host), host, text, flags=re.IGNORECASE) if host else text


# Not preceded by a visible character outside ASCII: a letter of a script that needs joiners, or an emoji.
NOT_AFTER_VISIBLE = (
    r"(?<![^\x00-\xa0\u00ad\u034f\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufe00-\ufe0e\ufeff"
    r"\U000e0000-\U000e0fff])"
)
INVISIBLE = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    r"\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001343f"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    r"|\r(?!\n|\Z)"
    rf"|{NOT_AFTER_VISIBLE}[\u200c\u200d]"
    rf"|{NOT_AFTER_VISIBLE}[\ufe0e\ufe0f](?!\u20e3)|(?<=\ufe0f)[\ufe0e\ufe0f]"
)
"""Invisible characters, which can hide text from people: controls, zero width, text direction, tags, selectors.

Joiners and emoji selectors are allowed where languages and emoji need them. The set does not depend on the Unicode
version of Python.
"""
INVISIBLE_RUN = re.compile(f"(?:{INVISIBLE.pattern})+")
MAX_ESCAPED_RUN = 16


def escape_invisible(text: str) -> str:
    r"""Return `text` with its invisible characters written out, such as `\u{200b}`; a long run is shortened."""
    return INVISIBLE_RUN.sub(_escape_run, text)


def _escape_run(run: re.Match[str]) -> str:
    escaped = "".join(f"\\u{{{ord(character):x}}}" for character in run[0][:MAX_ESCAPED_RUN])
    rest = len(run[0]) - MAX_ESCAPED_RUN
    return f"{escaped}[{rest} more invisible characters]" if rest > 0 else escaped
