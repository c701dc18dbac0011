"""Storage of the uploads of one thread: files and records. All methods block."""

import hashlib
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError

from deerflow.domain.errors import FileProblem, NotFound
from deerflow.domain.files import UPLOADS, ConversionState, FileEntry, Outline, UploadedFile
from deerflow.sandbox.files.files import list_files, remove_file
from deerflow.sandbox.files.mounts import Mount, ResolvedPath, file_owner, resolve_path, thread_folder, user_data_mounts
from deerflow.sandbox.snapshots.snapshots import Snapshots
from deerflow.uploads.conversion import ConversionFailure, ConvertedDocument, is_convertible
from deerflow.uploads.receiver import open_upload_folder


@dataclass(frozen=True, slots=True)
class UploadRecord:
    """Record of an upload. Without `markdown_file` and `problem`, its conversion has not completed."""

    filename: str
    original_filename: str
    markdown_file: str | None = None
    outline: Outline | None = None
    problem: str | None = None
    """Reason why the conversion failed."""
    delay: str | None = None
    """Reason why it has not been converted yet."""


@dataclass(frozen=True, slots=True)
class UploadRecords:
    """Records in `folder`, one JSON file per upload."""

    folder: Path

    def read(self, filename: str) -> UploadRecord | None:
        """Return the record of an upload, or None."""
        return read_record(self._file(filename))

    def read_all(self) -> dict[str, UploadRecord]:
        """Return all records by file name."""
        return {record.filename: record for record in self._records()}

    def write(self, record: UploadRecord) -> None:
        """Write a record atomically."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = self.folder / f".{uuid4().hex}"
        try:
            temporary.write_bytes(RECORD_ADAPTER.dump_json(record))
            temporary.replace(self._file(record.filename))
        finally:
            temporary.unlink(missing_ok=True)

    def delete(self, filename: str) -> None:
        """Delete the record of an upload."""
        self._file(filename).unlink(missing_ok=True)

    def _file(self, filename: str) -> Path:
        # Hashed, because a name with an added suffix may be too long, and may contain slashes.
        return self.folder / f"{hashlib.sha256(os.fsencode(filename)).hexdigest()}.json"

    def _records(self) -> Iterator[UploadRecord]:
        with suppress(FileNotFoundError):
            for file in self.folder.glob("*.json"):
                if record := read_record(file):
                    yield record


RECORD_ADAPTER = TypeAdapter(UploadRecord)


def read_record(file: Path) -> UploadRecord | None:
    """Read a record. Return None if it is invalid, because its data can be recreated."""
    try:
        return RECORD_ADAPTER.validate_json(file.read_bytes())
    except (OSError, ValidationError):
        return None


@dataclass(frozen=True, slots=True)
class UploadStore:
    """Store for the uploads of one thread."""

    owner: str
    thread_id: str
    mount: Mount
    records: UploadRecords
    snapshots: Snapshots

    @classmethod
    def open(cls, home: Path, owner: str, thread_id: str) -> "UploadStore":
        folder = thread_folder(home, owner, thread_id)
        (mount,) = (each for each in user_data_mounts(folder / "user-data") if each.path == UPLOADS)
        snapshots = Snapshots(folder / "snapshots", folder / "user-data")
        return cls(owner, thread_id, mount, UploadRecords(folder / "upload-records"), snapshots)

    def list_files(self, converting: Collection[str], *, conversion_enabled: bool) -> Sequence[UploadedFile]:
        """Return all uploads, newest first. The Markdown of a document is part of it, not a separate file."""
        found = list_files(ResolvedPath(self.mount, ()))
        records, names = self.records.read_all(), {get_filename(entry) for entry in found}
        derived = {record.markdown_file for name, record in records.items() if name in names}
        files = [
            build_uploaded_file(
                entry, records.get(get_filename(entry)), names, get_filename(entry) in converting, conversion_enabled
            )
            for entry in found
            if get_filename(entry) not in derived
        ]
        return sorted(files, key=lambda file: (file.modified, file.filename), reverse=True)

    def add_records(self, records: Sequence[UploadRecord]) -> None:
        """Add records of new uploads. Records whose Markdown had one of their names are reset."""
        names = {record.filename for record in records}
        for other in self.records.read_all().values():
            if other.markdown_file in names:
                self.records.write(replace(other, markdown_file=None, outline=None))
        for record in records:
            self.records.write(record)

    def remove(self, filename: str) -> None:
        """Remove an upload and its Markdown.

        Raises:
            NotFound: There is no such upload.
        """
        record = self.records.read(filename)
        markdown_file = record.markdown_file if record is not None else None
        with self.snapshots.adopt_user_changes([f"{UPLOADS}/{name}" for name in (filename, markdown_file) if name]):
            try:
                remove_file(self._resolve(filename))
            except FileProblem:
                raise NotFound(f"no upload {filename!r}") from None
            if record is not None:
                self.records.delete(filename)
            if markdown_file is not None:
                with suppress(FileProblem):  # already removed
                    remove_file(self._resolve(markdown_file))

    def save_conversion(self, filename: str, staged: str, outcome: ConvertedDocument | ConversionFailure) -> None:
        """Save the outcome of a conversion, unless the upload was removed."""
        record = self.records.read(filename)
        if record is None:
            return
        cleared = replace(record, markdown_file=None, outline=None, problem=None, delay=None)
        if isinstance(outcome, ConvertedDocument):
            paths: list[str] = []
            with self.snapshots.adopt_user_changes(paths), open_upload_folder(self.mount, file_owner()) as folder:
                name = folder.publish(staged, f"{PurePosixPath(filename).stem}.md")
                paths.append(f"{UPLOADS}/{name}")
            self.records.write(replace(cleared, markdown_file=name, outline=outcome.outline))
        elif outcome.is_retryable:
            self.records.write(replace(cleared, delay=outcome.reason))
        else:
            self.records.write(replace(cleared, problem=outcome.reason))

    def discard(self, staged: str) -> None:
        """Remove a staged file if it exists."""
        with open_upload_folder(self.mount, file_owner()) as folder:
            folder.discard(staged)

    def copy_records(self, other: "UploadStore") -> None:
        """Copy all records to the store of another thread that has the same files."""
        for record in self.records.read_all().values():
            other.records.write(record)

    def _resolve(self, filename: str) -> ResolvedPath:
        resolved = resolve_path([self.mount], f"{UPLOADS}/{filename}")
        if not resolved.parts:
            raise NotFound(f"no upload {filename!r}")
        return resolved


def get_filename(entry: FileEntry) -> str:
    """Return the path of a file relative to the uploads folder."""
    return entry.path.removeprefix(f"{UPLOADS}/")


def build_uploaded_file(
    entry: FileEntry, record: UploadRecord | None, names: Collection[str], is_converting: bool, conversion_enabled: bool
) -> UploadedFile:
    """Return a file with the data of its record."""
    file = UploadedFile(get_filename(entry), entry.size, entry.modified_at)
    if record is None:
        return file
    file = replace(file, original_filename=record.original_filename)
    if is_converting:
        return replace(file, conversion="converting", note="it is being converted to Markdown")
    if record.markdown_file in names:
        return replace(file, conversion="converted", markdown_file=record.markdown_file, outline=record.outline)
    state, note = get_conversion_state(record, file.filename, conversion_enabled)
    return replace(file, conversion=state, note=note)


def get_conversion_state(
    record: UploadRecord, filename: str, conversion_enabled: bool
) -> tuple[ConversionState, str | None]:
    """Return the conversion state and note of an upload that is neither converted nor being converted."""
    if record.problem is not None:
        return "failed", record.problem
    if conversion_enabled and is_convertible(filename):
        return "pending", record.delay or "it has not been converted to Markdown yet"
    return "none", None
