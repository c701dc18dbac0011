"""Members of `.skill` archives, which are zip files, shown without unpacking them.

Archives are made by agents and strangers. They are read here and not in a process of their own because every step is
bounded before it is taken: the list of members by `MAX_LIST`, what is unpacked by `MAX_MEMBER`, and only the method
`deflate` is known, whose decoder is linear. Nothing is ever written, so no name in an archive can lead anywhere.
"""

import io
import stat
import zipfile
import zlib
from pathlib import PurePosixPath
from typing import IO

from deerflow.domain.errors import FileProblem, UnusableFile
from deerflow.sandbox.opened import Content, OpenedFile, Readable

ENDING = ".skill"
MAX_MEMBER = 16 * 1024 * 1024
MAX_LIST = 256 * 1024
"""Bytes of the list of members: about four thousand."""
PIECE = 64 * 1024
FREE = 1024 * 1024
"""A member of that size is never a bomb."""
MAX_RATIO = 200
ENCRYPTED = 0x1
KNOWN_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, OverflowError, OSError)
"""What reading an archive raises that is none, or a broken one."""


def split_at_archive(path: str) -> tuple[str, str] | None:
    """The path of the archive and the name of the member in it, if `path` goes through an archive."""
    names = path.split("/")
    for number, name in enumerate(names[:-1], 1):
        if name.lower().endswith(ENDING) and any(names[number:]):
            return "/".join(names[:number]), "/".join(each for each in names[number:] if each not in ("", "."))
    return None


def read_member(archive: OpenedFile, member: str) -> Content:
    """A file in an archive.

    Raises:
        FileProblem: There is no such member.
        UnusableFile: The archive, or the member, is not one that is read here.
    """
    where = f"{member!r} in {archive.name!r}"
    try:
        with zipfile.ZipFile(CarefulFile(archive)) as opened:
            info = find_member(opened, member, where)
            with opened.open(info) as inside:
                content = read_bounded(inside, info, where)
    except BROKEN as problem:
        raise UnusableFile(f"{where} cannot be read: {str(problem).lower() or 'the archive is broken'}") from None
    name = PurePosixPath(member).name
    return Content(name, content, archive.modified_at, f"{archive.tag}-{info.header_offset:x}", archive.is_settled)


def find_member(archive: zipfile.ZipFile, member: str, where: str) -> zipfile.ZipInfo:
    """The entry of a member that can be read here."""
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
        raise UnusableFile(f"{where} is packed with a method that is not known here; pack it with deflate")
    if info.file_size > MAX_MEMBER:
        raise UnusableFile(f"{where} has more than {MAX_MEMBER // 1024**2} MB")
    return info


def read_bounded(inside: IO[bytes], info: zipfile.ZipInfo, where: str) -> bytes:
    """The content of a member, whatever the archive says of its size."""
    limit = min(MAX_MEMBER, max(FREE, info.compress_size * MAX_RATIO))
    content = bytearray()
    while piece := inside.read(PIECE):
        content += piece
        if len(content) > limit:
            raise UnusableFile(
                f"{where} grows to more than {MAX_RATIO} times its packed size; that is how bombs are made"
            )
    return bytes(content)


class CarefulFile(io.RawIOBase):
    """An open file for the zip reader, which would read a list of members of any length."""

    def __init__(self, file: Readable) -> None:
        self._file = file
        self._place = 0

    def seekable(self) -> bool:
        """It is."""
        return True

    def readable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Where the next read begins."""
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place, as seen from the beginning, from here or from the end."""
        place = offset + (0, self._place, self._file.size)[whence]
        if place < 0:
            raise OSError("it points before its beginning")
        self._place = place
        return place

    def read(self, size: int = -1) -> bytes:
        """A piece; what is too long is refused rather than cut."""
        wanted = min(size if size >= 0 else self._file.size, max(self._file.size - self._place, 0))
        if wanted > MAX_LIST:
            raise zipfile.BadZipFile("its list of files is too long")
        content = self._file.read(self._place, wanted)
        self._place += len(content)
        return content
