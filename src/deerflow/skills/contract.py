"""`skill.toml`: the contract of a skill, enforced while it is active."""

import os
from pathlib import Path, PurePosixPath

from pydantic import Field, field_validator

from deerflow.config.loader.document import from_mapping
from deerflow.config.loader.files import O_CLOEXEC, O_NOFOLLOW, O_NONBLOCK
from deerflow.config.loader.validation import validate
from deerflow.config.sections.base import Section, make_error
from deerflow.config.sections.sandbox import VARIABLE, is_host
from deerflow.domain.errors import ConfigError, SkillInvalid
from deerflow.domain.files import OUTPUTS, UPLOADS, WORKSPACE
from deerflow.domain.sandbox import ANY_HOST, Confinement
from deerflow.domain.skills import SkillTerms

CONTRACT_FILE = "skill.toml"
MAX_CONTRACT_BYTES = 64 * 1024
WRITABLE_FOLDERS = (WORKSPACE, OUTPUTS, UPLOADS)


class Needs(Section):
    """`[needs]`. Hosts and variables that are not listed are denied. Omitted tools and paths are not restricted."""

    tools: tuple[str, ...] | None = Field(default=None, strict=False, description="Allowed tools.")
    paths: tuple[str, ...] | None = Field(
        default=None, strict=False, description="Writable folders; /tmp is always writable."
    )
    hosts: tuple[str, ...] = Field(
        default=(), strict=False, description='Reachable hosts, e.g. "*.example.org"; "*" allows every host.'
    )
    environment: tuple[str, ...] = Field(
        default=(), strict=False, description="Environment variables visible to its commands."
    )
    packages: tuple[str, ...] = Field(
        default=(), strict=False, description="Python packages that its scripts import, by their pip names."
    )

    @field_validator("hosts")
    @classmethod
    def _are_hosts(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        if any(host != ANY_HOST and not is_host(host.lower()) for host in hosts):
            raise make_error(
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
                raise make_error(f'must be folders in the sandbox, for instance "{OUTPUTS}"')
            if parents := [folder for folder in WRITABLE_FOLDERS if PurePosixPath(folder) in pure.parents]:
                raise make_error(f"must be a whole mount, not a subfolder; write {parents[0]!r}")
        return paths

    @field_validator("environment")
    @classmethod
    def _are_variables(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if any(not VARIABLE.fullmatch(name) for name in names):
            raise make_error("must be names of letters, digits and '_' that do not begin with a digit")
        return names


class Budget(Section):
    """`[budget]`: usage limits while a skill is active. If omitted, only the limits of the run apply."""

    seconds: float | None = Field(default=None, gt=0, strict=False, description="Maximum active time in seconds.")
    max_tool_calls: int | None = Field(default=None, ge=1, description="Maximum number of tool calls while active.")


class Contract(Section):
    """Content of a `skill.toml`."""

    needs: Needs = Field(default=Needs(), description="Access that the skill needs.")
    budget: Budget = Field(default=Budget(), description="Usage limits.")

    @property
    def terms(self) -> SkillTerms:
        """Terms enforced while the skill is active."""
        needs, budget = self.needs, self.budget
        confinement = Confinement(needs.paths, needs.hosts, frozenset(needs.environment))
        return SkillTerms(confinement, needs.packages, budget.seconds, budget.max_tool_calls)

    def restrict_tools(self, allowed: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Return the tools allowed by both SKILL.md and the contract; None means no restriction."""
        if allowed is None or self.needs.tools is None:
            return self.needs.tools if allowed is None else allowed
        return tuple(name for name in allowed if name in self.needs.tools)


NO_ACCESS = Contract(needs=Needs(paths=()))
"""Contract of skills that have none, where contracts are required."""


def read_contract(folder: Path) -> Contract | None:
    """Return the contract of the skill in `folder`, or None if it has none.

    Raises:
        SkillInvalid: The file is invalid.
    """
    try:
        # As for SKILL.md: do not follow links, and do not block on a pipe.
        descriptor = os.open(folder / CONTRACT_FILE, os.O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
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
    """Parse the content of a `skill.toml`.

    Raises:
        SkillInvalid: The content is invalid.
    """
    import tomllib  # loaded with the first contract

    try:
        data = tomllib.loads(content.decode())
    except UnicodeDecodeError:
        raise SkillInvalid(f"{CONTRACT_FILE}: is not UTF-8 text; save it in that encoding") from None
    except ValueError as problem:
        raise SkillInvalid(f"{CONTRACT_FILE}: is not valid TOML: {problem}") from None
    except RecursionError:
        raise SkillInvalid(f"{CONTRACT_FILE}: is nested too deeply") from None
    try:
        return validate(Contract, from_mapping(data, CONTRACT_FILE))
    except ConfigError as problem:
        raise SkillInvalid(str(problem)) from None


TESTS_FOLDER = "tests"


def find_tests(skill: Path) -> list[Path]:
    """Return the test files of a skill, sorted by name."""
    folder = skill / TESTS_FOLDER
    return sorted(file for file in folder.glob("*.yaml") if file.is_file()) if folder.is_dir() else []
