"""Reading, parsing, locking and replacing configuration files, on all systems."""

import errno
import json
import os
import re
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from deerflow.config.loader.document import ConfigDocument, ConfigProblem, InvalidConfig, SourceLocation
from deerflow.domain.errors import ConfigError

O_DIRECTORY: int = getattr(os, "O_DIRECTORY", 0)
O_NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
O_NONBLOCK: int = getattr(os, "O_NONBLOCK", 0)
O_NOCTTY: int = getattr(os, "O_NOCTTY", 0)
O_CLOEXEC: int = getattr(os, "O_CLOEXEC", 0)
O_PATH: int = getattr(os, "O_PATH", os.O_RDONLY | O_NONBLOCK)
"""Flags of `os.open`. Windows lacks most of them, and macOS lacks `O_PATH`."""
LOCKED_BYTE, LOCK_RETRY_S = 2**30, 0.05
"""Locks on Windows: position of the byte that stands for the whole file, and pause between attempts."""

if sys.platform == "win32":
    import msvcrt

    def acquire_lock(file: int | IO[str] | IO[bytes], *, shared: bool = False, wait: bool = True) -> None:
        """Lock an open file until it is closed. Locks are never shared here."""
        descriptor = file if isinstance(file, int) else file.fileno()
        while True:
            try:
                change_lock(descriptor, msvcrt.LK_NBLCK)
                return
            except OSError as error:
                if not wait:
                    raise BlockingIOError(errno.EAGAIN, "the file is locked") from error
            time.sleep(LOCK_RETRY_S)

    def release_lock(descriptor: int) -> None:
        """Release the lock of an open file."""
        with suppress(OSError):  # it was not locked
            change_lock(descriptor, msvcrt.LK_UNLCK)

    def change_lock(descriptor: int, mode: int) -> None:
        """Lock or unlock an open file, and leave its position at the start."""
        os.lseek(descriptor, LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, mode, 1)
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)

else:
    import fcntl

    def acquire_lock(file: int | IO[str] | IO[bytes], *, shared: bool = False, wait: bool = True) -> None:
        """Lock an open file until it is closed, across threads and processes.

        Raises:
            BlockingIOError: It is locked, and `wait` is false.
        """
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))

    def release_lock(descriptor: int) -> None:
        """Release the lock of an open file."""
        fcntl.flock(descriptor, fcntl.LOCK_UN)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold an exclusive lock on a folder, across threads and processes; on Windows, on a file in it.

    Raises:
        OSError: The folder cannot be opened.
    """
    if sys.platform == "win32":
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT)
    else:
        descriptor = os.open(folder, os.O_RDONLY | O_CLOEXEC)
    try:
        acquire_lock(descriptor)
        yield
    finally:
        os.close(descriptor)


JSON_MESSAGES = (
    (
        "Expecting property name",
        "a key in double quotes is expected here",
    ),
    ("Expecting ',' delimiter", "a ',' or the closing bracket is missing here"),
    ("Expecting ':' delimiter", "a ':' is missing here"),
    ("Expecting value", "a value is missing here; text needs double quotes"),
    ("Unterminated string", "a double quote is not closed"),
    ("Extra data", "unexpected text after the closing bracket"),
    ("Invalid control character", "a line break or tab inside a text; write \\n or \\t"),
    ("Invalid \\escape", "a single backslash; write \\\\"),
)


JSON_TEXT = r'"(?:[^"\\\n]|\\.)*"'
JSON_COMMENT = re.compile(rf"{JSON_TEXT}|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
JSON_COMMA = re.compile(rf"{JSON_TEXT}|,(?=\s*[}}\]])")
TRAILING_COMMA = re.compile(r",\s*[}\]]")
NOT_NEWLINE = re.compile(r"[^\n]")


@dataclass(frozen=True, slots=True)
class FileStamp:
    """The state of a file, which tells whether it has changed without reading it."""

    path: Path
    state: tuple[int, int, int] | None
    """Modification time, size and inode; None when the file does not exist."""

    @classmethod
    def read(cls, path: Path) -> "FileStamp":
        """Return the current stamp of a file."""
        return cls(path, read_state(path))

    def is_current(self) -> bool:
        """Return whether the file is unchanged."""
        return read_state(self.path) == self.state


def read_state(path: Path) -> tuple[int, int, int] | None:
    """Return the state of a file. Every run asks for it several times, so no `Path` is made or resolved."""
    try:
        status = os.stat(path)  # noqa: PTH116 - half the time of `Path.stat`
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return (0, 0, 0)  # it exists but is not accessible: reading it will say why
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def resolve_from(directory: Path, path: Path) -> Path:
    """Return `path` relative to `directory`; a leading `~` is expanded."""
    try:
        return directory / path.expanduser()
    except RuntimeError:  # there is no such user, so it is an ordinary name
        return directory / path


def read_text(path: Path, name: str) -> str:
    """Return the text of a file that errors call `name`.

    Raises:
        ConfigError: The file does not exist or cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{name}: is not UTF-8 text; save it in that encoding") from None
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {_describe(error)}") from None


def replace_file(path: Path, content: bytes) -> None:
    """Replace the file atomically: readers and a crash see the old or the new content, never a part.

    Raises:
        ConfigError: The file cannot be written.
    """
    target = path.resolve()  # a symbolic link is kept, its target is replaced
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
        raise ConfigError(f"{path}: cannot be written: {_describe(error)}") from None


def _write(descriptor: int, content: bytes, like: Path) -> None:
    with open(descriptor, "wb") as file:
        with suppress(FileNotFoundError):  # a new file keeps the mode of the temporary one: owner only
            status = like.stat()
            if sys.platform != "win32":
                os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
                with suppress(PermissionError):  # only root can change the owner, and must, as it may not be the owner
                    os.fchown(descriptor, status.st_uid, status.st_gid)
        file.write(content)
        file.flush()
        os.fsync(descriptor)


def _sync_directory(directory: Path) -> None:
    if sys.platform == "win32":  # folders cannot be opened there
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _describe(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def parse_yaml(text: str, source: str) -> ConfigDocument:
    """Return the document in a YAML text.

    Raises:
        InvalidConfig: The text is not YAML, or not a mapping.
    """
    # A server without a configuration file reads no YAML before its first run.
    from deerflow.config.loader.yaml import read_yaml

    return read_yaml(text, source)


def parse_json(text: str, source: str) -> ConfigDocument:
    """Return the document in a JSON text, which may have comments and trailing commas; an empty text counts as `{}`.

    Raises:
        InvalidConfig: The text is not JSON, or not an object.
    """
    text = blank_comments(text)
    try:
        data = json.loads(text) if text.strip() else {}
    except json.JSONDecodeError as error:
        raise InvalidConfig([explain_json(error, source)]) from None
    except (ValueError, RecursionError):
        problem = ConfigProblem(SourceLocation(source), (), "is nested too deeply or contains too long a number")
        raise InvalidConfig([problem]) from None
    if not isinstance(data, dict):
        raise InvalidConfig([ConfigProblem(SourceLocation(source, 1), (), 'must be an object: {"key": value, …}')])
    try:
        # JSON is YAML too, except for tabs between tokens; only the locations are taken from this parse.
        parsed = parse_yaml(text.replace("\t", " "), source)
    except InvalidConfig:
        return ConfigDocument(data, {(): SourceLocation(source)})
    return ConfigDocument(data, parsed.locations, parsed.problems)


def blank_comments(text: str) -> str:
    """Return a JSON text with its comments and trailing commas replaced by spaces, so that positions stay the same."""
    if "//" not in text and "/*" not in text and not TRAILING_COMMA.search(text):
        return text
    return JSON_COMMA.sub(_blank, JSON_COMMENT.sub(_blank, text))


def _blank(token: re.Match[str]) -> str:
    return token[0] if token[0].startswith('"') else NOT_NEWLINE.sub(" ", token[0])


def explain_json(error: json.JSONDecodeError, source: str) -> ConfigProblem:
    """Return the problem that a JSON syntax error describes."""
    text = next((message for start, message in JSON_MESSAGES if error.msg.startswith(start)), error.msg)
    return ConfigProblem(SourceLocation(source, error.lineno, error.colno), (), text)


def to_yaml(settings: Mapping[str, object]) -> str:
    """Return `settings` as YAML for reading and editing."""
    from deerflow.config.loader.yaml import write_yaml

    return write_yaml(settings)
