"""Where memories are kept as documents: in the ledger, or wherever `memory.storage_class` says."""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Protocol

import orjson

from deerflow.domain.errors import StorageUnavailable
from deerflow.domain.memory import Actor, MemoryScope, MemoryState
from deerflow.memory.document import edits_for, read_document, to_document
from deerflow.memory.ledger import Ledger

DocumentFields = Mapping[str, Any]


class MemoryStorage(Protocol):
    """Keeps the documents of all memories."""

    async def load(self, scope: MemoryScope) -> DocumentFields | None:
        """The document; None when there is none. It may be one that was read before."""

    async def reload(self, scope: MemoryScope) -> DocumentFields | None:
        """The document as it is now, whoever has changed it."""

    async def save(self, scope: MemoryScope, document: DocumentFields) -> None:
        """Keep a document in place of the one there was."""


@dataclass(frozen=True, slots=True)
class LedgerStorage:
    """Documents are views of the ledger, and saving one is changing what is different in it."""

    ledger: Ledger
    actor: Actor = "import"

    async def load(self, scope: MemoryScope) -> DocumentFields:
        return to_document(await self.ledger.state(scope))

    async def reload(self, scope: MemoryScope) -> DocumentFields:
        return await self.load(scope)

    async def save(self, scope: MemoryScope, document: DocumentFields, *, expected_seq: int | None = None) -> None:
        """Keep a document, or raise `InvalidRequest` when it is none, and `Conflict` when it is of another time."""
        read = await asyncio.to_thread(read_document, document)
        edits = partial(edits_for, read, now=datetime.now(UTC))
        await self.ledger.apply(scope, edits, self.actor, expected_seq=expected_seq)


class JsonFileStorage:
    """A file for each memory, which people may edit: `memory.json`, or that of an agent."""

    def __init__(self, home: Path) -> None:
        """`home` is where the server keeps everything."""
        self.folder = home / "memory"

    async def load(self, scope: MemoryScope) -> DocumentFields | None:
        return await self.reload(scope)

    async def reload(self, scope: MemoryScope) -> DocumentFields | None:
        return await asyncio.to_thread(read_json, self.path(scope))

    async def save(self, scope: MemoryScope, document: DocumentFields) -> None:
        await asyncio.to_thread(write_json, self.path(scope), document)

    def path(self, scope: MemoryScope) -> Path:
        """The file of a memory. Names of people and agents may be anything, so they are not those of files."""
        owner = sha256(scope.owner.encode()).hexdigest()[:16]
        agent = f"-{sha256(scope.agent.encode()).hexdigest()[:16]}" if scope.agent else ""
        return self.folder / owner / f"memory{agent}.json"


async def keep_copy(storage: MemoryStorage, scope: MemoryScope, state: MemoryState) -> None:
    """Have another storage hold what the ledger does."""
    await storage.save(scope, to_document(state))


def read_json(file: Path) -> DocumentFields | None:
    """The document in a file; None when there is none.

    Raises:
        StorageUnavailable: it cannot be read.
    """
    try:
        found = orjson.loads(file.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, orjson.JSONDecodeError) as problem:
        raise StorageUnavailable(f"the memory in {file.name!r} cannot be read: {problem}") from None
    if not isinstance(found, dict):
        raise StorageUnavailable(f"the memory in {file.name!r} is not an object")
    return found


def write_json(file: Path, document: DocumentFields) -> None:
    """Put a document in the place of the one in a file: whole or not at all."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=file.parent, prefix=file.name, delete=False) as written:
        try:
            written.write(orjson.dumps(document, option=orjson.OPT_INDENT_2))
            written.flush()
            Path(written.name).replace(file)
        except OSError as problem:
            with contextlib.suppress(OSError):
                Path(written.name).unlink()
            raise StorageUnavailable(f"the memory in {file.name!r} cannot be written: {problem}") from None
