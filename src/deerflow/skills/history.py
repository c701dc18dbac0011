"""What became of a skill, change by change, so that each can be seen and undone. It outlives the skill."""

import json
import logging
import os
import shutil
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import IO, Literal

from pydantic import BaseModel, ValidationError

from deerflow.config.files import replace_file
from deerflow.sandbox.differences import compare
from deerflow.skills.scanner.rules import Finding

logger = logging.getLogger(__name__)

Action = Literal["create", "edit", "patch", "delete", "write_file", "remove_file", "install", "rollback"]
AuthorKind = Literal["person", "agent"]
MAX_ENTRIES = 500
MAX_BYTES = 32 * 1024**2
LOG, KEPT = "log.jsonl", "kept"


class Verdict(BaseModel):
    """What scanner and review said of a change that was accepted."""

    decision: Literal["allow", "warn"] = "allow"
    reason: str = ""
    findings: list[Finding] = []


class HistoryEntry(BaseModel):
    """One change."""

    id: str
    at: datetime
    action: Action
    author: AuthorKind
    thread_id: str | None = None
    file: str | None = None
    """The file that was changed; None where it was the whole skill."""
    before: str | None = None
    """What the file said; None where there was none, or no text."""
    after: str | None = None
    kept: bool = False
    """Whether what there was before is kept as it was: a whole skill, or a file that is no text."""
    scanner: Verdict = Verdict()

    @property
    def diff(self) -> str:
        """The change of a text, as a unified diff."""
        if self.file is None or (self.kept and self.before is None):
            return ""
        old = None if self.before is None else f"/{self.file}"
        new = None if self.after is None else f"/{self.file}"
        return compare(self.before or "", self.after or "", old, new).diff


class History:
    """The log of one skill, in a folder of its own. Every method blocks; whoever writes holds the owner's lock."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def entries(self) -> Sequence[HistoryEntry]:
        """All that is known, oldest first; a line that cannot be read is left out and told of."""
        try:
            lines = (self._folder / LOG).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return ()
        return [entry for line in lines if (entry := self._entry(line)) is not None]

    def append(self, entry: HistoryEntry) -> None:
        """Note a change; of more than can be kept the oldest go, and with them what was kept for them."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self._folder / LOG).open("ab+") as log:
            if log.tell() and not ends_in_newline(log):
                log.write(b"\n")  # whoever wrote the line before was interrupted
            log.write(line_of(entry))
            log.flush()
            os.fsync(log.fileno())
            is_long = log.tell() > MAX_BYTES
        if is_long or len(self.entries()) > MAX_ENTRIES:
            self._shorten()

    def _shorten(self) -> None:
        entries = self.entries()
        kept: list[bytes] = []
        for entry in reversed(entries):
            line = line_of(entry)
            if kept and (len(kept) == MAX_ENTRIES or sum(map(len, kept)) + len(line) > MAX_BYTES // 2):
                break
            kept.append(line)
        for old in entries[: len(entries) - len(kept)]:
            discard(self.kept(old.id))
        replace_file(self._folder / LOG, b"".join(reversed(kept)))

    def kept(self, entry_id: str) -> Path:
        """Where what there was before a change is kept, if it is."""
        return self._folder / KEPT / entry_id

    def clear(self) -> None:
        """Forget everything; no change before this can be undone."""
        discard(self._folder)

    def _entry(self, line: str) -> HistoryEntry | None:
        try:
            return HistoryEntry.model_validate_json(line)
        except ValidationError:
            logger.warning("a line in the history of %s cannot be read", self._folder.name)
            return None


def line_of(entry: HistoryEntry) -> bytes:
    """An entry as it stands in the log."""
    return json.dumps(entry.model_dump(mode="json"), ensure_ascii=True).encode() + b"\n"


def ends_in_newline(log: IO[bytes]) -> bool:
    """Whether the last line of a log is whole."""
    log.seek(-1, os.SEEK_END)
    return log.read(1) == b"\n"


def discard(path: Path) -> None:
    """Have a file or a folder be gone."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
