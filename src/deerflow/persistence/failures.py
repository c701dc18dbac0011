"""What goes wrong with a database, in our words."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DataError, DBAPIError, OperationalError

from deerflow.domain.errors import InvalidRequest, StorageUnavailable


@contextmanager
def naming_failures() -> Iterator[None]:
    """Say in our words that the database cannot be used, or cannot hold what it is given."""
    try:
        yield
    except (DataError, OverflowError) as problem:  # a null character in a text, a number too large for a column
        raise InvalidRequest("the database cannot hold or look for such a value") from problem
    except DBAPIError as problem:
        if not isinstance(problem, OperationalError) and not problem.connection_invalidated:
            raise
        raise StorageUnavailable(f"the database cannot be used: {problem.orig}") from problem
