"""What was read in a run, and by whom it was written."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

UNTRUSTED_MARK, ADDRESSES_MARK = "untrusted", "read_addresses"
"""Under these names a tool's message says whose words it brings, and which addresses in it were read by subagents."""
MAX_ADDRESSES = 50_000
ADDRESS = re.compile(r"https?://[^\s<>\"'`\\\x00-\x1f]{1,4000}", re.IGNORECASE)
# What may follow an address that ends there: the marks of a sentence, of Markdown, of JSON.
AFTER = re.compile(r"/?[.,;:!?)\]}*_|]*(?:#\S*)?(?:[\s<>\"'`\\]|\Z)")


@dataclass(slots=True)
class Reading:
    """What the agents of one run have read; one for all of them."""

    is_resumed: bool = False
    """Whether an earlier process may have read something that nobody remembers."""
    sources: set[str] = field(default_factory=set)
    """Whose words were read."""
    addresses: set[str] = field(default_factory=set)
    """The addresses that subagents have seen, without what does not matter of them."""
    wrote: tuple[str, ...] = ()
    """What the user wrote before work was given to subagents."""
    heard: tuple[tuple[str, str], ...] = ()
    """What strangers said before that, each with whose words it is."""

    def note_addresses(self, text: str) -> None:
        """Remember the addresses in what a subagent has read."""
        for address in addresses_in(text):
            if len(self.addresses) < MAX_ADDRESSES:
                self.addresses.add(address)


def essence(address: str) -> str:
    """An address as it is compared: without scheme and last slash, its host in small letters.

    The fragment stays: some providers read pages in a browser, where scripts see it.
    """
    text = address.strip()
    parts = urlsplit(text if "://" in text else f"https://{text}")
    rest = f"{parts.path}?{parts.query}" if parts.query else parts.path.rstrip("/")
    return f"{parts.netloc.lower()}{rest}" + (f"#{parts.fragment}" if parts.fragment else "")


def is_address(text: str) -> bool:
    """Whether a text is an address and nothing else."""
    return ADDRESS.fullmatch(text.strip()) is not None


def host_of(text: str) -> str:
    """The host of an address, or nothing."""
    try:
        return (urlsplit(text.strip()).hostname or "").lower()
    except ValueError:
        return ""


def addresses_in(text: str) -> Iterator[str]:
    """The addresses in a text as they are compared, also without the marks that often follow one."""
    for found in ADDRESS.finditer(text):
        address = found[0]
        yield from (essence(each) for each in {address, address.rstrip(".,;:!?)]}*_|")} if safe(each))


def safe(address: str) -> bool:
    """Whether an address can be taken apart."""
    try:
        urlsplit(address)
    except ValueError:
        return False
    return True


def mentions(text: str, wanted: str) -> bool:
    """Whether an address, as `essence` has it, stands in a text and ends where it ends there."""
    folded = text if wanted in text else fold_host(text, wanted)
    start = folded.find(wanted)
    while start >= 0:
        if AFTER.match(folded, start + len(wanted)):
            return True
        start = folded.find(wanted, start + 1)
    return False


def fold_host(text: str, wanted: str) -> str:
    """`text` with the host of an address in small letters, wherever it stands."""
    host = wanted.partition("/")[0].partition("?")[0].partition("#")[0]
    return re.sub(re.escape(host), host, text, flags=re.IGNORECASE) if host else text
