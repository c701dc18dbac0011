"""Changing a text file only if it still is what whoever changes it has seen."""

import hashlib
from dataclasses import dataclass

from deerflow.domain.errors import Conflict, InvalidRequest, TooLarge
from deerflow.domain.files import OUTPUTS, WORKSPACE
from deerflow.sandbox.files import NoSuchFile, write_file
from deerflow.sandbox.opened import open_file
from deerflow.sandbox.places import Spot

MAX_TEXT = 2 * 1024 * 1024
EDITABLE = (WORKSPACE, OUTPUTS)


@dataclass(frozen=True, slots=True)
class EditedFile:
    """A file after it was written; `path` is absolute, as the agent sees it."""

    path: str
    sha256: str
    size: int


def encode_text(content: str) -> bytes:
    """A text as the bytes of a file, line endings as they are.

    Raises:
        TooLarge: It is too long to be edited as a whole.
        InvalidRequest: It holds what is no character.
    """
    try:
        encoded = content.encode()
    except UnicodeEncodeError:
        raise InvalidRequest("content: half of a surrogate pair is not a character") from None
    if len(encoded) > MAX_TEXT:
        raise TooLarge(f"content: a text of at most {MAX_TEXT // 1024**2} MB can be edited, not {len(encoded)} bytes")
    return encoded


def replace_if_same(spot: Spot, content: bytes, expected_sha256: str | None, owner: int | None) -> EditedFile:
    """Write a file if its content has the expected hash, or make one if none is expected; in one step for readers.

    Raises:
        Conflict: The file is another one by now.
        InvalidRequest: It is not in a folder whose files can be edited.
        FileProblem: It cannot be read or written.
    """
    if spot.place.path not in EDITABLE:
        raise InvalidRequest(f"{spot.path!r} cannot be edited: only files in {' and '.join(EDITABLE)} can")
    found = current_hash(spot)
    if found != expected_sha256:
        raise Conflict(f"{spot.path!r} {difference(found)}; load it again before you change it")
    write_file(spot, content, owner)
    return EditedFile(spot.path, hashlib.sha256(content).hexdigest(), len(content))


def current_hash(spot: Spot) -> str | None:
    """The SHA-256 of a file's content; None when there is no file."""
    try:
        file = open_file(spot)
    except NoSuchFile:
        return None
    try:
        if file.size > MAX_TEXT:
            raise TooLarge(
                f"{spot.path!r} has {file.size} bytes; files of at most {MAX_TEXT // 1024**2} MB can be edited"
            )
        return hashlib.sha256(file.read(0, file.size)).hexdigest()
    finally:
        file.close()


def difference(found: str | None) -> str:
    """What a file is instead of what was expected."""
    return "is not there (any more)" if found is None else f"has changed: its sha256 is {found}"
