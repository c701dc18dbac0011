"""Mounts of a thread's sandbox, the same for every provider, and path resolution."""

import errno
import hashlib
import os
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from deerflow.config.loader.files import O_CLOEXEC, O_DIRECTORY, O_NOFOLLOW
from deerflow.config.sections.sandbox import SandboxConfig
from deerflow.domain.errors import FileProblem, SandboxError
from deerflow.domain.files import OUTPUTS, UPLOADS, WORKSPACE
from deerflow.domain.identity import check_thread_id, check_user_id
from deerflow.domain.projects import PROJECT_FILES
from deerflow.domain.sandbox import Confinement

FOLDER_FLAGS = os.O_RDONLY | O_DIRECTORY
TEMPORARY = "/tmp"
AREAS = {WORKSPACE: "workspace", UPLOADS: "uploads", OUTPUTS: "outputs"}
SANDBOX_UID = 60926
"""User id of commands if the server is root: in a range that no system assigns."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder of this machine and its path in the sandbox."""

    path: str
    folder: Path
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """A file or folder as a mount and path components below it."""

    mount: Mount
    parts: tuple[str, ...]

    @property
    def path(self) -> str:
        """Path in the sandbox."""
        return "/".join([self.mount.path, *self.parts])

    @property
    def relative(self) -> str:
        """Path relative to the mount."""
        return "/".join(self.parts) or "."


def resolve_path(mounts: Sequence[Mount], path: str) -> ResolvedPath:
    """Return the mount of `path` and the path below it.

    Raises:
        FileProblem: The path is in none of the mounts.
    """
    if ".." in path.split("/"):
        raise FileProblem(f"{path!r} must not contain '..'; write the path without it")
    holding = [mount for mount in mounts if path == mount.path or path.startswith(f"{mount.path}/")]
    if not holding:
        known = [mount.path for mount in mounts]
        raise FileProblem(
            f"{path!r} is outside the sandbox folders; paths start with {', '.join(known[:-1])} or {known[-1]}"
        )
    mount = max(holding, key=lambda each: len(each.path))
    names = tuple(name for name in path.removeprefix(mount.path).split("/") if name not in ("", "."))
    if not all(map(is_encodable, names)):
        raise FileProblem(f"{path!r} contains characters that are invalid in file names; choose another name")
    return ResolvedPath(mount, names)


def confine_mounts(mounts: Sequence[Mount], to: Confinement | None) -> tuple[Mount, ...]:
    """Return the mounts with those made read-only that are not writable under the confinement."""
    if to is None or to.writable is None:
        return tuple(mounts)
    writable = (*to.writable, TEMPORARY)
    return tuple(replace(mount, read_only=mount.read_only or mount.path not in writable) for mount in mounts)


def is_encodable(name: str) -> bool:
    """Return True if a text has no zero byte and no surrogate, which Python uses for bytes that are not UTF-8."""
    return "\0" not in name and not any("\ud800" <= character <= "\udfff" for character in name)


def user_folder(home: Path, user_id: str) -> Path:
    """Return the folder with all files of a person on this machine, or raise `InvalidRequest` for an invalid id."""
    return home.joinpath("users", check_user_id(user_id))


def thread_folder(home: Path, user_id: str, thread_id: str) -> Path:
    """Return the folder of a thread on this machine.

    Raises:
        InvalidRequest: One of the ids is invalid.
    """
    return user_folder(home, user_id).joinpath("threads", check_thread_id(thread_id))


def project_folder(home: Path, user_id: str, project_id: str) -> Path:
    """Return the folder of a project on this machine.

    Raises:
        InvalidRequest: One of the ids is invalid.
    """
    return user_folder(home, user_id).joinpath("projects", check_thread_id(project_id))


PROJECT_MARKER = "project"
"""File in the folder of a thread with the id of its project. It tells a sandbox what to mount without a query."""


def write_project_marker(folder: Path, project_id: str | None) -> None:
    """Record the project of the thread stored in `folder`; None for none."""
    marker = folder / PROJECT_MARKER
    if project_id is None:
        marker.unlink(missing_ok=True)
        return
    with suppress(FileNotFoundError):
        if marker.read_text() == project_id:
            return
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{PROJECT_MARKER}"
    draft.write_text(project_id)
    draft.replace(marker)


def find_project_mounts(folder: Path) -> tuple[Mount, ...]:
    """Return the read-only mount of the project's files for the thread stored in `folder`, if it is in a project."""
    try:
        project_id = (folder / PROJECT_MARKER).read_text()
    except FileNotFoundError:
        return ()
    files = folder.parents[1] / "projects" / check_thread_id(project_id) / "files"
    return (Mount(PROJECT_FILES, files, read_only=True),) if files.is_dir() else ()


def user_data_folder(home: Path, user_id: str, thread_id: str) -> Path:
    """Return the folder of a thread's files on this machine."""
    return thread_folder(home, user_id, thread_id) / "user-data"


def user_data_mounts(folder: Path) -> tuple[Mount, ...]:
    """Return the mounts of the three folders of a thread."""
    return tuple(Mount(path, folder / below) for path, below in AREAS.items())


def file_owner() -> int | None:
    """Return the owner of thread files, or None if that is the server's user."""
    return SANDBOX_UID if sys.platform != "win32" and os.geteuid() == 0 else None


def make_folder(folder: Path, owner: int | None) -> None:
    """Create a folder owned by `owner`. The folders above it can be changed by the server only."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    if folder.is_symlink():
        raise OSError(errno.ELOOP, f"{folder} is a link")
    status = folder.stat()
    if owner is not None and status.st_uid != owner:
        os.chown(folder, owner, owner)
    if status.st_mode & stat.S_IRWXU != stat.S_IRWXU:  # a command has removed its own permissions
        folder.chmod(0o755)


def set_owner(owner: int | None, descriptor: int) -> None:
    """Change the owner of an open file or folder; None leaves it as it is."""
    if owner is not None:
        os.fchown(descriptor, owner, owner)


HOME = f"{WORKSPACE}/.home"
ACP_WORKSPACE = "/mnt/acp-workspace"
SKILLS = "/mnt/skills"


def make_default_mounts(folder: Path, config: SandboxConfig, skills: Path | None) -> tuple[Mount, ...]:
    """Create the folders of a thread stored in `folder` and return its mounts and those shared by all threads.

    Raises:
        SandboxError: A configured mount does not exist.
    """
    owner = file_owner()
    own = (*user_data_mounts(folder / "user-data"), Mount(TEMPORARY, folder / "tmp"))
    own = (*own, Mount(ACP_WORKSPACE, folder / "acp-workspace", read_only=True))
    for mount in own:
        make_folder(mount.folder, owner)
    make_home(resolve_path(own, HOME), owner)
    shared = [*find_project_mounts(folder), *([Mount(SKILLS, skills, read_only=True)] if skills else [])]
    mounts = [
        Mount(mount.container_path, Path(mount.host_path).expanduser(), mount.read_only) for mount in config.mounts
    ]
    missing = [str(mount.folder) for mount in mounts if not mount.folder.exists()]
    if missing:
        raise SandboxError(f"sandbox.mounts: {', '.join(missing)} does not exist on this machine")
    return (*own, *shared, *mounts)


def make_home(home: ResolvedPath, owner: int | None) -> None:
    """Create a home folder in the workspace. If a command has put something else there, it is kept."""
    (name,) = home.parts
    workspace = os.open(home.mount.folder, FOLDER_FLAGS | O_NOFOLLOW | O_CLOEXEC)
    try:
        with suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=workspace)
            made = os.open(name, FOLDER_FLAGS | O_NOFOLLOW | O_CLOEXEC, dir_fd=workspace)
            set_owner(owner, made)
            os.close(made)
    finally:
        os.close(workspace)


def derive_sandbox_id(thread_id: str, user_id: str) -> str:
    """Return the id of a thread's sandbox, the same in every process."""
    return hashlib.sha256(f"{user_id}:{thread_id}".encode()).hexdigest()[:16]
