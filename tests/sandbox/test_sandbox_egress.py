"""Egress: private addresses are refused in every spelling, and the checked address is the one that is used."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.domain.errors import SandboxError
from deerflow.sandbox.egress import (
    AllowedHosts,
    Dial,
    Egress,
    EgressFailed,
    EgressRefused,
    IPAddress,
    Resolve,
    Streams,
    SystemResolver,
    canonical_host,
    is_public,
    parse_sni,
)

NOT_PUBLIC = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.7",
    "203.0.113.7",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:8.8.8.8",
    "::ffff:0:127.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::8.8.8.8",
    "100::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:10::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:808:808::1",
    "2600::5efe:10.0.0.1",
    "3ffe::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%lo",
    "2606:4700::1111%lo",
    "fec0::1",
    "ff02::1",
]
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "168.63.129.17",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "64:ff9b::8.8.8.8",
    "2001:4860:4860::8888",
    "2606:4700:4700::1111",
    "2a00:1450:4001::1",
]


@pytest.mark.parametrize("address", NOT_PUBLIC)
async def test_refuses_addresses_that_are_not_public(address: str) -> None:
    dialled: list[IPAddress] = []
    egress = Egress(resolve=create_resolver(address), dial=create_recording_dial(dialled))
    assert not is_public(ip_address(address))
    for host in ("rebound.example", address):
        with pytest.raises(EgressRefused, match="is not on the public internet"):
            await egress.connect(host, 443)
    assert dialled == []


@pytest.mark.parametrize("address", PUBLIC)
async def test_connects_to_a_public_address(address: str) -> None:
    dialled: list[IPAddress] = []
    egress = Egress(resolve=create_resolver(address), dial=create_recording_dial(dialled))
    for host in ("public.example", address):
        with pytest.raises(EgressFailed, match="nobody is there"):
            await egress.connect(host, 443)
    assert dialled == [ip_address(address)] * 2


@given(st.ip_addresses().filter(lambda address: address not in ip_network("64:ff9b::/96")))
def test_addresses_python_calls_private_are_never_public(address: IPAddress) -> None:
    if address.is_private or address.is_multicast or address.is_reserved or address.is_loopback:
        assert not is_public(address)


@pytest.mark.parametrize(
    "host",
    [
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "127.1",
        "127.0.1",
        "127.0.0.1.1",
        "127.0.0.0x1",
        "1.2.3.08",
        "256.1.1.1",
        "0x",
        "example.0x7f",
        "",
        ".",
        "..",
        "example.org..",
        ".example.org",
        "a..example.org",
        "-a.example.org",
        "a-.example.org",
        "user@example.org",
        "example.org:80",
        "example.org/path",
        "example.org#",
        "example.org?x",
        "example.org\\@evil.example",
        "example.org%00.evil.example",
        "example.org\0.evil.example",
        "example.org\r\nHost: evil.example",
        "exam ple.org",
        " example.org",
        "[::1]",
        "[127.0.0.1]",
        f"{'a' * 64}.example.org",
        f"{'a.' * 130}org",
        "\u2488.example\u2024\u2025org",
        "\ud800.example.org",
        "exa\u200bmple\u3002or\u00adg\uff0f",
        "ü" * 300,
    ],
)
async def test_refuses_unusual_spellings_of_a_host(host: str) -> None:
    dialled: list[IPAddress] = []
    egress = Egress(resolve=create_resolver("8.8.8.8"), dial=create_recording_dial(dialled))
    with pytest.raises(EgressRefused, match="is not a host name"):
        await egress.connect(host, 443)
    assert dialled == []


@pytest.mark.parametrize(
    ("host", "canonical"),
    [
        ("example.org", "example.org"),
        ("EXAMPLE.Org", "example.org"),
        ("example.org.", "example.org"),
        ("my_bucket.example.org", "my_bucket.example.org"),
        ("1password.example", "1password.example"),
        ("3com", "3com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("faß.example", "xn--fa-hia.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("example。org", "example.org"),
        ("\uff11\uff12\uff17.0.0.1", "127.0.0.1"),
        ("①②⑦.⓪.⓪.①", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("2606:4700:0::1111", "2606:4700::1111"),
        ("::FFFF:127.0.0.1", "::ffff:7f00:1"),
    ],
)
def test_returns_the_canonical_spelling_of_a_host(host: str, canonical: str) -> None:
    assert canonical_host(host) == canonical
    assert canonical_host(canonical) == canonical


@given(st.text(max_size=300))
def test_canonicalizes_or_refuses_any_text(text: str) -> None:
    try:
        host = canonical_host(text)
    except EgressRefused:
        return
    assert host.isascii() and host == canonical_host(host)


@pytest.mark.parametrize("port", [0, -1, 65536, 10**9])
async def test_refuses_invalid_ports(port: int) -> None:
    with pytest.raises(EgressRefused, match="invalid port"):
        await Egress(resolve=create_resolver("8.8.8.8"), dial=create_recording_dial([])).connect("example.org", port)


async def test_uses_only_the_public_addresses_of_a_host() -> None:
    dialled: list[IPAddress] = []
    egress = Egress(
        resolve=create_resolver("127.0.0.1", "8.8.8.8", "no address", "fe80::1%eth0"),
        dial=create_recording_dial(dialled),
    )
    with pytest.raises(EgressFailed):
        await egress.connect("mixed.example", 443)
    assert dialled == [ip_address("8.8.8.8")]


async def test_resolves_a_rebinding_name_once() -> None:
    asked: list[str] = []
    answers = iter([["127.0.0.1"], ["169.254.169.254"]])

    async def rebinding(host: str) -> Sequence[str]:
        asked.append(host)
        return next(answers)

    async with serve_greeting() as port:
        egress = Egress(resolve=rebinding, is_allowed=lambda address: address == ip_address("127.0.0.1"))
        assert await read_all(await egress.connect("rebinding.example", port)) == b"hello"
        with pytest.raises(EgressRefused):
            await egress.connect("rebinding.example", port)
    assert asked == ["rebinding.example"] * 2


async def test_refuses_servers_on_this_machine_by_default() -> None:
    async with serve_greeting() as port:
        for host in ("127.0.0.1", "::ffff:127.0.0.1", "::1"):
            with pytest.raises(EgressRefused):
                await Egress().connect(host, port)


async def test_refuses_names_of_this_machine() -> None:
    with pytest.raises(SandboxError):  # whether it has an address at all is up to the machine
        await Egress().connect("localhost", 80)


async def test_tries_the_next_address_if_one_does_not_answer() -> None:
    async with serve_greeting() as port:
        egress = Egress(resolve=create_resolver("127.0.0.2", "127.0.0.1"), is_allowed=lambda _: True)
        streams = await egress.connect("two.example", port)
        assert streams[1].get_extra_info("peername") == ("127.0.0.1", port)
        assert await read_all(streams) == b"hello"


async def test_raises_egress_failed_for_a_closed_port() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but not listening
        egress = Egress(resolve=create_resolver("127.0.0.1"), is_allowed=lambda _: True)
        with pytest.raises(EgressFailed, match=r"silent\.example cannot be reached"):
            await egress.connect("silent.example", taken.getsockname()[1])


async def test_raises_egress_failed_for_an_unknown_name() -> None:
    async def unknown(host: str) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with pytest.raises(EgressFailed, match=r"nowhere\.example cannot be reached: .*not known"):
        await Egress(resolve=unknown).connect("nowhere.example", 443)


@pytest.mark.parametrize("slow", ["resolver", "host"])
async def test_raises_egress_failed_after_the_timeout(slow: str) -> None:
    async def never(*_: object) -> Streams:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    async def unresolved(host: str) -> Sequence[str]:
        await never()
        return []

    resolve = unresolved if slow == "resolver" else create_resolver("8.8.8.8")
    async with asyncio.timeout(5):
        with pytest.raises(EgressFailed, match=r"slow\.example did not answer within 0.01 s"):
            await Egress(resolve=resolve, dial=never, timeout_s=0.01).connect("slow.example", 443)


async def test_system_resolver_returns_every_address_once() -> None:
    found = await SystemResolver()("localhost")
    assert {ip_address(address).is_loopback for address in found} == {True}
    assert len(set(found)) == len(found)


async def test_system_resolver_finds_names_of_the_hosts_file(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n\n10.1.2.3\tWiki.corp wiki  # wiki2\n10.1.2.4 wiki\n#10.9.9.9 old.corp\n")
    resolve = SystemResolver(hosts)
    assert await resolve("localhost") == ["127.0.0.1"]
    assert await resolve("wiki") == ["10.1.2.3", "10.1.2.4"]
    assert await resolve("wiki.corp") == ["10.1.2.3"]
    with pytest.raises(EgressRefused, match="not on the public internet"):
        await Egress(resolve=resolve).connect("wiki.corp", 80)
    for absent in (hosts, tmp_path / "missing"):  # such names are never asked from name servers
        assert await SystemResolver(absent)("app.localhost") == ["127.0.0.1", "::1"]


@pytest.mark.parametrize(
    ("host", "is_allowed"),
    [
        ("example.org", True),
        ("www.example.org", False),
        ("files.example.net", True),
        ("a.b.example.net", True),
        ("example.net", False),
        ("evilexample.net", False),
        ("example.net.evil.example", False),
        ("xn--bcher-kva.example", True),
        ("93.184.216.34", True),
        ("93.184.216.35", False),
        ("2606:4700::1111", False),
    ],
)
def test_allowed_hosts_match_names_and_wildcards(host: str, is_allowed: bool) -> None:
    hosts = AllowedHosts.from_patterns(["Example.ORG.", "*.EXAMPLE.net", "bücher.example", "93.184.216.34"])
    assert hosts.allows(host) is is_allowed


@pytest.mark.parametrize("pattern", ["*", "*.*", "a.*.org", "*.0.1", "https://example.org", "example.org:8080", ""])
def test_allowed_hosts_refuse_invalid_patterns(pattern: str) -> None:
    with pytest.raises(EgressRefused, match="is not a host name"):
        AllowedHosts.from_patterns([pattern])


def test_allowed_hosts_are_formatted_as_written() -> None:
    assert str(AllowedHosts.from_patterns(["*.wikipedia.org", "docs.python.org"])) == "docs.python.org, *.wikipedia.org"
    assert str(AllowedHosts.from_patterns([])) == "nothing"


def test_parses_the_sni_of_a_real_client() -> None:
    assert parse_sni(client_hello("Example.org")) == "example.org"
    assert parse_sni(client_hello(None)) is None


def test_returns_no_sni_without_extensions() -> None:
    assert parse_sni(build_client_hello(b"")) is None


@pytest.mark.parametrize(
    "extensions",
    [
        pytest.param([(0, b"\0\x05\0\0\x02ok"), (0, b"\0\x05\0\0\x02no")], id="two names in two extensions"),
        pytest.param([(0, b"\0\x0a\0\0\x02ok\0\0\x02no")], id="two names in one extension"),
        pytest.param([(0, b"\0\x05\0\0\x02ok!")], id="bytes after the names"),
        pytest.param([(0, b"\0\x05\x01\0\x02ok")], id="a name that is no host name"),
        pytest.param([(0, b"\0\x05\0\0\x09ok")], id="a name longer than the message"),
        pytest.param([(0, b"")], id="an empty extension"),
        pytest.param([(0, b"\0\x06\0\0\x03o\0k")], id="a name with a zero in it"),
        pytest.param([(0, b"\0\x05\0\0\x02\xff\xfe")], id="a name that is no text"),
        pytest.param([(0, b"\0\x05\0\0\x02ok"), (0xFE0D, b"\0")], id="an encrypted greeting"),
    ],
)
def test_refuses_an_ambiguous_client_hello(extensions: list[tuple[int, bytes]]) -> None:
    with pytest.raises(EgressRefused):
        parse_sni(build_client_hello(pack_extensions(extensions)))


def test_accepts_the_unambiguous_client_hello() -> None:
    assert parse_sni(build_client_hello(pack_extensions([(0, b"\0\x05\0\0\x02ok"), (16, b"")]))) == "ok"


@given(st.data())
def test_parses_or_refuses_any_damaged_client_hello(data: st.DataObject) -> None:
    hello = bytearray(client_hello("example.org"))
    for _ in range(data.draw(st.integers(1, 4))):
        hello[data.draw(st.integers(0, len(hello) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(hello)))
    try:
        host = parse_sni(bytes(hello[:cut]))
    except EgressRefused:
        return
    assert host is None or host == canonical_host(host)


def create_resolver(*addresses: str) -> Resolve:
    """Return a resolver with a fixed answer."""

    async def resolve(host: str) -> Sequence[str]:
        return addresses

    return resolve


def create_recording_dial(dialled: list[IPAddress]) -> Dial:
    """Return a dial function that connects to nothing and records the addresses."""

    async def refuse_all(addresses: Sequence[IPAddress], port: int) -> Streams:
        dialled.extend(addresses)
        raise ConnectionRefusedError("nobody is there")

    return refuse_all


@asynccontextmanager
async def serve_greeting() -> AsyncIterator[int]:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def read_all(streams: Streams) -> bytes:
    async with asyncio.timeout(5):
        content = await streams[0].read()
        streams[1].close()
        await streams[1].wait_closed()
    return content


def client_hello(host: str | None) -> bytes:
    """Return the ClientHello of OpenSSL without the record header."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    outgoing = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=host).do_handshake()
    return outgoing.read()[5:]


def build_client_hello(extensions: bytes) -> bytes:
    body = b"\x03\x03" + bytes(32) + b"\0" + b"\0\x02\x13\x01" + b"\x01\0" + extensions
    return b"\x01" + len(body).to_bytes(3) + body


def pack_extensions(extensions: list[tuple[int, bytes]]) -> bytes:
    listed = b"".join(kind.to_bytes(2) + len(content).to_bytes(2) + content for kind, content in extensions)
    return len(listed).to_bytes(2) + listed
