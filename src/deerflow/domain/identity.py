"""Ids of threads and runs, and the principal of a request."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from uuid_utils import uuid7

from deerflow.domain.errors import Forbidden, InvalidRequest, NotFound, ReadOnlyAccess

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


SharedKind = Literal["agent", "skill"]
Need = Literal["read", "write", "own"]
"""Right that an operation needs; `own`: it is for the owner alone."""


@dataclass(frozen=True, slots=True)
class SharedThing:
    """Agent or skill that its owner shares with another person."""

    owner: str
    kind: SharedKind
    name: str
    access: Literal["read", "write"]
    shared_by: str
    """Address of the owner."""
    has_editors: bool = False
    """True if others than the owner and the person can change it."""
    is_accepted: bool = False
    """True if it is a skill that the person has switched on."""

    @property
    def address(self) -> str:
        """Name that is unique for the person: things of several owners may have the same name."""
        return f"{self.name}@{self.owner}"


FindShared = Callable[[str], Sequence[SharedThing]]
"""Returns what others share with a person, as far as it is known without a look into the database."""


def share_nothing(user_id: str) -> Sequence[SharedThing]:
    """Return nothing, as on a server without accounts."""
    return ()


def split_address(address: str, user_id: str) -> tuple[str, str]:
    """Return the owner and the name of a thing. An address without an owner names a thing of the person."""
    name, _, owner = address.partition("@")
    return owner or user_id, name


def require_share(things: Sequence[SharedThing], kind: SharedKind, address: str, need: Need) -> SharedThing:
    """Return the thing of another person at an address, if the person has the right.

    Raises:
        NotFound: It is not shared with the person.
        ReadOnlyAccess: It is shared for reading only.
        Forbidden: Only the owner may do this.
    """
    found = next((each for each in things if (each.kind, each.address) == (kind, address)), None)
    if found is None:
        name = address.partition("@")[0]
        raise NotFound(f"the {kind} {name!r} is not shared with you, or no longer; its address is {address!r}")
    if found.access == "read" and need != "read":
        raise ReadOnlyAccess(f"the {kind} {found.name!r} is shared with you by {found.shared_by} for reading only")
    if need == "own":
        raise Forbidden(f"only {found.shared_by}, the owner of the {kind} {found.name!r}, can do this")
    return found
