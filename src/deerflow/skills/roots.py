"""Where skills are kept on this machine."""

from pathlib import Path

from deerflow.domain.ids import check_user_id


def shipped_root() -> Path:
    """The skills that come with the program: beside this module when it is installed, else in the clone."""
    here = Path(__file__).parent
    installed = here / "public"
    return installed if installed.is_dir() else here.parents[2] / "skills" / "public"


def owner_folder(home: Path, owner: str) -> Path:
    """Where everything about the skills of one person is kept.

    Raises:
        InvalidRequest: Nobody can be called so.
    """
    return home / "users" / check_user_id(owner) / "skills"


def custom_root(home: Path, owner: str) -> Path:
    """The skills that one person made or installed."""
    return owner_folder(home, owner) / "custom"
