"""Egress rules of agents and the only way to open outgoing connections for them.

Every connection made for an agent is opened by `Egress`: a name is resolved once, and only its public addresses are
used.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import Self

import idna
from aiohappyeyeballs import start_connection

from deerflow.domain.errors import SandboxError

IPAddress = IPv4Address | IPv6Address
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Resolve = Callable[[str], Awaitable[Sequence[str]]]
Dial = Callable[[Sequence[IPAddress], int], Awaitable[Streams]]

LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
NAME = re.compile(rf"{LABEL}(?:\.{LABEL})*")
# Labels that system resolvers read as a number: 2130706433, 0x7f000001, 127.1, 0177.0.0.1.
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
MAX_HOST_CHARS = 253

RESOLVER_THREADS = 4
HOSTS_FILE = Path("/etc/hosts")
LOOPBACK_ADDRESSES = ("127.0.0.1", "::1")
MAX_ADDRESSES = 8
NEXT_ADDRESS_AFTER_S = 0.25

# Own lists, because `is_global` differs between Python versions.
NOT_PUBLIC_4 = frozenset(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this host
        "10.0.0.0/8",
        "100.64.0.0/10",  # behind a carrier's NAT; clouds put their metadata here too
        "127.0.0.0/8",
        "168.63.129.16/32",  # looks public, but is how machines in Azure talk to their host
        "169.254.0.0/16",  # link-local, and the metadata of most clouds
        "172.16.0.0/12",
        "192.0.0.0/24",  # IETF protocols
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
UNICAST_6 = IPv6Network("2000::/3")
NOT_PUBLIC_6 = frozenset(
    IPv6Network(network)
    for network in (
        "2001::/23",  # IETF protocols, Teredo among them
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "3ffe::/16",  # the former 6bone
        "3fff::/20",  # documentation
    )
)
NAT64 = IPv6Network("64:ff9b::/96")
ISATAP = (0x00005EFE, 0x02005EFE)

CLIENT_HELLO, SERVER_NAME, ENCRYPTED_CLIENT_HELLO = 1, 0, 0xFE0D


class EgressRefused(SandboxError):
    """The connection is not allowed; the text gives the reason."""


class EgressFailed(SandboxError):
    """The connection is allowed, but failed."""


def canonical_host(host: str) -> str:
    """Return the canonical form of a host name or address: lower case, A-labels, no trailing dot.

    Raises:
        EgressRefused: It is not a host name or an address in its usual form.
    """
    name = _to_ascii(host).lower().removesuffix(".") if len(host) <= MAX_HOST_CHARS + 1 else ""
    if address := _parse_address(name):
        return str(address)
    if not NAME.fullmatch(name) or NUMBER.fullmatch(name.rpartition(".")[2]):
        raise EgressRefused(f"{host[:MAX_HOST_CHARS]!a} is not a host name; write it like example.org")
    return name


def _to_ascii(host: str) -> str:
    """Return an international name in A-labels, or an empty string if it has none."""
    if host.isascii():
        return host
    try:
        return idna.encode(host, uts46=True, std3_rules=True).decode("ascii")
    except idna.IDNAError:
        return ""


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """Hosts by name; `*.example.org` matches every host below example.org, but not example.org."""

    names: frozenset[str]
    parents: frozenset[str]

    @classmethod
    def from_patterns(cls, patterns: Iterable[str]) -> Self:
        """Parse host patterns.

        Raises:
            EgressRefused: One of them is not a host.
        """
        written = frozenset(patterns)
        wild = frozenset(pattern for pattern in written if pattern.startswith("*."))
        return cls(
            names=frozenset(map(canonical_host, written - wild)),
            parents=frozenset(canonical_host(pattern.removeprefix("*.")) for pattern in wild),
        )

    def allows(self, host: str) -> bool:
        """Return True if a host in canonical form is allowed."""
        return host in self.names or any(host.endswith(f".{parent}") for parent in self.parents)

    def intersect(self, others: "AllowedHosts") -> "AllowedHosts":
        """Return the hosts that are in both lists."""
        own, theirs = self.parents, others.parents
        return AllowedHosts(
            names=frozenset(filter(others.allows, self.names)) | frozenset(filter(self.allows, others.names)),
            parents=frozenset(each for each in own if covers_parent(each, theirs))
            | frozenset(each for each in theirs if covers_parent(each, own)),
        )

    def __bool__(self) -> bool:
        return bool(self.names or self.parents)

    def __str__(self) -> str:
        return ", ".join([*sorted(self.names), *sorted(f"*.{parent}" for parent in self.parents)]) or "nothing"


def covers_parent(parent: str, others: Iterable[str]) -> bool:
    """Return True if all hosts below `parent` are below one of the others too."""
    return any(parent == other or parent.endswith(f".{other}") for other in others)


def is_public(address: IPAddress) -> bool:
    """Return True if an address is a unicast address of the public internet."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in NOT_PUBLIC_4)
    if address in NAT64:
        return is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    if address.scope_id or (int(address) >> 32) & 0xFFFF_FFFF in ISATAP:
        return False
    # Other forms that embed an IPv4 address (mapped, compatible, translated) are not unicast, so they are refused here.
    return address in UNICAST_6 and not any(address in network for network in NOT_PUBLIC_6)


@dataclass(frozen=True, slots=True)
class SystemResolver:
    """System resolver in its own threads, so that slow name servers do not block other work."""

    hosts_file: Path = HOSTS_FILE
    threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(RESOLVER_THREADS, thread_name_prefix="resolver")
    )

    async def __call__(self, host: str) -> Sequence[str]:
        found = await asyncio.get_running_loop().run_in_executor(self.threads, _lookup_host, host, self.hosts_file)
        return list(dict.fromkeys(found))


def _lookup_host(host: str, hosts_file: Path) -> list[str]:
    if listed := _lookup_in_file(host, hosts_file):
        return listed
    if host == "localhost" or host.endswith(".localhost"):  # never asked from name servers (RFC 6761)
        return list(LOOPBACK_ADDRESSES)
    # The trailing dot disables the search domains of the machine. The system would not find such a name in its file.
    return [str(info[4][0]) for info in socket.getaddrinfo(f"{host}.", None, type=socket.SOCK_STREAM)]


def _lookup_in_file(host: str, hosts_file: Path) -> list[str]:
    """Return the addresses of a name in `/etc/hosts`."""
    try:
        content = hosts_file.read_text(encoding="utf-8", errors="replace").lower()
    except OSError:
        return []
    if host not in content:
        return []
    lines = (line.partition("#")[0].split() for line in content.splitlines())
    return [address for address, *names in filter(None, lines) if host in names]


async def dial(addresses: Sequence[IPAddress], port: int) -> Streams:
    """Connect to the first of the addresses that answers (Happy Eyeballs)."""
    infos = [
        (
            socket.AF_INET if address.version == 4 else socket.AF_INET6,
            socket.SOCK_STREAM,
            socket.IPPROTO_TCP,
            "",
            (str(address), port),
        )
        for address in addresses
    ]
    try:
        connected = await start_connection(infos, happy_eyeballs_delay=NEXT_ADDRESS_AFTER_S)
    except RuntimeError as failure:  # how uvloop reports some failures to connect
        raise OSError(str(failure)) from failure
    return await asyncio.open_connection(sock=connected)


@dataclass(frozen=True, slots=True)
class Egress:
    """Opens connections for agents. Only tests allow other addresses."""

    resolve: Resolve = field(default_factory=SystemResolver)
    is_allowed: Callable[[IPAddress], bool] = is_public
    dial: Dial = dial
    timeout_s: float = 15.0
    hosts: AllowedHosts | None = None
    """Hosts that may be reached; None allows any."""

    async def connect(self, host: str, port: int) -> Streams:
        """Connect to `host` at a checked address.

        Raises:
            EgressRefused: The host is not on the public internet, or not allowed.
            EgressFailed: The host has no address, or does not answer in time.
        """
        if not 0 < port < 65536:
            raise EgressRefused(f"invalid port {port}")
        name = canonical_host(host)
        if self.hosts is not None and not self.hosts.allows(name):
            raise EgressRefused(f"{name} is not an allowed host; allowed: {self.hosts}")
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self.dial(await self._resolve_allowed(name), port)
        except TimeoutError:
            raise EgressFailed(f"{name} did not answer within {self.timeout_s:g} s") from None
        except OSError as failure:
            raise EgressFailed(f"{name} cannot be reached: {failure}") from failure

    async def _resolve_allowed(self, name: str) -> Sequence[IPAddress]:
        """Return the allowed addresses of `name`; it is resolved here and never again."""
        literal = _parse_address(name)
        found = [literal] if literal else [_parse_address(text) for text in await self.resolve(name)]
        allowed = [address for address in found if address and self.is_allowed(address)]
        if not allowed:
            raise EgressRefused(f"{name} is not on the public internet, and agents connect to nothing else")
        return allowed[:MAX_ADDRESSES]


def _parse_address(text: str) -> IPAddress | None:
    """Return the address in `text`, or None if it is a name."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def parse_sni(message: bytes) -> str | None:
    """Return the host in the SNI extension of a TLS ClientHello, or None if there is none.

    Raises:
        EgressRefused: It is not a ClientHello, or one that servers may parse differently.
    """
    handshake = TlsReader(message)
    if handshake.number(1) != CLIENT_HELLO:
        raise EgressRefused("expected a TLS ClientHello")
    hello = TlsReader(handshake.block(3))
    handshake.end()
    hello.take(2 + 32)  # version, random
    for length_size in (1, 2, 1):  # session, ciphers, compressions
        hello.block(length_size)
    extensions = _parse_extensions(hello)
    if ENCRYPTED_CLIENT_HELLO in extensions:
        raise EgressRefused("the ClientHello is encrypted; disable Encrypted Client Hello")
    if SERVER_NAME not in extensions:
        return None
    listed = TlsReader(extensions[SERVER_NAME])
    entry = TlsReader(listed.block(2))
    listed.end()
    kind, name = entry.number(1), entry.block(2)
    entry.end()
    if kind != 0:
        raise EgressRefused("the SNI extension of the ClientHello has no host name")
    return canonical_host(name.decode("ascii", "backslashreplace"))


def _parse_extensions(hello: "TlsReader") -> dict[int, bytes]:
    if not hello.rest:
        return {}
    listed = TlsReader(hello.block(2))
    hello.end()
    extensions: dict[int, bytes] = {}
    while listed.rest:
        kind = listed.number(2)
        if kind in extensions:
            raise EgressRefused("duplicate TLS extension in ClientHello")
        extensions[kind] = listed.block(2)
    return extensions


class TlsReader:
    """Reader of the fields of a TLS message."""

    def __init__(self, data: bytes) -> None:
        self.rest = data

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        if len(self.rest) < size:
            raise EgressRefused("malformed ClientHello")
        taken, self.rest = self.rest[:size], self.rest[size:]
        return taken

    def number(self, size: int) -> int:
        """Return the next big-endian number."""
        return int.from_bytes(self.take(size))

    def block(self, length_size: int) -> bytes:
        """Return the next length-prefixed bytes."""
        return self.take(self.number(length_size))

    def end(self) -> None:
        """Check that nothing is left."""
        if self.rest:
            raise EgressRefused("malformed ClientHello")
