"""Whether and how much a model reasons: which settings of its entry that adds or changes."""

from collections.abc import Mapping
from typing import Any

from deerflow.config.models import ModelConfig
from deerflow.domain.errors import ConfigError, InvalidRequest

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")


def settings_for(config: ModelConfig, *, thinking_enabled: bool, reasoning_effort: str | None) -> dict[str, Any]:
    """What the model class receives besides `model`.

    Raises:
        ConfigError: Thinking is asked of a model that has none.
        InvalidRequest: There is no such reasoning effort.
    """
    if thinking_enabled and not config.supports_thinking:
        raise ConfigError(f"model {config.name!r} cannot think; set supports_thinking: true if it can")
    if reasoning_effort is not None and reasoning_effort not in EFFORTS:
        raise InvalidRequest(f"reasoning effort is one of {', '.join(EFFORTS)}, not {reasoning_effort!r}")
    settings = config.provider_settings
    if reasoning_effort is not None and config.supports_reasoning_effort:
        settings["reasoning_effort"] = reasoning_effort
    change = _when_enabled(config) if thinking_enabled else _when_disabled(config)
    return deep_merge(settings, change)


def deep_merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Both together; where they disagree `above` wins, and mappings are merged key by key."""
    merged = dict(below)
    for key, value in above.items():
        known = merged.get(key)
        merged[key] = deep_merge(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return merged


def _when_enabled(config: ModelConfig) -> dict[str, Any]:
    shortcut = {"thinking": config.thinking} if config.thinking else {}
    return deep_merge(config.when_thinking_enabled or {}, shortcut)


def _when_disabled(config: ModelConfig) -> dict[str, Any]:
    """What the entry says, else the opposite of what it says for thinking, in the shapes vendors use."""
    if config.when_thinking_disabled is not None:
        return config.when_thinking_disabled
    enabled = _when_enabled(config)
    body = enabled.get("extra_body", {})
    if "type" in body.get("thinking", {}):
        off: dict[str, Any] = {"extra_body": {"thinking": {"type": "disabled"}}}
        return off | {"reasoning_effort": "minimal"} if config.supports_reasoning_effort else off
    if switches := {"thinking", "enable_thinking"} & body.get("chat_template_kwargs", {}).keys():
        return {"extra_body": {"chat_template_kwargs": dict.fromkeys(sorted(switches), False)}}
    if "enable_thinking" in body:
        return {"extra_body": {"enable_thinking": False}}
    if "type" in enabled.get("thinking", {}):
        return {"thinking": {"type": "disabled"}}
    return {}
