"""Connections to model providers: the providers, facts about their models, addresses and configuration entries."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import urlsplit

import orjson
from pydantic import SecretStr

from deerflow.config.sections.models import ModelConfig
from deerflow.domain.errors import InvalidRequest
from deerflow.models.detection import ADAPTIVE_THINKING, OPENAI_COMPATIBLE_CLIENT, PROVIDERS, Provider, is_local

SNAPSHOT = Path(__file__).parent / "snapshot.json"
"""Written by scripts/model_snapshot.py."""
CUSTOM = "custom"
LOCAL_PROVIDERS: Mapping[str, str] = MappingProxyType({"Ollama": "ollama", "LM Studio": "lmstudio", "vLLM": "vllm"})
"""Names of local servers, by the title that detection uses."""
ORDER = ("openai", "anthropic", "gemini", "deepseek", "qwen", "kimi", "doubao", "openrouter", "mistral", "groq", "grok")
"""Providers in the order of the page; others follow."""

Protocol = Literal["openai", "anthropic", "google"]
CLASSES: Mapping[Protocol, str] = MappingProxyType(
    {
        "openai": OPENAI_COMPATIBLE_CLIENT,
        "anthropic": "langchain_anthropic:ChatAnthropic",
        "google": "langchain_google_genai:ChatGoogleGenerativeAI",
    }
)
DEFAULT_ADDRESSES: Mapping[Protocol, str] = MappingProxyType(
    {"anthropic": "https://api.anthropic.com", "google": "https://generativelanguage.googleapis.com"}
)
EXTRAS: Mapping[Protocol, str] = MappingProxyType({"google": "google"})
"""Extras of this package that have the class of a protocol."""
REASONING_EFFORT = frozenset(("openai", "groq", "grok"))
"""Providers whose reasoning models support `reasoning_effort`."""
NO_ADAPTIVE_THINKING = re.compile(r"claude-(3|\w+-4-([015]\b|20))")


@dataclass(frozen=True, slots=True)
class ConnectionProvider:
    """Provider that a user can connect to."""

    id: str
    title: str
    protocol: Protocol
    base_url: str | None
    """None: the user enters the address."""
    key_url: str | None = None
    key_prefixes: tuple[str, ...] = ()
    default_model: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of its models, such as switches for thinking."""

    @property
    def install_command(self) -> str | None:
        """Return the command that installs the package its models need; None when it is installed."""
        if find_spec(CLASSES[self.protocol].partition(":")[0].partition(".")[0]) is not None:
            return None
        return f"pip install 'deerflow[{EXTRAS[self.protocol]}]'"


def list_providers(environment: Mapping[str, str]) -> list[ConnectionProvider]:
    """Return the providers with the addresses that `environment` selects, and the one for any other address."""
    rank = {name: place for place, name in enumerate(ORDER)}
    known = sorted(PROVIDERS, key=lambda provider: rank.get(provider.name, len(rank)))
    found = [to_connection_provider(provider, environment) for provider in known]
    local = [ConnectionProvider(name, title, "openai", None) for title, name in LOCAL_PROVIDERS.items()]
    return [*found, *local, ConnectionProvider(CUSTOM, "OpenAI-compatible", "openai", None)]


def find_provider(name: str, environment: Mapping[str, str]) -> ConnectionProvider:
    """Return the provider called `name`.

    Raises:
        InvalidRequest: There is none.
    """
    providers = list_providers(environment)
    for provider in providers:
        if provider.id == name:
            return provider
    raise InvalidRequest(f"unknown provider {name!r}; known are {', '.join(each.id for each in providers)}")


def to_connection_provider(provider: Provider, environment: Mapping[str, str]) -> ConnectionProvider:
    """Return a provider of the environment as one to connect to; Google's models then use Google's own API."""
    protocol: Protocol = "openai"
    base_url = provider.find_base_url(environment)
    if provider.name == "anthropic":
        protocol = "anthropic"
    elif provider.name == "gemini":
        protocol = "google"
        base_url = None if base_url == provider.base_url else base_url
    return ConnectionProvider(
        provider.name,
        "Google" if provider.name == "gemini" else provider.title,
        protocol,
        base_url or DEFAULT_ADDRESSES.get(protocol),
        provider.key_url or None,
        provider.key_prefixes,
        provider.model,
        provider.settings if protocol != "google" else {"supports_vision": True},
    )


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Facts about a model; None where they are unknown."""

    display_name: str | None = None
    context_window: int | None = None
    tools: bool | None = None
    reasoning: bool | None = None
    vision: bool | None = None
    pricing: Mapping[str, float] | None = None
    """Price per million tokens in US dollars."""


@cache
def read_snapshot() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """Return the models that this version knows, by provider."""
    providers: Mapping[str, Mapping[str, Mapping[str, Any]]] = orjson.loads(SNAPSHOT.read_bytes())["providers"]
    return MappingProxyType(dict(providers))


VERSION_SUFFIX = re.compile(r"[-@](\d{8}|\d{6}|\d{4}-\d{2}-\d{2}|latest|preview)$")
PRICES = ("input", "output", "cached_input", "cache_write")


def find_facts(provider: str, model: str) -> ModelFacts:
    """Return the facts about a model. At an address of the user, only those of the model itself: prices differ."""
    snapshot = read_snapshot()
    name = model.removeprefix("models/")
    bare = VERSION_SUFFIX.sub("", name)
    is_own = provider in snapshot
    for known in [snapshot[provider]] if is_own else snapshot.values():
        if facts := known.get(name) or known.get(bare):
            prices = {each: facts[each] for each in PRICES if each in facts}
            return ModelFacts(
                facts.get("name"),
                facts.get("context"),
                facts.get("tools"),
                facts.get("reasoning"),
                facts.get("vision"),
                prices if is_own and "input" in prices and "output" in prices else None,
            )
    return ModelFacts()


@dataclass(frozen=True, slots=True)
class ObservedCapabilities:
    """Results of a check of one model; None where it was not tested."""

    answer: bool | None = None
    streaming: bool | None = None
    tools: bool | None = None
    usage: bool | None = None
    reasoning: bool | None = None


def describe_entry(
    provider: ConnectionProvider, model: str, observed: ObservedCapabilities = ObservedCapabilities()
) -> dict[str, Any]:
    """Return the settings of a configuration entry that follow from the provider, the snapshot and a check."""
    facts = find_facts(provider.id, model)
    entry: dict[str, Any] = dict(provider.settings)
    title = facts.display_name or model.removeprefix("models/")
    entry["display_name"] = title if provider.id == CUSTOM else f"{provider.title} · {title}"
    reasons = facts.reasoning if observed.reasoning is not True else True
    if provider.settings.get("supports_thinking") and (reasons is False or cannot_think(provider, model)):
        for name in ("supports_thinking", "when_thinking_enabled", "when_thinking_disabled"):
            entry.pop(name, None)
    elif reasons and not provider.settings.get("supports_thinking"):
        entry["supports_reasoning_effort" if provider.id in REASONING_EFFORT else "supports_thinking"] = True
    if facts.vision is not None:
        entry["supports_vision"] = facts.vision
    if facts.context_window is not None:
        entry["context_window"] = facts.context_window
    if facts.pricing is not None:
        entry["pricing"] = dict(facts.pricing)
    if observed.streaming is False and provider.protocol == "openai":
        entry["streaming"] = False
    return entry


def cannot_think(provider: ConnectionProvider, model: str) -> bool:
    """Return whether the thinking settings of the provider are too new for a model."""
    return provider.settings.get("when_thinking_enabled") == ADAPTIVE_THINKING["when_thinking_enabled"] and bool(
        NO_ADAPTIVE_THINKING.match(model)
    )


def make_model_config(
    provider: ConnectionProvider,
    base_url: str,
    key: str | None,
    name: str,
    model: str,
    entry: Mapping[str, Any],
    *,
    is_public_only: bool = False,
) -> ModelConfig:
    """Return the configuration entry of a model of a connection; `is_public_only` refuses private addresses."""
    address = {} if base_url == DEFAULT_ADDRESSES.get(provider.protocol) else {"base_url": base_url}
    # A secret, so that it appears in no log and no listing of the entry.
    secret = {"api_key": SecretStr(key)} if key else {}
    bare = model.removeprefix("models/") if provider.protocol == "google" else model
    known = {"name": name, "use": CLASSES[provider.protocol], "model": bare, **address, **secret}
    guard = {"public_addresses_only": True} if is_public_only and provider.protocol == "openai" else {}
    return ModelConfig.model_validate({**entry, **known, **guard})


ENDPOINT_PATHS = re.compile(r"/(chat/completions|completions|responses|embeddings|messages|models)/*$")
VERSIONED_PATH = re.compile(r"/(v\d+(beta\d*)?|openai)(/|$)")
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def normalize_address(text: str) -> str:
    """Return a pasted address without the path of an endpoint, and with a scheme.

    Raises:
        InvalidRequest: It is not an address.
    """
    address = text.strip().strip("'\"<>")
    if not SCHEME.match(address):
        address = f"{'http' if is_local(f'http://{address}') else 'https'}://{address}"
    try:
        parts = urlsplit(address)
        has_port = parts.port is None or 0 < parts.port < 65536
    except ValueError:
        has_port = False
    if not has_port or parts.scheme.lower() not in ("http", "https") or not parts.hostname or " " in address:
        raise InvalidRequest("the address must look like https://api.example.com/v1")
    if parts.username or parts.password:
        raise InvalidRequest("the address must not contain a user name or password; enter the key in its own field")
    path = ENDPOINT_PATHS.sub("", parts.path).rstrip("/")
    return f"{parts.scheme.lower()}://{parts.netloc}{path}"


def list_candidates(provider: ConnectionProvider, address: str) -> Sequence[str]:
    """Return the addresses to try, in order: as given, and with the `/v1` that is often forgotten."""
    if provider.protocol != "openai" or VERSIONED_PATH.search(urlsplit(address).path):
        return (address,)
    return (address, f"{address}/v1")
