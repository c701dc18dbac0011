"""Which folders of this machine an agent sees, and under which paths."""

import errno
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from deerflow.domain.errors import FileProblem
from deerflow.domain.files import OUTPUTS, UPLOADS, WORKSPACE
from deerflow.domain.ids import check_thread_id, check_user_id
from deerflow.domain.sandbox import Confinement

TEMPORARY = "/tmp"
AREAS = {WORKSPACE: "workspace", UPLOADS: "uploads", OUTPUTS: "outputs"}
SANDBOX_UID = 60926
"""Who commands run as when the server is root: in a range that no system gives to anybody."""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder of this machine, and the path it has for the agent."""

    path: str
    folder: Path
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Spot:
    """A file or folder, as the names that lead to it from a place."""

    place: Place
    names: tuple[str, ...]

    @property
    def path(self) -> str:
        """The path the agent knows it by."""
        return "/".join([self.place.path, *self.names])

    @property
    def below(self) -> str:
        """The path from the place."""
        return "/".join(self.names) or "."


def find_spot(places: Sequence[Place], path: str) -> Spot:
    """Where `path` leads.

    Raises:
        FileProblem: It leads to none of the places.
    """
    if ".." in path.split("/"):
        raise FileProblem(f"{path!r} goes up with '..'; write the path without it")
    holding = [place for place in places if path == place.path or path.startswith(f"{place.path}/")]
    if not holding:
        known = [place.path for place in places]
        raise FileProblem(f"{path!r} is out of reach; paths begin with {', '.join(known[:-1])} or {known[-1]}")
    place = max(holding, key=lambda each: len(each.path))
    names = tuple(name for name in path.removeprefix(place.path).split("/") if name not in ("", "."))
    if not all(map(is_text, names)):
        raise FileProblem(f"{path!r} contains characters that no file name can have; choose another name")
    return Spot(place, names)


def confined_places(places: Sequence[Place], to: Confinement | None) -> tuple[Place, ...]:
    """The same places, of which fewer can be written to."""
    if to is None or to.writable is None:
        return tuple(places)
    writable = (*to.writable, TEMPORARY)
    return tuple(replace(place, read_only=place.read_only or place.path not in writable) for place in places)


def is_text(name: str) -> bool:
    """Whether a file can have this name and UTF-8 can say it; the system invents surrogates for other bytes."""
    return "\0" not in name and not any("\ud800" <= character <= "\udfff" for character in name)


def thread_folder(home: Path, user_id: str, thread_id: str) -> Path:
    """Where everything of a thread is kept on this machine.

    Raises:
        InvalidRequest: One of the ids could lead elsewhere.
    """
    return home / "users" / check_user_id(user_id) / "threads" / check_thread_id(thread_id)


def user_data_folder(home: Path, user_id: str, thread_id: str) -> Path:
    """Where the files of a thread are kept on this machine."""
    return thread_folder(home, user_id, thread_id) / "user-data"


def user_data_places(folder: Path) -> tuple[Place, ...]:
    """The three folders in which a thread's files are."""
    return tuple(Place(path, folder / below) for path, below in AREAS.items())


def file_owner() -> int | None:
    """Who the files of threads belong to, None for whoever makes them."""
    return SANDBOX_UID if os.geteuid() == 0 else None


def make_folder(folder: Path, owner: int | None) -> None:
    """Have a folder that belongs to `owner`. Nobody but the server can change the folders above it."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    if folder.is_symlink():
        raise OSError(errno.ELOOP, f"{folder} is a link")
    status = folder.stat()
    if owner is not None and status.st_uid != owner:
        os.chown(folder, owner, owner)
    if status.st_mode & stat.S_IRWXU != stat.S_IRWXU:  # whoever works in it has locked itself out
        folder.chmod(0o755)
