"""Which processes on the same files are alive: each holds a lock that the system releases when it dies."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deerflow.domain.ids import new_id


@contextmanager
def sign_of_life(folder: Path) -> Iterator[str]:
    """The name under which this process is known to be alive."""
    folder.mkdir(parents=True, exist_ok=True)
    name = new_id()
    file = folder / name
    with file.open("w") as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        yield name
    file.unlink(missing_ok=True)


def is_alive(folder: Path, name: str) -> bool:
    """Whether the process of that name still lives; what a dead one left is cleared away."""
    try:
        with (folder / name).open() as mark:
            fcntl.flock(mark, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    (folder / name).unlink(missing_ok=True)
    return False
