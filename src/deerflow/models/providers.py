"""Providers that need nothing but a key, with the model each is used with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pydantic import SecretStr

from deerflow.config.models import ModelConfig

LEAN_CLIENT = "deerflow.models.openai_compatible:OpenAICompatibleChatModel"


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider that can be used as soon as its key is known; `<PREFIX>_MODEL` picks another model."""

    name: str
    title: str
    prefix: str
    keys: tuple[str, ...]
    model: str
    base_url: str | None = None
    use: str = LEAN_CLIENT
    settings: Mapping[str, Any] = field(default_factory=dict)

    def model_in(self, environment: Mapping[str, str]) -> ModelConfig | None:
        """The model as far as the environment allows."""
        key = _first(environment, *self.keys)
        if key is None:
            return None
        model = environment.get(f"{self.prefix}_MODEL") or self.model
        base_url = _first(environment, f"{self.prefix}_BASE_URL", f"{self.prefix}_API_BASE") or self.base_url
        entry = {"name": self.name, "use": self.use, "model": model, "display_name": f"{self.title} · {model}"}
        address = {} if base_url is None else {"base_url": base_url}
        # Secret, so that it shows in no log and no listing of the entry.
        return ModelConfig.model_validate({**entry, **address, "api_key": SecretStr(key), **self.settings})


def _first(environment: Mapping[str, str], *names: str) -> str | None:
    return next((environment[name] for name in names if environment.get(name)), None)


def _switch(on: dict[str, Any], off: dict[str, Any]) -> Mapping[str, Any]:
    settings = {"supports_thinking": True, "when_thinking_enabled": on, "when_thinking_disabled": off}
    return MappingProxyType(settings)


THINKING_TYPE = _switch(
    on={"extra_body": {"thinking": {"type": "enabled"}}}, off={"extra_body": {"thinking": {"type": "disabled"}}}
)
ENABLE_THINKING = _switch(on={"extra_body": {"enable_thinking": True}}, off={"extra_body": {"enable_thinking": False}})
ADAPTIVE_THINKING = _switch(on={"thinking": {"type": "adaptive", "display": "summarized"}}, off={})
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
    ),
    Provider(
        "anthropic",
        "Anthropic",
        prefix="ANTHROPIC",
        keys=("ANTHROPIC_API_KEY",),
        model="claude-sonnet-5-5",
        use="langchain_anthropic:ChatAnthropic",
        settings={**ADAPTIVE_THINKING, **VISION},
    ),
    Provider(
        "deepseek",
        "DeepSeek",
        prefix="DEEPSEEK",
        keys=("DEEPSEEK_API_KEY",),
        model="deepseek-v4-flash",
        base_url="https://api.deepseek.com",
        settings=THINKING_TYPE,
    ),
    Provider(
        "gemini",
        "Gemini",
        prefix="GEMINI",
        keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        model="gemini-flash-latest",
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        settings={**VISION, "supports_reasoning_effort": True},
    ),
    Provider(
        "openrouter",
        "OpenRouter",
        prefix="OPENROUTER",
        keys=("OPENROUTER_API_KEY",),
        model="openrouter/auto",
        base_url="https://openrouter.ai/api/v1",
    ),
    Provider(
        "kimi",
        "Kimi",
        prefix="MOONSHOT",
        keys=("MOONSHOT_API_KEY",),
        model="kimi-k3",
        base_url="https://api.moonshot.ai/v1",
        settings=VISION,
    ),
    Provider(
        "qwen",
        "Qwen",
        prefix="DASHSCOPE",
        keys=("DASHSCOPE_API_KEY",),
        model="qwen-plus",
        base_url="https://dashscope.aliyuncs.com/compatible-mode/v1",
        settings=ENABLE_THINKING,
    ),
    Provider(
        "doubao",
        "Doubao",
        prefix="ARK",
        keys=("ARK_API_KEY",),
        model="doubao-seed-2-0-pro-260215",
        base_url="https://ark.cn-beijing.volces.com/api/v3",
        settings={**THINKING_TYPE, **VISION},
    ),
    Provider(
        "glm",
        "GLM",
        prefix="ZHIPUAI",
        keys=("ZHIPUAI_API_KEY",),
        model="glm-5",
        base_url="https://open.bigmodel.cn/api/paas/v4",
        settings=THINKING_TYPE,
    ),
    Provider(
        "zai",
        "Z.ai",
        prefix="ZAI",
        keys=("ZAI_API_KEY",),
        model="glm-5",
        base_url="https://api.z.ai/api/paas/v4",
        settings=THINKING_TYPE,
    ),
    Provider(
        "mistral",
        "Mistral",
        prefix="MISTRAL",
        keys=("MISTRAL_API_KEY",),
        model="mistral-large-latest",
        base_url="https://api.mistral.ai/v1",
    ),
    Provider(
        "groq",
        "Groq",
        prefix="GROQ",
        keys=("GROQ_API_KEY",),
        model="openai/gpt-oss-120b",
        base_url="https://api.groq.com/openai/v1",
        settings={"supports_reasoning_effort": True},
    ),
    Provider(
        "grok",
        "Grok",
        prefix="XAI",
        keys=("XAI_API_KEY",),
        model="grok-4.3",
        base_url="https://api.x.ai/v1",
        settings=VISION,
    ),
)
