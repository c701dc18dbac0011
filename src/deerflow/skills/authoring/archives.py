"""Extraction of `.skill` archives, which are untrusted zip files.

All names are checked before anything is written, and sizes while writing. The target is a staging folder.
"""

import os
import stat
import unicodedata
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from deerflow.config.loader.files import O_CLOEXEC, O_NOFOLLOW
from deerflow.domain.errors import SkillRefused
from deerflow.sandbox.archives import (
    CHUNK_BYTES,
    ENCRYPTED,
    KNOWN_METHODS,
    MAX_RATIO,
    SMALL_MEMBER,
    ZIP_ERRORS,
    BoundedFile,
)
from deerflow.sandbox.file_access import ReadableFile
from deerflow.skills.folders import read_skill_file
from deerflow.skills.format import SKILL_FILE, SkillHeader, parse_skill
from deerflow.skills.scanner.rules import MAX_FILE, MAX_FILES, MAX_TOTAL

ZIP_MAGIC = b"PK\x03\x04"
JUNK_NAMES = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})
JUNK_FOLDER = "__MACOSX"
MAX_NAME_BYTES, MAX_PATH_BYTES, MAX_DEPTH = 200, 1000, 12
MAX_SHOWN = 100


@dataclass(frozen=True, slots=True)
class ArchiveMember:
    """A file of an archive, with its path in the skill."""

    info: zipfile.ZipInfo
    path: str


@dataclass(frozen=True, slots=True)
class UnpackedSkill:
    """An extracted skill in a staging folder."""

    folder: Path
    header: SkillHeader


def unpack_skill(archive: ReadableFile, folder: Path) -> UnpackedSkill:
    """Extract an archive into `folder`, which must not exist. Blocks.

    Raises:
        SkillRefused: The archive does not contain exactly one skill, or is unsafe.
        SkillInvalid: The SKILL.md is invalid.
    """
    if archive.read(0, len(ZIP_MAGIC)) != ZIP_MAGIC:
        raise build_refusal("not a zip file, or there is data before it")
    try:
        with zipfile.ZipFile(BoundedFile(archive)) as zip_file:
            members = strip_root(list(list_members(zip_file.infolist())))
            folder.mkdir(mode=0o755, parents=True)
            remaining = MAX_TOTAL
            for member in members:
                with zip_file.open(member.info) as source:
                    remaining -= write_member(source, member, folder, remaining)
    except ZIP_ERRORS as problem:
        raise build_refusal(f"cannot be read: {str(problem).lower() or 'corrupt file'}") from None
    return UnpackedSkill(folder, parse_skill(read_skill_file(folder)))


def list_members(infos: Sequence[zipfile.ZipInfo]) -> Iterator[ArchiveMember]:
    """Yield the files of an archive after checking their metadata. System files are skipped."""
    if len(infos) > MAX_FILES:
        raise build_refusal(f"{len(infos):,} entries; at most {MAX_FILES:,} are allowed")
    paths = PathRegistry()
    total = 0
    for info in infos:
        path = check_member_name(info)
        if is_junk(path):
            continue
        check_member(info, path)
        paths.add(path, is_folder=info.is_dir())
        total += info.file_size
        if total > MAX_TOTAL:
            raise build_refusal(f"it unpacks to more than {MAX_TOTAL // 1024**2} MB")
        if not info.is_dir():
            yield ArchiveMember(info, path)


def check_member_name(info: zipfile.ZipInfo) -> str:
    """Return the path of an entry if it is safe on all systems."""
    name, quoted = info.orig_filename, quote_name(info.orig_filename)
    if name.startswith(("/", "\\")):
        raise build_refusal(f"{quoted} is an absolute path")
    if ":" in name:
        raise build_refusal(f"{quoted} contains a colon, which has a special meaning on Windows")
    if "\\" in name:
        raise build_refusal(f"{quoted} contains a backslash, which separates folders on Windows")
    if not all(each.isprintable() for each in name):
        raise build_refusal(f"{quoted} contains invisible characters")
    parts = name.removesuffix("/").split("/")
    if any(unicodedata.normalize("NFKC", part).strip() == ".." for part in parts):
        raise build_refusal(f"{quoted} is outside the archive")
    if any(part in ("", ".") or part != part.rstrip(" .") for part in parts):
        raise build_refusal(f"{quoted} has an empty part, or one that ends in a blank or a dot")
    if len(parts) > MAX_DEPTH or len(name.encode(errors="replace")) > MAX_PATH_BYTES:
        raise build_refusal(f"{quoted} is too deep or too long")
    if any(len(part.encode(errors="replace")) > MAX_NAME_BYTES for part in parts):
        raise build_refusal(f"{quoted} has a name of more than {MAX_NAME_BYTES} bytes")
    return "/".join(parts)


def check_member(info: zipfile.ZipInfo, path: str) -> None:
    """Refuse special files, unreadable entries and entries that declare too large a size."""
    kind, quoted = stat.S_IFMT(info.external_attr >> 16), quote_name(path)
    if kind == stat.S_IFLNK:
        raise build_refusal(f"{quoted} is a symbolic link")
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR) or (kind == stat.S_IFDIR and not info.is_dir()):
        raise build_refusal(f"{quoted} is neither a file nor a folder")
    if info.flag_bits & ENCRYPTED:
        raise build_refusal(f"{quoted} is encrypted")
    if info.compress_type not in KNOWN_METHODS:
        raise build_refusal(f"{quoted} uses an unsupported compression method; use deflate")
    if info.file_size > MAX_FILE:
        raise build_refusal(f"{quoted} has more than {MAX_FILE // 1024**2} MB")


class PathRegistry:
    """Paths of an archive, compared case-insensitively and with Unicode normalization."""

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._folders: set[str] = set()

    def add(self, path: str, *, is_folder: bool) -> None:
        """Add a path and its parents. Raise `SkillRefused` for a duplicate."""
        key = unicodedata.normalize("NFC", unicodedata.normalize("NFKC", path).casefold())
        parents = {str(parent) for parent in PurePosixPath(key).parents} - {"."}
        if key in self._files or (not is_folder and key in self._folders) or parents & self._files:
            raise build_refusal(f"{quote_name(path)} is a duplicate on case-insensitive file systems")
        self._folders |= parents
        (self._folders if is_folder else self._files).add(key)


def is_junk(path: str) -> bool:
    """Return True for files that operating systems add."""
    parts = path.split("/")
    return parts[0] == JUNK_FOLDER or parts[-1] in JUNK_NAMES or parts[-1].startswith("._")


def strip_root(members: Sequence[ArchiveMember]) -> Sequence[ArchiveMember]:
    """Return the members relative to the folder of SKILL.md: the top level, or the only folder there."""
    if not members:
        raise build_refusal("it contains no files")
    if any(member.path == SKILL_FILE for member in members):
        return members
    tops = {member.path.split("/")[0] for member in members}
    if len(tops) == 1 and any(member.path == f"{next(iter(tops))}/{SKILL_FILE}" for member in members):
        return [ArchiveMember(member.info, member.path.partition("/")[2]) for member in members]
    raise build_refusal(f"{SKILL_FILE} must be at the top level or in the only top-level folder")


def write_member(source: IO[bytes], member: ArchiveMember, folder: Path, remaining: int) -> int:
    """Write a file into `folder` and return its size. Limits are enforced regardless of the declared size."""
    limit = min(MAX_FILE, max(SMALL_MEMBER, member.info.compress_size * MAX_RATIO))
    target = folder / member.path
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    mode = 0o755 if (member.info.external_attr >> 16) & 0o111 else 0o644
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode)
    written = 0
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)
        while chunk := source.read(CHUNK_BYTES):
            written += len(chunk)
            if written > remaining:
                raise build_refusal(f"it unpacks to more than {MAX_TOTAL // 1024**2} MB")
            if written > limit:
                raise build_refusal(f"{quote_name(member.path)} has a suspicious compression ratio")
            file.write(chunk)
    return written


def build_refusal(why: str) -> SkillRefused:
    """Return the error for a refused archive."""
    return SkillRefused(f"archive refused: {why}")


def quote_name(name: str) -> str:
    """Return a name for messages, shortened and quoted."""
    text = name if len(name) <= MAX_SHOWN else f"{name[:MAX_SHOWN]}…"
    return repr(text.encode(errors="replace").decode())
