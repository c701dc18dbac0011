"""Ids of threads and runs, and the principal of a request."""

import re
from dataclasses import dataclass, field

from uuid_utils import uuid7

from deerflow.domain.errors import InvalidRequest

PLAIN_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Ids that are valid as file and row names on all platforms."""

DELETED_OWNER = "~"
"""The owner of rows that are being deleted; not a valid user id."""


def new_id() -> str:
    """Return a new unique id. Ids sort by time, so the database appends rows instead of splitting pages for them."""
    return str(uuid7())


def check_thread_id(thread_id: str) -> str:
    """Return `thread_id`, or raise `InvalidRequest` when it is not safe as a file or row name."""
    return _check("thread", thread_id)


def check_user_id(user_id: str) -> str:
    """Return `user_id`, or raise `InvalidRequest` when it is not safe as a file or row name."""
    return _check("user", user_id)


def _check(kind: str, value: str) -> str:
    if not PLAIN_ID.fullmatch(value):
        raise InvalidRequest(f"a {kind} id is 1 to 64 letters, digits, '-' or '_', not {value!r}")
    return value


@dataclass(frozen=True, slots=True)
class Principal:
    """The user that makes a request and owns what it creates.

    Raises:
        InvalidRequest: The id is not a valid folder name; the user's files are in a folder of that name.
    """

    user_id: str
    is_admin: bool = field(default=False, compare=False)
    """True if the user may change settings that affect all users."""

    def __post_init__(self) -> None:
        check_user_id(self.user_id)


LOCAL_USER = Principal("local", is_admin=True)
"""The user of a server that listens on loopback only."""
