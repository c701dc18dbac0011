"""External storage of memory documents, set by `memory.storage_class`."""

import asyncio
import contextlib
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Protocol, runtime_checkable

import orjson

from deerflow.domain.errors import StorageUnavailable
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.memory import MemoryScope, MemoryState
from deerflow.memory.document import to_document

JsonDocument = Mapping[str, Any]


@runtime_checkable
class MemoryStorage(Protocol):
    """Storage of the documents of all memories."""

    async def load(self, scope: MemoryScope) -> JsonDocument | None:
        """Return the document, None when there is none. It may be cached."""

    async def reload(self, scope: MemoryScope) -> JsonDocument | None:
        """Return the document without using a cache."""

    async def save(self, scope: MemoryScope, document: JsonDocument) -> None:
        """Store a document; replace the previous one."""


class LedgerStorage:
    """Default value of `memory.storage_class`: memory is stored in the ledger only, without external documents.

    A marker that is never instantiated. The ledger itself is always the primary storage (`memory/ledger.py`).
    """


class JsonFileStorage:
    """One JSON file per memory, which users may edit."""

    def __init__(self, home: Path, file: Path | None = None) -> None:
        """`home` is the data directory of the server; `file` holds the memory of the local user."""
        self.folder = home / "memory" if file is None else file.with_name(f"{file.stem}.others")
        self.file = file

    async def load(self, scope: MemoryScope) -> JsonDocument | None:
        return await self.reload(scope)

    async def reload(self, scope: MemoryScope) -> JsonDocument | None:
        return await asyncio.to_thread(read_json, self.path(scope))

    async def save(self, scope: MemoryScope, document: JsonDocument) -> None:
        await asyncio.to_thread(write_json, self.path(scope), document)

    def path(self, scope: MemoryScope) -> Path:
        """Return the file of a memory. Owner and agent names may contain any characters, so they are hashed."""
        if self.file is not None and scope == MemoryScope(LOCAL_USER.user_id):
            return self.file
        owner = sha256(scope.owner.encode()).hexdigest()[:16]
        agent = f"-{sha256(scope.agent.encode()).hexdigest()[:16]}" if scope.agent else ""
        return self.folder / owner / f"memory{agent}.json"


async def save_copy(storage: MemoryStorage, scope: MemoryScope, state: MemoryState) -> None:
    """Save a state to an external storage."""
    await storage.save(scope, to_document(state))


def read_json(file: Path) -> JsonDocument | None:
    """Return the document in a file, None when there is none.

    Raises:
        StorageUnavailable: It cannot be read.
    """
    try:
        found = orjson.loads(file.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, orjson.JSONDecodeError) as problem:
        raise StorageUnavailable(f"cannot read memory file {file.name!r}: {problem}") from None
    if not isinstance(found, dict):
        raise StorageUnavailable(f"memory file {file.name!r} is not a JSON object")
    return found


def write_json(file: Path, document: JsonDocument) -> None:
    """Replace the document in a file atomically."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=file.parent, prefix=file.name, delete=False) as written:
        try:
            written.write(orjson.dumps(document, option=orjson.OPT_INDENT_2))
            written.flush()
            Path(written.name).replace(file)
        except OSError as problem:
            with contextlib.suppress(OSError):
                Path(written.name).unlink()
            raise StorageUnavailable(f"cannot write memory file {file.name!r}: {problem}") from None
