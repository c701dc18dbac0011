"""The way to authorization servers: checked addresses, so many seconds and bytes, and no secret in what is told."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError

from deerflow.community.web.egress_transport import EgressTransport
from deerflow.community.web.http import Ask, Http, Reply, Trust
from deerflow.community.web.problems import WebProblem
from deerflow.domain.errors import McpLoginFailed
from deerflow.sandbox.egress import Egress

TIMEOUT_S = 15.0
MAX_BYTES = 1_000_000
SAID_CHARS = 200

Answer = TypeVar("Answer", bound=BaseModel)


class Document(BaseModel):
    """What authorization servers answer; of it, only what is needed."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True, coerce_numbers_to_str=True)


class OAuthRefusal(Document):
    """How a token endpoint says no."""

    error: str = ""
    error_description: str | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that was understood and refused."""

    status: int
    error: str
    text: str


@dataclass(frozen=True, slots=True)
class OAuthHttp:
    """Speaks to authorization servers for one MCP server."""

    allow_private: bool = False
    trust: Trust = field(default_factory=Trust)

    async def send(self, ask: Ask) -> Reply:
        """The answer to a request; redirects are not followed.

        Raises:
            McpLoginFailed: There is none, or the address is none that may be used.
        """
        check_address(ask.url)
        egress = Egress(is_allowed=lambda _: True) if self.allow_private else Egress()
        http = Http(TIMEOUT_S, MAX_BYTES, EgressTransport(egress, self.trust), self.trust)
        try:
            return await http.send(ask)
        except WebProblem as problem:
            hint = "" if self.allow_private else NETWORK_HINT
            raise McpLoginFailed(f"{host_in(ask.url)}: {problem}{hint}") from problem

    async def find(self, url: str, document: type[Answer]) -> Answer | None:
        """The document at `url`; None when there is none of that kind.

        Raises:
            McpLoginFailed: Nobody can be asked, or they fail.
        """
        reply = await self.send(Ask(url, headers={"Accept": "application/json"}))
        if reply.status == 429 or reply.status >= 500:
            raise McpLoginFailed(f"{host_in(url)} answered with status {reply.status}; try again later")
        if reply.status != 200:
            return None
        try:
            return document.model_validate_json(reply.body)
        except ValidationError:
            return None

    async def post(
        self, url: str, form: Mapping[str, str], headers: Mapping[str, str] | None = None
    ) -> bytes | Refused:
        """What a token endpoint answers to a form: a body, or a refusal in its own words.

        Raises:
            McpLoginFailed: Nobody can be asked, or they fail.
        """
        reply = await self.send(Ask(url, "POST", {"Accept": "application/json", **(headers or {})}, form=form))
        if reply.status in (200, 201):
            return reply.body
        if reply.status == 429 or not 400 <= reply.status < 500:
            raise McpLoginFailed(f"{host_in(url)} answered with status {reply.status}")
        return refusal_in(url, reply)


NETWORK_HINT = '; set "allow_private_addresses": true for the server if it is in your own network'


def refusal_in(url: str, reply: Reply) -> Refused:
    """What a refusal says; what is sent back of the request is not repeated, for there are secrets in it."""
    try:
        said = OAuthRefusal.model_validate_json(reply.body)
    except ValidationError:
        said = OAuthRefusal()
    error = plain(said.error) or f"status {reply.status}"
    return Refused(reply.status, error, f"{host_in(url)} refused: {error}")


def check_address(url: str) -> None:
    """Raise `McpLoginFailed` unless secrets may be sent to this address: by TLS, or within this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        raise McpLoginFailed(f"{url[:SAID_CHARS]!r} is no address") from None
    if parts.username is not None or not host:
        raise McpLoginFailed(f"{host or url[:SAID_CHARS]!r} is no address of an authorization server")
    if parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)):
        return
    raise McpLoginFailed(f"the authorization server {host!r} is not reached by https, so nothing secret is sent there")


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by its name or address alone."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower().rstrip(".") == "localhost"


def host_in(url: str) -> str:
    """The host of an address, as messages name it."""
    try:
        return urlsplit(url).hostname or "?"
    except ValueError:
        return "?"


def plain(text: str) -> str:
    """Words of a stranger as they may stand in a sentence of ours."""
    return "".join(character if character.isprintable() else " " for character in text)[:SAID_CHARS].strip()
