"""Network of a thread's commands: none, the allowed hosts through a proxy, or that of the machine."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from deerflow.domain.sandbox import Confinement
from deerflow.sandbox.egress import AllowedHosts, Egress
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
            await self.aclose()
            self._namespace, listener = await self._launcher.open_namespace(listen=self._policy.mode == "allowlist")
            if listener is not None:
                serve_proxy = await asyncio.to_thread(load_proxy)
                self._proxy = await serve_proxy(listener, self._policy.hosts, self._egress)
            return self._namespace

    async def aclose(self) -> None:
        """Abort all connections and release the namespace."""
        if self._proxy is not None:
            await self._proxy.aclose()
            self._proxy = None
        if self._namespace is not None:
            self._launcher.close_namespace(self._namespace)
            self._namespace = None


def load_proxy() -> "ServeProxy":
    """Import the proxy when it is first used: most servers have no allowed hosts and should start without it."""
    from deerflow.sandbox.proxy import serve_proxy

    return serve_proxy
