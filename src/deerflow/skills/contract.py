"""`skill.toml`: what a skill needs, and is held to while it is active."""

import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any, cast

from pydantic import Field, field_validator

from deerflow.config.imports import load_object
from deerflow.config.reading.document import from_argument
from deerflow.config.reading.validation import validate
from deerflow.config.sandbox import VARIABLE, is_host
from deerflow.config.section import Section, objection
from deerflow.domain.errors import ConfigError, SkillInvalid
from deerflow.domain.files import OUTPUTS, UPLOADS, WORKSPACE
from deerflow.domain.sandbox import EVERYWHERE, Confinement
from deerflow.domain.skill_terms import SkillTerms

CONTRACT_FILE = "skill.toml"
MAX_CONTRACT_BYTES = 64 * 1024
AREAS = (WORKSPACE, OUTPUTS, UPLOADS)


class Needs(Section):
    """`[needs]`. Hosts and variables that are not named are not had; tools and paths left out narrow nothing."""

    tools: tuple[str, ...] | None = Field(default=None, strict=False, description="The tools it may use.")
    paths: tuple[str, ...] | None = Field(
        default=None, strict=False, description="The folders it may write to; /tmp is always one of them."
    )
    hosts: tuple[str, ...] = Field(
        default=(), strict=False, description='The hosts it may reach, e.g. "*.example.org"; "*" is every host.'
    )
    environment: tuple[str, ...] = Field(default=(), strict=False, description="The variables its commands may see.")
    packages: tuple[str, ...] = Field(
        default=(), strict=False, description="Python packages its scripts import, by the names pip knows them by."
    )

    @field_validator("hosts")
    @classmethod
    def _are_hosts(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        if any(host != EVERYWHERE and not is_host(host.lower()) for host in hosts):
            raise objection(
                'must be host names like "docs.python.org" or "*.python.org", without scheme, port or path, '
                'or "*" for every host'
            )
        return tuple(host.lower() for host in hosts)

    @field_validator("paths")
    @classmethod
    def _are_folders(cls, paths: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for path in paths or ():
            pure = PurePosixPath(path)
            if not path.startswith("/mnt/") or ".." in pure.parts or str(pure) != path:
                raise objection(f'must be folders as the agent sees them, for instance "{OUTPUTS}"')
            if around := [area for area in AREAS if PurePosixPath(area) in pure.parents]:
                raise objection(f"whole folders are writable or not; write {around[0]!r}")
        return paths

    @field_validator("environment")
    @classmethod
    def _are_variables(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if any(not VARIABLE.fullmatch(name) for name in names):
            raise objection("must be names of letters, digits and '_' that begin with no digit")
        return names


class Budget(Section):
    """`[budget]`: how much a skill may use while it is active; left out, the limits of runs hold alone."""

    seconds: float | None = Field(default=None, gt=0, strict=False, description="So long may it be active.")
    max_tool_calls: int | None = Field(default=None, ge=1, description="So many tools may be called meanwhile.")


class Contract(Section):
    """The whole of a `skill.toml`."""

    needs: Needs = Field(default=Needs(), description="What the skill needs.")
    budget: Budget = Field(default=Budget(), description="How much it may use.")

    @property
    def terms(self) -> SkillTerms:
        """What an agent is held to while the skill is active."""
        needs, budget = self.needs, self.budget
        place = Confinement(needs.paths, needs.hosts, frozenset(needs.environment))
        return SkillTerms(place, needs.packages, budget.seconds, budget.max_tool_calls)

    def narrowed(self, allowed: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Of the tools that SKILL.md allows, those that the contract names; None: neither limits any."""
        if allowed is None or self.needs.tools is None:
            return self.needs.tools if allowed is None else allowed
        return tuple(name for name in allowed if name in self.needs.tools)


NOTHING = Contract(needs=Needs(paths=()))
"""What a skill without a contract is held to where everyone must have one."""


def read_contract(folder: Path) -> Contract | None:
    """The contract of the skill in `folder`; None: it has none.

    Raises:
        SkillInvalid: There is one, but it cannot be understood; the text says why.
    """
    try:
        # As for SKILL.md: neither a link nor a pipe may lead elsewhere, or hold the reader up.
        descriptor = os.open(folder / CONTRACT_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            content = file.read(MAX_CONTRACT_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise SkillInvalid(f"{CONTRACT_FILE}: cannot be read: {(problem.strerror or str(problem)).lower()}") from None
    if len(content) > MAX_CONTRACT_BYTES:
        raise SkillInvalid(f"{CONTRACT_FILE}: is larger than {MAX_CONTRACT_BYTES // 1024} KB")
    return parse_contract(content)


def parse_contract(content: bytes) -> Contract:
    """The contract in the content of a `skill.toml`.

    Raises:
        SkillInvalid: It cannot be understood.
    """
    parse = cast(Callable[[str], dict[str, Any]], load_object("tomllib:loads"))  # loaded with the first contract
    try:
        written = parse(content.decode())
    except UnicodeDecodeError:
        raise SkillInvalid(f"{CONTRACT_FILE}: is not UTF-8 text; save it in that encoding") from None
    except ValueError as problem:
        raise SkillInvalid(f"{CONTRACT_FILE}: is not valid TOML: {problem}") from None
    except RecursionError:
        raise SkillInvalid(f"{CONTRACT_FILE}: is nested too deeply") from None
    try:
        return validate(Contract, from_argument(written, CONTRACT_FILE))
    except ConfigError as problem:
        raise SkillInvalid(str(problem)) from None
