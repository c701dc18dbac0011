"""Models that need no configuration: providers with a key in the environment, and local servers."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import SecretStr

from deerflow.config.loader.document import KeyPath
from deerflow.config.loader.validation import is_secret
from deerflow.config.sections.models import ModelConfig

OPENAI_COMPATIBLE_CLIENT = "deerflow.models.openai_compatible:OpenAICompatibleChatModel"


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider that can be used when its key is set; `<PREFIX>_MODEL` selects another model."""

    name: str
    title: str
    prefix: str
    keys: tuple[str, ...]
    model: str
    base_url: str | None = None
    use: str = OPENAI_COMPATIBLE_CLIENT
    settings: Mapping[str, Any] = field(default_factory=dict)
    key_url: str = ""
    """Page on which keys are created."""
    key_prefixes: tuple[str, ...] = ()
    """Beginnings of keys that no other provider uses."""

    def find_base_url(self, environment: Mapping[str, str]) -> str | None:
        """Return the address of the API; `<PREFIX>_BASE_URL` selects another, for example that of a proxy."""
        return _get_first(environment, f"{self.prefix}_BASE_URL", f"{self.prefix}_API_BASE") or self.base_url

    def make_model(self, environment: Mapping[str, str]) -> ModelConfig | None:
        """Return the model entry for this environment; None when there is no key."""
        key = _get_first(environment, *self.keys)
        if key is None:
            return None
        model = environment.get(f"{self.prefix}_MODEL") or self.model
        base_url = self.find_base_url(environment)
        entry = {"name": self.name, "use": self.use, "model": model, "display_name": f"{self.title} · {model}"}
        address = {} if base_url is None else {"base_url": base_url}
        # A secret, so that it appears in no log and no listing of the entry.
        return ModelConfig.model_validate({**entry, **address, "api_key": SecretStr(key), **self.settings})


def _get_first(environment: Mapping[str, str], *names: str) -> str | None:
    return next((environment[name] for name in names if environment.get(name)), None)


def _make_thinking_settings(on: dict[str, Any], off: dict[str, Any]) -> Mapping[str, Any]:
    settings = {"supports_thinking": True, "when_thinking_enabled": on, "when_thinking_disabled": off}
    return MappingProxyType(settings)


THINKING_TYPE = _make_thinking_settings(
    on={"extra_body": {"thinking": {"type": "enabled"}}}, off={"extra_body": {"thinking": {"type": "disabled"}}}
)
ENABLE_THINKING = _make_thinking_settings(
    on={"extra_body": {"enable_thinking": True}}, off={"extra_body": {"enable_thinking": False}}
)
ADAPTIVE_THINKING = _make_thinking_settings(on={"thinking": {"type": "adaptive", "display": "summarized"}}, off={})
VISION = MappingProxyType({"supports_vision": True})

PROVIDERS: tuple[Provider, ...] = (
    Provider(
        "openai",
        "OpenAI",
        prefix="OPENAI",
        keys=("OPENAI_API_KEY",),
        model="gpt-5.6",
        base_url="https://api.openai.com/v1",
        settings=VISION,
        key_url="https://platform.openai.com/api-keys",
        key_prefixes=("sk-proj-", "sk-svcacct-"),
    ),
    Provider(
        "anthropic",
        "Anthropic",
        prefix="ANTHROPIC",
        keys=("ANTHROPIC_API_KEY",),
        model="claude-sonnet-5-5",
        use="langchain_anthropic:ChatAnthropic",
        settings={**ADAPTIVE_THINKING, **VISION},
        key_url="https://platform.claude.com/settings/keys",
        key_prefixes=("sk-ant-",),
    ),
    Provider(
        "deepseek",
        "DeepSeek",
        prefix="DEEPSEEK",
        keys=("DEEPSEEK_API_KEY",),
        model="deepseek-v4-flash",
        base_url="https://api.deepseek.com",
        settings=THINKING_TYPE,
        key_url="https://platform.deepseek.com/api_keys",
    ),
    Provider(
        "gemini",
        "Gemini",
        prefix="GEMINI",
        keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        model="gemini-flash-latest",
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        settings={**VISION, "supports_reasoning_effort": True},
        key_url="https://aistudio.google.com/apikey",
        key_prefixes=("AIza",),
    ),
    Provider(
        "openrouter",
        "OpenRouter",
        prefix="OPENROUTER",
        keys=("OPENROUTER_API_KEY",),
        model="openrouter/auto",
        base_url="https://openrouter.ai/api/v1",
        key_url="https://openrouter.ai/settings/keys",
        key_prefixes=("sk-or-",),
    ),
    Provider(
        "kimi",
        "Kimi",
        prefix="MOONSHOT",
        keys=("MOONSHOT_API_KEY",),
        model="kimi-k3",
        base_url="https://api.moonshot.ai/v1",
        settings=VISION,
        key_url="https://platform.moonshot.ai/console/api-keys",
    ),
    Provider(
        "qwen",
        "Qwen",
        prefix="DASHSCOPE",
        keys=("DASHSCOPE_API_KEY",),
        model="qwen-plus",
        base_url="https://dashscope.aliyuncs.com/compatible-mode/v1",
        settings=ENABLE_THINKING,
        key_url="https://bailian.console.aliyun.com/?tab=model#/api-key",
    ),
    Provider(
        "doubao",
        "Doubao",
        prefix="ARK",
        keys=("ARK_API_KEY",),
        model="doubao-seed-2-0-pro-260215",
        base_url="https://ark.cn-beijing.volces.com/api/v3",
        settings={**THINKING_TYPE, **VISION},
        key_url="https://console.volcengine.com/ark/region:ark+cn-beijing/apiKey",
    ),
    Provider(
        "glm",
        "GLM",
        prefix="ZHIPUAI",
        keys=("ZHIPUAI_API_KEY",),
        model="glm-5",
        base_url="https://open.bigmodel.cn/api/paas/v4",
        settings=THINKING_TYPE,
        key_url="https://open.bigmodel.cn/usercenter/apikeys",
    ),
    Provider(
        "zai",
        "Z.ai",
        prefix="ZAI",
        keys=("ZAI_API_KEY",),
        model="glm-5",
        base_url="https://api.z.ai/api/paas/v4",
        settings=THINKING_TYPE,
        key_url="https://z.ai/manage-apikey/apikey-list",
    ),
    Provider(
        "mistral",
        "Mistral",
        prefix="MISTRAL",
        keys=("MISTRAL_API_KEY",),
        model="mistral-large-latest",
        base_url="https://api.mistral.ai/v1",
        key_url="https://console.mistral.ai/api-keys",
    ),
    Provider(
        "groq",
        "Groq",
        prefix="GROQ",
        keys=("GROQ_API_KEY",),
        model="openai/gpt-oss-120b",
        base_url="https://api.groq.com/openai/v1",
        settings={"supports_reasoning_effort": True},
        key_url="https://console.groq.com/keys",
        key_prefixes=("gsk_",),
    ),
    Provider(
        "grok",
        "Grok",
        prefix="XAI",
        keys=("XAI_API_KEY",),
        model="grok-4.3",
        base_url="https://api.x.ai/v1",
        settings=VISION,
        key_url="https://console.x.ai",
        key_prefixes=("xai-",),
    ),
)


KeyStatus = Literal["set", "missing", "not needed", "unknown"]

KEY_VARIABLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "langchain_openai": ("OPENAI_API_KEY",),
        "langchain_anthropic": ("ANTHROPIC_API_KEY",),
        "langchain_deepseek": ("DEEPSEEK_API_KEY",),
        "langchain_google_genai": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        "langchain_groq": ("GROQ_API_KEY",),
        "langchain_mistralai": ("MISTRAL_API_KEY",),
        "langchain_xai": ("XAI_API_KEY",),
    }
)
"""The variables that LangChain classes read when no key is configured."""
URL_SETTINGS = ("base_url", "api_base", "openai_api_base")


def get_key_status(model: ModelConfig, environment: Mapping[str, str]) -> KeyStatus:
    """Return whether the model has a key, needs one, or neither is known because its class is unknown."""
    settings = model.provider_settings
    package = model.use.partition(":")[0].partition(".")[0]
    if model.use.startswith("deerflow.models.demo:"):
        return "not needed"
    if any(find_keys(settings)):
        return "set"
    address = next((settings[name] for name in URL_SETTINGS if isinstance(settings.get(name), str)), None)
    if package == "langchain_ollama" or (address is not None and is_local(address)):
        return "not needed"
    if package in KEY_VARIABLES:
        return "set" if any(environment.get(name) for name in KEY_VARIABLES[package]) else "missing"
    return "missing" if model.use == OPENAI_COMPATIBLE_CLIENT else "unknown"


def find_keys(value: Any, path: KeyPath = ()) -> Iterator[str]:
    """Yield the non-empty settings that are named like keys."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from find_keys(item, (*path, str(name)))
    elif is_secret(path):
        text = value.get_secret_value() if isinstance(value, SecretStr) else value
        if isinstance(text, str) and text.strip():
            yield text


def is_local(address: str) -> bool:
    """Return True if a server is on this machine or in a private network, where keys are rarely required."""
    try:
        host = urlsplit(address).hostname or ""
    except ValueError:
        return False
    if host == "localhost" or host.endswith((".local", ".internal", ".localhost")) or "." not in host.strip("."):
        return ":" not in host or is_private(host)
    return is_private(host)


def is_private(host: str) -> bool:
    """Return True if a host is a private IP address."""
    try:
        return ip_address(host).is_private
    except ValueError:
        return False


PROBE_LIMIT_S = 0.3
MAX_LOCAL_MODELS = 20
MAX_LISTING_BYTES = 1 << 20


def detect_models(environment: Mapping[str, str]) -> list[ModelConfig]:
    """Return one model for every provider whose key is in the environment, in the order of `PROVIDERS`."""
    return [model for provider in PROVIDERS if (model := provider.make_model(environment)) is not None]


def list_local_servers(environment: Mapping[str, str], limit_s: float = PROBE_LIMIT_S) -> "tuple[LocalServer, ...]":
    """Return the local servers that are looked for. vLLM uses a common port, so it is not used without being asked."""
    return (
        LocalServer("Ollama", environment.get("OLLAMA_HOST", ""), 11434, limit_s),
        LocalServer("LM Studio", "", 1234, limit_s),
        LocalServer("vLLM", "", 8000, limit_s),
    )


async def detect_local_models(environment: Mapping[str, str], limit_s: float = PROBE_LIMIT_S) -> list[ModelConfig]:
    """Return the models of a local Ollama and a local LM Studio that respond within `limit_s`."""
    ollama, lm_studio, _ = list_local_servers(environment, limit_s)
    found = await asyncio.gather(ollama.list_models(), lm_studio.list_models())
    by_name = {model.name: model for models in reversed(found) for model in reversed(models)}
    return list(reversed(by_name.values()))[:MAX_LOCAL_MODELS]


@dataclass(frozen=True, slots=True)
class LocalServer:
    """An OpenAI-compatible server on this machine or in the local network."""

    title: str
    host: str  # a name, a port, both, or a URL
    default_port: int
    limit_s: float = PROBE_LIMIT_S

    @property
    def base_url(self) -> str:
        """Address of its API, or raise `ValueError`."""
        return _make_base_url(self.host, self.default_port)

    async def list_models(self) -> list[ModelConfig]:
        """Return the models of the server; empty when it does not respond in time."""
        with suppress(OSError, TimeoutError, ValueError, EOFError):
            base_url = self.base_url
            async with asyncio.timeout(self.limit_s):
                listing = json.loads(await _fetch(f"{base_url}/models"))
            return [self._make_config(name, base_url) for name in _list_model_names(listing)]
        return []

    def _make_config(self, model: str, base_url: str) -> ModelConfig:
        entry = {"name": model, "use": OPENAI_COMPATIBLE_CLIENT, "model": model, "base_url": base_url}
        return ModelConfig.model_validate({**entry, "display_name": f"{model} ({self.title})"})


def _list_model_names(listing: object) -> list[str]:
    entries = listing.get("data") if isinstance(listing, dict) else None
    names = [entry.get("id") for entry in entries or () if isinstance(entry, dict)]
    return [name for name in names if isinstance(name, str) and name and "embed" not in name]


def _make_base_url(host: str, default_port: int) -> str:
    parts = urlsplit(host if "//" in host else f"//{host}")
    name = parts.hostname or "127.0.0.1"
    if name in ("0.0.0.0", "::"):  # valid for listening only
        name = "127.0.0.1"
    if ":" in name:
        name = f"[{name}]"
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, default_port)
    return f"{parts.scheme or 'http'}://{name}:{port}/v1"


async def _fetch(url: str) -> bytes:
    """Return the body of a small response. Importing an HTTP library would take longer than this request."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=parts.scheme == "https" or None)
    try:
        # HTTP/1.0: the response is not chunked and ends with the connection.
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
