"""Conversion of a `config.yaml` and an `extensions_config.json` of the public DeerFlow into ours."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from deerflow.cli.migration_rules import (
    BUILT_IN_TOOLS,
    EARLY_PACKAGES,
    EXTENSION_KEYS,
    LOGIN_CLASSES,
    MODEL_CLASSES,
    MODEL_KEYS,
    PRICE_KEYS,
    RULES,
    SANDBOX_PROVIDERS,
    TOOL_KEYS,
    TOOL_PATHS,
    KeyRule,
)
from deerflow.config.imports import load_object
from deerflow.config.loader.document import InvalidConfig, KeyPath, find_fields, format_path, from_mapping
from deerflow.config.loader.files import replace_file, to_yaml
from deerflow.config.loader.validation import validate
from deerflow.config.root import Config
from deerflow.config.sections.extensions import Extensions, McpServerConfig
from deerflow.config.sections.models import ModelConfig, find_near_misses
from deerflow.config.sections.tools import ToolConfig
from deerflow.domain.errors import ConfigError
from deerflow.models.openai_compatible import OpenAICompatibleChatModel
from deerflow.tools.assembly import ConfigurableTool, load_tool

OWN_CLIENT = "deerflow.models.openai_compatible:OpenAICompatibleChatModel"
CONTAINERS = "deerflow.community.aio_sandbox:AioSandboxProvider"
MAX_ROUNDS = 50
BACKUP_SUFFIX = ".before-migration"
UNKNOWN = "the public DeerFlow has no such key, and neither has this one"
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A setting that is not taken over, with the reason."""

    key: str
    reason: str


@dataclass(slots=True)
class Conversion:
    """Converted settings, and those that were left out."""

    settings: dict[str, Any] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    """Lines about settings with another name or meaning."""

    def leave_out(self, key: str, reason: str) -> None:
        self.left_out.append(LeftOut(key, reason))

    def put(self, key: str, value: Any) -> None:
        """Set a value at a dotted key."""
        *sections, name = key.split(".")
        target = self.settings
        for section in sections:
            target = target.setdefault(section, {})
        target[name] = value


RULES_BY_KEY = {rule.key: rule for rule in RULES}


def convert_config(public: Mapping[str, Any]) -> Conversion:
    """Convert the settings of a `config.yaml`. The result is valid; values that are not are left out."""
    made, public = Conversion(), rename_class_paths(public)
    for key, value in public.items():
        if not key.startswith("x-"):
            convert_key(key, value, public, made)
    made.settings.setdefault("config_version", 1)
    sandbox = made.settings.get("sandbox", {})
    if sandbox.get("use") == CONTAINERS and "image" not in sandbox:
        made.changed.append("sandbox.image: the default is another image, to be built from deploy/sandbox")
    remove_invalid(Config, made)
    return made


def rename_class_paths(settings: Any) -> Any:
    """Return settings of an early version with the class paths of later ones, which begin with the package."""
    if isinstance(settings, list):
        return [rename_class_paths(item) for item in settings]
    if not isinstance(settings, Mapping):
        return settings
    return {
        key: f"deerflow.{value.removeprefix('src.')}"
        if key == "use" and isinstance(value, str) and value.startswith(EARLY_PACKAGES)
        else rename_class_paths(value)
        for key, value in settings.items()
    }


def convert_key(key: str, value: Any, public: Mapping[str, Any], made: Conversion) -> None:
    """Convert one key, or the keys below it."""
    rule = RULES_BY_KEY.get(key)
    below = [known for known in RULES_BY_KEY if known.startswith(f"{key}.")]
    if below and isinstance(value, Mapping):
        for name, item in value.items():
            inner = f"{key}.{name}"
            if rule is not None and not any(known == inner or known.startswith(f"{inner}.") for known in below):
                made.leave_out(inner, rule.note)
            else:
                convert_key(inner, item, public, made)
    elif value is None and not (rule and rule.becomes):
        return  # an empty section, or a switch that is off
    elif rule is None:
        made.leave_out(key, UNKNOWN)
    elif rule.becomes is None:
        made.leave_out(key, rule.note)
    else:
        apply_rule(rule, value, public, made)


def apply_rule(rule: KeyRule, value: Any, public: Mapping[str, Any], made: Conversion) -> None:
    """Take over a value under our key."""
    assert rule.becomes is not None
    if rule.key == "models":
        made.settings["models"] = list(convert_models(value, made))
    elif rule.key == "tools":
        made.settings["tools"] = list(convert_tools(value, made))
    elif reason := find_condition(rule.key, value, public):
        made.leave_out(rule.key, reason)
    else:
        made.put(rule.becomes, rule.convert(value) if rule.convert else value)
        if rule.becomes != rule.key:
            made.changed.append(f"{rule.key} is now {rule.becomes}")


def find_condition(key: str, value: Any, public: Mapping[str, Any]) -> str | None:
    """Return why a value does not apply, although its key has a counterpart; None if it does."""
    if key == "token_budget.max_tokens" and not get_value(public, "token_budget", "enabled"):
        return "`token_budget.enabled` is not true"
    if key == "database.postgres_url" and get_value(public, "database", "backend") != "postgres":
        return "`database.backend` is not postgres"
    if key == "sandbox.use" and str(value).startswith("deerflow.") and value not in SANDBOX_PROVIDERS:
        return f"there is no provider {value!r} here; the local one is used"
    if key == "guardrails.provider" and "deerflow.guardrails.builtin:" in str(get_value({"a": value}, "a", "use")):
        return "write the tools that it denies to policy.yaml"
    return None


def get_value(settings: Mapping[str, Any], section: str, key: str) -> Any:
    """Return a value of a section; None if there is none."""
    found = settings.get(section)
    return found.get(key) if isinstance(found, Mapping) else None


def convert_models(entries: Any, made: Conversion) -> Iterator[dict[str, Any]]:
    """Yield the entries of `models:`."""
    for number, entry in enumerate(entries if isinstance(entries, list) else []):
        key = f"models[{number}]"
        if not isinstance(entry, Mapping):
            made.leave_out(key, "is not a mapping")
            continue
        use = str(entry.get("use", ""))
        if use.startswith(LOGIN_CLASSES):
            made.leave_out(f"{key} ({entry.get('name')})", "logins of subscriptions are not supported; use an API key")
            continue
        yield convert_model(key, dict(entry), made)


def convert_model(key: str, entry: dict[str, Any], made: Conversion) -> dict[str, Any]:
    """Return one entry of `models:`."""
    use = str(entry.get("use", ""))
    if (prices := entry.pop("pricing", None)) is not None:
        convert_prices(f"{key}.pricing", prices, entry, made)
    if use in MODEL_CLASSES:
        entry = to_own_client(key, entry, made)
        if (base_url := MODEL_CLASSES[use]) is not None:
            entry.setdefault("base_url", base_url)
        made.changed.append(f"{key}.use: {OWN_CLIENT} replaces {use}")
    for wrong, name in find_near_misses(entry).items():
        made.leave_out(f"{key}.{wrong}", f"is mistaken for {name!r}")
        del entry[wrong]
    return entry


def to_own_client(key: str, entry: dict[str, Any], made: Conversion) -> dict[str, Any]:
    """Return an entry with the settings that our client has."""
    known = {*ModelConfig.model_fields, *OpenAICompatibleChatModel.model_fields}
    converted: dict[str, Any] = {}
    for name, value in entry.items():
        own = MODEL_KEYS.get(name, name)
        if own is None or own not in known:
            made.leave_out(f"{key}.{name}", "the client has no such setting")
        elif own == name or own not in entry:
            converted.setdefault(own, value)
    return {**converted, "use": OWN_CLIENT}


def convert_prices(key: str, prices: Any, entry: dict[str, Any], made: Conversion) -> None:
    """Add the prices to an entry of `models:`."""
    given = prices if isinstance(prices, Mapping) else {}
    for name in given.keys() - PRICE_KEYS.keys():
        made.leave_out(f"{key}.{name}", "is not one of our prices")
    converted = {PRICE_KEYS[name]: value for name, value in given.items() if name in PRICE_KEYS}
    if {"input", "output"} <= converted.keys():
        entry["pricing"] = converted
    else:
        made.leave_out(key, "needs the prices of input and output")


def convert_tools(entries: Any, made: Conversion) -> Iterator[dict[str, Any]]:
    """Yield the entries of `tools:`."""
    built_in: list[str] = []
    for number, entry in enumerate(entries if isinstance(entries, list) else []):
        key = f"tools[{number}]"
        if not isinstance(entry, Mapping):
            made.leave_out(key, "is not a mapping")
            continue
        use = str(entry.get("use", ""))
        label = f"{key} ({entry.get('name')})"
        if use.startswith(BUILT_IN_TOOLS):
            built_in.append(str(entry.get("name")))
            if extra := sorted(entry.keys() - {"name", "group", "use"}):
                made.leave_out(label, f"every agent has this tool; it has no setting {', '.join(extra)}")
            continue
        converted = {**entry, "use": TOOL_PATHS.get(use, use)}
        if converted["use"].startswith("deerflow.") and not (converted := check_tool(label, converted, made)):
            continue
        yield converted
    if built_in:
        made.changed.append(f"tools: every agent has {', '.join(built_in)}")


def check_tool(label: str, entry: dict[str, Any], made: Conversion) -> dict[str, Any]:
    """Return an entry with the settings that our tool of this name has; empty if there is no such tool."""
    try:
        tool = load_object(entry["use"])
    except ConfigError:
        made.leave_out(label, f"there is no tool {entry['use']!r} here")
        return {}
    names = set(tool.setting_names) if isinstance(tool, ConfigurableTool) else set()
    converted: dict[str, Any] = {}
    for key, value in entry.items():
        own = key if key in names else TOOL_KEYS.get(key, key)
        if own in names | {"name", "group", "use", "approval"}:
            converted[own] = value
        else:
            made.leave_out(f"{label}.{key}", "the tool has no such setting")
    try:
        load_tool(ToolConfig.model_validate(converted))
    except (ConfigError, ValidationError) as problem:
        kept = {key: value for key, value in converted.items() if key not in names}
        made.leave_out(f"{label}: {', '.join(converted.keys() - kept.keys())}", str(problem))
        return kept
    return converted


def convert_extensions(public: Mapping[str, Any]) -> Conversion:
    """Convert the content of an `extensions_config.json`. The result is valid; values that are not are left out."""
    made = Conversion()
    for key, value in public.items():
        if key in EXTENSION_KEYS:
            if value:
                made.leave_out(key, EXTENSION_KEYS[key])
        elif key == "mcpServers" and isinstance(value, Mapping):
            made.settings[key] = {name: convert_server(name, entry, made) for name, entry in value.items()}
        elif key == "skills" and isinstance(value, Mapping):
            made.settings[key] = {name: entry for name, entry in value.items() if isinstance(entry, Mapping)}
        else:
            made.leave_out(key, UNKNOWN)
    remove_invalid(Extensions, made)
    return made


def convert_server(name: str, entry: Any, made: Conversion) -> Any:
    """Return an entry of `mcpServers` without unknown keys."""
    if not isinstance(entry, Mapping):
        return entry
    known = {*find_fields(McpServerConfig, ()), "transport"}
    for key in entry.keys() - known:
        made.leave_out(f"mcpServers.{name}.{key}", UNKNOWN)
    kept = {key: value for key, value in entry.items() if key in known and value is not None}
    if {"type", "transport"} <= kept.keys():
        del kept["transport"]
    return kept


def remove_invalid(model: type[M], made: Conversion) -> None:
    """Leave out what `model` does not accept, until the rest is valid."""
    for _ in range(MAX_ROUNDS):
        try:
            validate(model, from_mapping(made.settings, "config.yaml"))
            return
        except InvalidConfig as invalid:
            problems = [each for each in invalid.problems if not is_variable(made.settings, each.path)]
            if not problems:
                return
            path = find_removable(made.settings, problems[0].path)
            made.leave_out(format_path(path), problems[0].text)
            remove(made.settings, path)


def find_removable(settings: Any, path: KeyPath) -> KeyPath:
    """Return the longest part of `path` that is there; a missing key makes its section invalid."""
    for end, key in enumerate(path):
        present = key in settings if isinstance(settings, dict) else isinstance(key, int) and key < len(settings)
        if not present:
            return path[:end]
        settings = settings[key]
    return path


def remove(settings: Any, path: KeyPath) -> None:
    """Remove what is at `path`."""
    *parents, last = path
    for key in parents:
        settings = settings[key]
    del settings[last]


def is_variable(settings: Any, path: KeyPath) -> bool:
    """Return True if the value at `path` refers to an environment variable, so its type is unknown."""
    for key in path:
        if not isinstance(settings, dict | list):
            return False
        try:
            settings = settings[key]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            return False
    return isinstance(settings, str) and "$" in settings


@dataclass(frozen=True, slots=True)
class ConvertedFile:
    """A file, its converted settings and its new content."""

    path: Path
    made: Conversion
    content: str


def format_config(file: Path, made: Conversion) -> str:
    """Return the text of the new `config.yaml`: a comment with what was left out, and the settings."""
    lines = [f"# Made from {file.name}{BACKUP_SUFFIX} by `deerflow config migrate`."]
    if made.left_out:
        lines += ["# Not taken over:", *(f"#   {each.key}: {one_line(each.reason)}" for each in made.left_out)]
    return "\n".join([*lines, "", to_yaml(made.settings)])


def one_line(text: str) -> str:
    """Return a text as one line of a comment."""
    return " ".join(text.split())


def write_files(converted: list[ConvertedFile]) -> Iterator[str]:
    """Keep the old files, write the new ones and yield a line for each. A file that does not change is left alone.

    Raises:
        ConfigError: A file cannot be written.
    """
    for each in converted:
        old = each.path.read_bytes()
        if old == each.content.encode():
            continue
        backup = find_free_name(each.path)
        replace_file(backup, old)
        replace_file(each.path, each.content.encode())
        yield f"wrote {each.path}; the old file is {backup}"


def find_free_name(path: Path) -> Path:
    """Return the name of the backup of a file; an older backup is kept."""
    backup = path.with_name(path.name + BACKUP_SUFFIX)
    number = 2
    while backup.exists():
        backup = path.with_name(f"{path.name}{BACKUP_SUFFIX}-{number}")
        number += 1
    return backup


def report(converted: list[ConvertedFile]) -> Iterator[str]:
    """Yield the lines about changed settings and those that were left out."""
    for each in converted:
        yield from (f"{each.path.name}: {line}" for line in each.made.changed)
        yield from (
            f"{each.path.name}: not taken over: {entry.key}: {one_line(entry.reason)}" for entry in each.made.left_out
        )
