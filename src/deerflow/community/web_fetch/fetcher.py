"""Fetches a page: every step of the way is checked, and what comes is made readable elsewhere."""

import asyncio
from dataclasses import dataclass, field
from email.message import Message

import httpx

from deerflow.community.web.http import Ask, Http, Reply, host_of
from deerflow.community.web.problems import NotAllowed, RateLimited, Rejected, TooSlow, Unreadable
from deerflow.community.web.reader import Reader
from deerflow.community.web.results import Page
from deerflow.community.web_fetch.robots import AGENT, Robots

MAX_REDIRECTS = 5
REDIRECTS = (301, 302, 303, 307, 308)
PDF = "application/pdf"
PDF_MARK = b"%PDF-"
HTML = frozenset({"text/html", "application/xhtml+xml"})
TEXT = frozenset({"application/json", "application/xml", "application/javascript", "application/x-ndjson"})
TEXT_SUFFIXES = ("+json", "+xml")
SNIFFED_BYTES = 1024
ACCEPT = (
    "text/html,application/xhtml+xml,text/plain;q=0.9,text/markdown;q=0.9,application/json;q=0.8,application/pdf;q=0.8,"
    "*/*;q=0.5"
)


@dataclass(frozen=True, slots=True)
class PageFetcher:
    """Reads pages of the web for agents."""

    http: Http
    """Goes through `Egress`: private addresses are refused there, also those that a redirect leads to."""
    timeout_s: float
    respects_robots: bool = True
    user_agent: str = "Mozilla/5.0 (compatible; DeerFlow)"
    reader: Reader = field(default_factory=Reader)

    async def fetch(self, url: str) -> Page:
        """The page at `url`, as Markdown.

        Raises:
            WebProblem: It cannot be had or read; the text says why.
        """
        try:
            async with asyncio.timeout(self.timeout_s):
                reply = await self._follow(url)
        except TimeoutError:
            raise TooSlow(f"{host_of(url)} did not answer within {self.timeout_s:g} s; try another source") from None
        self._check(reply)
        return await self._read(reply)

    async def _follow(self, url: str) -> Reply:
        """The answer at the end of all redirects."""
        known: dict[str, Robots] = {}
        for _ in range(MAX_REDIRECTS + 1):
            await self._ask_permission(url, known)
            reply = await self._get(url)
            if reply.status not in REDIRECTS or "location" not in reply.headers:
                return reply
            url = joined(url, reply.headers["location"])
        raise Rejected(f"the page only leads from one address to the next, {MAX_REDIRECTS} times; try another source")

    async def _get(self, url: str) -> Reply:
        return await self.http.send(Ask(url, headers={"User-Agent": self.user_agent, "Accept": ACCEPT}))

    async def _ask_permission(self, url: str, known: dict[str, Robots]) -> None:
        """Look into the robots.txt of the site, once."""
        host_of(url)
        if not self.respects_robots:
            return
        parsed = httpx.URL(url)
        site = f"{parsed.scheme}://{parsed.netloc.decode('ascii')}"
        if site not in known:
            known[site] = await self._robots(site)
        if not known[site].allow(parsed.raw_path.decode("ascii")):
            raise NotAllowed(f"the robots.txt of {parsed.host} asks {AGENT} not to visit this page; try another source")

    async def _robots(self, site: str) -> Robots:
        url = f"{site}/robots.txt"
        for _ in range(MAX_REDIRECTS):
            reply = await self._get(url)
            if reply.status not in REDIRECTS or "location" not in reply.headers:
                break
            url = joined(url, reply.headers["location"])
        if reply.status >= 500 or reply.status == 429:
            raise NotAllowed(f"{site} cannot say what it asks of robots (status {reply.status}); try again later")
        return Robots.read(reply.body) if reply.status == 200 else Robots()

    def _check(self, reply: Reply) -> None:
        """Raise what a status means, unless it means that here is the page."""
        status, host = reply.status, host_of(reply.url)
        if status == 429:
            raise RateLimited(f"{host} asks to slow down; try another source, or this one later")
        if status in (404, 410):
            raise Rejected(f"there is no page at {reply.url} (status {status}); check the address or search for it")
        if status in (401, 402, 403, 451):
            raise Rejected(f"{host} does not show this page to us (status {status}); try another source")
        if status >= 400:
            raise Rejected(f"{host} answered with status {status}; try another source, or this one later")

    async def _read(self, reply: Reply) -> Page:
        kind, charset = content_type(reply)
        note = f"Only the first {len(reply.body)} bytes of the page were read; it is longer." if reply.is_cut else ""
        if is_pdf(kind, reply.body):
            return await self._read_pdf(reply)
        if kind in HTML:
            found = await self.reader.page(reply.body, charset, reply.url)
        elif kind.startswith("text/") or kind in TEXT or kind.endswith(TEXT_SUFFIXES):
            found = await self.reader.text(reply.body, charset)
        else:
            raise Unreadable(what_it_is(reply, kind))
        return Page(reply.url, found.title, found.text, kind, note)

    async def _read_pdf(self, reply: Reply) -> Page:
        """The text of a PDF file; a part of one cannot be read."""
        if reply.is_cut:
            raise Unreadable(
                f"{reply.url} is a PDF file of more than {len(reply.body)} bytes, which is too large to be read here "
                "(max_pdf_bytes in config.yaml); look for the same content as a web page"
            )
        found = await self.reader.pdf(reply.body)
        if found.problem == "encrypted":
            raise Unreadable(f"{reply.url} is a PDF file that needs a password; look for the same content elsewhere")
        if found.problem == "damaged":
            raise Unreadable(f"{reply.url} is a damaged PDF file; look for the same content elsewhere")
        if not found.text:
            raise Unreadable(
                f"{reply.url} is a PDF file of {found.pages} pages without text, perhaps pictures of it; look for the "
                "same content as a web page"
            )
        missing = f"Only the first {found.read} of {found.pages} pages were read." if found.read < found.pages else ""
        return Page(reply.url, found.title, found.text, PDF, missing)


def is_pdf(kind: str, body: bytes) -> bool:
    """Whether a body is a PDF file, also one that nobody says anything of."""
    is_text = kind in HTML or kind in TEXT or kind.startswith("text/")
    return kind == PDF or (not is_text and PDF_MARK in body[:SNIFFED_BYTES])


def what_it_is(reply: Reply, kind: str) -> str:
    """What the model is told of something it cannot read here."""
    size = reply.headers.get("content-length", f"at least {len(reply.body)}")
    if kind.startswith("image/"):
        return (
            f"{reply.url} is an image ({kind}, {size} bytes), which web_fetch does not show; to look at it, download "
            "it in the sandbox if its network allows and use view_image; images are found with image_search"
        )
    return (
        f"{reply.url} is no text but {kind} ({size} bytes), which web_fetch does not read; look for the same "
        "content as a web page, or download it in the sandbox if its network allows"
    )


def joined(url: str, location: str) -> str:
    """Where a redirect leads.

    Raises:
        NotAllowed: Nowhere that could be visited.
    """
    try:
        return str(httpx.URL(url).join(location))
    except httpx.InvalidURL as problem:
        raise NotAllowed(f"the page leads to {location[:200]!r}, which is no address") from problem


def content_type(reply: Reply) -> tuple[str, str | None]:
    """What a body is said to be, and in which encoding; where nothing is said, what it looks like."""
    message = Message()
    message["content-type"] = reply.headers.get("content-type", "")
    if "/" in message["content-type"]:
        return message.get_content_type(), message.get_content_charset()
    beginning = reply.body[:SNIFFED_BYTES]
    if b"\0" in beginning:
        return "application/octet-stream", None
    return ("text/html" if beginning.lstrip().startswith(b"<") else "text/plain"), None
