"""The networks that the commands of a thread share: none, the allowed hosts through a proxy, or that of the machine."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, Protocol, cast

from deerflow.config.imports import load_object
from deerflow.domain.sandbox import Confinement
from deerflow.sandbox.egress import AllowedHosts, Egress
from deerflow.sandbox.local.launch import LaunchPad

NetworkPolicy = Literal["none", "allowlist", "full"]

PROXY = "http://127.0.0.1:3128"
PROXY_SERVER = "deerflow.sandbox.local.proxy:serve_proxy"
PROXY_VARIABLES = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), PROXY)
DIRECT = {"NO_PROXY": "localhost,127.0.0.1,::1", "no_proxy": "localhost,127.0.0.1,::1"}
OFFLINE = {"PIP_RETRIES": "1", "npm_config_fetch_retries": "0"}
"""Programs that would try for long fail soon. Not at once: pip tells what went wrong only before it tries again."""
VARIABLES: Mapping[NetworkPolicy, Mapping[str, str]] = MappingProxyType(
    {"none": OFFLINE, "allowlist": PROXY_VARIABLES | DIRECT, "full": {}}
)


class Proxy(Protocol):
    """What lets commands reach the hosts on a list."""

    async def aclose(self) -> None: ...


ServeProxy = Callable[[socket.socket, AllowedHosts, Egress], Awaitable[Proxy]]


@dataclass(frozen=True, slots=True)
class Reach:
    """What commands can reach."""

    policy: NetworkPolicy
    hosts: AllowedHosts = AllowedHosts(frozenset(), frozenset())

    def narrowed(self, to: Confinement | None) -> "Reach":
        """The same, or less of it."""
        if to is None or to.only_hosts is None or self.policy == "none":
            return self
        wanted = AllowedHosts.of(to.only_hosts)
        hosts = self.hosts.narrowed_to(wanted) if self.policy == "allowlist" else wanted
        return Reach("allowlist" if hosts else "none", hosts)

    @property
    def variables(self) -> Mapping[str, str]:
        """What tells programs how to reach others, or that they need not try."""
        return VARIABLES[self.policy]


class Network:
    """A network of a thread's own, opened when a command first needs it."""

    def __init__(self, reach: Reach, pad: LaunchPad, egress: Egress) -> None:
        self._reach = reach
        self._pad = pad
        self._egress = egress
        self._opening = asyncio.Lock()
        self._space: int | None = None
        self._proxy: Proxy | None = None

    async def open(self) -> int:
        """The number of the space in which the commands are that share it."""
        async with self._opening:
            if self._space is not None and self._pad.has_space(self._space):
                return self._space
            await self.aclose()
            self._space, listener = await self._pad.open_space(listen=self._reach.policy == "allowlist")
            if listener is not None:
                # Loaded when it is used: by default nothing is on the list, and every start would pay for it.
                serve = cast(ServeProxy, await asyncio.to_thread(load_object, PROXY_SERVER))
                self._proxy = await serve(listener, self._reach.hosts, self._egress)
            return self._space

    async def aclose(self) -> None:
        """Cut all connections and let go of the space."""
        if self._proxy is not None:
            await self._proxy.aclose()
            self._proxy = None
        if self._space is not None:
            self._pad.close_space(self._space)
            self._space = None
