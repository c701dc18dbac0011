"""Reading and replacing the files a user configures DeerFlow with."""

import os
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from deerflow.domain.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Stamp:
    """What tells one state of a file from another without reading it."""

    path: Path
    state: tuple[int, int, int] | None
    """Time of change, size and inode; None while there is no such file."""

    @classmethod
    def of(cls, path: Path) -> "Stamp":
        try:
            status = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return cls(path, None)
        except OSError:
            return cls(path, (0, 0, 0))  # it is there but not for us: reading it will say why
        return cls(path, (status.st_mtime_ns, status.st_size, status.st_ino))


def starting_in(directory: Path, path: Path) -> Path:
    """`path` as seen from `directory`, with a leading `~` for the home directory of a user."""
    try:
        return directory / path.expanduser()
    except RuntimeError:  # there is no such user, so it is a name like any other
        return directory / path


def read_text(path: Path, name: str) -> str:
    """The text of a file that errors call `name`.

    Raises:
        ConfigError: There is no such file, or it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{name}: is not UTF-8 text; save it in that encoding") from None
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {_reason(error)}") from None


def replace_file(path: Path, content: bytes) -> None:
    """Put `content` in place of the file, so that a reader or a crash meets the old or the new, never a part.

    Raises:
        ConfigError: The file cannot be written.
    """
    target = path.resolve()  # a link stays a link, and what it points to is replaced
    try:
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            _write(descriptor, content, like=target)
            Path(temporary).replace(target)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise
        _sync_directory(target.parent)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {_reason(error)}") from None


def _write(descriptor: int, content: bytes, like: Path) -> None:
    with open(descriptor, "wb") as file:
        with suppress(FileNotFoundError):  # a new file stays as the temporary one is: for its owner alone
            status = like.stat()
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
            with suppress(PermissionError):  # only root can give files away, and needs to: it may not be the owner
                os.fchown(descriptor, status.st_uid, status.st_gid)
        file.write(content)
        file.flush()
        os.fsync(descriptor)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
