"""Looks at a whole skill: its files as such here, what they say in a child process with limits."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import TypeAdapter, ValidationError

from deerflow.domain.errors import SkillRefused
from deerflow.sandbox.children import run_child
from deerflow.sandbox.places import file_owner
from deerflow.skills.scanner.package import MAX_ALL_TEXT, SkillFile, check_package
from deerflow.skills.scanner.rules import Finding, blocking

CHILD = "deerflow.skills.scanner.child"
AT_ONCE = 2
MAX_RESULT_BYTES = 16 * 1024**2
FINDINGS: TypeAdapter[list[Finding]] = TypeAdapter(list[Finding])
MAX_NAMED = 5


@dataclass(frozen=True, slots=True)
class ScanReport:
    """What the rules say of a skill."""

    findings: tuple[Finding, ...] = ()
    is_executable: bool = False
    """Whether it has scripts."""

    @property
    def blocking(self) -> tuple[Finding, ...]:
        """Those because of which it is refused."""
        return blocking(self.findings)

    def check(self) -> None:
        """Refuse a skill with critical findings.

        Raises:
            SkillRefused: There are some; the text names them.
        """
        worst = self.blocking
        if worst:
            more = f"; and {len(worst) - MAX_NAMED} more" if len(worst) > MAX_NAMED else ""
            raise SkillRefused(f"refused by the scanner: {'; '.join(map(str, worst[:MAX_NAMED]))}{more}")


@dataclass(frozen=True, slots=True)
class ScanLimits:
    """What a child may use."""

    wall_s: float = 30.0
    cpu_s: int = 20
    memory_bytes: int = 1024**3


@dataclass(frozen=True, slots=True)
class SkillScanner:
    """Starts a child for each skill, a few at a time."""

    limits: ScanLimits = ScanLimits()
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def scan(self, files: Sequence[SkillFile]) -> ScanReport:
        """What the rules say of a skill with these files.

        Raises:
            SkillRefused: It is so made that nobody can say.
        """
        findings = list(check_package(files))
        texts = [file for file in files if file.is_text and file.content and not file.is_link]
        if sum(len(file.content) for file in texts) <= MAX_ALL_TEXT:
            findings += await self._read(texts)
        return ScanReport(tuple(findings), any(file.is_script for file in files))

    async def _read(self, texts: Sequence[SkillFile]) -> Sequence[Finding]:
        if not texts:
            return ()
        listed = json.dumps([[file.path, len(file.content)] for file in texts])
        async with self.turns:
            output = await self._run(listed.encode() + b"\n" + b"".join(file.content for file in texts))
        try:
            return FINDINGS.validate_json(output)
        except ValidationError:
            raise SkillRefused("the skill is so made that it could not be looked at; make its files simpler") from None

    async def _run(self, sent: bytes) -> bytes:
        """What a child says; nothing if it has failed."""
        limits = self.limits
        given = {"cpu_s": limits.cpu_s, "memory_bytes": limits.memory_bytes, "uid": file_owner()}
        return await run_child(("-m", CHILD, json.dumps(given)), sent, limits.wall_s, MAX_RESULT_BYTES)
