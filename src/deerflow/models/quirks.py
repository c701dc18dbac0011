"""Where OpenAI-compatible endpoints differ from each other; the one place that knows vendors."""

import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Vendor:
    """What one vendor's endpoint wants to receive. The defaults suit servers that are not strict about it."""

    name: str
    hosts: tuple[str, ...] = ()
    sends_back_reasoning: Literal["never", "in tool turns", "always"] = "in tool turns"
    reasoning_field: str | None = None  # None: under the name it came by
    keeps_reasoning_details: bool = False
    keeps_call_extras: bool = False
    token_limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    takes_stream_options: bool = True  # False: refuses the field and reports usage anyway
    takes_json_schema: bool = False
    no_reasoning_with_tools: re.Pattern[str] | None = None  # models that take tools only with `reasoning_effort: none`
    may_think_inline: bool = True  # `<think>…</think>` at the start of the answer

    def serves(self, host: str) -> bool:
        return any(host == known or host.endswith(f".{known}") for known in self.hosts)


# Strict endpoints refuse requests with fields they do not know, so nothing made up elsewhere may reach them.
VENDORS: tuple[Vendor, ...] = (
    Vendor(
        "openai",
        hosts=("api.openai.com", "openai.azure.com", "services.ai.azure.com"),
        sends_back_reasoning="never",
        token_limit_field="max_completion_tokens",
        takes_json_schema=True,
        no_reasoning_with_tools=re.compile(r"gpt-(5\.[2-9]|[6-9])"),
        may_think_inline=False,
    ),
    Vendor("deepseek", hosts=("api.deepseek.com",), reasoning_field="reasoning_content"),
    Vendor(
        "moonshot",
        hosts=("api.moonshot.ai", "api.moonshot.cn", "api.kimi.com"),
        sends_back_reasoning="always",  # a tool call without its reasoning is refused, however old it is
        reasoning_field="reasoning_content",
        token_limit_field="max_completion_tokens",
        takes_json_schema=True,
    ),
    Vendor(
        "qwen", hosts=("dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com"), reasoning_field="reasoning_content"
    ),
    Vendor("volcengine", hosts=("volces.com", "bytepluses.com"), reasoning_field="reasoning_content"),
    Vendor(
        "zhipu",
        hosts=("open.bigmodel.cn", "api.z.ai"),
        reasoning_field="reasoning_content",
        takes_stream_options=False,
    ),
    Vendor("minimax", hosts=("api.minimax.io", "api.minimaxi.com"), keeps_reasoning_details=True),
    Vendor(
        "openrouter",
        hosts=("openrouter.ai",),
        sends_back_reasoning="always",
        reasoning_field="reasoning",
        keeps_reasoning_details=True,
        takes_json_schema=True,
    ),
    Vendor(
        "google",
        hosts=("generativelanguage.googleapis.com",),
        sends_back_reasoning="never",
        keeps_call_extras=True,  # a call without its thought signature is refused
        takes_json_schema=True,
    ),
    Vendor(
        "mistral",
        hosts=("api.mistral.ai",),
        sends_back_reasoning="never",
        takes_stream_options=False,
        takes_json_schema=True,
    ),
    Vendor("groq", hosts=("api.groq.com",), sends_back_reasoning="never", token_limit_field="max_completion_tokens"),
    Vendor("xai", hosts=("api.x.ai",), sends_back_reasoning="never", takes_json_schema=True),
)
OTHER = Vendor("openai-compatible")
VENDOR_NAMES = frozenset(vendor.name for vendor in (*VENDORS, OTHER))


def vendor_of(base_url: str, name: str | None = None) -> Vendor:
    """The vendor called `name`, else the one behind the address; `OTHER` for local and unknown servers."""
    host = urlsplit(base_url).hostname or ""
    for vendor in VENDORS:
        if vendor.name == name or (name is None and vendor.serves(host)):
            return vendor
    return OTHER
