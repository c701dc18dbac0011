"""Egress proxy of a sandbox: real clients reach allowed hosts, and nothing else is reachable."""

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

from deerflow.sandbox.egress import AllowedHosts, Egress, IPAddress, Streams, dial
from deerflow.sandbox.proxy import ProxyLimits, serve_proxy
from tests.certificates import make_certificate

ALLOWED = AllowedHosts.from_patterns(
    ["allowed.example", "*.below.example", "rebound.example", "gone.example", "93.184.216.34"]
)
ADDRESSES = {"rebound.example": "169.254.169.254", "gone.example": "127.0.0.9"}
REFUSAL = b"this sandbox reaches only: 93.184.216.34, allowed.example, gone.example, rebound.example, *.below.example"
PLAIN_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain"


@dataclass
class ProxyEnvironment:
    """Proxy with two hosts behind it that stand for the internet."""

    port: int
    certificate: Path
    tls_host: "Host"
    plain_host: "Host"
    asked: list[str] = field(default_factory=list)
    """Resolved names."""

    async def ask(self, request: bytes, *, end: bool = False) -> bytes:
        """Send bytes and return everything the proxy answers until it closes."""
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
        return not self.tls_host.received and not self.plain_host.received


@dataclass
class Host:
    """Host that answers every connection with the same bytes after a request head or the end."""

    answer: bytes
    received: list[bytes] = field(default_factory=list)
    met: int = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.met += 1
        place = len(self.received)
        try:
            async with asyncio.timeout(10):
                while chunk := await reader.read(65536):
                    self.received[place:] = [b"".join(self.received[place:]) + chunk]
                    if is_complete(self.received[place]):
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
    """Return a certificate for all hosts in these tests, with its key in the same file."""
    folder = tmp_path_factory.mktemp("certificate")
    return make_certificate(folder, ["allowed.example", "*.below.example", "evil.example"])


@asynccontextmanager
async def open_environment(certificate: Path, limits: ProxyLimits = ProxyLimits()) -> AsyncIterator[ProxyEnvironment]:
    inside = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    inside.load_cert_chain(certificate)
    tls_host = Host(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nsecure")
    plain_host = Host(PLAIN_ANSWER)
    listener = socket.create_server(("127.0.0.1", 0))
    environment = ProxyEnvironment(listener.getsockname()[1], certificate, tls_host, plain_host)
    async with (
        await asyncio.start_server(tls_host, "127.0.0.1", 0, ssl=inside) as tls,
        await asyncio.start_server(plain_host, "127.0.0.1", 0) as plain,
    ):
        ports = {443: tls.sockets[0].getsockname()[1], 80: plain.sockets[0].getsockname()[1]}

        async def look_up(host: str) -> Sequence[str]:
            environment.asked.append(host)
            return [ADDRESSES.get(host, "127.0.0.1")]

        async def dial_here(addresses: Sequence[IPAddress], port: int) -> Streams:
            """Connect to the two hosts, as ports below 1024 cannot be opened."""
            here = [address if address.is_loopback else ip_address("127.0.0.1") for address in addresses]
            return await dial(here, ports[port])

        public = {ip_address(address) for address in ("127.0.0.1", "127.0.0.9", "93.184.216.34")}
        proxy = await serve_proxy(listener, ALLOWED, Egress(look_up, public.__contains__, dial_here), limits)
        try:
            yield environment
        finally:
            async with asyncio.timeout(5):
                await proxy.aclose()


@pytest.fixture
async def proxy(certificate: Path) -> AsyncIterator[ProxyEnvironment]:
    async with open_environment(certificate) as opened:
        yield opened


@pytest.mark.parametrize("host", ["allowed.example", "ALLOWED.example", "a.below.example"])
async def test_tunnels_https_to_an_allowed_host(proxy: ProxyEnvironment, host: str) -> None:
    async with proxy.client() as http:
        response = await http.get(f"https://{host}/path")
    assert response.text == "secure"
    assert proxy.tls_host.received[0].startswith(b"GET /path HTTP/1.1\r\n")


async def test_forwards_http_to_an_allowed_host(proxy: ProxyEnvironment) -> None:
    async with proxy.client() as http:
        response = await http.post("http://allowed.example/path?a=b", content=b"body")
    assert response.text == "plain"
    head, _, body = proxy.plain_host.received[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /path?a=b HTTP/1.1\r\nHost: allowed.example\r\n")
    assert b"Connection: close" in head and b"Proxy-Connection" not in head
    assert body == b"body"


async def test_connects_to_an_allowed_address_only_as_written(proxy: ProxyEnvironment) -> None:
    assert (await proxy.ask(b"GET http://93.184.216.34/ HTTP/1.1\r\nHost: x\r\n\r\n")).endswith(b"plain")
    refused = await proxy.ask(b"GET http://93.184.216.35/ HTTP/1.1\r\nHost: x\r\n\r\n")
    assert refused.startswith(b"HTTP/1.1 403")


async def test_serves_http_1_0_clients(proxy: ProxyEnvironment) -> None:
    answer = await proxy.ask(b"GET http://allowed.example/ HTTP/1.0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200") and answer.endswith(b"plain")


async def test_forwards_a_chunked_body_with_own_framing(proxy: ProxyEnvironment) -> None:
    request = b"POST http://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\nTransfer-Encoding: chunked\r\n\r\n"
    pieces = b"3;ext=1\r\nabc\r\n" + b"1\r\nd\r\n" * 2000 + b"0\r\nTrailer: secret\r\n\r\n"
    assert (await proxy.ask(request + pieces)).endswith(b"plain")
    received = proxy.plain_host.received[0]
    assert b"ext=1" not in received and b"secret" not in received and received.count(b"d\r\n") >= 2000


async def test_answers_expect_100_continue(proxy: ProxyEnvironment) -> None:
    async with proxy.connection() as (reader, writer):
        writer.write(b"PUT http://allowed.example/ HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n")
        writer.write(b"Expect: 100-continue\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 \r\n\r\n"
        writer.write(b"body")
        assert (await reader.read()).endswith(b"plain")
    assert b"Expect" not in proxy.plain_host.received[0]


async def test_forwards_a_large_response(proxy: ProxyEnvironment) -> None:
    content = bytes(range(256)) * 20_000
    proxy.plain_host.answer = b"HTTP/1.0 200 OK\r\n\r\n" + content
    proxy.tls_host.answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + content
    async with proxy.client() as http:
        assert (await http.get("http://allowed.example/")).content == content
        assert (await http.get("https://allowed.example/")).content == content


async def test_forwards_an_early_response(proxy: ProxyEnvironment) -> None:
    proxy.plain_host.answer = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno"
    async with proxy.connection() as (reader, writer):
        writer.write(b"POST http://allowed.example/ HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody")
        assert (await reader.read()).startswith(b"HTTP/1.1 413")


def test_works_on_uvloop(certificate: Path) -> None:
    async def both_ways() -> tuple[str, str, int]:
        async with open_environment(certificate) as proxy, proxy.client() as http:
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
async def test_refuses_other_hosts_without_resolving_them(proxy: ProxyEnvironment, host: str) -> None:
    name = host.encode()
    for request in (b"CONNECT %b:443 HTTP/1.1\r\nHost: %b\r\n\r\n", b"GET http://%b/ HTTP/1.1\r\nHost: %b\r\n\r\n"):
        answer = await proxy.ask(request % (name, name))
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert answer.count(REFUSAL) == 2  # as the reason and as the body
    assert proxy.asked == [] and proxy.is_untouched


async def test_client_output_shows_why_a_tunnel_was_refused(proxy: ProxyEnvironment) -> None:
    async with proxy.client() as http:
        with pytest.raises(httpx.ProxyError, match=r"403 evil\.example is not on the list; this sandbox reaches only"):
            await http.get("https://evil.example/")


async def test_delivers_the_refusal_to_a_client_that_sends_first(proxy: ProxyEnvironment) -> None:
    request = b"POST http://evil.example/ HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n" + bytes(2_000_000)
    async with proxy.connection() as (reader, writer):
        writer.write(request)
        await writer.drain()
        writer.write_eof()
        assert REFUSAL in await reader.read()


async def test_refuses_an_allowed_name_with_a_private_address(proxy: ProxyEnvironment) -> None:
    for request in (b"CONNECT rebound.example:443", b"GET http://rebound.example/"):
        answer = await proxy.ask(request + b" HTTP/1.1\r\nHost: a\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 403 rebound.example is not on the public internet")
    assert proxy.is_untouched


async def test_returns_502_for_an_unreachable_host(proxy: ProxyEnvironment) -> None:
    answer = await proxy.ask(b"CONNECT gone.example:443 HTTP/1.1\r\nHost: a\r\n\r\n")
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
async def test_refuses_unusual_targets(proxy: ProxyEnvironment, request_line: bytes, status: int) -> None:
    answer = await proxy.ask(request_line + b" HTTP/1.1\r\nHost: allowed.example\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert proxy.is_untouched


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
async def test_refuses_ambiguous_request_heads(proxy: ProxyEnvironment, head: bytes) -> None:
    answer = await proxy.ask(b"POST http://allowed.example/ HTTP/1.1\r\n" + head + b"\r\n0\r\n\r\n")
    assert answer.split()[1] in (b"400", b"501")
    assert proxy.is_untouched


@pytest.mark.parametrize("version", [b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.9", b"HTTP/1", b"ICY/1.1", b""])
async def test_refuses_other_http_versions(proxy: ProxyEnvironment, version: bytes) -> None:
    answer = await proxy.ask(b"GET http://allowed.example/ " + version + b"\r\nHost: a\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ") and proxy.is_untouched


async def test_sets_the_host_header_to_the_target(proxy: ProxyEnvironment) -> None:
    request = b"GET http://Allowed.Example./x HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: kept\r\n\r\n"
    assert (await proxy.ask(request)).endswith(b"plain")
    received = proxy.plain_host.received[0]
    assert received.startswith(b"GET /x HTTP/1.1\r\nHost: allowed.example\r\n") and b"evil" not in received


async def test_drops_hop_by_hop_headers(proxy: ProxyEnvironment) -> None:
    request = b"GET http://allowed.example/ HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X-Mine\r\nX-Mine: secret\r\n"
    request += b"Proxy-Authorization: secret\r\nUpgrade: secret\r\nTE: secret\r\nX-Yours: kept\r\n\r\n"
    assert (await proxy.ask(request)).endswith(b"plain")
    assert b"secret" not in proxy.plain_host.received[0] and b"X-Yours: kept" in proxy.plain_host.received[0]


async def test_keeps_framing_headers_named_in_connection(proxy: ProxyEnvironment) -> None:
    smuggled = b"GET /smuggled HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    request = b"POST http://allowed.example/ HTTP/1.1\r\nHost: a\r\nConnection: content-length\r\n"
    await proxy.ask(request + b"Content-Length: %d\r\n\r\n" % len(smuggled) + smuggled)
    assert b"Content-Length: %d" % len(smuggled) in proxy.plain_host.received[0]


async def test_ignores_a_second_request_on_a_connection(proxy: ProxyEnvironment) -> None:
    one = b"GET http://allowed.example/%d HTTP/1.1\r\nHost: allowed.example\r\n\r\n"
    answer = await proxy.ask(one % 1 + one % 2 + b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n")
    assert answer.count(b"HTTP/1.1 ") == 1 and b"Connection: close" in answer
    assert len(proxy.plain_host.received) == 1 and b"/2" not in proxy.plain_host.received[0]


@pytest.mark.parametrize("body", [b"zz\r\n", b"-1\r\nx", b"5\nabcde\n0\n\n", b"3\r\nabcd\r\n0\r\n\r\n", b"5\r\nab"])
async def test_closes_the_connection_on_a_malformed_chunked_body(proxy: ProxyEnvironment, body: bytes) -> None:
    request = b"POST http://allowed.example/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert b"plain" not in await proxy.ask(request + body, end=True)


async def test_closes_the_connection_on_a_truncated_body(proxy: ProxyEnvironment) -> None:
    request = b"POST http://allowed.example/ HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nbody"
    assert await proxy.ask(request, end=True) == b""


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
async def test_returns_502_for_a_host_that_does_not_speak_http(proxy: ProxyEnvironment, answer: bytes) -> None:
    proxy.plain_host.answer = answer
    output = await proxy.ask(b"GET http://allowed.example/ HTTP/1.1\r\nHost: a\r\n\r\n")
    assert output.startswith(b"HTTP/1.1 502 the host did not answer in HTTP")


async def test_does_not_complete_a_truncated_response(proxy: ProxyEnvironment) -> None:
    proxy.plain_host.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"
    async with proxy.client() as http:
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
async def test_refuses_a_tunnel_without_tls(proxy: ProxyEnvironment, first: bytes) -> None:
    assert await proxy.ask(CONNECT + first, end=True) == ESTABLISHED + ACCESS_DENIED
    assert proxy.is_untouched


@pytest.mark.parametrize("record", [b"\x17\x03\x01", b"\x14\x03\x01", b"\x16\x02\x00", b"\x16\x7f\x01"])
async def test_refuses_a_client_hello_in_another_record_type(proxy: ProxyEnvironment, record: bytes) -> None:
    hello = client_hello("allowed.example")
    answer = await proxy.ask(CONNECT + record + len(hello).to_bytes(2) + hello, end=True)
    assert answer == ESTABLISHED + ACCESS_DENIED


@pytest.mark.parametrize("name", ["evil.example", "below.example", "sub.allowed.example", "a.below.example"])
async def test_refuses_a_client_hello_for_another_host(proxy: ProxyEnvironment, name: str) -> None:
    with pytest.raises(ssl.SSLError, match="(?i)access.denied"):
        await request_by_tls(proxy, name)
    assert proxy.is_untouched


@pytest.mark.parametrize("name", ["allowed.example", "Allowed.Example", None])
async def test_accepts_a_client_hello_for_its_host_or_without_sni(proxy: ProxyEnvironment, name: str | None) -> None:
    assert (await request_by_tls(proxy, name)).endswith(b"secure")


async def test_reads_a_client_hello_in_many_records(proxy: ProxyEnvironment) -> None:
    for name, is_allowed in (("evil.example", False), ("allowed.example", True)):
        hello = client_hello(name)
        records = b"".join(b"\x16\x03\x01\x00\x28" + hello[at : at + 40] for at in range(0, len(hello) // 40 * 40, 40))
        rest = hello[len(hello) // 40 * 40 :]
        async with proxy.connection() as (reader, writer):
            writer.write(CONNECT + records + (b"\x16\x03\x01" + len(rest).to_bytes(2) + rest) * bool(rest))
            assert await reader.readexactly(len(ESTABLISHED)) == ESTABLISHED
            record = await reader.readexactly(7)
        assert (record == ACCESS_DENIED) is not is_allowed
        assert (record[0] == 22) is is_allowed


async def test_refuses_data_after_the_client_hello_in_its_record(proxy: ProxyEnvironment) -> None:
    hello = client_hello("allowed.example") + client_hello("evil.example")
    answer = await proxy.ask(CONNECT + b"\x16\x03\x01" + len(hello).to_bytes(2) + hello, end=True)
    assert answer == ESTABLISHED + ACCESS_DENIED


@pytest.mark.parametrize("header", [b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"])
async def test_refuses_connect_with_a_body(proxy: ProxyEnvironment, header: bytes) -> None:
    answer = await proxy.ask(CONNECT[:-2] + header + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ") and proxy.tls_host.met == 0


async def test_refuses_a_request_head_that_is_too_long(certificate: Path) -> None:
    request = b"GET http://allowed.example/ HTTP/1.1\r\nHost: a\r\nX: %b\r\n\r\n"
    async with open_environment(certificate, ProxyLimits(head_bytes=1000)) as proxy:
        assert (await proxy.ask(request % (b"y" * 2000))).startswith(b"HTTP/1.1 431 ")
        assert (await proxy.ask(b"y" * 100_000)).startswith(b"HTTP/1.1 431 ")
        assert (await proxy.ask(request % (b"y" * 800))).endswith(b"plain")


async def test_refuses_a_slow_request_head(certificate: Path) -> None:
    async with open_environment(certificate, ProxyLimits(head_s=0.05)) as proxy:
        assert (await proxy.ask(b"GET http://allowed")).startswith(b"HTTP/1.1 408 ")
        assert await proxy.ask(CONNECT + b"\x16\x03") == ESTABLISHED


async def test_closes_an_idle_connection(certificate: Path) -> None:
    async with open_environment(certificate, ProxyLimits(idle_s=0.2)) as proxy:
        hello = client_hello("allowed.example")
        answer = await proxy.ask(CONNECT + b"\x16\x03\x01" + len(hello).to_bytes(2) + hello)
        assert answer.startswith(ESTABLISHED + b"\x16\x03")
        assert await proxy.ask(b"PUT http://allowed.example/ HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n") == b""


async def test_keeps_a_slow_connection_that_is_not_idle(certificate: Path) -> None:
    async with open_environment(certificate, ProxyLimits(idle_s=0.2)) as proxy, proxy.connection() as (reader, writer):
        writer.write(b"PUT http://allowed.example/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        clock = asyncio.get_running_loop().time
        started = clock()
        while clock() < started + 0.5:
            writer.write(b"1\r\nx\r\n")
            await writer.drain()
            await asyncio.sleep(0)
        writer.write(b"0\r\n\r\n")
        assert (await reader.read()).endswith(b"plain")


async def test_closes_a_connection_after_the_total_timeout(certificate: Path) -> None:
    async with open_environment(certificate, ProxyLimits(total_s=0.2)) as proxy, proxy.connection() as (reader, writer):
        writer.write(b"PUT http://allowed.example/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        with pytest.raises(ConnectionError):
            while True:
                writer.write(b"1\r\nx\r\n")
                await writer.drain()
                await asyncio.sleep(0)
        assert proxy.plain_host.received


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_closes_a_connection_at_the_byte_limit(certificate: Path, scheme: str) -> None:
    async with open_environment(certificate, ProxyLimits(connection_bytes=100_000)) as proxy, proxy.client() as http:
        for host in (proxy.plain_host, proxy.tls_host):
            host.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 90000\r\n\r\n" + bytes(90_000)
        assert len((await http.get(f"{scheme}://allowed.example/")).content) == 90_000
        for host in (proxy.plain_host, proxy.tls_host):
            host.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + bytes(200_000)
        with pytest.raises(httpx.TransportError):
            await http.get(f"{scheme}://allowed.example/")


async def test_queues_connections_beyond_the_limit(certificate: Path) -> None:
    request = b"GET http://allowed.example/ HTTP/1.1\r\nHost: a\r\n\r\n"
    async with open_environment(certificate, ProxyLimits(connections=2)) as proxy:
        async with proxy.connection() as first, proxy.connection() as second:
            first[1].write(CONNECT)
            second[1].write(CONNECT)
            assert await first[0].readexactly(len(ESTABLISHED)) == ESTABLISHED
            assert await second[0].readexactly(len(ESTABLISHED)) == ESTABLISHED
            third = asyncio.create_task(proxy.ask(request))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await asyncio.shield(third)
            assert proxy.plain_host.met == 0
        assert (await third).endswith(b"plain")


async def test_serves_many_clients_concurrently(proxy: ProxyEnvironment) -> None:
    request = b"GET http://allowed.example/ HTTP/1.1\r\nHost: a\r\n\r\n"
    answers = await asyncio.gather(*(proxy.ask(request) for _ in range(100)))
    assert all(answer.endswith(b"plain") for answer in answers)


async def test_closing_aborts_every_connection(certificate: Path) -> None:
    async with open_environment(certificate) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(CONNECT)
        assert await reader.readexactly(len(ESTABLISHED)) == ESTABLISHED
    async with asyncio.timeout(5):
        assert await reader.read() == b""
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", proxy.port)


async def test_logs_no_errors_for_misbehaving_clients(
    proxy: ProxyEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        for junk in (b"", b"\r\n\r\n", b"\0" * 100, CONNECT, CONNECT + client_hello("allowed.example"), b"\xff" * 5000):
            await proxy.ask(junk, end=True)
            async with proxy.connection() as (_, writer):
                writer.write(junk)
        assert (await proxy.ask(b"GET http://allowed.example/ HTTP/1.1\r\nHost: a\r\n\r\n")).endswith(b"plain")
    assert [record for record in caplog.records if record.name.startswith("deerflow")] == []


async def request_by_tls(proxy: ProxyEnvironment, name: str | None) -> bytes:
    """Request a page through a tunnel to allowed.example with `name` as SNI."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = trusting.wrap_bio(incoming, outgoing, server_hostname=name)
    async with proxy.connection() as (reader, writer):
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
    """Return the ClientHello of OpenSSL without the record header."""
    outgoing = ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()[5:]
