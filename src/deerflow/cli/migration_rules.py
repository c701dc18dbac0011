"""Table of the settings of the public DeerFlow: the key of `config.yaml` that each becomes, or why it has none."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Convert: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class KeyRule:
    """Rule for a key of the public DeerFlow and everything below it."""

    key: str
    becomes: str | None
    """Our key; None if there is no counterpart."""
    note: str = ""
    """Reason why there is no counterpart, or what changes."""
    convert: Convert | None = None


def keep(section: str, *names: str) -> list[KeyRule]:
    """Return rules for keys that are the same in both."""
    return [KeyRule(f"{section}.{name}", f"{section}.{name}") for name in names]


def drop(note: str, *keys: str) -> list[KeyRule]:
    """Return rules for keys without a counterpart."""
    return [KeyRule(key, None, note) for key in keys]


def rename(value: Mapping[str, str]) -> Convert:
    """Return a conversion of single words; others are kept."""
    return lambda word: value.get(word, word) if isinstance(word, str) else word


NO_LOGIN = "there are no user accounts in the configuration"
NO_CHANNELS = "chat apps keep their state in the database"
NO_SCHEDULER = "scheduled tasks are not configured here"
ALWAYS_ON = "always on"
BUILT_IN = "built in, without a setting"
OTHER_MEMORY = "memory is a ledger with its own rules"
ONE_DATABASE = "one database holds everything; it has no such setting"

RULES: Sequence[KeyRule] = (
    KeyRule("config_version", "config_version", "becomes 1, the version of our format", lambda version: 1),
    KeyRule("log_level", "log_level", "", rename({"warn": "warning", "critical": "error", "fatal": "error"})),
    KeyRule("logging.enhance.format", "logging.format"),
    *drop("logs always have request, run and thread ids", "logging.enhance.enabled"),
    KeyRule("models", "models", "see the table of models below"),
    *drop("the group of each tool is enough", "tool_groups"),
    KeyRule("tools", "tools", "see the table of tools below"),
    *keep("tool_search", "enabled", "auto_promote_top_k"),
    *keep(
        "tool_output",
        *("enabled", "externalize_min_chars", "preview_head_chars", "preview_tail_chars", "fallback_max_chars"),
        *("fallback_head_chars", "fallback_tail_chars", "exempt_tools", "tool_overrides"),
    ),
    *drop("the folder is fixed", "tool_output.storage_subdir"),
    *keep(
        "sandbox",
        *("allow_host_bash", "mounts", "environment", "image", "port", "container_prefix", "idle_timeout", "replicas"),
        *("provisioner_url", "provisioner_api_key", "bash_command_timeout", "bash_output_max_chars"),
        *("read_file_output_max_chars", "ls_output_max_chars"),
    ),
    KeyRule("sandbox.use", "sandbox.use", "cloud and micro-VM providers have no counterpart"),
    *drop(
        "`replicas` limits the number of containers; the least recently used one is removed",
        *("sandbox.overflow_policy", "sandbox.acquire_timeout", "sandbox.burst_limit"),
    ),
    *drop("checked before every use", "sandbox.health_check_skip_seconds"),
    *drop("servers share containers through files in the state directory", "sandbox.ownership"),
    *drop("detected", "sandbox.thread_data_mounts"),
    *drop("belongs to a provider that does not exist here", "sandbox"),
    KeyRule("skills.path", "skills.path", "its folder `public` replaces the built-in skills, `custom` is added"),
    *drop("skills are always at /mnt/skills", "skills.container_path"),
    *drop("skills are folders", "skills.use"),
    KeyRule(
        "skills.deferred_discovery", "skills.index_limit", "true becomes 0", lambda deferred: 0 if deferred else 60
    ),
    *keep("skill_scan", "enabled"),
    *keep("skill_evolution", "enabled", "moderation_model_name", "security_fail_closed"),
    *keep("memory", "enabled", "injection_enabled"),
    KeyRule("memory.mode", "memory.mode", "`middleware` is called `automatic`", rename({"middleware": "automatic"})),
    *keep(
        "memory",
        *("debounce_seconds", "model_name", "max_facts", "fact_confidence_threshold", "max_injection_tokens"),
    ),
    *(
        KeyRule(f"memory.backend_config.{name}", f"memory.{name}")
        for name in ("debounce_seconds", "model_name", "max_facts", "fact_confidence_threshold", "max_injection_tokens")
    ),
    KeyRule("memory.backend_config.guaranteed_token_budget", "memory.correction_tokens"),
    *drop("its content is taken over into the database", "memory.storage_path", "memory.backend_config.storage_path"),
    *drop(
        "extraction uses an entry of `models`: set `memory.model_name`; null is the default model",
        "memory.backend_config.model",
    ),
    *drop("only the ledger is available; use `memory.storage_class`", "memory.manager_class", "memory.storage_class"),
    *drop("pending extractions are kept for the next start", "memory.shutdown_flush_timeout_seconds"),
    *drop(OTHER_MEMORY, "memory.backend_config", "memory"),
    *keep("title", "enabled", "max_words", "max_chars", "model_name"),
    *drop("the prompt is fixed", "title.prompt_template"),
    *keep("summarization", "enabled", "model_name", "trigger", "keep", "trim_tokens_to_summarize", "summary_prompt"),
    *drop("active skills always stay known", "summarization.skill_file_read_tool_names"),
    *drop(
        "active skills always stay known",
        *(f"summarization.preserve_recent_skill_{name}" for name in ("count", "tokens", "tokens_per_skill")),
    ),
    *keep("subagents", "enabled", "timeout_seconds", "max_turns"),
    KeyRule("subagents.timeout", "subagents.timeout_seconds"),
    *(KeyRule(key, key, "without `token_budget`") for key in ("subagents.agents", "subagents.custom_agents")),
    *drop("`budget` limits the whole run", "subagents.max_total_per_run", "subagents.token_budget"),
    KeyRule("token_budget.max_tokens", "budget.max_tokens", "only if `token_budget.enabled` is true"),
    *drop("the presence of `budget.max_tokens` decides", "token_budget.enabled"),
    *drop("input and output count together", "token_budget.max_input_tokens", "token_budget.max_output_tokens"),
    *drop(
        "the run ends with an answer before the budget is spent",
        *("token_budget.warn_threshold", "token_budget.hard_stop_threshold"),
    ),
    *drop(ALWAYS_ON, "token_usage"),
    *keep(
        "loop_detection",
        *("enabled", "warn_threshold", "hard_limit", "window_size", "tool_freq_warn", "tool_freq_hard_limit"),
        "tool_freq_overrides",
    ),
    *drop("nothing is kept between runs", "loop_detection.max_tracked_threads"),
    *drop("loop detection covers it", "tool_progress"),
    *keep("read_before_write", "enabled"),
    *drop(BUILT_IN, "safety_finish_reason"),
    *drop("failing models are retried and replaced by their `fallback`", "circuit_breaker"),
    *keep("llm_call", "retry_max_attempts", "retry_base_delay_ms", "retry_cap_delay_ms"),
    *drop("the limit of the provider applies", "llm_call.max_concurrent_calls"),
    *drop("a provider's Retry-After is respected", "llm_call.burst_retry_base_delay_ms"),
    *keep("guardrails", "enabled", "fail_closed"),
    KeyRule(
        "guardrails.provider",
        "guardrails.provider",
        "import from `deerflow.guardrails.providers`; the built-in one becomes policy.yaml",
    ),
    *drop("has no counterpart", "guardrails.passport"),
    *drop(NO_LOGIN, "auth", "authorization"),
    KeyRule("acp_agents", "acp_agents", "runs in a sandbox: add `network: true` where it is needed"),
    *drop("agents are managed in the page and the API", "agents_api"),
    *keep("suggestions", "enabled", "max_suggestions"),
    *keep("input_polish", "enabled", "max_chars", "model_name"),
    *drop("a request may ask for at most 1000 steps; `runs.recursion_limit` is the default", "max_recursion_limit"),
    *keep("uploads", "max_files", "max_file_size", "max_total_size"),
    KeyRule("uploads.auto_convert_documents", "uploads.conversion.enabled", "documents are converted in the sandbox"),
    *drop("the converter is fixed", "uploads.pdf_converter"),
    KeyRule("database.postgres_url", "database.url", "only for `backend: postgres`"),
    *drop("threads are taken over into a new file", "database.sqlite_dir"),
    *drop("`database.url` decides", "database.backend"),
    *drop(
        ONE_DATABASE,
        *("database.postgres_schema", "database.pool_size", "database.pool_recycle", "database.command_timeout"),
        *("database.echo_sql", "database.checkpoint_channel_mode", "database.checkpoint_delta"),
        *("database.checkpoint_graph_cache", "database.checkpoint_cache"),
    ),
    *drop("the same database holds the state of threads", "checkpointer"),
    *drop("every event is in the database", "run_events"),
    KeyRule("run_ownership.lease_seconds", "database.lease_seconds"),
    *drop("leases are always renewed", "run_ownership.grace_seconds", "run_ownership.heartbeat_enabled"),
    *keep("stream_bridge", "type", "redis_url"),
    *drop(
        "Redis only carries notifications; events are in the database",
        *("stream_bridge.queue_maxsize", "stream_bridge.max_connections", "stream_bridge.stream_ttl_seconds"),
        "stream_bridge.recovered_stream_cleanup_delay_seconds",
    ),
    *drop("agents are files", "agent_storage"),
    *keep("channels.telegram", "enabled", "bot_token"),
    KeyRule("channels.telegram.allowed_users", "channels.telegram.allowed_users", "an empty list allows no one"),
    *drop("messages are always formatted", "channels.telegram.rich_messages"),
    *keep("channels.slack", "enabled", "bot_token", "app_token"),
    KeyRule("channels.slack.allowed_users", "channels.slack.allowed_users", "an empty list allows no one"),
    *keep("channels.feishu", "enabled", "app_id", "app_secret", "domain"),
    KeyRule("channels.feishu.allowed_users", "channels.feishu.allowed_users", "an empty list allows no one"),
    *drop("this chat app or setting does not exist here", "channels"),
    *drop(NO_CHANNELS, "channel_connections", "dedupe_storage"),
    *drop(NO_SCHEDULER, "scheduler"),
    *drop("tasks of MCP servers are not followed in the background", "mcp_tasks"),
    *drop("middlewares are passed in Python: `extra_middleware`", "plugins", "extensions"),
)

EARLY_PACKAGES = tuple(f"src.{name}." for name in ("community", "sandbox", "models", "guardrails", "agents"))
"""Start of class paths in early versions; later ones begin with `deerflow`."""
MODEL_CLASSES: Mapping[str, str | None] = {
    "deerflow.models.patched_deepseek:PatchedChatDeepSeek": "https://api.deepseek.com/v1",
    "deerflow.models.patched_openai:PatchedChatOpenAI": None,
    "deerflow.models.patched_minimax:PatchedChatMiniMax": None,
    "deerflow.models.patched_mimo:PatchedChatMiMo": None,
    "deerflow.models.patched_stepfun:PatchedChatStepFun": None,
    "deerflow.models.vllm_provider:VllmChatModel": None,
    "deerflow.models.mindie_provider:MindIEChatModel": None,
}
"""Classes that our OpenAI-compatible client replaces, each with the base URL that it implies."""
LOGIN_CLASSES = ("deerflow.models.claude_provider:", "deerflow.models.openai_codex_provider:")
"""Classes that use the login of a subscription."""
MODEL_KEYS: Mapping[str, str | None] = {
    "api_base": "base_url",
    "openai_api_base": "base_url",
    "openai_api_key": "api_key",
    "request_timeout": "timeout",
    "default_request_timeout": "timeout",
    "read_timeout": "timeout",
    "stream_chunk_timeout": "timeout",
    "max_retries": None,
    "connect_timeout": None,
    "write_timeout": None,
    "pool_timeout": None,
    "cumulative_stream_usage": None,
    "use_responses_api": None,
    "output_version": None,
}
"""Keys of these classes and their names in our client; None if it has no such setting."""
PRICE_KEYS: Mapping[str, str] = {
    "currency": "currency",
    "input_per_million": "input",
    "output_per_million": "output",
    "input_cache_hit_per_million": "cached_input",
    "input": "input",
    "output": "output",
    "cached_input": "cached_input",
}
TOOL_PATHS: Mapping[str, str] = {
    "deerflow.community.image_search.tools:image_search_tool": "deerflow.community.ddg_search.tools:image_search_tool",
}
BUILT_IN_TOOLS = "deerflow.sandbox.tools:"
"""Prefix of tools that every agent has."""
TOOL_KEYS: Mapping[str, str] = {"timeout_s": "timeout", "contents_max_characters": "max_chars"}
SANDBOX_PROVIDERS = (
    "deerflow.sandbox.local:LocalSandboxProvider",
    "deerflow.community.aio_sandbox:AioSandboxProvider",
)
EXTENSION_KEYS: Mapping[str, str] = {
    "middlewares": "middlewares are passed in Python: `extra_middleware`",
    "mcpInterceptors": "calls of MCP tools are checked by policy.yaml",
}
"""Sections of `extensions_config.json` without a counterpart."""
