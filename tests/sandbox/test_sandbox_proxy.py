"""The proxy of a sandbox: real clients reach what is on the list, and no trick reaches anything else."""

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest
import uvloop

from deerflow.sandbox.egress import Address, AllowedHosts, Egress, Streams, dial
from deerflow.sandbox.local.proxy import ProxyLimits, serve_proxy
from tests.certificates import make_certificate

ALLOWED = AllowedHosts.of(["allowed.example", "*.below.example", "rebound.example", "gone.example", "93.184.216.34"])
ADDRESSES = {"rebound.example": "169.254.169.254", "gone.example": "127.0.0.9"}
SENTENCE = b"this sandbox reaches only: 93.184.216.34, allowed.example, gone.example, rebound.example, *.below.example"
PLAIN_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain"


@dataclass
class Town:
    """A proxy, and the two hosts that stand for all of the internet behind it."""

    port: int
    certificate: Path
    tls_host: "Host"
    plain_host: "Host"
    asked: list[str] = field(default_factory=list)
    """The names that were looked up."""

    async def ask(self, request: bytes, *, end: bool = False) -> bytes:
        """Everything the proxy says to these bytes until it hangs up."""
        async with self.connection() as (reader, writer):
            writer.write(request)
            if end:
                writer.write_eof()
            return await reader.read()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Streams]:
        async with asyncio.timeout(10):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                yield reader, writer
            finally:
                writer.transport.abort()

    def client(self) -> httpx.AsyncClient:
        trusted = ssl.create_default_context(cafile=str(self.certificate))
        return httpx.AsyncClient(proxy=f"http://127.0.0.1:{self.port}", verify=trusted, trust_env=False, timeout=10)

    @property
    def is_untouched(self) -> bool:
        return not self.tls_host.heard and not self.plain_host.heard


@dataclass
class Host:
    """Answers every connection with the same bytes, once it has heard the head of a request or the end."""

    answer: bytes
    heard: list[bytes] = field(default_factory=list)
    met: int = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.met += 1
        place = len(self.heard)
        try:
            async with asyncio.timeout(10):
                while chunk := await reader.read(65536):
                    self.heard[place:] = [b"".join(self.heard[place:]) + chunk]
                    if is_complete(self.heard[place]):
                        break
            writer.write(self.answer)
            await writer.drain()
        except (OSError, ssl.SSLError):
            pass
        finally:
            writer.close()


def is_complete(request: bytes) -> bool:
    head, blank, body = request.partition(b"\r\n\r\n")
    if b"chunked" in head.lower():
        return body.endswith(b"0\r\n\r\n")
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    return bool(blank) and len(body) >= length


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for all hosts in these tests, with its key in the same file."""
    folder = tmp_path_factory.mktemp("certificate")
    return make_certificate(folder, ["allowed.example", "*.below.example", "evil.example"])


@asynccontextmanager
async def open_town(certificate: Path, limits: ProxyLimits = ProxyLimits()) -> AsyncIterator[Town]:
    inside = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    inside.load_cert_chain(certificate)
    tls_host = Host(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nsecure")
    plain_host = Host(PLAIN_ANSWER)
    listener = socket.create_server(("127.0.0.1", 0))
    town = Town(listener.getsockname()[1], certificate, tls_host, plain_host)
    async with (
        await asyncio.start_server(tls_host, "127.0.0.1", 0, ssl=inside) as tls,
        await asyncio.start_server(plain_host, "127.0.0.1", 0) as plain,
    ):
        ports = {443: tls.sockets[0].getsockname()[1], 80: plain.sockets[0].getsockname()[1]}

        async def look_up(host: str) -> Sequence[str]:
            town.asked.append(host)
            return [ADDRESSES.get(host, "127.0.0.1")]

        async def dial_here(addresses: Sequence[Address], port: int) -> Streams:
            """Reaches the two hosts without the right to open the ports below 1024."""
            here = [address if address.is_loopback else ip_address("127.0.0.1") for address in addresses]
            return await dial(here, ports[port])

        public = {ip_address(address) for address in ("127.0.0.1", "127.0.0.9", "93.184.216.34")}
        proxy = await serve_proxy(listener, ALLOWED, Egress(look_up, public.__contains__, dial_here), limits)
        try:
            yield town
        finally:
            async with asyncio.timeout(5):
                await proxy.aclose()


@pytest.fixture
async def town(certificate: Path) -> AsyncIterator[Town]:
    async with open_town(certificate) as opened:
        yield opened


@pytest.mark.parametrize("host", ["allowed.example", "ALLOWED.example", "a.below.example"])
async def test_a_client_reaches_an_allowed_host_by_https(town: Town, host: str) -> None:
    async with town.client() as http:
        response = await http.get(f"https://{host}/path")
    assert response.text == "secure"
    assert town.tls_host.heard[0].startswith(b"GET /path HTTP/1.1\r\n")


async def test_a_client_reaches_an_allowed_host_by_http(town: Town) -> None:
    async with town.client() as http:
        response = await http.post("http://allowed.example/path?a=b", content=b"body")
    assert response.text == "plain"
    head, _, body = town.plain_host.heard[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /path?a=b HTTP/1.1\r\nHost: allowed.example\r\n")
    assert b"Connection: close" in head and b"Proxy-Connection" not in head
    assert body == b"body"


async def test_a_listed_address_is_reached_but_only_as_it_is_listed(town: Town) -> None:
    assert (await town.ask(b"GET http://93.184.216.34/ HTTP/1.1\r\nHost: x\r\n\r\n")).endswith(b"plain")
    refused = await town.ask(b"GET http://93.184.216.35/ HTTP/1.1\r\nHost: x\r\n\r\n")
    assert refused.startswith(b"HTTP/1.1 403")


async def test_a_client_of_the_old_kind_is_served_too(town: Town) -> None:
    answer = await town.ask(b"GET http://allowed.example/ HTTP/1.0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200") and answer.endswith(b"plain")


async def test_a_body_in_pieces_is_passed_on_in_a_framing_of_our_own(town: Town) -> None:
    request = b"POST http://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\nTransfer-Encoding: chunked\r\n\r\n"
    pieces = b"3;ext=1\r\nabc\r\n" + b"1\r\nd\r\n" * 2000 + b"0\r\nTrailer: secret\r\n\r\n"
    assert (await town.ask(request + pieces)).endswith(b"plain")
    heard = town.plain_host.heard[0]
    assert b"ext=1" not in heard and b"secret" not in heard and heard.count(b"d\r\n") >= 2000


async def test_a_client_that_waits_for_leave_to_send_gets_it(town: Town) -> None:
    async with town.connection() as (reader, writer):
        writer.write(b"PUT http://allowed.example/ HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n")
        writer.write(b"Expect: 100-continue\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 \r\n\r\n"
        writer.write(b"body")
        assert (await reader.read()).endswith(b"plain")
    assert b"Expect" not in town.plain_host.heard[0]


async def test_a_large_answer_arrives_whole(town: Town) -> None:
    content = bytes(range(256)) * 20_000
    town.plain_host.answer = b"HTTP/1.0 200 OK\r\n\r\n" + content
    town.tls_host.answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + content
    async with town.client() as http:
        assert (await http.get("http://allowed.example/")).content == content
        assert (await http.get("https://allowed.example/")).content == content


async def test_an_answer_that_comes_before_the_body_is_over_is_passed_on(town: Town) -> None:
    town.plain_host.answer = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno"
    async with town.connection() as (reader, writer):
        writer.write(b"POST http://allowed.example/ HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody")
        assert (await reader.read()).startswith(b"HTTP/1.1 413")


def test_it_works_on_the_event_loop_of_the_server(certificate: Path) -> None:
    async def both_ways() -> tuple[str, str, int]:
        async with open_town(certificate) as town, town.client() as http:
            secure, plain = await http.get("https://allowed.example/"), await http.get("http://allowed.example/")
            refused = await http.get("http://evil.example/")
            return secure.text, plain.text, refused.status_code

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(both_ways()) == ("secure", "plain", 403)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "below.example",
        "evilbelow.example",
        "below.example.evil.example",
        "allowed.example.evil.example",
        "sub.allowed.example",
        "xn--llowed-bva.example",
        "127.0.0.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.1",
        "169.254.169.254",
        "93.184.216.034",
        "[::1]",
        "[::ffff:93.184.216.34]",
        "[fd00:ec2::254]",
        "localhost",
    ],
)
async def test_a_host_that_is_not_on_the_list_is_refused_and_not_even_looked_up(town: Town, host: str) -> None:
    name = host.encode()
    for request in (b"CONNECT %b:443 HTTP/1.1\r\nHost: %b\r\n\r\n", b"GET http://%b/ HTTP/1.1\r\nHost: %b\r\n\r\n"):
        answer = await town.ask(request % (name, name))
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert answer.count(SENTENCE) == 2  # as the reason and as the body
    assert town.asked == [] and town.is_untouched


async def test_a_client_shows_the_model_why_its_tunnel_was_refused(town: Town) -> None:
    async with town.client() as http:
        with pytest.raises(httpx.ProxyError, match=r"403 evil\.example is not on the list; this sandbox reaches only"):
            await http.get("https://evil.example/")


async def test_a_client_that_says_everything_before_it_listens_still_hears_the_refusal(town: Town) -> None:
    request = b"POST http://evil.example/ HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n" + bytes(2_000_000)
    async with town.connection() as (reader, writer):
        writer.write(request)
        await writer.drain()
        writer.write_eof()
        assert SENTENCE in await reader.read()


async def test_an_allowed_name_with_a_private_address_is_refused(town: Town) -> None:
    for request in (b"CONNECT rebound.example:443", b"GET http://rebound.example/"):
        answer = await town.ask(request + b" HTTP/1.1\r\nHost: a\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 403 rebound.example is not on the public internet")
    assert town.is_untouched


async def test_an_allowed_host_that_is_not_there_is_a_bad_gateway(town: Town) -> None:
    answer = await town.ask(b"CONNECT gone.example:443 HTTP/1.1\r\nHost: a\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 502 gone.example cannot be reached")


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"CONNECT allowed.example:22", 403),
        (b"CONNECT allowed.example:80", 403),
        (b"CONNECT allowed.example:8443", 403),
        (b"CONNECT allowed.example:65979", 403),
        (b"CONNECT allowed.example", 400),
        (b"CONNECT allowed.example:", 400),
        (b"CONNECT allowed.example:0443", 400),
        (b"CONNECT allowed.example:-443", 400),
        (b"CONNECT allowed.example:443:443", 400),
        (b"CONNECT user@allowed.example:443", 400),
        (b"CONNECT evil.example:443@allowed.example:443", 400),
        (b"CONNECT https://allowed.example:443/", 400),
        (b"CONNECT allowed.example%00.evil.example:443", 400),
        (b"CONNECT allowed.example..:443", 403),
        (b"connect allowed.example:443", 405),
        (b"GET http://allowed.example:443/", 403),
        (b"GET http://allowed.example:8080/", 403),
        (b"GET http://allowed.example:0/", 400),
        (b"GET http://user:password@allowed.example/", 400),
        (b"GET http://allowed.example@evil.example/", 400),
        (b"GET http://allowed.example#@evil.example/", 400),
        (b"GET http://allowed.example\\@evil.example/", 400),
        (b"GET http://allowed.example%2eevil.example/", 400),
        (b"GET http:///path", 400),
        (b"GET http:allowed.example/", 400),
        (b"GET https://allowed.example/", 400),
        (b"GET ftp://allowed.example/", 400),
        (b"GET file:///etc/passwd", 400),
        (b"GET //allowed.example/", 400),
        (b"GET /", 400),
        (b"GET allowed.example/", 400),
        (b"OPTIONS *", 400),
        (b"TRACE http://allowed.example/", 405),
        (b"TRACK http://allowed.example/", 405),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nGET http://allowed.example/", 400),
        (b"get http://allowed.example/", 405),
        (b"GET  http://allowed.example/", 400),
        (b"GET http://allowed.example/ http://evil.example/", 400),
    ],
)
async def test_a_target_that_is_written_oddly_is_refused(town: Town, request_line: bytes, status: int) -> None:
    answer = await town.ask(request_line + b" HTTP/1.1\r\nHost: allowed.example\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert town.is_untouched


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"Host: allowed.example\r\nHost: evil.example\r\n", id="two hosts"),
        pytest.param(b"Host: allowed.example\r\n evil.example\r\n", id="a line that goes on"),
        pytest.param(b"Host: allowed.example\nX: y\r\n", id="a line that ends in LF"),
        pytest.param(b"Host: allowed.example\rX: y\r\n", id="a line that ends in CR"),
        pytest.param(b"Host: allowed.example\r\nX: a\0b\r\n", id="a zero"),
        pytest.param(b"Host : allowed.example\r\n", id="a space before the colon"),
        pytest.param(b"Host: allowed.example\r\nno colon\r\n", id="a line without a colon"),
        pytest.param(b"Host: allowed.example\r\n: empty\r\n", id="a header without a name"),
        pytest.param(b"", id="no host"),
        pytest.param(b"Host: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n", id="two framings"),
        pytest.param(b"Host: a\r\nContent-Length: 4\r\nContent-Length: 5\r\n", id="two lengths"),
        pytest.param(b"Host: a\r\nContent-Length: 4, 5\r\n", id="two lengths in one"),
        pytest.param(b"Host: a\r\nContent-Length: +4\r\n", id="a length with a sign"),
        pytest.param(b"Host: a\r\nContent-Length: 0x4\r\n", id="a length in hex"),
        pytest.param(b"Host: a\r\nContent-Length: -1\r\n", id="a length below zero"),
        pytest.param(b"Host: a\r\nTransfer-Encoding: chunked, identity\r\n", id="two encodings"),
        pytest.param(b"Host: a\r\nTransfer-Encoding: xchunked\r\n", id="an unknown encoding"),
        pytest.param(b"Host: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n", id="an encoding twice"),
        pytest.param(b"Host: a\r\nTransfer-Encoding:\x0bchunked\r\n", id="a vertical tab"),
    ],
)
async def test_a_head_that_could_be_read_in_two_ways_is_refused(town: Town, head: bytes) -> None:
    answer = await town.ask(b"POST http://allowed.example/ HTTP/1.1\r\n" + head + b"\r\n0\r\n\r\n")
    assert answer.split()[1] in (b"400", b"501")
    assert town.is_untouched


@pytest.mark.parametrize("version", [b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.9", b"HTTP/1", b"ICY/1.1", b""])
async def test_another_protocol_is_refused(town: Town, version: bytes) -> None:
    answer = await town.ask(b"GET http://allowed.example/ " + version + b"\r\nHost: a\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ") and town.is_untouched


async def test_the_host_that_is_asked_for_is_the_host_that_is_told(town: Town) -> None:
    request = b"GET http://Allowed.Example./x HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: kept\r\n\r\n"
    assert (await town.ask(request)).endswith(b"plain")
    heard = town.plain_host.heard[0]
    assert heard.startswith(b"GET /x HTTP/1.1\r\nHost: allowed.example\r\n") and b"evil" not in heard


async def test_what_concerns_the_proxy_alone_is_not_passed_on(town: Town) -> None:
    request = b"GET http://allowed.example/ HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X-Mine\r\nX-Mine: secret\r\n"
    request += b"Proxy-Authorization: secret\r\nUpgrade: secret\r\nTE: secret\r\nX-Yours: kept\r\n\r\n"
    assert (await town.ask(request)).endswith(b"plain")
    assert b"secret" not in town.plain_host.heard[0] and b"X-Yours: kept" in town.plain_host.heard[0]


async def test_a_length_cannot_be_declared_the_business_of_the_proxy(town: Town) -> None:
    smuggled = b"GET /smuggled HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    request = b"POST http://allowed.example/ HTTP/1.1\r\nHost: a\r\nConnection: content-length\r\n"
    await town.ask(request + b"Content-Length: %d\r\n\r\n" % len(smuggled) + smuggled)
    assert b"Content-Length: %d" % len(smuggled) in town.plain_host.heard[0]


async def test_a_second_request_on_the_connection_is_not_heard(town: Town) -> None:
    one = b"GET http://allowed.example/%d HTTP/1.1\r\nHost: allowed.example\r\n\r\n"
    answer = await town.ask(one % 1 + one % 2 + b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n")
    assert answer.count(b"HTTP/1.1 ") == 1 and b"Connection: close" in answer
    assert len(town.plain_host.heard) == 1 and b"/2" not in town.plain_host.heard[0]


@pytest.mark.parametrize("body", [b"zz\r\n", b"-1\r\nx", b"5\nabcde\n0\n\n", b"3\r\nabcd\r\n0\r\n\r\n", b"5\r\nab"])
async def test_a_body_with_broken_pieces_gets_no_answer(town: Town, body: bytes) -> None:
    request = b"POST http://allowed.example/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert b"plain" not in await town.ask(request + body, end=True)


async def test_a_body_that_ends_early_gets_no_answer(town: Town) -> None:
    request = b"POST http://allowed.example/ HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nbody"
    assert await town.ask(request, end=True) == b""


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nab",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: secret\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
    ],
)
async def test_a_host_that_does_not_speak_http_is_a_bad_gateway(town: Town, answer: bytes) -> None:
    town.plain_host.answer = answer
    said = await town.ask(b"GET http://allowed.example/ HTTP/1.1\r\nHost: a\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 502 the host did not answer in HTTP")


async def test_an_answer_that_is_cut_off_is_not_made_whole(town: Town) -> None:
    town.plain_host.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"
    async with town.client() as http:
        with pytest.raises(httpx.TransportError):
            await http.get("http://allowed.example/")


CONNECT = b"CONNECT allowed.example:443 HTTP/1.1\r\nHost: allowed.example:443\r\n\r\n"
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
ACCESS_DENIED = b"\x15\x03\x03\x00\x02\x02\x31"


@pytest.mark.parametrize(
    "first",
    [
        b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x80\x2e\x01\x00\x02" + bytes(44),
        b"\x17\x03\x03\x00\x05hello",
        b"\x16\x02\x00\x00\x05hello",
        b"\x16\x03\x01\x00\x00",
        b"\x16\x03\x01\xff\xff",
        b"\x16\x03\x01\x00\x04\x02\x00\x00\x00",
        b"\x16\x03\x01\x00\x04\x01\x00\x00\x00",
        b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + bytes(0x3FFC),
        b"",
    ],
)
async def test_a_tunnel_for_something_else_than_tls_carries_nothing(town: Town, first: bytes) -> None:
    assert await town.ask(CONNECT + first, end=True) == ESTABLISHED + ACCESS_DENIED
    assert town.is_untouched


@pytest.mark.parametrize("record", [b"\x17\x03\x01", b"\x14\x03\x01", b"\x16\x02\x00", b"\x16\x7f\x01"])
async def test_a_greeting_in_a_record_of_another_kind_is_none(town: Town, record: bytes) -> None:
    hello = client_hello("allowed.example")
    answer = await town.ask(CONNECT + record + len(hello).to_bytes(2) + hello, end=True)
    assert answer == ESTABLISHED + ACCESS_DENIED


@pytest.mark.parametrize("name", ["evil.example", "below.example", "sub.allowed.example", "a.below.example"])
async def test_a_tunnel_does_not_greet_another_host(town: Town, name: str) -> None:
    with pytest.raises(ssl.SSLError, match="(?i)access.denied"):
        await talk_tls(town, name)
    assert town.is_untouched


@pytest.mark.parametrize("name", ["allowed.example", "Allowed.Example", None])
async def test_a_tunnel_greets_its_own_host_or_nobody_by_name(town: Town, name: str | None) -> None:
    assert (await talk_tls(town, name)).endswith(b"secure")


async def test_a_greeting_in_many_records_is_read_as_one(town: Town) -> None:
    for name, is_allowed in (("evil.example", False), ("allowed.example", True)):
        hello = client_hello(name)
        records = b"".join(b"\x16\x03\x01\x00\x28" + hello[at : at + 40] for at in range(0, len(hello) // 40 * 40, 40))
        rest = hello[len(hello) // 40 * 40 :]
        async with town.connection() as (reader, writer):
            writer.write(CONNECT + records + (b"\x16\x03\x01" + len(rest).to_bytes(2) + rest) * bool(rest))
            assert await reader.readexactly(len(ESTABLISHED)) == ESTABLISHED
            record = await reader.readexactly(7)
        assert (record == ACCESS_DENIED) is not is_allowed
        assert (record[0] == 22) is is_allowed


async def test_a_greeting_with_something_after_it_in_its_record_is_refused(town: Town) -> None:
    hello = client_hello("allowed.example") + client_hello("evil.example")
    answer = await town.ask(CONNECT + b"\x16\x03\x01" + len(hello).to_bytes(2) + hello, end=True)
    assert answer == ESTABLISHED + ACCESS_DENIED


@pytest.mark.parametrize("header", [b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"])
async def test_a_tunnel_is_not_asked_for_with_a_body(town: Town, header: bytes) -> None:
    answer = await town.ask(CONNECT[:-2] + header + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ") and town.tls_host.met == 0


async def test_a_head_that_is_too_long_is_refused(certificate: Path) -> None:
    request = b"GET http://allowed.example/ HTTP/1.1\r\nHost: a\r\nX: %b\r\n\r\n"
    async with open_town(certificate, ProxyLimits(head_bytes=1000)) as town:
        assert (await town.ask(request % (b"y" * 2000))).startswith(b"HTTP/1.1 431 ")
        assert (await town.ask(b"y" * 100_000)).startswith(b"HTTP/1.1 431 ")
        assert (await town.ask(request % (b"y" * 800))).endswith(b"plain")


async def test_a_client_that_does_not_come_to_the_point_is_refused(certificate: Path) -> None:
    async with open_town(certificate, ProxyLimits(head_s=0.05)) as town:
        assert (await town.ask(b"GET http://allowed")).startswith(b"HTTP/1.1 408 ")
        assert await town.ask(CONNECT + b"\x16\x03") == ESTABLISHED


async def test_an_idle_connection_is_cut(certificate: Path) -> None:
    async with open_town(certificate, ProxyLimits(idle_s=0.2)) as town:
        hello = client_hello("allowed.example")
        answer = await town.ask(CONNECT + b"\x16\x03\x01" + len(hello).to_bytes(2) + hello)
        assert answer.startswith(ESTABLISHED + b"\x16\x03")
        assert await town.ask(b"PUT http://allowed.example/ HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n") == b""


async def test_a_slow_connection_that_is_not_idle_is_not_cut(certificate: Path) -> None:
    async with open_town(certificate, ProxyLimits(idle_s=0.2)) as town, town.connection() as (reader, writer):
        writer.write(b"PUT http://allowed.example/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        clock = asyncio.get_running_loop().time
        started = clock()
        while clock() < started + 0.5:
            writer.write(b"1\r\nx\r\n")
            await writer.drain()
            await asyncio.sleep(0)
        writer.write(b"0\r\n\r\n")
        assert (await reader.read()).endswith(b"plain")


async def test_a_connection_that_never_ends_is_cut(certificate: Path) -> None:
    async with open_town(certificate, ProxyLimits(total_s=0.2)) as town, town.connection() as (reader, writer):
        writer.write(b"PUT http://allowed.example/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        with pytest.raises(ConnectionError):
            while True:
                writer.write(b"1\r\nx\r\n")
                await writer.drain()
                await asyncio.sleep(0)
        assert town.plain_host.heard


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_connection_carries_so_much_and_no_more(certificate: Path, scheme: str) -> None:
    async with open_town(certificate, ProxyLimits(connection_bytes=100_000)) as town, town.client() as http:
        for host in (town.plain_host, town.tls_host):
            host.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 90000\r\n\r\n" + bytes(90_000)
        assert len((await http.get(f"{scheme}://allowed.example/")).content) == 90_000
        for host in (town.plain_host, town.tls_host):
            host.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + bytes(200_000)
        with pytest.raises(httpx.TransportError):
            await http.get(f"{scheme}://allowed.example/")


async def test_who_comes_when_all_places_are_taken_waits_for_one(certificate: Path) -> None:
    request = b"GET http://allowed.example/ HTTP/1.1\r\nHost: a\r\n\r\n"
    async with open_town(certificate, ProxyLimits(connections=2)) as town:
        async with town.connection() as first, town.connection() as second:
            first[1].write(CONNECT)
            second[1].write(CONNECT)
            assert await first[0].readexactly(len(ESTABLISHED)) == ESTABLISHED
            assert await second[0].readexactly(len(ESTABLISHED)) == ESTABLISHED
            third = asyncio.create_task(town.ask(request))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await asyncio.shield(third)
            assert town.plain_host.met == 0
        assert (await third).endswith(b"plain")


async def test_many_clients_are_served_at_once(town: Town) -> None:
    request = b"GET http://allowed.example/ HTTP/1.1\r\nHost: a\r\n\r\n"
    answers = await asyncio.gather(*(town.ask(request) for _ in range(100)))
    assert all(answer.endswith(b"plain") for answer in answers)


async def test_closing_cuts_every_connection(certificate: Path) -> None:
    async with open_town(certificate) as town:
        reader, writer = await asyncio.open_connection("127.0.0.1", town.port)
        writer.write(CONNECT)
        assert await reader.readexactly(len(ESTABLISHED)) == ESTABLISHED
    async with asyncio.timeout(5):
        assert await reader.read() == b""
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", town.port)


async def test_nothing_a_client_does_is_an_error_of_ours(town: Town, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        for junk in (b"", b"\r\n\r\n", b"\0" * 100, CONNECT, CONNECT + client_hello("allowed.example"), b"\xff" * 5000):
            await town.ask(junk, end=True)
            async with town.connection() as (_, writer):
                writer.write(junk)
        assert (await town.ask(b"GET http://allowed.example/ HTTP/1.1\r\nHost: a\r\n\r\n")).endswith(b"plain")
    assert [record for record in caplog.records if record.name.startswith("deerflow")] == []


async def talk_tls(town: Town, name: str | None) -> bytes:
    """Ask for a page through a tunnel to allowed.example that greets `name`."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = trusting.wrap_bio(incoming, outgoing, server_hostname=name)
    async with town.connection() as (reader, writer):
        writer.write(CONNECT)
        assert await reader.readexactly(len(ESTABLISHED)) == ESTABLISHED
        for step in (tls.do_handshake, lambda: tls.write(b"GET / HTTP/1.1\r\n\r\n"), tls.read):
            while True:
                try:
                    result = step()
                    break
                except ssl.SSLWantReadError:
                    writer.write(outgoing.read())
                    incoming.write(await reader.read(65536))
            writer.write(outgoing.read())
    assert isinstance(result, bytes)
    return result


def client_hello(name: str) -> bytes:
    """What OpenSSL says first, without the header of its record."""
    outgoing = ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()[5:]
