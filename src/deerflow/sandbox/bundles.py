"""Several files as one zip file, which is never whole in memory or on disk."""

import io
import stat
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath

from deerflow.domain.errors import FileProblem, TooLarge
from deerflow.domain.files import USER_DATA, FileEntry
from deerflow.sandbox.files import NoSuchFile, list_files, stat_file
from deerflow.sandbox.opened import open_file
from deerflow.sandbox.places import Spot

MAX_FILES = 10_000
MAX_BYTES = 2 * 1024**3
PIECE = 256 * 1024
NAMED = 20
"""So many of the missing are named."""
UNSAFE = frozenset('\\:*?"<>|')
"""What Windows takes for something else in a name, `\\` even for the end of a folder's."""
EARLIEST, LATEST = (1980, 1, 1, 0, 0, 0), (2107, 12, 31, 23, 59, 58)
"""The zip format knows no other times."""
FAST = 1


@dataclass(frozen=True, slots=True)
class Bundle:
    """Files that were there when they were asked for, under the names they have in the zip file."""

    files: tuple[tuple[str, Spot], ...]

    def pieces(self) -> Iterator[bytes]:
        """The zip file, piece by piece.

        Raises:
            FileProblem: A file has gone since; what was made until then is not a whole zip file.
        """
        return filter(None, self._pieces(Pipe()))

    def _pieces(self, pipe: "Pipe") -> Iterator[bytes]:
        with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED, compresslevel=FAST) as archive:
            for name, spot in self.files:
                yield from pack(archive, pipe, name, spot)
        yield pipe.take()


def gather(spots: Sequence[Spot]) -> Bundle:
    """The files at the spots, and those in the folders there, each once.

    Raises:
        FileProblem: Some are not there, or there is none at all.
        TooLarge: They are too many, or too large.
    """
    found: dict[str, tuple[Spot, int]] = {}
    missing: list[str] = []
    for spot in spots:
        try:
            for entry in files_at(spot):
                found[entry.path] = (spot_of(spot, entry), entry.size)
        except FileProblem:
            missing.append(spot.path)
        if len(found) > MAX_FILES:
            raise TooLarge(f"paths: at most {MAX_FILES} files can be had as one zip file; choose fewer")
    if missing:
        more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
        named = ", ".join(repr(path) for path in missing[:NAMED])
        raise NoSuchFile(f"there is no file or folder {named}{more}; nothing was bundled")
    if not found:
        raise NoSuchFile("there are no files to bundle")
    if sum(size for _, size in found.values()) > MAX_BYTES:
        raise TooLarge(f"paths: at most {MAX_BYTES // 1024**3} GB can be had as one zip file; choose fewer")
    names = distinct(zip_name(path) for path in found)
    return Bundle(tuple(zip(names, (spot for spot, _ in found.values()), strict=True)))


def files_at(spot: Spot) -> Sequence[FileEntry]:
    """The file at a spot, or the files in the folder there."""
    if not spot.names:
        return list_files(spot)
    try:
        return [stat_file(spot)]
    except NoSuchFile:
        raise
    except FileProblem:
        return list_files(spot)


def spot_of(spot: Spot, entry: FileEntry) -> Spot:
    """Where a file is that was found at or below a spot."""
    return Spot(spot.place, tuple(entry.path.removeprefix(f"{spot.place.path}/").split("/")))


def zip_name(path: str) -> str:
    """The name of a file in the zip file, which leads nowhere else on any system it may be unpacked on."""
    below = path.removeprefix(f"{USER_DATA}/")
    return "".join("_" if each in UNSAFE or not each.isprintable() else each for each in below)


def distinct(names: Iterable[str]) -> list[str]:
    """Names that stay different also where upper and lower case are the same."""
    taken: set[str] = set()
    chosen = []
    for name in names:
        path, other, number = PurePosixPath(name), name, 1
        while other.casefold() in taken:
            number += 1
            other = str(path.with_name(f"{path.stem} ({number}){path.suffix}"))
        taken.add(other.casefold())
        chosen.append(other)
    return chosen


def pack(archive: zipfile.ZipFile, pipe: "Pipe", name: str, spot: Spot) -> Iterator[bytes]:
    """What a file adds to the zip file."""
    file = open_file(spot)
    try:
        info = zipfile.ZipInfo(name, min(max(moment(file.modified_at), EARLIEST), LATEST))
        info.file_size = file.size
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = (stat.S_IFREG | 0o644) << 16
        place = 0
        with archive.open(info, "w") as target:
            while piece := file.read(place, PIECE):
                place += len(piece)
                target.write(piece)
                yield pipe.take()
        yield pipe.take()
    finally:
        file.close()


def moment(time: datetime) -> tuple[int, int, int, int, int, int]:
    """A time as zip files hold it."""
    return (time.year, time.month, time.day, time.hour, time.minute, time.second)


class Pipe(io.RawIOBase):
    """Where the zip file is written to, and taken from as it comes."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, piece: bytes) -> int:  # type: ignore[override]
        """Take in the next piece."""
        self._pieces.append(bytes(piece))
        return len(piece)

    def take(self) -> bytes:
        """What has come since the last time."""
        taken = b"".join(self._pieces)
        self._pieces.clear()
        return taken
