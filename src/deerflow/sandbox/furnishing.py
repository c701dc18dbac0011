"""What every sandbox of a thread is furnished with, whoever provides it."""

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from deerflow.config.sandbox import SandboxConfig
from deerflow.domain.errors import SandboxError
from deerflow.domain.files import WORKSPACE
from deerflow.sandbox.files import FOLDER, give_to
from deerflow.sandbox.places import TEMPORARY, Place, Spot, file_owner, find_spot, make_folder, user_data_places

HOME = f"{WORKSPACE}/.home"
ACP_WORKSPACE = "/mnt/acp-workspace"
SKILLS = "/mnt/skills"


def make_places(folder: Path, config: SandboxConfig, skills: Path | None) -> tuple[Place, ...]:
    """The folders of a thread that is kept in `folder`, ready to be shown, and those that all threads see.

    Raises:
        SandboxError: Something that is to be mounted is not there.
    """
    owner = file_owner()
    own = (*user_data_places(folder / "user-data"), Place(TEMPORARY, folder / "tmp"))
    own = (*own, Place(ACP_WORKSPACE, folder / "acp-workspace", read_only=True))
    for place in own:
        make_folder(place.folder, owner)
    make_home(find_spot(own, HOME), owner)
    shared = [Place(SKILLS, skills, read_only=True)] if skills else []
    mounts = [
        Place(mount.container_path, Path(mount.host_path).expanduser(), mount.read_only) for mount in config.mounts
    ]
    missing = [str(place.folder) for place in mounts if not place.folder.exists()]
    if missing:
        raise SandboxError(f"sandbox.mounts: {', '.join(missing)} does not exist on this machine")
    return (*own, *shared, *mounts)


def make_home(home: Spot, owner: int | None) -> None:
    """Have a home in the workspace. Whoever works there may have put something else in its place: that stays."""
    (name,) = home.names
    workspace = os.open(home.place.folder, FOLDER | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=workspace)
            made = os.open(name, FOLDER | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=workspace)
            give_to(owner, made)
            os.close(made)
    finally:
        os.close(workspace)


def sandbox_id_of(thread_id: str, user_id: str) -> str:
    """The id of a thread's sandbox, the same in every process."""
    return hashlib.sha256(f"{user_id}:{thread_id}".encode()).hexdigest()[:16]
