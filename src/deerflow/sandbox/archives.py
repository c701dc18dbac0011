"""Zip files: read members of `.skill` archives without unpacking, and stream several files as one zip file.

Archives come from agents and other untrusted sources. They are read in this process because every step is bounded
first: the central directory by `MAX_LIST`, the unpacked content by `MAX_MEMBER`, and only `deflate` is supported, whose
decoder is linear. Nothing is written, so no member name can escape a folder. A streamed zip file is never held as a
whole, neither in memory nor on disk.
"""

import io
import stat
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath
from typing import IO

from deerflow.domain.errors import FileProblem, TooLarge, UnusableFile
from deerflow.domain.files import USER_DATA, FileEntry
from deerflow.sandbox.file_access import InMemoryFile, OpenFile, ReadableFile, open_file
from deerflow.sandbox.files.files import NoSuchFile, list_files, stat_file
from deerflow.sandbox.files.mounts import ResolvedPath

EXTENSION = ".skill"
MAX_MEMBER = 16 * 1024 * 1024
MAX_LIST = 256 * 1024
"""Bytes of the central directory: about four thousand members."""
CHUNK_BYTES = 64 * 1024
SMALL_MEMBER = 1024 * 1024
"""A member of this size is never checked as a zip bomb."""
MAX_RATIO = 200
ENCRYPTED = 0x1
KNOWN_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, OverflowError, OSError)
"""Exceptions raised for files that are not valid zip archives."""


def split_at_archive(path: str) -> tuple[str, str] | None:
    """Split `path` into the archive path and the member name, or return None if it does not pass through an archive."""
    names = path.split("/")
    for number, name in enumerate(names[:-1], 1):
        if name.lower().endswith(EXTENSION) and any(names[number:]):
            return "/".join(names[:number]), "/".join(each for each in names[number:] if each not in ("", "."))
    return None


def read_member(archive: OpenFile, member: str) -> InMemoryFile:
    """Return a member of an archive.

    Raises:
        FileProblem: The member does not exist.
        UnusableFile: The archive or the member cannot be read.
    """
    where = f"{member!r} in {archive.name!r}"
    try:
        with zipfile.ZipFile(BoundedFile(archive)) as opened:
            info = find_member(opened, member, where)
            with opened.open(info) as inside:
                content = read_bounded(inside, info, where)
    except ZIP_ERRORS as problem:
        raise UnusableFile(f"{where} cannot be read: {str(problem).lower() or 'the archive is broken'}") from None
    name = PurePosixPath(member).name
    return InMemoryFile(name, content, archive.modified_at, f"{archive.tag}-{info.header_offset:x}", archive.is_settled)


def find_member(archive: zipfile.ZipFile, member: str, where: str) -> zipfile.ZipInfo:
    """Return the entry of a readable member."""
    try:
        info = archive.getinfo(member)
    except KeyError:
        raise FileProblem(f"there is no {where}") from None
    is_regular = stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG) and not info.is_dir()
    if not is_regular:
        raise UnusableFile(f"{where} is not a file")
    if info.flag_bits & ENCRYPTED:
        raise UnusableFile(f"{where} is encrypted; unpack the archive with its password first")
    if info.compress_type not in KNOWN_METHODS:
        raise UnusableFile(f"{where} uses an unsupported compression method; use deflate")
    if info.file_size > MAX_MEMBER:
        raise UnusableFile(f"{where} has more than {MAX_MEMBER // 1024**2} MB")
    return info


def read_bounded(inside: IO[bytes], info: zipfile.ZipInfo, where: str) -> bytes:
    """Return the content of a member without trusting the declared size."""
    limit = min(MAX_MEMBER, max(SMALL_MEMBER, info.compress_size * MAX_RATIO))
    content = bytearray()
    while chunk := inside.read(CHUNK_BYTES):
        content += chunk
        if len(content) > limit:
            raise UnusableFile(f"{where} grows to more than {MAX_RATIO} times its compressed size, like a zip bomb")
    return bytes(content)


class BoundedFile(io.RawIOBase):
    """File object for the zip reader that refuses long reads: a central directory may have any length."""

    def __init__(self, file: ReadableFile) -> None:
        self._file = file
        self._position = 0

    def seekable(self) -> bool:
        """Return True."""
        return True

    def readable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the current position."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position relative to the start, the current position or the end."""
        position = offset + (0, self._position, self._file.size)[whence]
        if position < 0:
            raise OSError("negative seek position")
        self._position = position
        return position

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; a read that is too long is refused, not cut."""
        length = min(size if size >= 0 else self._file.size, max(self._file.size - self._position, 0))
        if length > MAX_LIST:
            raise zipfile.BadZipFile("its central directory is too long")
        content = self._file.read(self._position, length)
        self._position += len(content)
        return content


MAX_FILES = 10_000
MAX_BYTES = 2 * 1024**3
BUNDLE_CHUNK_BYTES = 256 * 1024
MAX_NAMED = 20
"""Number of missing paths named in the error."""
UNSAFE_CHARACTERS = frozenset('\\:*?"<>|')
"""Characters with a special meaning in Windows paths, such as the separator `\\`."""
MIN_ZIP_TIME, MAX_ZIP_TIME = (1980, 1, 1, 0, 0, 0), (2107, 12, 31, 23, 59, 58)
"""Range of timestamps in the zip format."""
COMPRESSION_LEVEL = 1


@dataclass(frozen=True, slots=True)
class ZipBundle:
    """Files and their names in the zip file."""

    files: tuple[tuple[str, ResolvedPath], ...]

    def chunks(self) -> Iterator[bytes]:
        """Yield the zip file in chunks.

        Raises:
            FileProblem: A file was removed meanwhile; the output so far is not a valid zip file.
        """
        return filter(None, self._chunks(WriteBuffer()))

    def _chunks(self, buffer: "WriteBuffer") -> Iterator[bytes]:
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=COMPRESSION_LEVEL) as archive:
            for name, resolved in self.files:
                yield from stream_entry(archive, buffer, name, resolved)
        yield buffer.take()


def collect_bundle(resolved_paths: Sequence[ResolvedPath]) -> ZipBundle:
    """Return a bundle of the files at the paths and in the folders at the paths, each once.

    Raises:
        FileProblem: Some paths do not exist, or there are no files.
        TooLarge: There are too many files, or they are too large.
    """
    found: dict[str, tuple[ResolvedPath, int]] = {}
    missing: list[str] = []
    for resolved in resolved_paths:
        try:
            for entry in list_files_at(resolved):
                found[entry.path] = (resolve_entry(resolved, entry), entry.size)
        except FileProblem:
            missing.append(resolved.path)
        if len(found) > MAX_FILES:
            raise TooLarge(f"paths: at most {MAX_FILES} files fit in one zip file; choose fewer")
    if missing:
        more = f" and {len(missing) - MAX_NAMED} more" if len(missing) > MAX_NAMED else ""
        named = ", ".join(repr(path) for path in missing[:MAX_NAMED])
        raise NoSuchFile(f"there is no file or folder {named}{more}")
    if not found:
        raise NoSuchFile("there are no files to bundle")
    if sum(size for _, size in found.values()) > MAX_BYTES:
        raise TooLarge(f"paths: at most {MAX_BYTES // 1024**3} GB fit in one zip file; choose fewer")
    names = make_unique(make_zip_name(path) for path in found)
    return ZipBundle(tuple(zip(names, (resolved for resolved, _ in found.values()), strict=True)))


def list_files_at(resolved: ResolvedPath) -> Sequence[FileEntry]:
    """Return the file at a path, or the files in the folder there."""
    if not resolved.parts:
        return list_files(resolved)
    try:
        return [stat_file(resolved)]
    except NoSuchFile:
        raise
    except FileProblem:
        return list_files(resolved)


def resolve_entry(resolved: ResolvedPath, entry: FileEntry) -> ResolvedPath:
    """Return the resolved path of a file found at or below a resolved path."""
    return ResolvedPath(resolved.mount, tuple(entry.path.removeprefix(f"{resolved.mount.path}/").split("/")))


def make_zip_name(path: str) -> str:
    """Return a name for the zip file that stays inside the target folder on any operating system."""
    below = path.removeprefix(f"{USER_DATA}/")
    return "".join("_" if each in UNSAFE_CHARACTERS or not each.isprintable() else each for each in below)


def make_unique(names: Iterable[str]) -> list[str]:
    """Return the names, changed where they would collide on a case-insensitive file system."""
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


def stream_entry(archive: zipfile.ZipFile, buffer: "WriteBuffer", name: str, resolved: ResolvedPath) -> Iterator[bytes]:
    """Add a file to the archive and yield the bytes written."""
    file = open_file(resolved)
    try:
        info = zipfile.ZipInfo(name, min(max(to_zip_time(file.modified_at), MIN_ZIP_TIME), MAX_ZIP_TIME))
        info.file_size = file.size
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = (stat.S_IFREG | 0o644) << 16
        position = 0
        with archive.open(info, "w") as target:
            while chunk := file.read(position, BUNDLE_CHUNK_BYTES):
                position += len(chunk)
                target.write(chunk)
                yield buffer.take()
        yield buffer.take()
    finally:
        file.close()


def to_zip_time(time: datetime) -> tuple[int, int, int, int, int, int]:
    """Convert a time to the tuple used by zip files."""
    return (time.year, time.month, time.day, time.hour, time.minute, time.second)


class WriteBuffer(io.RawIOBase):
    """Buffer that the archive is written to and read from in chunks."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, chunk: bytes) -> int:  # type: ignore[override]
        """Add bytes to the buffer."""
        self._chunks.append(bytes(chunk))
        return len(chunk)

    def take(self) -> bytes:
        """Return and clear the buffered bytes."""
        taken = b"".join(self._chunks)
        self._chunks.clear()
        return taken
