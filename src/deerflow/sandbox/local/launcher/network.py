"""Network of a thread's commands: none, the allowed hosts through a proxy, or that of the machine.

Programs with the network of the machine can connect to the server itself. `SandboxedClients` tells them apart.
"""

import asyncio
import errno
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from deerflow.domain.sandbox import Confinement
from deerflow.sandbox.egress import AllowedHosts, Egress
from deerflow.sandbox.files.mounts import file_owner
from deerflow.sandbox.local.launcher.client import LauncherClient

if TYPE_CHECKING:
    from deerflow.sandbox.proxy import EgressProxy

    ServeProxy = Callable[[socket.socket, AllowedHosts, Egress], Awaitable[EgressProxy]]

NetworkMode = Literal["none", "allowlist", "full"]

PROXY_URL = "http://127.0.0.1:3128"
PROXY_VARIABLES = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), PROXY_URL)
NO_PROXY = {"NO_PROXY": "localhost,127.0.0.1,::1", "no_proxy": "localhost,127.0.0.1,::1"}
NODE_PROXY = {"NODE_USE_ENV_PROXY": "1"}
"""Makes `fetch` of Node.js use the proxy, from versions 22.21 and 24.5 on."""
OFFLINE = {"PIP_RETRIES": "1", "npm_config_fetch_retries": "0"}
"""Makes programs fail soon instead of retrying. One retry is left: pip prints the error only before a retry."""
VARIABLES: Mapping[NetworkMode, Mapping[str, str]] = MappingProxyType(
    {"none": OFFLINE, "allowlist": PROXY_VARIABLES | NO_PROXY | NODE_PROXY, "full": {}}
)


@dataclass(frozen=True, slots=True)
class NetworkPolicy:
    """Network access of commands."""

    mode: NetworkMode
    hosts: AllowedHosts = AllowedHosts(frozenset(), frozenset())

    def confine(self, to: Confinement | None) -> "NetworkPolicy":
        """Return the policy narrowed to the hosts of a confinement."""
        if to is None or to.allowed_hosts is None or self.mode == "none":
            return self
        requested = AllowedHosts.from_patterns(to.allowed_hosts)
        hosts = self.hosts.intersect(requested) if self.mode == "allowlist" else requested
        return NetworkPolicy("allowlist" if hosts else "none", hosts)

    @property
    def variables(self) -> Mapping[str, str]:
        """Environment variables with the proxy, or with settings for working offline."""
        return VARIABLES[self.mode]


PUBLIC_INTERNET = NetworkPolicy("allowlist", AllowedHosts(frozenset(), frozenset(), is_any=True))
"""Web hosts with public addresses, and nothing on this machine or in its network."""


class ThreadNetwork:
    """Network namespace of a thread, created when a command first needs it."""

    def __init__(self, policy: NetworkPolicy, launcher: LauncherClient, egress: Egress) -> None:
        self._policy = policy
        self._launcher = launcher
        self._egress = egress
        self._opening = asyncio.Lock()
        self._namespace: int | None = None
        self._proxy: EgressProxy | None = None

    async def open(self) -> int:
        """Return the id of the network namespace; create it if needed."""
        async with self._opening:
            if self._namespace is not None and self._launcher.has_namespace(self._namespace):
                return self._namespace
            await self._release()
            self._namespace, listener = await self._launcher.open_namespace(listen=self._policy.mode == "allowlist")
            if listener is not None:
                try:
                    serve_proxy = await asyncio.to_thread(load_proxy)
                    self._proxy = await serve_proxy(listener, self._policy.hosts, self._egress)
                except BaseException:  # cancelled: the next command opens another one
                    listener.close()
                    await self._release()
                    raise
            return self._namespace

    async def aclose(self) -> None:
        """Abort all connections and release the namespace, also one that is being opened."""
        async with self._opening:
            await self._release()

    async def _release(self) -> None:
        proxy, self._proxy = self._proxy, None
        namespace, self._namespace = self._namespace, None
        try:
            if proxy is not None:
                await proxy.aclose()
        finally:
            if namespace is not None:
                self._launcher.close_namespace(namespace)


def load_proxy() -> "ServeProxy":
    """Import the proxy when it is first used: most servers have no allowed hosts and should start without it."""
    from deerflow.sandbox.proxy import serve_proxy

    return serve_proxy


NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, NLMSG_ERROR = 4, 20, 1, 2
NETLINK_HEADER = struct.Struct("=IHHII")
SOCKET_ID = struct.Struct(">HH16s16s")
DIAG_REQUEST = struct.Struct("=BBBBI")
DIAG_REPLY = struct.Struct("=BBBB48sIIIII")
ALL_STATES, ANY_COOKIE = 0xFFFFFFFF, b"\xff" * 8
PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class ClientSocket:
    """Socket of a local program; the inode is 0 when no program has it open any longer."""

    inode: int
    uid: int


MAX_KNOWN = 1000


class SandboxedClients:
    """Connections to this server that come from its own sandboxes."""

    def __init__(self) -> None:
        self._others: set[int] = set()
        """Sockets of other programs. The kernel does not use an inode again soon."""

    def include(self, client: tuple[str, int], server: tuple[str, int]) -> bool:
        """Return whether a connection comes from a sandbox, or from a program that cannot be found; blocks.

        Raises:
            OSError: This system cannot tell.
        """
        found = find_client_socket(client, server)
        if found is None or not found.inode:
            return True  # the program has closed the connection, and does not read the response
        owner = file_owner()
        if owner is not None:  # the server is root, and only sandboxes have this user
            return found.uid == owner
        if found.uid != os.geteuid() or found.inode in self._others:
            return False
        if is_held_by_sandbox(found.inode):
            return True
        if len(self._others) >= MAX_KNOWN:
            self._others.clear()
        self._others.add(found.inode)
        return False


def is_held_by_sandbox(inode: int) -> bool:
    """Return whether a program of a sandbox has a socket open, or may have it."""
    sandboxed = frozenset(list_sandboxed_programs())
    holders = find_holders(inode) if sandboxed else frozenset()
    # A program can hand a socket over, so that for a moment no program has it.
    return bool(holders & sandboxed) or (not holders and bool(sandboxed))


def find_client_socket(client: tuple[str, int], server: tuple[str, int]) -> ClientSocket | None:
    """Return the socket of a connected program on this machine, None if there is none.

    Raises:
        OSError: The kernel does not answer.
    """
    addresses = [ip_address(address.partition("%")[0]) for address, _ in (client, server)]
    family = socket.AF_INET6 if any(isinstance(each, IPv6Address) for each in addresses) else socket.AF_INET
    theirs, ours = (each.packed.ljust(16, b"\0") for each in addresses)
    identity = SOCKET_ID.pack(client[1], server[1], theirs, ours) + bytes(4) + ANY_COOKIE
    body = DIAG_REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, ALL_STATES) + identity
    header = NETLINK_HEADER.pack(NETLINK_HEADER.size + len(body), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_SOCK_DIAG) as link:
        link.settimeout(1)
        link.sendto(header + body, (0, 0))
        reply = link.recv(65536)
    kind, content = NETLINK_HEADER.unpack_from(reply)[1], reply[NETLINK_HEADER.size :]
    if kind == NLMSG_ERROR:
        problem = -struct.unpack_from("=i", content)[0]
        if problem == errno.ENOENT:
            return None
        raise OSError(problem, os.strerror(problem))
    *_, uid, inode = DIAG_REPLY.unpack_from(content)
    return ClientSocket(inode, uid)


def find_holders(inode: int) -> frozenset[int]:
    """Return the ids of the programs that have a socket open and that this user may look into."""
    wanted = f"socket:[{inode}]"
    return frozenset(int(process.name) for process in PROC.glob("[0-9]*") if wanted in list_open_files(process))


def list_open_files(process: Path) -> Iterator[str]:
    """Yield the names of the open files of a program; none if it has exited or is not readable."""
    with suppress(OSError):
        for link in (process / "fd").iterdir():
            with suppress(OSError):
                yield str(link.readlink())


def list_sandboxed_programs() -> Iterator[int]:
    """Yield the ids of the programs that this process has started in another PID namespace."""
    parents: dict[int, int] = {}
    for process in PROC.glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):  # it has exited
            parents[int(process.name)] = int((process / "stat").read_text().rpartition(")")[2].split()[1])
    own, namespace = os.getpid(), read_pid_namespace(os.getpid())
    for each in parents:
        above = each
        while above in parents and above != own:
            above = parents[above]
        if above == own and each != own and read_pid_namespace(each) != namespace:
            yield each


def read_pid_namespace(process: int) -> int | None:
    """Return the PID namespace of a program, None if it cannot be read."""
    with suppress(OSError):
        return (PROC / str(process) / "ns" / "pid").stat().st_ino
    return None
