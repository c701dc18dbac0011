"""Names of threads and runs."""

import re
from uuid import uuid4

from deerflow.domain.errors import InvalidRequest

THREAD_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")

NOBODY = "~"
"""The owner of what is being deleted: no person can be called so."""


def new_id() -> str:
    """A name nothing else has."""
    return str(uuid4())


def check_thread_id(thread_id: str) -> str:
    """Return `thread_id`, or raise `InvalidRequest` when it could not be a file or row name everywhere."""
    if not THREAD_ID.fullmatch(thread_id):
        raise InvalidRequest(f"a thread id is 1 to 64 letters, digits, '-' or '_', not {thread_id!r}")
    return thread_id
