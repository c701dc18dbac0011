"""Configuration of the public DeerFlow, for tests of the migration."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from deerflow.config.loader.document import KeyPath

PUBLIC = """
config_version: 34
log_level: warn
token_usage: {enabled: true}
token_budget: {enabled: true, max_tokens: 200000, warn_threshold: 0.8}
models:
  - name: deepseek
    use: deerflow.models.patched_deepseek:PatchedChatDeepSeek
    model: deepseek-v4-pro
    api_key: $DEEPSEEK_API_KEY
    request_timeout: 600.0
    max_retries: 2
    supports_thinking: true
    pricing: {currency: CNY, input_per_million: 8.0, output_per_million: 32.0, input_cache_hit_per_million: 0.8}
    when_thinking_enabled: {extra_body: {thinking: {type: enabled}}}
  - {name: gpt, use: "langchain_openai:ChatOpenAI", model: gpt-4, api_key: $OPENAI_API_KEY, max_retries: 2}
  - {name: plan, use: "deerflow.models.claude_provider:ClaudeChatModel", model: claude}
tool_groups: [{name: web}]
tools:
  - {name: web_search, group: web, use: "deerflow.community.ddg_search.tools:web_search_tool", backend: auto}
  - {name: image_search, group: web, use: "deerflow.community.image_search.tools:image_search_tool"}
  - {name: web_fetch, group: web, use: "deerflow.community.crawl4ai.tools:web_fetch_tool", token: $T}
  - {name: bash, group: bash, use: "deerflow.sandbox.tools:bash_tool"}
  - {name: own, group: web, use: "my_package:my_tool", speed: 3}
sandbox: {use: "deerflow.sandbox.local:LocalSandboxProvider", allow_host_bash: false, overflow_policy: wait}
skills: {container_path: /mnt/skills, deferred_discovery: true}
title: {enabled: true, max_words: 600}
memory:
  mode: middleware
  manager_class: deermem
  backend_config: {debounce_seconds: 45, max_facts: 50, guaranteed_token_budget: 300, staleness_age_days: 90}
database: {backend: sqlite, sqlite_dir: .deer-flow/data, pool_recycle: 300}
run_ownership: {lease_seconds: 60}
channels: {slack: {bot_token: $SLACK}}
scheduler: {enabled: false}
mystery: 1
"""


def find_leaves(value: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the paths of all values; a list of texts is one value."""
    if isinstance(value, dict) and value:
        inner = list(value.items())
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        inner = list(enumerate(value))
    else:
        yield path
        return
    for key, item in inner:
        yield from find_leaves(item, (*path, key))


def drop_value(settings: Any, path: KeyPath) -> Any:
    """Return the settings without one value."""
    changed = inner = deepcopy(settings)
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return changed
