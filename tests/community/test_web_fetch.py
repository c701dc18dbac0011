"""Our own page fetcher, against a hostile local site."""

import asyncio
import gzip
import os
import re
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
import uvloop

from deerflow.community.web.egress_transport import EgressTransport
from deerflow.community.web.http import HttpClient, NotAllowed, TlsTrust, WebProblem
from deerflow.community.web.reader import PageReader, ReaderLimits
from deerflow.community.web.results import PageContent, RecentPages
from deerflow.community.web_fetch.tools import PageFetcher, RobotsRules
from deerflow.sandbox.egress import Egress, IPAddress, Streams, dial
from tests.certificates import make_certificate
from tests.community.web_site import ScriptedResponse, Site, call_tool, create_tool, html_response, open_site, redirect

MEGABYTE = 1_000_000
PRIVATE = (
    "127.0.0.1", "[::1]", "0.0.0.0", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "169.254.169.254",
    "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0x7f.1", "[fe80::1]", "[fc00::1]", "100.64.0.1", "１２７.0.0.1",
)  # fmt: skip
"""Ways to write the address of this machine, of its neighbours, and of what tells secrets to machines of a cloud."""
LIMIT_S = 20.0
ARTICLE = """<!DOCTYPE html><html><head><title>Red   deer</title><style>p {}</style></head><body>
<nav><a href="/home">Home</a> navigation</nav>
<main><h1>Red deer</h1><p>Stags <b>roar</b>, see <a href="rut">the rut</a>.</p>
<table><tr><th>Sex</th><th>kg</th></tr><tr><td>stag</td><td>240</td></tr></table>
<pre><code>deer = 1</code></pre><img src="data:image/png;base64,AAAA" alt="inline">
<img src="/d.jpg" alt="A stag"></main>
<script>steal()</script><footer>imprint</footer></body></html>"""


@dataclass
class Internet:
    """Internet with one host under many names; the test decides which addresses are public."""

    site: Site
    addresses: dict[str, list[str]] = field(default_factory=dict)
    """Answers to the next questions for a name, one after the other; else it is the site."""
    public: frozenset[str] = frozenset({"127.0.0.1"})
    asked: list[str] = field(default_factory=list)
    ports: dict[int, int] = field(default_factory=dict)

    async def resolve(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        answers = self.addresses.get(host)
        return [answers.pop(0)] if answers else ["127.0.0.1"]

    async def dial(self, addresses: Sequence[IPAddress], port: int) -> Streams:
        return await dial(addresses, self.ports.get(port, self.site.port))

    def fetcher(self, **changes: object) -> PageFetcher:
        egress = Egress(self.resolve, lambda address: str(address) in self.public, self.dial)
        settings: dict[str, object] = {"timeout_s": LIMIT_S, **changes}
        trust = TlsTrust()
        http = HttpClient(LIMIT_S, MEGABYTE, EgressTransport(egress, trust), trust)
        return PageFetcher(**{"http": http, **settings})  # type: ignore[arg-type]


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site() as opened:
        yield opened


async def fetch(site: Site, path: str, offset: int = 0, **settings: object) -> str:
    """Return the result of the tool, configured to read local pages."""
    tool = create_tool("web_fetch", "web_fetch", allow_private_addresses=True, **settings)
    return await call_tool(tool, url=f"{site.url}{path}", offset=offset)


async def read_refusal(fetcher: PageFetcher, url: str) -> str:
    async with asyncio.timeout(LIMIT_S):
        with pytest.raises(WebProblem) as caught:
            await fetcher.fetch(url)
    return f"{type(caught.value).__name__}: {caught.value}"


async def test_refuses_pages_of_this_machine_by_default(site: Site) -> None:
    site.routes["/"] = html_response("secret")
    tool = create_tool("web_fetch", "web_fetch")
    for host in (*PRIVATE, "localhost"):
        text = await call_tool(tool, url=f"http://{host}:{site.port}/")
        assert text.startswith(("Error: NotAllowed: ", "Error: Unreachable: ")) and "secret" not in text
    assert site.asked == []


async def test_refuses_a_redirect_to_a_private_address(site: Site) -> None:
    inside = Internet(site, public=frozenset({"127.0.0.1"}))
    site.routes["/secret"] = html_response("secret")
    for target in ("http://127.0.0.2/secret", "http://10.0.0.1/", *(f"http://{host}/" for host in PRIVATE[1:])):
        site.routes["/"] = redirect(target)
        message = await read_refusal(inside.fetcher(), "http://public.example/")
        assert message.startswith(
            ("NotAllowed: ", "Unreachable: public.example cannot be reached: Invalid URL in location")
        )
    assert {asked.headers["host"] for asked in site.asked} == {"public.example"} and "/secret" not in site.paths


@pytest.mark.parametrize("target", ["file:///etc/passwd", "gopher://a.example/", "http://", "//[", "http://a b/"])
async def test_refuses_a_redirect_to_an_invalid_url(site: Site, target: str) -> None:
    site.routes["/"] = redirect(target)
    assert (await read_refusal(Internet(site).fetcher(), "http://public.example/")).startswith(
        ("NotAllowed: ", "Rejected: ")
    )


async def test_refuses_a_rebinding_name_on_the_second_request(site: Site) -> None:
    site.routes["/"] = redirect("/next")
    site.routes["/next"] = html_response("secret")
    rebinding = {"rebound.example": ["127.0.0.1", "127.0.0.1", "169.254.169.254"]}
    internet = Internet(site, rebinding)
    text = await read_refusal(internet.fetcher(), "http://rebound.example/")
    assert text.startswith("NotAllowed: ") and "/next" not in site.paths
    assert internet.asked == ["rebound.example"] * 3, "once for each request: robots.txt, the page, the next page"


async def test_resolves_every_name_once_per_request(site: Site) -> None:
    site.routes["/"] = html_response("hello")
    internet = Internet(site, {"twice.example": ["127.0.0.1"]})
    page = await internet.fetcher(respects_robots=False).fetch("http://twice.example/")
    assert page.text == "hello" and internet.asked == ["twice.example"]


async def test_follows_redirects(site: Site) -> None:
    site.routes["/"] = redirect("a/b", 301)
    site.routes["/a/b"] = redirect("http://other.example/c?x=1", 308)
    site.routes["/c"] = html_response(ARTICLE)
    page = await Internet(site).fetcher().fetch("http://first.example/")
    assert page.url == "http://other.example/c?x=1" and page.title == "Red deer"


async def test_limits_redirects(site: Site) -> None:
    site.routes["/"] = redirect("/")
    assert "too many redirects" in await read_refusal(Internet(site).fetcher(), "http://loop.example/")


async def test_returns_the_main_content_as_markdown(site: Site) -> None:
    site.routes["/wiki/deer"] = html_response(ARTICLE)
    text = await fetch(site, "/wiki/deer")
    assert text.startswith(f"# Red deer\nSource: {site.url}/wiki/deer\n\n# Red deer\n\nStags **roar**, see [the rut](")
    assert f"[the rut]({site.url}/wiki/rut)" in text and f"![A stag]({site.url}/d.jpg)" in text
    assert "| stag | 240 |" in text and "```\ndeer = 1\n```" in text
    for noise in ("steal", "imprint", "navigation", "base64"):
        assert noise not in text


async def test_returns_the_densest_part_of_a_page_without_main(site: Site) -> None:
    words = "<p>A long paragraph about deer, with commas, and with more than a few words in it.</p>" * 20
    site.routes["/"] = html_response(
        f"<html><body><div>menu</div><div id=x>{words}</div><div>aside</div></body></html>"
    )
    text = await fetch(site, "/")
    assert text.count("A long paragraph") == 20 and "menu" not in text and "aside" not in text


async def test_returns_a_page_of_links_completely(site: Site) -> None:
    links = "".join(f"<div><a href='/{n}'>Link {n}</a></div>" for n in range(50))
    site.routes["/"] = html_response(f"<html><body>{links}</body></html>")
    text = await fetch(site, "/")
    assert all(f"[Link {n}]({site.url}/{n})" in text for n in range(50))


async def test_chunks_of_a_long_page_add_up_to_the_page(site: Site) -> None:
    whole = "\n".join(f"Line {n} of the page, ü and 鹿." for n in range(3000)) + "x" * 5000 + "end"
    site.routes["/long.txt"] = ScriptedResponse(whole.encode(), headers={"Content-Type": "text/plain; charset=utf-8"})
    pieces, offset = [], 0
    while True:
        shown = await fetch(site, "/long.txt", offset, max_chars=20_000)
        body, _, note = shown.removeprefix(f"# Untitled\nSource: {site.url}/long.txt\n\n").rpartition(
            "\n\n[Characters "
        )
        pieces.append(body)
        assert len(body) <= 20_000
        begin, end, total = map(int, re.match(r"(\d+) to (\d+) of (\d+)", note).groups())  # type: ignore[union-attr]
        assert (begin, total) == (offset, len(whole))
        if "This is the end." in note:
            break
        assert f"Go on with offset={end}." in note
        offset = end
    assert "".join(pieces) == whole and len(pieces) > 3
    assert all(piece.endswith("\n") for piece in pieces[:-2]), "pieces end with lines where there are any"


async def test_reads_a_changing_page_from_the_cached_version(site: Site) -> None:
    tool = create_tool("web_fetch", "web_fetch", allow_private_addresses=True, max_chars=500, respect_robots=False)
    site.routes["/"] = ScriptedResponse(b"old" * 300, headers={"Content-Type": "text/plain"})
    await call_tool(tool, url=f"{site.url}/")
    site.routes["/"] = ScriptedResponse(b"new" * 300, headers={"Content-Type": "text/plain"})
    assert "old" in await call_tool(tool, url=f"{site.url}/", offset=500)
    assert site.paths == ["/"]
    assert "new" in await call_tool(tool, url=f"{site.url}/")
    assert "new" in await call_tool(tool, url=f"{site.url}/", offset=500)
    assert site.paths == ["/", "/"]


def test_drops_the_least_recently_used_pages() -> None:
    recent = RecentPages(max_chars=25)
    for name in ("a", "b"):
        recent.add(name, PageContent(name, "", "x" * 10))
    assert recent.find("a")
    recent.add("c", PageContent("c", "", "x" * 10))
    assert [recent.find(name) is not None for name in ("a", "b", "c")] == [True, False, True]
    recent.add("d", PageContent("d", "", "x" * 100))
    assert [recent.find(name) for name in ("a", "c", "d")] == [None, None, None]


async def test_reports_an_offset_beyond_the_end(site: Site) -> None:
    site.routes["/"] = html_response("<p>short</p>")
    assert "the page has 5 characters, so there is nothing at offset 99" in await fetch(site, "/", 99)


async def test_cuts_an_oversized_page_with_a_note(site: Site) -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not reader.at_eof():
            writer.write(b"more and more\n" * 1000)
            await writer.drain()

    site.routes["/"] = ScriptedResponse(headers={"Content-Type": "text/plain"}, speak=endless)
    async with asyncio.timeout(LIMIT_S):
        text = await fetch(site, "/", max_bytes=50_000)
    assert "[Only the first 50000 bytes of the page were read; it is longer.]" in text
    assert " of 50000. Go on with offset=" in text


async def test_times_out_on_a_slow_page(site: Site) -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not reader.at_eof():
            writer.write(b".")
            await writer.drain()
            await asyncio.wait({asyncio.ensure_future(reader.read(1))}, timeout=0.02)

    site.routes["/"] = ScriptedResponse(headers={"Content-Type": "text/html"}, speak=drip)
    async with asyncio.timeout(LIMIT_S):
        text = await fetch(site, "/", timeout=0.5)
    assert text.startswith("Error: TooSlow: 127.0.0.1 did not answer within 0.5 s")


def build_bomb(encoding: str) -> bytes:
    """Return megabytes of blanks compressed to kilobytes."""
    packer = zlib.compressobj(1, wbits=31 if encoding == "gzip" else 15)
    packed = b"".join(packer.compress(b" " * (16 * MEGABYTE)) for _ in range(8))
    return packed + packer.flush()


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_bounds_a_decompression_bomb(site: Site, encoding: str) -> None:
    headers = {"Content-Type": "text/plain", "Content-Encoding": encoding}
    site.routes["/"] = ScriptedResponse(build_bomb(encoding), headers=headers)
    before = read_memory_usage()
    text = await fetch(site, "/", max_bytes=100_000)
    assert "[Only the first 100000 bytes of the page were read" in text
    assert read_memory_usage() - before < 40 * MEGABYTE


def read_memory_usage() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("x-gzip", lambda body: gzip.compress(body[:7]) + gzip.compress(body[7:])),
        ("gzip", lambda body: gzip.compress(body) + bytes(100)),
        ("deflate", zlib.compress),
        ("deflate", lambda body: zlib.compress(body)[2:-4]),
        ("identity", bytes),
    ],
    ids=["gzip", "gzip in two parts", "gzip with zeros after it", "deflate", "deflate without its head", "not packed"],
)
async def test_decodes_content_encodings(site: Site, encoding: str, pack: Callable[[bytes], bytes]) -> None:
    headers = {"Content-Type": "text/plain", "Content-Encoding": encoding}
    site.routes["/"] = ScriptedResponse(pack(b"packed and unpacked"), headers=headers)
    assert (await fetch(site, "/")).endswith("\n\npacked and unpacked")
    assert site.asked[-1].headers["accept-encoding"] == "gzip, deflate"


@pytest.mark.parametrize(("encoding", "message"), [("br", "unsupported content encoding"), ("gzip", "is damaged")])
async def test_reports_undecodable_content(site: Site, encoding: str, message: str) -> None:
    site.routes["/"] = ScriptedResponse(b"neither", headers={"Content-Type": "text/html", "Content-Encoding": encoding})
    text = await fetch(site, "/")
    assert text.startswith("Error: Unreadable: ") and message in text


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("text/html; charset=utf-8", "<p>Grüße</p>".encode()),
        ("text/html; charset=utf-8", "<p>Grüße</p>".encode("latin-1")),
        ("text/html; charset=iso-8859-1", "<p>Grüße</p>".encode("latin-1")),
        ("text/html; charset=no-such-charset", "<p>Grüße</p>".encode()),
        ("text/html; charset=unicode_escape", "<p>Grüße</p>".encode()),
        ("text/html", "<meta charset=windows-1252><p>Grüße</p>".encode("cp1252")),
        (
            "text/html",
            '<?xml version="1.0" encoding="ISO-8859-1"?><html><body><p>Grüße</p></body></html>'.encode("latin-1"),
        ),
        ("text/html", "\ufeff<p>Grüße</p>".encode("utf-16")),
        ("text/plain", "Grüße".encode("utf-8-sig")),
        ("text/html; charset=gb18030", "<p>Grüße</p>".encode("gb18030")),
        ("", "<p>Grüße</p>".encode()),
    ],
)
async def test_detects_the_encoding_of_a_text(site: Site, content_type: str, body: bytes) -> None:
    site.routes["/"] = html_response(body, content_type)
    assert "Grüße" in await fetch(site, "/")


async def test_replaces_zero_characters(site: Site) -> None:
    site.routes["/"] = ScriptedResponse(b"a\0b", headers={"Content-Type": "text/plain"})
    assert (await fetch(site, "/")).endswith("\n\na\ufffdb")


async def test_replaces_only_damaged_characters(site: Site) -> None:
    body = "<p>鹿 Grüße</p>".encode() + b"<p>" + b"x" * 5000 + b"\xff</p>"
    site.routes["/"] = html_response(body)
    assert "鹿 Grüße" in await fetch(site, "/")


@pytest.mark.parametrize("content_type", ["image/png", "application/octet-stream", "video/mp4", ""])
async def test_names_content_that_is_not_text(site: Site, content_type: str) -> None:
    site.routes["/f"] = ScriptedResponse(
        b"anything\0binary", headers={"Content-Type": content_type} if content_type else {}
    )
    text = await fetch(site, "/f")
    assert text.startswith("Error: Unreadable: ") and (content_type or "application/octet-stream") in text
    assert "15 bytes" in text


@pytest.mark.parametrize(
    "content_type", ["application/json", "application/ld+json", "text/csv", "application/atom+xml"]
)
async def test_returns_other_texts_unchanged(site: Site, content_type: str) -> None:
    site.routes["/"] = ScriptedResponse(b'{"a": [1]}', headers={"Content-Type": content_type})
    assert (await fetch(site, "/")).endswith('\n\n{"a": [1]}')


@pytest.mark.parametrize(
    ("status", "message"),
    [(404, "there is no page"), (410, "no page"), (403, "denies access"), (503, "503"), (429, "slow")],
)
async def test_converts_a_status_to_a_message(site: Site, status: int, message: str) -> None:
    site.routes["/"] = ScriptedResponse(b"sorry", status, {"Content-Type": "text/html"})
    text = await fetch(site, "/")
    assert text.startswith(("Error: Rejected: ", "Error: RateLimited: ")) and message in text


ROBOTS = """# comment
User-agent: other
Disallow: /

user-agent: *
Disallow: /private
Allow: /private/open   # longer, so it wins
Disallow: /*.pdf$
Disallow: /*?session=
Sitemap: https://example.org/sitemap.xml
"""


@pytest.mark.parametrize(
    ("path", "may"),
    [
        ("/", True),
        ("/private", False),
        ("/private/x", False),
        ("/private/open/x", True),
        ("/a/file.pdf", False),
        ("/a/file.pdfx", True),
        ("/a?session=1", False),
        ("/a?b=1", True),
    ],
)
async def test_respects_robots_txt(site: Site, path: str, may: bool) -> None:
    site.routes.update({name: html_response("<p>read</p>") for name in ("/", path.partition("?")[0])})
    site.routes["/robots.txt"] = ScriptedResponse(ROBOTS.encode(), headers={"Content-Type": "text/plain"})
    text = await fetch(site, path)
    assert ("read" in text) is may
    assert may or text.startswith("Error: NotAllowed: the robots.txt of 127.0.0.1 asks deerflow not to visit")
    assert "read" in await fetch(site, path, respect_robots=False)


async def test_rules_for_our_agent_override_the_general_ones(site: Site) -> None:
    site.routes.update({"/a": html_response("<p>read</p>"), "/b": html_response("<p>read</p>")})
    rules = b"User-agent: *\nDisallow: /\n\nUser-agent: x\nUser-agent: DeerFlow\nDisallow: /b\n"
    site.routes["/robots.txt"] = ScriptedResponse(rules)
    assert "read" in await fetch(site, "/a")
    assert "NotAllowed" in await fetch(site, "/b")
    site.routes["/robots.txt"] = ScriptedResponse(b"User-agent: *\nDisallow: /\n\nUser-agent: DeerFlow\nDisallow:\n")
    assert "read" in await fetch(site, "/b")


def test_parses_many_agents_and_rules_quickly() -> None:
    others = b"".join(b"user-agent: robot%d\n" % number for number in range(3000))
    robots = RobotsRules.parse(others + b"user-agent: *\n" + b"disallow: /*a*b$\n" * 2000 + b"disallow: /closed\n")
    assert not robots.allows("/closed/x") and robots.allows(f"/{'a' * 4000}") and not robots.allows(f"/{'a' * 4000}b")


@pytest.mark.parametrize(("status", "may"), [(404, True), (403, True), (500, False), (503, False)])
async def test_allows_pages_without_robots_txt_unless_the_server_fails(site: Site, status: int, may: bool) -> None:
    site.routes.update(
        {"/": html_response("<p>read</p>"), "/robots.txt": ScriptedResponse(b"User-agent: *\nDisallow: /", status)}
    )
    assert ("read" in await fetch(site, "/")) is may


async def test_checks_robots_txt_of_a_redirect_target(site: Site) -> None:
    site.routes["/go"] = redirect("http://second.example/closed")
    site.routes["/closed"] = html_response("secret")
    site.routes["/robots.txt"] = ScriptedResponse(b"User-agent: *\nDisallow: /closed\n")
    assert "the robots.txt of second.example" in await read_refusal(Internet(site).fetcher(), "http://first.example/go")
    assert "/closed" not in site.paths


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("certificate"), ["secure.example"])


class FixedTrust(TlsTrust):
    def __init__(self, certificate: Path) -> None:
        super().__init__()
        self._context = ssl.create_default_context(cafile=certificate)


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_verifies_tls_certificates(certificate: Path, make_loop: Callable[[], Any]) -> None:
    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(fetch_secure_hosts(certificate))


async def fetch_secure_hosts(certificate: Path) -> None:
    inside = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    inside.load_cert_chain(certificate)
    long = "A line of a long text.\n" * 40_000
    site = Site(routes={"/": ScriptedResponse(long.encode(), headers={"Content-Type": "text/plain"})})
    async with await asyncio.start_server(site, "127.0.0.1", 0, ssl=inside) as server, asyncio.timeout(LIMIT_S):
        internet = Internet(site, ports={443: server.sockets[0].getsockname()[1]})
        egress = Egress(internet.resolve, lambda _: True, internet.dial)
        trust = FixedTrust(certificate)
        known = PageFetcher(HttpClient(LIMIT_S, MEGABYTE, EgressTransport(egress, trust), trust), LIMIT_S)
        assert (await known.fetch("https://secure.example/")).text == long
        assert "cannot be trusted" in await read_refusal(known, "https://other.example/")
        assert "cannot be trusted" in await read_refusal(internet.fetcher(), "https://secure.example/")


@pytest.mark.parametrize(
    "output", [b"", b"no HTTP at all\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"]
)
async def test_reports_malformed_responses(output: bytes) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(output)
        writer.close()

    async with await asyncio.start_server(speak, "127.0.0.1", 0) as server:
        tool = create_tool("web_fetch", "web_fetch", allow_private_addresses=True)
        text = await call_tool(tool, url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    assert text.startswith("Error: Unreachable: 127.0.0.1 cannot be reached")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"<div>" * 300_000 + b"deep", id="deep"),
        pytest.param(b"<table><tr><td>" * 50_000, id="tables in tables"),
        pytest.param(b"<a href='" + b"x" * 900_000, id="an address without an end"),
        pytest.param(b"<p" + b" a=1" * 200_000 + b">x</p>", id="many attributes"),
        pytest.param(b"&" * 900_000, id="many signs"),
        pytest.param(bytes(range(256)) * 3000, id="no text at all"),
        pytest.param(b"<!DOCTYPE x [<!ENTITY a 'aaaaaaaa'><!ENTITY b '&a;&a;&a;'>]><p>&b;</p>", id="entities"),
    ],
)
async def test_survives_malicious_pages(body: bytes) -> None:
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(30):
        try:
            page = await PageReader().page(body, None, "http://a.example/")
            assert len(page.text) < 4 * MEGABYTE
        except WebProblem as problem:
            assert "no text could be extracted" in str(problem)
    assert loop.is_running()


@pytest.mark.parametrize(
    "limits",
    [ReaderLimits(wall_s=0.01), ReaderLimits(memory_bytes=1), ReaderLimits(cpu_s=0)],
    ids=["time", "memory", "cpu"],
)
async def test_reports_a_child_that_exceeds_its_limits(limits: ReaderLimits) -> None:
    async with asyncio.timeout(LIMIT_S):
        with pytest.raises(WebProblem, match="no text could be extracted"):
            await PageReader(limits).page(b"<p>" + b"x" * MEGABYTE, None, "http://a.example/")


async def test_cancelled_reader_leaves_no_child_process(site: Site) -> None:
    # So long that the child cannot have read it before it is looked for.
    reading = asyncio.create_task(PageReader().page(b"<p>x</p>" * 4 * MEGABYTE, None, "http://a.example/"))
    async with asyncio.timeout(LIMIT_S):
        while not list_reader_processes():  # noqa: ASYNC110 (the system does not tell)
            await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
    assert list_reader_processes() == set()


def list_reader_processes() -> set[int]:
    """Return the ids of the processes that read pages for this one."""
    found = set()
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            if any("reader_child" in word for word in child.cmdline()):
                found.add(child.pid)
    return found


async def test_uses_the_network_only_through_egress(site: Site) -> None:
    internet = Internet(site, public=frozenset())
    with pytest.raises(NotAllowed):
        await internet.fetcher().fetch("http://public.example/")
    assert site.asked == []
