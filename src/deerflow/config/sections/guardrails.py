"""`guardrails:` and `policy.yaml` — checks before a tool is called."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from deerflow.config import InvalidPattern, compile_linear
from deerflow.config.loader.files import parse_yaml, read_text
from deerflow.config.loader.validation import validate
from deerflow.config.sections.base import Section, make_error, make_validation_error
from deerflow.domain.errors import ConfigError


class GuardrailProviderConfig(Section):
    """The class of a guardrail provider."""

    use: str = Field(description='Provider class, as "module:Class".')
    config: Mapping[str, Any] = Field(default_factory=dict, description="Arguments of the class.")


class GuardrailsConfig(Section):
    """Checks of tool calls."""

    enabled: bool = Field(default=True, description="Check every tool call before it is made.")
    fail_closed: bool = Field(default=True, description="Deny a call when the check itself fails.")
    policy: str | None = Field(
        default=None,
        min_length=1,
        description="Policy file; default: policy.yaml next to config.yaml.",
    )
    provider: GuardrailProviderConfig | None = Field(
        default=None, description="Provider that checks calls in addition to the policy."
    )


POLICY_NAME = "policy.yaml"
Outcome = Literal["allow", "ask", "deny"]
ToolSource = Literal["builtin", "configured", "web", "mcp"]


def to_list(given: object) -> object:
    """Return one or several values as a list."""
    return [given] if isinstance(given, str) else given


Patterns = Annotated[tuple[str, ...], BeforeValidator(to_list), Field(strict=False, min_length=1)]
Sources = Annotated[tuple[ToolSource, ...], BeforeValidator(to_list), Field(strict=False, min_length=1)]


class ArgumentRule(Section):
    """Conditions on an argument; all that are set must hold."""

    equals: str | int | float | bool | None = Field(default=None, description="Equal to this value.")
    glob: Patterns | None = Field(default=None, description="Text that matches one of these globs.")
    regex: str | None = Field(
        default=None, description="Contains a match of this regular expression; no backreferences or lookaround."
    )
    host: Patterns | None = Field(default=None, description="URL on one of these hosts, such as a.org or *.a.org.")
    known: bool | None = Field(
        default=None,
        description="True if the user wrote it or it was read in this thread, so that sending it discloses nothing.",
    )
    ordinary: bool | None = Field(default=None, description="True if it consists only of common words and known ones.")
    negated: bool = Field(default=False, description="Negate the condition.")

    @field_validator("regex")
    @classmethod
    def _check_regex(cls, regex: str | None) -> str | None:
        try:
            if regex is not None:
                compile_linear(regex)
        except InvalidPattern as problem:
            raise make_error(str(problem)) from None
        return regex

    @model_validator(mode="after")
    def _check_not_empty(self) -> Self:
        conditions = ("equals", "glob", "regex", "host", "known", "ordinary")
        if all(getattr(self, name) is None for name in conditions):
            raise make_error(f"has no condition; set one of {', '.join(conditions)}")
        return self


class PolicyRule(Section):
    """A rule: the calls it applies to, and their outcome."""

    name: str = Field(min_length=1, max_length=100, description="Name of the rule in reports.")
    outcome: Outcome = Field(description="Outcome of the call.")
    reason: str = Field(min_length=1, max_length=500, description="Reason shown to the user or the model.")
    allow_in_thread: bool = Field(
        default=True, description="A user who is asked may allow such calls for the rest of the thread."
    )
    tool: Patterns = Field(default=("*",), description="Globs of tool names.")
    source: Sources | None = Field(default=None, description="Source of the tool.")
    server: Patterns | None = Field(default=None, description="MCP server of the tool.")
    agent: Patterns | None = Field(
        default=None, description="Custom agent that makes the call; `default` for the default agent."
    )
    user: Patterns | None = Field(default=None, description="Owner of the thread.")
    channel: Patterns | None = Field(default=None, description="Channel of the message; `web` by default.")
    subagent: bool | None = Field(default=None, description="True if a subagent makes the call.")
    reaches_out: bool | None = Field(default=None, description="True if the tool can send data out.")
    untrusted: bool | None = Field(default=None, description="True if untrusted content was read in this thread.")
    elsewhere: bool | None = Field(
        default=None, description="True if some of it came from another source than the tool's own server."
    )
    arguments: Mapping[str, ArgumentRule] = Field(
        default_factory=dict, description="Conditions on arguments by name; '*': any argument."
    )


class PolicyConfig(Section):
    """The content of `policy.yaml`. The first matching rule decides."""

    version: Literal[1] = Field(default=1, description="Config schema version.")
    rules: tuple[PolicyRule, ...] = Field(default=(), strict=False, description="Rules in order of precedence.")
    shipped_rules: bool = Field(default=True, description="Apply the default rules after these.")
    otherwise: Outcome = Field(default="allow", description="Outcome when no rule matches.")

    @field_validator("rules")
    @classmethod
    def _check_unique_names(cls, rules: tuple[PolicyRule, ...]) -> tuple[PolicyRule, ...]:
        names = [rule.name for rule in rules]
        repeated = [index for index, name in enumerate(names) if name in names[:index]]
        if repeated:
            raise make_validation_error(
                cls.__name__,
                {(index, "name"): "another rule has this name; names must be unique" for index in repeated},
            )
        return rules


def read_policy(file: Path, name: str | None = None) -> PolicyConfig:
    """Return the policy in a file.

    Raises:
        ConfigError: The file cannot be read or is invalid; the text says what is wrong and where.
    """
    called = name or file.name
    return parse_policy(read_text(file, called), called)


def parse_policy(text: str, name: str = POLICY_NAME) -> PolicyConfig:
    """Return the policy in a text that errors call `name`.

    Raises:
        ConfigError: The policy is invalid.
    """
    return validate(PolicyConfig, parse_yaml(text, name))


@cache  # immutable, and needed by every agent
def load_default_policy() -> PolicyConfig:
    """Return the default rules."""
    return parse_policy(read_package_file("policy.default.yaml"), "policy.default.yaml")


def read_package_file(name: str) -> str:
    """Return the text of a file in this package."""
    return files("deerflow.config").joinpath(name).read_text(encoding="utf-8")


def make_deny_all_policy(problem: ConfigError) -> PolicyConfig:
    """Return the policy that denies all calls while the configured one is invalid."""
    reason = f"the policy is invalid, so all tool calls are denied until it is fixed: {problem}"[:500]
    rule = PolicyRule(name="unreadable-policy", outcome="deny", reason=reason)
    return PolicyConfig(rules=(rule,), shipped_rules=False, otherwise="deny")
