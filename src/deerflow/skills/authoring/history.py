"""Change history of skills, kept after a skill is deleted so that each change can be undone."""

import json
import logging
import os
import shutil
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import IO, Literal

from pydantic import BaseModel, ValidationError

from deerflow.config.loader.files import replace_file
from deerflow.sandbox.snapshots.comparison import diff_texts
from deerflow.skills.authoring.lock import SkillSource
from deerflow.skills.scanner.rules import Finding

logger = logging.getLogger(__name__)

ChangeAction = Literal[
    "create", "edit", "patch", "delete", "write_file", "remove_file", "install", "update", "rollback"
]
AuthorKind = Literal["person", "agent"]
MAX_ENTRIES = 500
MAX_BYTES = 32 * 1024**2
LOG_FILE, BACKUP_FOLDER = "log.jsonl", "kept"


class Verdict(BaseModel):
    """Result of scan and review of an accepted change."""

    decision: Literal["allow", "warn"] = "allow"
    reason: str = ""
    findings: list[Finding] = []


class HistoryEntry(BaseModel):
    """One change of a skill."""

    id: str
    at: datetime
    action: ChangeAction
    author: AuthorKind
    thread_id: str | None = None
    file: str | None = None
    """Changed file; None for a change of the whole skill."""
    before: str | None = None
    """Content before the change; None if there was no file, or a binary one."""
    after: str | None = None
    kept: bool = False
    """True if there is a backup of the state before: of a whole skill, or of a binary file."""
    source: SkillSource | None = None
    """Source of the skill before a change of the whole skill."""
    scanner: Verdict = Verdict()

    @property
    def diff(self) -> str:
        """Unified diff of a text change."""
        if self.file is None or (self.kept and self.before is None):
            return ""
        old = None if self.before is None else f"/{self.file}"
        new = None if self.after is None else f"/{self.file}"
        return diff_texts(self.before or "", self.after or "", old, new).diff


class SkillHistoryLog:
    """Change log of one skill, in its own folder. All methods block; writers must hold the owner's lock."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def entries(self) -> Sequence[HistoryEntry]:
        """Return all entries, oldest first. Invalid lines are logged and skipped."""
        try:
            lines = (self._folder / LOG_FILE).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return ()
        return [entry for line in lines if (entry := self._parse_line(line)) is not None]

    def append(self, entry: HistoryEntry) -> None:
        """Append an entry. Above the limits, the oldest entries and their backups are removed."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self._folder / LOG_FILE).open("ab+") as log:
            if log.tell() and not ends_in_newline(log):
                log.write(b"\n")  # the previous write was interrupted
            log.write(to_json_line(entry))
            log.flush()
            os.fsync(log.fileno())
            is_long = log.tell() > MAX_BYTES
        if is_long or len(self.entries()) > MAX_ENTRIES:
            self._trim()

    def _trim(self) -> None:
        entries = self.entries()
        kept: list[bytes] = []
        for entry in reversed(entries):
            line = to_json_line(entry)
            if kept and (len(kept) == MAX_ENTRIES or sum(map(len, kept)) + len(line) > MAX_BYTES // 2):
                break
            kept.append(line)
        for old in entries[: len(entries) - len(kept)]:
            remove_path(self.backup_path(old.id))
        replace_file(self._folder / LOG_FILE, b"".join(reversed(kept)))

    def backup_path(self, entry_id: str) -> Path:
        """Return the path of the backup of an entry."""
        return self._folder / BACKUP_FOLDER / entry_id

    def clear(self) -> None:
        """Remove all entries and backups."""
        remove_path(self._folder)

    def _parse_line(self, line: str) -> HistoryEntry | None:
        try:
            return HistoryEntry.model_validate_json(line)
        except ValidationError:
            logger.warning("invalid line in the history of skill %s", self._folder.name)
            return None


def to_json_line(entry: HistoryEntry) -> bytes:
    """Return an entry as a line of the log."""
    return json.dumps(entry.model_dump(mode="json"), ensure_ascii=True).encode() + b"\n"


def ends_in_newline(log: IO[bytes]) -> bool:
    """Return True if the last line of a log is complete."""
    log.seek(-1, os.SEEK_END)
    return log.read(1) == b"\n"


def remove_path(path: Path) -> None:
    """Remove a file or a folder."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
