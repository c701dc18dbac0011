"""What goes wrong with a database, in our words."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, OperationalError

from deerflow.domain.errors import StorageUnavailable


@contextmanager
def naming_failures() -> Iterator[None]:
    """Say in our words that the database cannot be used."""
    try:
        yield
    except DBAPIError as problem:
        if not isinstance(problem, OperationalError) and not problem.connection_invalidated:
            raise
        raise StorageUnavailable(f"the database cannot be used: {problem.orig}") from problem
