"""Whether a model has the key it needs; never the key."""

from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import SecretStr

from deerflow.config.models import ModelConfig
from deerflow.config.reading.problems import KeyPath
from deerflow.config.reading.secrets import is_secret
from deerflow.models.providers import LEAN_CLIENT

KeyStatus = Literal["set", "missing", "not needed", "unknown"]

VARIABLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
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
"""Where classes of others look for a key that the configuration does not give them."""
ADDRESSES = ("base_url", "api_base", "openai_api_base")


def key_status(model: ModelConfig, environment: Mapping[str, str]) -> KeyStatus:
    """Whether the model has a key, needs one, or neither is known because its class is not."""
    settings = model.provider_settings
    package = model.use.partition(":")[0].partition(".")[0]
    if model.use.startswith("deerflow.models.demo:"):
        return "not needed"
    if any(keys_in(settings)):
        return "set"
    address = next((settings[name] for name in ADDRESSES if isinstance(settings.get(name), str)), None)
    if package == "langchain_ollama" or (address is not None and is_near(address)):
        return "not needed"
    if package in VARIABLES:
        return "set" if any(environment.get(name) for name in VARIABLES[package]) else "missing"
    return "missing" if model.use == LEAN_CLIENT else "unknown"


def keys_in(value: Any, path: KeyPath = ()) -> Iterator[str]:
    """The settings that are named like keys and are not empty."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from keys_in(item, (*path, str(name)))
    elif is_secret(path):
        text = value.get_secret_value() if isinstance(value, SecretStr) else value
        if isinstance(text, str) and text.strip():
            yield text


def is_near(address: str) -> bool:
    """Whether a server is on this machine or in this network, where people seldom ask for keys."""
    try:
        host = urlsplit(address).hostname or ""
    except ValueError:
        return False
    if host == "localhost" or host.endswith((".local", ".internal", ".localhost")) or "." not in host.strip("."):
        return ":" not in host or is_private(host)
    return is_private(host)


def is_private(host: str) -> bool:
    """Whether a host is given as an address that no provider has."""
    try:
        return ip_address(host).is_private
    except ValueError:
        return False
