"""What is remembered of a thread's uploads besides the files, where no sandbox can reach it. Every method blocks."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError

from deerflow.domain.uploads import Outline


@dataclass(frozen=True, slots=True)
class Record:
    """An upload. Without `markdown_file` and `problem` nobody has tried to convert it to the end."""

    filename: str
    original_filename: str
    markdown_file: str | None = None
    outline: Outline | None = None
    problem: str | None = None
    """Why it cannot be converted, at the time with these limits."""
    delay: str | None = None
    """Why it has not been converted yet."""


@dataclass(frozen=True, slots=True)
class Records:
    """One small file for each upload, in `folder`."""

    folder: Path

    def read(self, filename: str) -> Record | None:
        """What is remembered of an upload."""
        return read_record(self._file(filename))

    def read_all(self) -> dict[str, Record]:
        """What is remembered of all uploads, by name."""
        return {record.filename: record for record in self._records()}

    def write(self, record: Record) -> None:
        """Remember an upload; a reader or a crash meets what was remembered before, or this."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = self.folder / f".{uuid4().hex}"
        try:
            temporary.write_bytes(ADAPTER.dump_json(record))
            temporary.replace(self._file(record.filename))
        finally:
            temporary.unlink(missing_ok=True)

    def forget(self, filename: str) -> None:
        """Remember an upload no longer."""
        self._file(filename).unlink(missing_ok=True)

    def _file(self, filename: str) -> Path:
        # A name may be longer than a file name can be once something is added, and may have slashes.
        return self.folder / f"{hashlib.sha256(os.fsencode(filename)).hexdigest()}.json"

    def _records(self) -> Iterator[Record]:
        with suppress(FileNotFoundError):
            for file in self.folder.glob("*.json"):
                if record := read_record(file):
                    yield record


ADAPTER = TypeAdapter(Record)


def read_record(file: Path) -> Record | None:
    """What a file says, if it can be understood: what is lost with it can be found out again."""
    try:
        return ADAPTER.validate_json(file.read_bytes())
    except (OSError, ValidationError):
        return None
