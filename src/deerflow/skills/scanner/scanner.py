"""Skill scanner: package rules in this process, content rules in a child process with limits."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import TypeAdapter, ValidationError

from deerflow.domain.errors import SkillRefused
from deerflow.sandbox.files.mounts import file_owner
from deerflow.sandbox.jobs import run_child
from deerflow.skills.scanner.rules import MAX_ALL_TEXT, Finding, ScannedFile, check_package, select_blocking

CHILD_MODULE = "deerflow.skills.scanner.content"
MAX_CONCURRENT_SCANS = 2
MAX_RESULT_BYTES = 16 * 1024**2
FINDINGS: TypeAdapter[list[Finding]] = TypeAdapter(list[Finding])
MAX_LISTED = 5


@dataclass(frozen=True, slots=True)
class ScanReport:
    """Findings of a scan."""

    findings: tuple[Finding, ...] = ()
    is_executable: bool = False
    """True if the skill has scripts."""

    @property
    def blocking(self) -> tuple[Finding, ...]:
        """Findings that block the skill."""
        return select_blocking(self.findings)

    def check(self) -> None:
        """Refuse a skill with blocking findings.

        Raises:
            SkillRefused: There are blocking findings.
        """
        blocking_findings = self.blocking
        if blocking_findings:
            more = f"; and {len(blocking_findings) - MAX_LISTED} more" if len(blocking_findings) > MAX_LISTED else ""
            raise SkillRefused(f"refused by the scanner: {'; '.join(map(str, blocking_findings[:MAX_LISTED]))}{more}")


@dataclass(frozen=True, slots=True)
class ScanLimits:
    """Resource limits of the child process."""

    wall_s: float = 30.0
    cpu_s: int = 20
    memory_bytes: int = 1024**3


@dataclass(frozen=True, slots=True)
class SkillScanner:
    """Scanner that runs a child process for each skill, with limited concurrency."""

    limits: ScanLimits = ScanLimits()
    semaphore: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_CONCURRENT_SCANS))

    async def scan(self, files: Sequence[ScannedFile]) -> ScanReport:
        """Scan the files of a skill.

        Raises:
            SkillRefused: The files cannot be scanned.
        """
        findings = list(check_package(files))
        texts = [file for file in files if file.is_text and file.content and not file.is_link]
        if sum(len(file.content) for file in texts) <= MAX_ALL_TEXT:
            findings += await self._scan_texts(texts)
        return ScanReport(tuple(findings), any(file.is_script for file in files))

    async def _scan_texts(self, texts: Sequence[ScannedFile]) -> Sequence[Finding]:
        if not texts:
            return ()
        listing = json.dumps([[file.path, len(file.content)] for file in texts])
        async with self.semaphore:
            output = await self._run(listing.encode() + b"\n" + b"".join(file.content for file in texts))
        try:
            return FINDINGS.validate_json(output)
        except ValidationError:
            raise SkillRefused("the skill could not be scanned; simplify its files") from None

    async def _run(self, data: bytes) -> bytes:
        """Return the output of a child process, empty if it failed."""
        limits = self.limits
        options = {"cpu_s": limits.cpu_s, "memory_bytes": limits.memory_bytes, "uid": file_owner()}
        return await run_child(("-m", CHILD_MODULE, json.dumps(options)), data, limits.wall_s, MAX_RESULT_BYTES)
