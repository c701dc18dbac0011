"""Teams, their members and grants as plain data."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from deerflow.domain.errors import InvalidRequest
from deerflow.domain.threads import ThreadRecord

TeamRole = Literal["owner", "member"]
Access = Literal["read", "write"]
"""Rights of a grant; write includes read."""
ResourceKind = Literal["thread", "agent", "skill"]
MAX_NAME_CHARS = 100
NO_ACCOUNTS = "sharing with people needs accounts; create the first one with `deerflow users add`"


@dataclass(frozen=True, slots=True)
class Team:
    """Team, with the role of the person who asks; None for an administrator who is not a member."""

    team_id: str
    name: str
    created_at: datetime
    role: TeamRole | None = None
    members: int = 0


@dataclass(frozen=True, slots=True)
class TeamMember:
    """Member of a team."""

    user_id: str
    email: str
    role: TeamRole
    added_at: datetime


@dataclass(frozen=True, slots=True)
class SharedResource:
    """Thing that its owner may share: a thread by its id, an agent or a skill by its name."""

    owner: str
    kind: ResourceKind
    name: str


@dataclass(frozen=True, slots=True)
class Grantee:
    """Person or team that something is shared with; one of the two is set."""

    user_id: str | None = None
    team_id: str | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """Grant, with the address of the person or the name of the team."""

    grant_id: str
    access: Access
    created_at: datetime
    user_id: str | None
    team_id: str | None
    name: str


@dataclass(frozen=True, slots=True)
class ThreadAccess:
    """Right of a person to the thread of another person."""

    owner: str
    access: Access


@dataclass(frozen=True, slots=True)
class SharedThreadEntry:
    """Thread that is shared with a person, and the address of its owner."""

    thread: ThreadRecord
    access: Access
    shared_by: str


def clean_team_name(name: str) -> str:
    """Return the name of a team without white space around it.

    Raises:
        InvalidRequest: It is empty, too long or not printable.
    """
    cleaned = " ".join(name.split())
    if not cleaned or len(cleaned) > MAX_NAME_CHARS or not cleaned.isprintable():
        raise InvalidRequest(f"the name of a team has 1 to {MAX_NAME_CHARS} printable characters")
    return cleaned
