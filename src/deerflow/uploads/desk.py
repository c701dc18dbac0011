"""The uploads of one thread on this machine: its files and what is remembered of them. Every method blocks."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from deerflow.domain.errors import FileProblem, NotFound
from deerflow.domain.files import UPLOADS, FileEntry
from deerflow.domain.uploads import ConversionState, UploadedFile
from deerflow.sandbox.files import list_files, remove_file
from deerflow.sandbox.places import Place, Spot, file_owner, find_spot, thread_folder, user_data_places
from deerflow.sandbox.snapshots import Snapshots
from deerflow.uploads.conversion import Converted, Unconverted, is_convertible
from deerflow.uploads.folder import opened_folder
from deerflow.uploads.records import Record, Records


@dataclass(frozen=True, slots=True)
class Desk:
    """Where the uploads of a thread are."""

    owner: str
    thread_id: str
    place: Place
    records: Records
    snapshots: Snapshots

    @classmethod
    def of(cls, home: Path, owner: str, thread_id: str) -> "Desk":
        folder = thread_folder(home, owner, thread_id)
        (place,) = (each for each in user_data_places(folder / "user-data") if each.path == UPLOADS)
        snapshots = Snapshots(folder / "snapshots", folder / "user-data")
        return cls(owner, thread_id, place, Records(folder / "upload-records"), snapshots)

    def look(self, under_way: Collection[str], *, converts: bool) -> Sequence[UploadedFile]:
        """All uploads, newest first; the Markdown of a document is part of it, not a file of its own."""
        found = list_files(Spot(self.place, ()))
        records, names = self.records.read_all(), {name_of(entry) for entry in found}
        derived = {record.markdown_file for name, record in records.items() if name in names}
        shown = [
            uploaded(entry, records.get(name_of(entry)), names, name_of(entry) in under_way, converts)
            for entry in found
            if name_of(entry) not in derived
        ]
        return sorted(shown, key=lambda file: (file.modified, file.filename), reverse=True)

    def remember(self, records: Sequence[Record]) -> None:
        """Remember new uploads, also that they are not what was once made from others under the same names."""
        names = {record.filename for record in records}
        for other in self.records.read_all().values():
            if other.markdown_file in names:
                self.records.write(replace(other, markdown_file=None, outline=None))
        for record in records:
            self.records.write(record)

    def remove(self, filename: str) -> None:
        """Remove an upload with all that was made from it.

        Raises:
            NotFound: There is no such upload.
        """
        record = self.records.read(filename)
        made = record.markdown_file if record is not None else None
        with self.snapshots.users_change([f"{UPLOADS}/{name}" for name in (filename, made) if name]):
            try:
                remove_file(self._spot(filename))
            except FileProblem:
                raise NotFound(f"no upload {filename!r}") from None
            if record is not None:
                self.records.forget(filename)
            if made is not None:
                with suppress(FileProblem):  # somebody was faster
                    remove_file(self._spot(made))

    def take_in(self, filename: str, staged: str, outcome: Converted | Unconverted) -> None:
        """Keep what came of a conversion, unless the upload is gone meanwhile."""
        record = self.records.read(filename)
        if record is None:
            return
        bare = replace(record, markdown_file=None, outline=None, problem=None, delay=None)
        if isinstance(outcome, Converted):
            paths: list[str] = []
            with self.snapshots.users_change(paths), opened_folder(self.place, file_owner()) as folder:
                name = folder.publish(staged, f"{PurePosixPath(filename).stem}.md")
                paths.append(f"{UPLOADS}/{name}")
            self.records.write(replace(bare, markdown_file=name, outline=outcome.outline))
        elif outcome.can_change:
            self.records.write(replace(bare, delay=outcome.reason))
        else:
            self.records.write(replace(bare, problem=outcome.reason))

    def discard(self, staged: str) -> None:
        """Remove a staged file, if it is there."""
        with opened_folder(self.place, file_owner()) as folder:
            folder.discard(staged)

    def copy_records(self, other: "Desk") -> None:
        """Have another thread, which has the same files, know the same of them."""
        for record in self.records.read_all().values():
            other.records.write(record)

    def _spot(self, filename: str) -> Spot:
        spot = find_spot([self.place], f"{UPLOADS}/{filename}")
        if not spot.names:
            raise NotFound(f"no upload {filename!r}")
        return spot


def name_of(entry: FileEntry) -> str:
    """The path of a file from the uploads folder."""
    return entry.path.removeprefix(f"{UPLOADS}/")


def uploaded(
    entry: FileEntry, record: Record | None, names: Collection[str], is_under_way: bool, converts: bool
) -> UploadedFile:
    """A file with what is remembered of it."""
    file = UploadedFile(name_of(entry), entry.size, entry.modified_at)
    if record is None:
        return file
    file = replace(file, original_filename=record.original_filename)
    if is_under_way:
        return replace(file, conversion="converting", note="it is being converted to Markdown")
    if record.markdown_file in names:
        return replace(file, conversion="converted", markdown_file=record.markdown_file, outline=record.outline)
    state, note = standing(record, file.filename, converts)
    return replace(file, conversion=state, note=note)


def standing(record: Record, filename: str, converts: bool) -> tuple[ConversionState, str | None]:
    """How far an upload is that nobody works on and that is not converted, and why."""
    if record.problem is not None:
        return "failed", record.problem
    if converts and is_convertible(filename):
        return "pending", record.delay or "it has not been converted to Markdown yet"
    return "none", None
