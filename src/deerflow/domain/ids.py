"""Names of threads, runs and people."""

import re
from uuid import uuid4

from deerflow.domain.errors import InvalidRequest

PLAIN_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What can be a file or row name everywhere."""

NOBODY = "~"
"""The owner of what is being deleted: no person can be called so."""


def new_id() -> str:
    """A name nothing else has."""
    return str(uuid4())


def check_thread_id(thread_id: str) -> str:
    """Return `thread_id`, or raise `InvalidRequest` when it could not be a file or row name everywhere."""
    return _check("thread", thread_id)


def check_user_id(user_id: str) -> str:
    """Return `user_id`, or raise `InvalidRequest` when it could not be a file or row name everywhere."""
    return _check("user", user_id)


def _check(what: str, name: str) -> str:
    if not PLAIN_ID.fullmatch(name):
        raise InvalidRequest(f"a {what} id is 1 to 64 letters, digits, '-' or '_', not {name!r}")
    return name
