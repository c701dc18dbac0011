"""Whom an agent may talk to, and the one way there.

Every connection made on an agent's behalf is opened by `Egress`: a name is looked up once, and of its addresses only
public ones are met.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Self

import idna
from aiohappyeyeballs import start_connection

from deerflow.domain.errors import SandboxError

Address = IPv4Address | IPv6Address
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Resolve = Callable[[str], Awaitable[Sequence[str]]]
Dial = Callable[[Sequence[Address], int], Awaitable[Streams]]

LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
NAME = re.compile(rf"{LABEL}(?:\.{LABEL})*")
# What the resolvers of operating systems read as a number: 2130706433, 0x7f000001, 127.1, 0177.0.0.1.
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
MAX_HOST_CHARS = 253

RESOLVER_THREADS = 4
MAX_ADDRESSES = 8
NEXT_ADDRESS_AFTER_S = 0.25

# Our own lists, for what Python calls global differs between its versions.
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
    """An agent may not connect there; the text says why."""


class EgressFailed(SandboxError):
    """An agent may connect there, but nobody could be reached."""


def canonical_host(host: str) -> str:
    """The one spelling of a host name or address: lower case, A-labels, no dot at the end.

    Raises:
        EgressRefused: It is neither a name nor an address as people write them.
    """
    name = _to_ascii(host).lower().removesuffix(".") if len(host) <= MAX_HOST_CHARS + 1 else ""
    if address := _address(name):
        return str(address)
    if not NAME.fullmatch(name) or NUMBER.fullmatch(name.rpartition(".")[2]):
        raise EgressRefused(f"{host[:MAX_HOST_CHARS]!a} is not a host name; write it like example.org")
    return name


def _to_ascii(host: str) -> str:
    """An international name in A-labels; what cannot be one becomes empty."""
    if host.isascii():
        return host
    try:
        return idna.encode(host, uts46=True, std3_rules=True).decode("ascii")
    except idna.IDNAError:
        return ""


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """Hosts by name; `*.example.org` is every host below example.org, not itself."""

    names: frozenset[str]
    parents: frozenset[str]

    @classmethod
    def of(cls, patterns: Iterable[str]) -> Self:
        """The hosts as people write them.

        Raises:
            EgressRefused: One of them is no host.
        """
        written = frozenset(patterns)
        wild = frozenset(pattern for pattern in written if pattern.startswith("*."))
        return cls(
            names=frozenset(map(canonical_host, written - wild)),
            parents=frozenset(canonical_host(pattern.removeprefix("*.")) for pattern in wild),
        )

    def allow(self, host: str) -> bool:
        """Whether a host, in its canonical spelling, is one of them."""
        return host in self.names or any(host.endswith(f".{parent}") for parent in self.parents)

    def narrowed_to(self, others: "AllowedHosts") -> "AllowedHosts":
        """The hosts that are on both lists."""
        mine, theirs = self.parents, others.parents
        return AllowedHosts(
            names=frozenset(filter(others.allow, self.names)) | frozenset(filter(self.allow, others.names)),
            parents=frozenset(each for each in mine if is_below(each, theirs))
            | frozenset(each for each in theirs if is_below(each, mine)),
        )

    def __bool__(self) -> bool:
        return bool(self.names or self.parents)

    def __str__(self) -> str:
        return ", ".join([*sorted(self.names), *sorted(f"*.{parent}" for parent in self.parents)]) or "nothing"


def is_below(parent: str, others: Iterable[str]) -> bool:
    """Whether all hosts below `parent` are below one of the others too."""
    return any(parent == other or parent.endswith(f".{other}") for other in others)


def is_public(address: Address) -> bool:
    """Whether an address belongs to one machine of the public internet, as far as addresses tell."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in NOT_PUBLIC_4)
    if address in NAT64:
        return is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    if address.scope_id or (int(address) >> 32) & 0xFFFF_FFFF in ISATAP:
        return False
    # Other forms that carry an IPv4 address (mapped, compatible, translated) are no unicast, so all of them end here.
    return address in UNICAST_6 and not any(address in network for network in NOT_PUBLIC_6)


@dataclass(frozen=True, slots=True)
class SystemResolver:
    """Asks the operating system, in threads of its own: slow name servers hold up nobody else's work."""

    threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(RESOLVER_THREADS, thread_name_prefix="resolver")
    )

    async def __call__(self, host: str) -> Sequence[str]:
        found = await asyncio.get_running_loop().run_in_executor(self.threads, _look_up, host)
        return list(dict.fromkeys(found))


def _look_up(host: str) -> list[str]:
    # The dot at the end keeps the machine's search domains out of it.
    return [str(info[4][0]) for info in socket.getaddrinfo(f"{host}.", None, type=socket.SOCK_STREAM)]


async def dial(addresses: Sequence[Address], port: int) -> Streams:
    """Connect to the first of these addresses that answers; the next is tried while the one before is slow."""
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
    """Opens connections for agents. Tests, and only they, let other addresses through."""

    resolve: Resolve = field(default_factory=SystemResolver)
    is_allowed: Callable[[Address], bool] = is_public
    dial: Dial = dial
    timeout_s: float = 15.0
    hosts: AllowedHosts | None = None
    """The only hosts that may be met; None: any."""

    async def connect(self, host: str, port: int) -> Streams:
        """A connection to `host`, made to an address that was checked.

        Raises:
            EgressRefused: The host is not one of the public internet.
            EgressFailed: It has no address, or none of its addresses answers in time.
        """
        if not 0 < port < 65536:
            raise EgressRefused(f"there is no port {port}")
        name = canonical_host(host)
        if self.hosts is not None and not self.hosts.allow(name):
            raise EgressRefused(f"{name} is none of the hosts that may be reached here: {self.hosts}")
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self.dial(await self._addresses(name), port)
        except TimeoutError:
            raise EgressFailed(f"{name} did not answer within {self.timeout_s:g} s") from None
        except OSError as failure:
            raise EgressFailed(f"{name} cannot be reached: {failure}") from failure

    async def _addresses(self, name: str) -> Sequence[Address]:
        """Where `name` may be met; it is looked up here and never again."""
        literal = _address(name)
        found = [literal] if literal else [_address(text) for text in await self.resolve(name)]
        allowed = [address for address in found if address and self.is_allowed(address)]
        if not allowed:
            raise EgressRefused(f"{name} is not on the public internet, and agents connect to nothing else")
        return allowed[:MAX_ADDRESSES]


def _address(text: str) -> Address | None:
    """The address that `text` spells, None if it is a name."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def greeted_host(message: bytes) -> str | None:
    """The host that a TLS greeting, a ClientHello, asks for; None if it names none.

    Raises:
        EgressRefused: It is no such greeting, or one that servers might understand in another way.
    """
    handshake = Fields(message)
    if handshake.number(1) != CLIENT_HELLO:
        raise EgressRefused("TLS does not begin with a greeting")
    hello = Fields(handshake.block(3))
    handshake.end()
    hello.take(2 + 32)  # version, random
    for length_size in (1, 2, 1):  # session, ciphers, compressions
        hello.block(length_size)
    extensions = _extensions(hello)
    if ENCRYPTED_CLIENT_HELLO in extensions:
        raise EgressRefused("the TLS greeting hides its host; switch Encrypted Client Hello off")
    if SERVER_NAME not in extensions:
        return None
    listed = Fields(extensions[SERVER_NAME])
    entry = Fields(listed.block(2))
    listed.end()
    kind, name = entry.number(1), entry.block(2)
    entry.end()
    if kind != 0:
        raise EgressRefused("the TLS greeting names no host")
    return canonical_host(name.decode("ascii", "backslashreplace"))


def _extensions(hello: "Fields") -> dict[int, bytes]:
    if not hello.rest:
        return {}
    listed = Fields(hello.block(2))
    hello.end()
    extensions: dict[int, bytes] = {}
    while listed.rest:
        kind = listed.number(2)
        if kind in extensions:
            raise EgressRefused("the TLS greeting says something twice")
        extensions[kind] = listed.block(2)
    return extensions


class Fields:
    """The fields of a TLS message, one after the other."""

    def __init__(self, data: bytes) -> None:
        self.rest = data

    def take(self, size: int) -> bytes:
        if len(self.rest) < size:
            raise EgressRefused("the TLS greeting is malformed")
        taken, self.rest = self.rest[:size], self.rest[size:]
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def block(self, length_size: int) -> bytes:
        """Bytes that are preceded by their number."""
        return self.take(self.number(length_size))

    def end(self) -> None:
        if self.rest:
            raise EgressRefused("the TLS greeting is malformed")
