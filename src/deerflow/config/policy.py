"""`policy.yaml`: rules about which calls of tools are made, which a person is asked about, and which are refused."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from deerflow.config.files import read_text
from deerflow.config.patterns import BadPattern, compile_linear
from deerflow.config.reading.text import parse_yaml
from deerflow.config.reading.validation import validate
from deerflow.config.section import Section, objection, refusal
from deerflow.domain.errors import ConfigError

POLICY_NAME = "policy.yaml"
Outcome = Literal["allow", "ask", "deny"]
ToolSource = Literal["builtin", "configured", "web", "mcp"]


def as_list(given: object) -> object:
    """One or several, as a list."""
    return [given] if isinstance(given, str) else given


Patterns = Annotated[tuple[str, ...], BeforeValidator(as_list), Field(strict=False, min_length=1)]
Sources = Annotated[tuple[ToolSource, ...], BeforeValidator(as_list), Field(strict=False, min_length=1)]


class ArgumentRule(Section):
    """What an argument is like; everything that is said of it has to hold."""

    equals: str | int | float | bool | None = Field(default=None, description="It is exactly this.")
    glob: Patterns | None = Field(default=None, description="It is a text like one of these; * stands for anything.")
    regex: str | None = Field(default=None, description="This is found in it; no backreferences, no lookaround.")
    host: Patterns | None = Field(
        default=None, description="It is an address of one of these hosts, as a.org, *.a.org."
    )
    known: bool | None = Field(
        default=None,
        description="Whether the user wrote it, or it was read as it stands in this thread, so that it tells nothing.",
    )
    ordinary: bool | None = Field(default=None, description="Whether it consists of common words and known ones.")
    negated: bool = Field(default=False, description="Whether the argument has to be otherwise.")

    @field_validator("regex")
    @classmethod
    def _can_be_matched(cls, regex: str | None) -> str | None:
        try:
            if regex is not None:
                compile_linear(regex)
        except BadPattern as problem:
            raise objection(str(problem)) from None
        return regex

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        said = ("equals", "glob", "regex", "host", "known", "ordinary")
        if all(getattr(self, name) is None for name in said):
            raise objection(f"says nothing about the argument; give one of {', '.join(said)}")
        return self


class PolicyRule(Section):
    """One rule: what kind of call it is about, and what becomes of such a call."""

    name: str = Field(min_length=1, max_length=100, description="What reports call it.")
    outcome: Outcome = Field(description="What becomes of the call.")
    reason: str = Field(min_length=1, max_length=500, description="What the person who is asked, or the model, reads.")
    tool: Patterns = Field(default=("*",), description="Names of tools; * stands for anything.")
    source: Sources | None = Field(default=None, description="Where the tool comes from.")
    server: Patterns | None = Field(default=None, description="The MCP server that offers the tool.")
    agent: Patterns | None = Field(default=None, description="The custom agent that calls; `default` without one.")
    user: Patterns | None = Field(default=None, description="Whose thread it is.")
    channel: Patterns | None = Field(default=None, description="Where the message came from; `web` by default.")
    subagent: bool | None = Field(default=None, description="Whether a subagent calls.")
    reaches_out: bool | None = Field(default=None, description="Whether the tool can send something elsewhere.")
    untrusted: bool | None = Field(default=None, description="Whether words of strangers were read in this thread.")
    elsewhere: bool | None = Field(
        default=None, description="Whether some of them came from elsewhere than the tool's own server."
    )
    arguments: Mapping[str, ArgumentRule] = Field(
        default_factory=dict, description="What arguments are like, by their names; '*': any of them."
    )


class PolicyConfig(Section):
    """The whole of `policy.yaml`. The first rule that fits decides."""

    version: Literal[1] = Field(default=1, description="Which edition of this file format was followed.")
    rules: tuple[PolicyRule, ...] = Field(default=(), strict=False, description="Looked at in this order.")
    shipped_rules: bool = Field(default=True, description="Whether the rules that come with DeerFlow follow.")
    otherwise: Outcome = Field(default="allow", description="What becomes of a call that no rule fits.")

    @field_validator("rules")
    @classmethod
    def _names_are_unique(cls, rules: tuple[PolicyRule, ...]) -> tuple[PolicyRule, ...]:
        names = [rule.name for rule in rules]
        repeated = [index for index, name in enumerate(names) if name in names[:index]]
        if repeated:
            raise refusal(
                cls.__name__,
                {(index, "name"): "another rule has this name; names must be unique" for index in repeated},
            )
        return rules


def read_policy(file: Path, name: str | None = None) -> PolicyConfig:
    """The policy in a file.

    Raises:
        ConfigError: There is none that can be read; the text says what is wrong, and where.
    """
    called = name or file.name
    return parse_policy(read_text(file, called), called)


def parse_policy(text: str, name: str = POLICY_NAME) -> PolicyConfig:
    """The policy that a text describes, which errors call `name`.

    Raises:
        ConfigError: It describes none.
    """
    return validate(PolicyConfig, parse_yaml(text, name))


@cache  # it never changes, and every agent needs it
def shipped_policy() -> PolicyConfig:
    """The rules that come with DeerFlow."""
    return parse_policy(shipped_text("policy.default.yaml"), "policy.default.yaml")


def shipped_text(name: str) -> str:
    """A file that comes with the package."""
    return files("deerflow.config").joinpath(name).read_text(encoding="utf-8")


def refusing(problem: ConfigError) -> PolicyConfig:
    """What holds while a policy cannot be read: nothing is called."""
    reason = f"the policy cannot be read, so no tool is used until it is put right: {problem}"[:500]
    rule = PolicyRule(name="unreadable-policy", outcome="deny", reason=reason)
    return PolicyConfig(rules=(rule,), shipped_rules=False, otherwise="deny")
