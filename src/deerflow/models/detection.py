"""Models that are there without configuration: from keys in the environment and from local servers."""

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from deerflow.config.models import ModelConfig
from deerflow.models.providers import LEAN_CLIENT, PROVIDERS

PROBE_LIMIT_S = 0.3
MAX_LOCAL_MODELS = 20
MAX_LISTING_BYTES = 1 << 20


def detect_models(environment: Mapping[str, str]) -> list[ModelConfig]:
    """One model for every provider whose key is in the environment, in the order of `PROVIDERS`."""
    return [model for provider in PROVIDERS if (model := provider.model_in(environment)) is not None]


async def find_local_servers(environment: Mapping[str, str], limit_s: float = PROBE_LIMIT_S) -> list[ModelConfig]:
    """The models of a local Ollama and a local LM Studio; none when nothing answers within `limit_s`."""
    servers = (
        LocalServer("Ollama", environment.get("OLLAMA_HOST", ""), 11434, limit_s),
        LocalServer("LM Studio", "", 1234, limit_s),
    )
    found = await asyncio.gather(*(server.models() for server in servers))
    by_name = {model.name: model for models in reversed(found) for model in reversed(models)}
    return list(reversed(by_name.values()))[:MAX_LOCAL_MODELS]


@dataclass(frozen=True, slots=True)
class LocalServer:
    """An OpenAI-compatible server on this machine or next to it."""

    title: str
    host: str  # as people write it: a name, a port, both, or an address
    default_port: int
    limit_s: float = PROBE_LIMIT_S

    async def models(self) -> list[ModelConfig]:
        """What the server offers, or nothing when it does not answer in time."""
        with suppress(OSError, TimeoutError, ValueError, EOFError):
            base_url = _base_url(self.host, self.default_port)
            async with asyncio.timeout(self.limit_s):
                listing = json.loads(await _get(f"{base_url}/models"))
            return [self._entry(name, base_url) for name in _model_names(listing)]
        return []

    def _entry(self, model: str, base_url: str) -> ModelConfig:
        entry = {"name": model, "use": LEAN_CLIENT, "model": model, "base_url": base_url}
        return ModelConfig.model_validate({**entry, "display_name": f"{model} ({self.title})"})


def _model_names(listing: object) -> list[str]:
    entries = listing.get("data") if isinstance(listing, dict) else None
    names = [entry.get("id") for entry in entries or () if isinstance(entry, dict)]
    return [name for name in names if isinstance(name, str) and name and "embed" not in name]


def _base_url(host: str, default_port: int) -> str:
    parts = urlsplit(host if "//" in host else f"//{host}")
    name = parts.hostname or "127.0.0.1"
    if name in ("0.0.0.0", "::"):  # where a server listens is not where it is reached
        name = "127.0.0.1"
    if ":" in name:
        name = f"[{name}]"
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, default_port)
    return f"{parts.scheme or 'http'}://{name}:{port}/v1"


async def _get(url: str) -> bytes:
    """The body of a small response. An HTTP library would cost more to import than this to run."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=parts.scheme == "https" or None)
    try:
        # HTTP/1.0: the answer comes unchunked and the end of the connection is its end.
        writer.write(f"GET {parts.path} HTTP/1.0\r\nHost: {parts.netloc}\r\nAccept: application/json\r\n\r\n".encode())
        response = await reader.read(MAX_LISTING_BYTES)
        while more := await reader.read(MAX_LISTING_BYTES - len(response)):
            response += more
    finally:
        writer.close()
    head, _, body = response.partition(b"\r\n\r\n")
    if b" 200 " not in head.partition(b"\r\n")[0] + b" ":
        raise ValueError(f"{url} did not list its models")
    return body
