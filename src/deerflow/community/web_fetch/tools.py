"""`web_fetch` without a provider: fetch a page, follow redirects, respect robots.txt (RFC 9309)."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from email.message import Message
from typing import Self

import httpx
from pydantic import Field

from deerflow.community.web.egress_transport import EgressTransport
from deerflow.community.web.http import (
    HttpClient,
    NotAllowed,
    Rejected,
    TlsTrust,
    Unreadable,
    WebRateLimited,
    WebRequest,
    WebResponse,
    WebTimeout,
    parse_host,
)
from deerflow.community.web.reader import PageReader
from deerflow.community.web.results import PageContent
from deerflow.community.web.tool import PageSettings, make_fetch_tool
from deerflow.sandbox.egress import Egress

MAX_ROBOTS_BYTES = 128 * 1024
ROBOTS_AGENT = "deerflow"
ANY_AGENT = "*"


@dataclass(frozen=True, slots=True)
class RobotsRule:
    """Rule for paths; `*` matches anything, `$` the end."""

    path: str
    allows: bool

    def matches(self, path: str) -> bool:
        """Return True if the rule applies to a path."""
        pattern = self.path.removesuffix("$")
        first, *others = pattern.split("*")
        if not path.startswith(first):
            return False
        position = len(first)
        for part in others:
            found = path.find(part, position)
            if found < 0:
                return False
            position = found + len(part)
        if not self.path.endswith("$"):
            return True
        last = others[-1] if others else first
        return position == len(path) or (bool(others) and path.endswith(last) and len(path) - len(last) >= position)


@dataclass(frozen=True, slots=True)
class RobotsRules:
    """Rules of a site for our agent."""

    rules: tuple[RobotsRule, ...] = ()

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Parse a robots.txt in linear time: the rules for our agent, else those for all agents."""
        groups: dict[str, list[RobotsRule]] = {}
        named: set[str] = set()
        is_naming = False
        for key, value in _parse_lines(body[:MAX_ROBOTS_BYTES].decode("utf-8", "replace")):
            if key == "user-agent":
                # Only two agents matter, so the cost does not grow with the number of agents.
                named = (named if is_naming else set()) | ({value.lower()} & {ROBOTS_AGENT, ANY_AGENT})
                groups |= {agent: groups.get(agent, []) for agent in named}
            elif value:
                for agent in named:
                    groups[agent].append(RobotsRule(value, allows=key == "allow"))
            is_naming = key == "user-agent"
        return cls(tuple(groups.get(ROBOTS_AGENT, groups.get(ANY_AGENT, ()))))

    def allows(self, path: str) -> bool:
        """Return True if a path with its query may be fetched: the longest rule decides, on a tie the allowing one."""
        matching = [(len(rule.path), rule.allows) for rule in self.rules if rule.matches(path)]
        return max(matching, default=(0, True))[1]


def _parse_lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield the relevant lines as key and value."""
    for line in text.splitlines():
        key, _, value = line.partition("#")[0].partition(":")
        if (key := key.strip().lower()) in ("user-agent", "allow", "disallow"):
            yield key, value.strip()


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
    """Fetcher of web pages."""

    http: HttpClient
    """Client through `Egress`, which refuses private addresses, also after redirects."""
    timeout_s: float
    respects_robots: bool = True
    user_agent: str = "Mozilla/5.0 (compatible; DeerFlow)"
    reader: PageReader = field(default_factory=PageReader)

    async def fetch(self, url: str) -> PageContent:
        """Return the page at `url` as Markdown.

        Raises:
            WebProblem: It cannot be fetched or read; the text gives the reason.
        """
        try:
            async with asyncio.timeout(self.timeout_s):
                response = await self._follow(url)
        except TimeoutError:
            raise WebTimeout(
                f"{parse_host(url)} did not answer within {self.timeout_s:g} s; try another source"
            ) from None
        self._check(response)
        return await self._read(response)

    async def _follow(self, url: str) -> WebResponse:
        """Return the response after all redirects."""
        known: dict[str, RobotsRules] = {}
        for _ in range(MAX_REDIRECTS + 1):
            await self._check_robots(url, known)
            response = await self._get(url)
            if response.status not in REDIRECTS or "location" not in response.headers:
                return response
            url = resolve_redirect(url, response.headers["location"])
        raise Rejected(f"too many redirects ({MAX_REDIRECTS}); try another source")

    async def _get(self, url: str) -> WebResponse:
        return await self.http.send(WebRequest(url, headers={"User-Agent": self.user_agent, "Accept": ACCEPT}))

    async def _check_robots(self, url: str, known: dict[str, RobotsRules]) -> None:
        """Check the robots.txt of the site, read once."""
        parse_host(url)
        if not self.respects_robots:
            return
        parsed = httpx.URL(url)
        site = f"{parsed.scheme}://{parsed.netloc.decode('ascii')}"
        if site not in known:
            known[site] = await self._read_robots(site)
        if not known[site].allows(parsed.raw_path.decode("ascii")):
            raise NotAllowed(
                f"the robots.txt of {parsed.host} asks {ROBOTS_AGENT} not to visit this page; try another source"
            )

    async def _read_robots(self, site: str) -> RobotsRules:
        url = f"{site}/robots.txt"
        for _ in range(MAX_REDIRECTS):
            response = await self._get(url)
            if response.status not in REDIRECTS or "location" not in response.headers:
                break
            url = resolve_redirect(url, response.headers["location"])
        if response.status >= 500 or response.status == 429:
            raise NotAllowed(f"the robots.txt of {site} is unavailable (status {response.status}); try again later")
        return RobotsRules.parse(response.body) if response.status == 200 else RobotsRules()

    def _check(self, response: WebResponse) -> None:
        """Raise the error for a status that is not a page."""
        status, host = response.status, parse_host(response.url)
        if status == 429:
            raise WebRateLimited(f"{host} asks to slow down; try another source, or this one later")
        if status in (404, 410):
            raise Rejected(f"there is no page at {response.url} (status {status}); check the address or search for it")
        if status in (401, 402, 403, 451):
            raise Rejected(f"{host} denies access to this page (status {status}); try another source")
        if status >= 400:
            raise Rejected(f"{host} answered with status {status}; try another source, or this one later")

    async def _read(self, response: WebResponse) -> PageContent:
        kind, charset = detect_content_type(response)
        note = (
            f"Only the first {len(response.body)} bytes of the page were read; it is longer."
            if response.is_truncated
            else ""
        )
        if is_pdf(kind, response.body):
            return await self._read_pdf(response)
        if kind in HTML:
            found = await self.reader.page(response.body, charset, response.url)
        elif kind.startswith("text/") or kind in TEXT or kind.endswith(TEXT_SUFFIXES):
            found = await self.reader.text(response.body, charset)
        else:
            raise Unreadable(describe_unreadable(response, kind))
        return PageContent(response.url, found.title, found.text, kind, note)

    async def _read_pdf(self, response: WebResponse) -> PageContent:
        """Return the text of a PDF file; a cut file cannot be read."""
        if response.is_truncated:
            raise Unreadable(
                f"{response.url} is a PDF file of more than {len(response.body)} bytes, which is too large to be read "
                "here (max_pdf_bytes in config.yaml); look for the same content as a web page"
            )
        found = await self.reader.pdf(response.body)
        if found.problem == "encrypted":
            raise Unreadable(f"{response.url} is a PDF file that needs a password; look for the same content elsewhere")
        if found.problem == "damaged":
            raise Unreadable(f"{response.url} is a damaged PDF file; look for the same content elsewhere")
        if not found.text:
            raise Unreadable(
                f"{response.url} is a PDF file of {found.pages} pages without text, perhaps pictures of it; look for "
                "the same content as a web page"
            )
        missing = f"Only the first {found.read} of {found.pages} pages were read." if found.read < found.pages else ""
        return PageContent(response.url, found.title, found.text, PDF, missing)


def is_pdf(kind: str, body: bytes) -> bool:
    """Return True if a body is a PDF file, also without a content type."""
    is_text = kind in HTML or kind in TEXT or kind.startswith("text/")
    return kind == PDF or (not is_text and PDF_MARK in body[:SNIFFED_BYTES])


def describe_unreadable(response: WebResponse, kind: str) -> str:
    """Return the message for content that cannot be read here."""
    size = response.headers.get("content-length", f"at least {len(response.body)}")
    if kind.startswith("image/"):
        return (
            f"{response.url} is an image ({kind}, {size} bytes), which web_fetch does not show; to look at it, "
            "download it in the sandbox if its network allows and use view_image; images are found with image_search"
        )
    return (
        f"{response.url} is no text but {kind} ({size} bytes), which web_fetch does not read; look for the same "
        "content as a web page, or download it in the sandbox if its network allows"
    )


def resolve_redirect(url: str, location: str) -> str:
    """Return the target of a redirect.

    Raises:
        NotAllowed: The target is not a valid URL.
    """
    try:
        return str(httpx.URL(url).join(location))
    except httpx.InvalidURL as problem:
        raise NotAllowed(f"the page redirects to {location[:200]!r}, which is not a valid URL") from problem


def detect_content_type(response: WebResponse) -> tuple[str, str | None]:
    """Return content type and charset of a response; without a header, by its content."""
    message = Message()
    message["content-type"] = response.headers.get("content-type", "")
    if "/" in message["content-type"]:
        return message.get_content_type(), message.get_content_charset()
    beginning = response.body[:SNIFFED_BYTES]
    if b"\0" in beginning:
        return "application/octet-stream", None
    return ("text/html" if beginning.lstrip().startswith(b"<") else "text/plain"), None


class WebFetchSettings(PageSettings):
    """Settings of `web_fetch`."""

    max_bytes: int = Field(default=5_000_000, ge=10_000, le=50_000_000, description="Maximum bytes of a page.")
    max_pdf_bytes: int = Field(
        default=20_000_000, ge=10_000, le=100_000_000, description="Maximum bytes of a PDF file."
    )
    respect_robots: bool = Field(default=True, description="Respect robots.txt.")
    allow_private_addresses: bool = Field(
        default=False, description="Allow pages of this machine and of private networks."
    )
    user_agent: str = Field(
        default="Mozilla/5.0 (compatible; DeerFlow)", min_length=1, description="User-Agent header."
    )


def make_fetch(settings: WebFetchSettings) -> Callable[[str], Awaitable[PageContent]]:
    """Return the fetch function for the settings."""
    hosts = settings.hosts
    egress = Egress(is_allowed=lambda _: True, hosts=hosts) if settings.allow_private_addresses else Egress(hosts=hosts)
    trust = TlsTrust()
    size_limits = {PDF: settings.max_pdf_bytes}
    http = HttpClient(settings.timeout, settings.max_bytes, EgressTransport(egress, trust), trust, size_limits)
    return PageFetcher(http, settings.timeout, settings.respect_robots, settings.user_agent).fetch


web_fetch_tool = make_fetch_tool(WebFetchSettings, make_fetch)
