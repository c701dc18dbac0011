"""What is known about people: where it is kept."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

from deerflow.config.imports import load_object
from deerflow.config.memory import LEDGER_STORAGE
from deerflow.config.source import ConfigSource
from deerflow.memory.ledger import Ledger
from deerflow.memory.memories import Memories
from deerflow.memory.storage import MemoryStorage, keep_copy
from deerflow.persistence.database import Database
from deerflow.persistence.scrubbing import scrub


def make_memories(database: Database, source: ConfigSource) -> Memories:
    """The memories of everybody, kept in the database, and elsewhere too if that is configured."""
    loaded = source.current
    place = loaded.config.database.place(loaded.home)
    elsewhere = find_storage(loaded.config.memory.storage_class, loaded.home)
    keep = partial(keep_copy, elsewhere) if elsewhere else None
    return Memories(Ledger(database, partial(scrub, place), keep), lambda: source.refresh().config.memory, elsewhere)


def find_storage(path: str, home: Path) -> MemoryStorage | None:
    """The storage that the configuration names; None when the ledger is enough."""
    if path == LEDGER_STORAGE:
        return None
    return cast(Callable[[Path], MemoryStorage], load_object(path))(home)
