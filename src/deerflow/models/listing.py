"""Search for the API at an address that a user entered, and the list of its models."""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import aiohttp
import orjson

from deerflow.config.loader.validation import is_redactable
from deerflow.domain.errors import AddressRefused
from deerflow.models.check_problems import ProblemCode, classify_error, classify_status
from deerflow.models.connection import ConnectionProvider, ModelFacts, Protocol, find_facts, list_candidates
from deerflow.models.openai_compatible.endpoint import PublicResolver, find_proxy

MAX_LISTING_BYTES = 8 * 1024 * 1024
MAX_DETAIL_CHARS = 500
MAX_MODELS = 1000
NOT_CHAT = re.compile(
    r"embed|whisper|tts|dall-e|moderation|-image|image-|imagen|audio|realtime|transcri|rerank|veo|sora|babbage|davinci|"
    r"-asr|speech|guard",
    re.IGNORECASE,
)
LISTING_PATHS: Mapping[Protocol, str] = {
    "openai": "/models",
    "anthropic": "/v1/models?limit=1000",
    "google": "/v1beta/models?pageSize=1000",
}
KEY_HEADERS: Mapping[Protocol, str] = {
    "openai": "Authorization",
    "anthropic": "x-api-key",
    "google": "x-goog-api-key",
}
API_ANSWERS: frozenset[ProblemCode] = frozenset(
    ("rejected", "unknown_model", "server_error", "no_tools", "no_streaming")
)
"""Problems of an empty request that only a model API reports."""


@dataclass(frozen=True, slots=True)
class ApiAttempt:
    """Request that was sent to find the API, and its result."""

    url: str
    outcome: str


@dataclass(frozen=True, slots=True)
class ListedModel:
    """Model of an endpoint, with what is known about it."""

    model: str
    facts: ModelFacts
    is_recommended: bool = False


@dataclass(frozen=True, slots=True)
class FoundProblem:
    """Problem without its texts."""

    code: ProblemCode
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """Address at which an API was found, and its models; `finding` if they could not be listed."""

    base_url: str
    models: Sequence[str] = ()
    finding: FoundProblem | None = None


@dataclass(slots=True)
class ApiSearch:
    """Requests to the addresses that a user may have meant; `attempts` tells what was tried."""

    provider: ConnectionProvider
    key: str | None = field(repr=False)
    limit_s: float
    attempts: list[ApiAttempt] = field(default_factory=list)
    is_public_only: bool = False

    async def find(self, address: str) -> Listing:
        """Return the first address at which an API answers, and its models."""
        candidates = list(list_candidates(self.provider, address))
        async with open_session(self.limit_s, self.is_public_only) as session:
            for candidate in candidates:
                answer = await self._fetch(session, "GET", candidate, LISTING_PATHS[self.provider.protocol])
                if isinstance(answer, FoundProblem):
                    return Listing(candidate, finding=answer)
                if answer.status < 300 and (names := parse_listing(answer.body)) is not None:
                    return Listing(candidate, names)
                if 300 <= answer.status < 400 and (target := find_upgrade(candidate, answer.location)):
                    candidates.append(target)
                elif answer.status >= 400 and answer.status not in (404, 405):
                    return Listing(candidate, finding=self._classify(answer))
            return await self._find_without_listing(session, candidates)

    async def _find_without_listing(self, session: aiohttp.ClientSession, candidates: Sequence[str]) -> Listing:
        """Return the first address that takes questions; some servers do not list their models."""
        for candidate in candidates if self.provider.protocol == "openai" else ():
            answer = await self._fetch(session, "POST", candidate, "/chat/completions")
            if isinstance(answer, FoundProblem):
                return Listing(candidate, finding=answer)
            if answer.status < 300 and b'"choices"' in answer.body:
                return Listing(candidate, finding=FoundProblem("no_listing"))
            if answer.is_json and (finding := self._classify(answer)).code != "wrong_host":
                return Listing(
                    candidate, finding=FoundProblem("no_listing") if finding.code in API_ANSWERS else finding
                )
        return Listing(candidates[0], finding=FoundProblem("wrong_host"))

    async def _fetch(
        self, session: aiohttp.ClientSession, method: str, base_url: str, path: str
    ) -> "HttpAnswer | FoundProblem":
        url = f"{base_url}{path}"
        try:
            sent = b'{"model": "", "messages": []}' if method == "POST" else None
            async with session.request(
                method, url, data=sent, headers=self._headers(), allow_redirects=False, proxy=find_proxy(url)
            ) as response:
                body = await read_limited(response)
                answer = HttpAnswer(response.status, body, response.headers.get("Location", ""))
        except AddressRefused as refused:
            found = FoundProblem("blocked_address", str(refused))
            self.attempts.append(ApiAttempt(f"{method} {url}", found.code))
            return found
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as failure:
            found = FoundProblem(classify_error(failure), self.redact(str(failure)))
            self.attempts.append(ApiAttempt(f"{method} {url}", found.code))
            return found
        self.attempts.append(ApiAttempt(f"{method} {url}", str(answer.status)))
        return answer

    def _headers(self) -> dict[str, str]:
        protocol = self.provider.protocol
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if protocol == "anthropic":
            headers["anthropic-version"] = "2023-06-01"
        if self.key:
            headers[KEY_HEADERS[protocol]] = f"Bearer {self.key}" if protocol == "openai" else self.key
        return headers

    def _classify(self, answer: "HttpAnswer") -> FoundProblem:
        return FoundProblem(classify_status(answer.status, answer.text), self.redact(answer.message))

    def redact(self, text: str) -> str:
        """Return `text` without the key."""
        return text.replace(self.key, "[key]") if self.key and is_redactable(self.key) else text


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """Response of an endpoint."""

    status: int
    body: bytes
    location: str = ""

    @property
    def text(self) -> str:
        return self.body[: MAX_DETAIL_CHARS * 8].decode(errors="replace")

    @property
    def is_json(self) -> bool:
        return self.body.lstrip()[:1] in (b"{", b"[")

    @property
    def message(self) -> str:
        """Return the text of the error in the usual formats, else the beginning of the body."""
        try:
            payload = orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return self.text if not self.text.lstrip().startswith("<") else ""
        payload = payload[0] if isinstance(payload, list) and payload else payload
        error = payload.get("error", payload) if isinstance(payload, Mapping) else payload
        message = error.get("message") if isinstance(error, Mapping) else error
        return message if isinstance(message, str) else self.text


def parse_listing(body: bytes) -> list[str] | None:
    """Return the names of the models in a response; None if it is something else."""
    try:
        payload = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    entries = payload.get("data", payload.get("models")) if isinstance(payload, Mapping) else payload
    if entries is None and isinstance(payload, Mapping) and payload.get("object") == "list":
        return []
    if not isinstance(entries, list):
        return None
    names = [entry.get("id") or entry.get("name") for entry in entries if isinstance(entry, Mapping)]
    return [name for name in names if isinstance(name, str) and 0 < len(name) <= 255][:MAX_MODELS]


def rank_models(provider: ConnectionProvider, names: Sequence[str]) -> list[ListedModel]:
    """Return the chat models, those that are known first; the recommended one is the first of them."""
    chat = [name for name in dict.fromkeys(names) if not NOT_CHAT.search(name)]
    facts = {name: find_facts(provider.id, name) for name in chat}
    known = [name for name in chat if facts[name].tools is not False and facts[name].display_name is not None]
    default = provider.default_model
    first = [name for name in chat if default and name.removeprefix("models/") == default]
    ordered = list(dict.fromkeys([*first, *known, *chat]))
    usable = [name for name in ordered if facts[name].tools is not False]
    best = next(iter(usable or ordered), None)
    return [ListedModel(name, facts[name], name == best) for name in ordered]


def find_upgrade(base_url: str, location: str) -> str | None:
    """Return the address that a redirect names, if it is the same host by HTTPS."""
    here, there = urlsplit(base_url), urlsplit(location)
    if there.scheme != "https" or there.hostname != here.hostname or not there.path.endswith("/models"):
        return None
    found = f"https://{there.netloc}{there.path.removesuffix('/models')}"
    return found if found != base_url else None


@asynccontextmanager
async def open_session(limit_s: float, is_public_only: bool = False) -> AsyncIterator[aiohttp.ClientSession]:
    """Yield a session for a few requests."""
    timeout = aiohttp.ClientTimeout(total=limit_s)
    connector = aiohttp.TCPConnector(resolver=PublicResolver() if is_public_only else None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=True) as session:
        yield session


async def read_limited(response: aiohttp.ClientResponse) -> bytes:
    """Return the body of a response, or the beginning of a long one."""
    body = b""
    while len(body) < MAX_LISTING_BYTES and (more := await response.content.readany()):
        body += more
    return body
