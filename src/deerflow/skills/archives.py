"""Unpacking `.skill` archives, which are zip files made by strangers.

Every name is judged before anything is written, every size while it is, and the folder that is written to is nobody's
skill until its owner's store takes it over.
"""

import os
import stat
import unicodedata
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from deerflow.domain.errors import SkillRefused
from deerflow.sandbox.archives import BROKEN, ENCRYPTED, FREE, KNOWN_METHODS, MAX_RATIO, PIECE, CarefulFile
from deerflow.sandbox.opened import Readable
from deerflow.skills.folders import read_skill_file
from deerflow.skills.format import SKILL_FILE, SkillHeader, parse_skill
from deerflow.skills.scanner.package import MAX_FILE, MAX_FILES, MAX_TOTAL

BEGINNING = b"PK\x03\x04"
JUNK_NAMES = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})
JUNK_FOLDER = "__MACOSX"
MAX_NAME_BYTES, MAX_PATH_BYTES, MAX_DEPTH = 200, 1000, 12
MAX_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Member:
    """A file of an archive, and where in the skill it belongs."""

    info: zipfile.ZipInfo
    path: str


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A skill that is in a folder of its own, and not in use yet."""

    folder: Path
    header: SkillHeader


def unpack_skill(archive: Readable, folder: Path) -> Unpacked:
    """Unpack an archive into `folder`, which must not exist. Blocks.

    Raises:
        SkillRefused: It is not an archive with one skill in it, or it could do harm; the text says why.
        SkillInvalid: Its SKILL.md cannot be used.
    """
    if archive.read(0, len(BEGINNING)) != BEGINNING:
        raise refusal("it is no zip file, or something stands before it")
    try:
        with zipfile.ZipFile(CarefulFile(archive)) as opened:
            members = below_root(list(files_in(opened.infolist())))
            folder.mkdir(mode=0o755, parents=True)
            room = MAX_TOTAL
            for member in members:
                with opened.open(member.info) as inside:
                    room -= write_member(inside, member, folder, room)
    except BROKEN as problem:
        raise refusal(f"it cannot be read: {str(problem).lower() or 'it is broken'}") from None
    return Unpacked(folder, parse_skill(read_skill_file(folder)))


def files_in(infos: Sequence[zipfile.ZipInfo]) -> Iterator[Member]:
    """The files of an archive, each judged by what is said of it; what systems add by themselves is left out."""
    if len(infos) > MAX_FILES:
        raise refusal(f"it has {len(infos):,} entries, and at most {MAX_FILES:,} are allowed")
    seen = Seen()
    total = 0
    for info in infos:
        path = check_name(info)
        if is_junk(path):
            continue
        check_entry(info, path)
        seen.add(path, is_folder=info.is_dir())
        total += info.file_size
        if total > MAX_TOTAL:
            raise refusal(f"it unpacks to more than {MAX_TOTAL // 1024**2} MB")
        if not info.is_dir():
            yield Member(info, path)


def check_name(info: zipfile.ZipInfo) -> str:
    """The path of an entry, if it leads nowhere but into the skill, on any system."""
    name, where = info.orig_filename, shown(info.orig_filename)
    if name.startswith(("/", "\\")):
        raise refusal(f"{where} is an absolute path")
    if ":" in name:
        raise refusal(f"{where} has a colon in its name, which names drives and streams elsewhere")
    if "\\" in name:
        raise refusal(f"{where} has a backslash in its name, which parts folders elsewhere")
    if not all(each.isprintable() for each in name):
        raise refusal(f"{where} has characters in its name that nobody sees")
    parts = name.removesuffix("/").split("/")
    if any(unicodedata.normalize("NFKC", part).strip() == ".." for part in parts):
        raise refusal(f"{where} leads out of the archive")
    if any(part in ("", ".") or part != part.rstrip(" .") for part in parts):
        raise refusal(f"{where} has a part without a name, or one that ends in a blank or a dot")
    if len(parts) > MAX_DEPTH or len(name.encode(errors="replace")) > MAX_PATH_BYTES:
        raise refusal(f"{where} is too deep or too long")
    if any(len(part.encode(errors="replace")) > MAX_NAME_BYTES for part in parts):
        raise refusal(f"{where} has a name of more than {MAX_NAME_BYTES} bytes")
    return "/".join(parts)


def check_entry(info: zipfile.ZipInfo, path: str) -> None:
    """Refuse what is no file or folder, cannot be read, or says itself that it is too large."""
    kind, where = stat.S_IFMT(info.external_attr >> 16), shown(path)
    if kind == stat.S_IFLNK:
        raise refusal(f"{where} is a link, which may lead anywhere")
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR) or (kind == stat.S_IFDIR and not info.is_dir()):
        raise refusal(f"{where} is neither a file nor a folder")
    if info.flag_bits & ENCRYPTED:
        raise refusal(f"{where} is encrypted")
    if info.compress_type not in KNOWN_METHODS:
        raise refusal(f"{where} is packed with a method that is not known here; pack it with deflate")
    if info.file_size > MAX_FILE:
        raise refusal(f"{where} has more than {MAX_FILE // 1024**2} MB")


class Seen:
    """The paths of an archive, also those that only some systems take for the same."""

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._folders: set[str] = set()

    def add(self, path: str, *, is_folder: bool) -> None:
        """Note a path, and the folders above it."""
        key = unicodedata.normalize("NFC", unicodedata.normalize("NFKC", path).casefold())
        above = {str(parent) for parent in PurePosixPath(key).parents} - {"."}
        if key in self._files or (not is_folder and key in self._folders) or above & self._files:
            raise refusal(f"{shown(path)} is there twice, at least for systems that care little about letters")
        self._folders |= above
        (self._folders if is_folder else self._files).add(key)


def is_junk(path: str) -> bool:
    """Whether a system has added it by itself."""
    parts = path.split("/")
    return parts[0] == JUNK_FOLDER or parts[-1] in JUNK_NAMES or parts[-1].startswith("._")


def below_root(members: Sequence[Member]) -> Sequence[Member]:
    """The files as seen from where SKILL.md is: at the top, or in the only folder there."""
    if not members:
        raise refusal("there are no files in it")
    if any(member.path == SKILL_FILE for member in members):
        return members
    tops = {member.path.split("/")[0] for member in members}
    if len(tops) == 1 and any(member.path == f"{next(iter(tops))}/{SKILL_FILE}" for member in members):
        return [Member(member.info, member.path.partition("/")[2]) for member in members]
    raise refusal(f"{SKILL_FILE} must be at its top, or in the one folder there; it is in neither place")


def write_member(inside: IO[bytes], member: Member, folder: Path, room: int) -> int:
    """Write a file into `folder`, and its length; whatever the archive says, no more than there is room for."""
    limit = min(MAX_FILE, max(FREE, member.info.compress_size * MAX_RATIO))
    target = folder / member.path
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    mode = 0o755 if (member.info.external_attr >> 16) & 0o111 else 0o644
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    written = 0
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)
        while piece := inside.read(PIECE):
            written += len(piece)
            if written > room:
                raise refusal(f"it unpacks to more than {MAX_TOTAL // 1024**2} MB")
            if written > limit:
                raise refusal(f"{shown(member.path)} grows to much more than its packed size, as bombs do")
            file.write(piece)
    return written


def refusal(why: str) -> SkillRefused:
    """That an archive is not taken, and why."""
    return SkillRefused(f"the archive is refused: {why}")


def shown(name: str) -> str:
    """A name in a sentence, however long and strange it is."""
    text = name if len(name) <= MAX_SHOWN else f"{name[:MAX_SHOWN]}…"
    return repr(text.encode(errors="replace").decode())
