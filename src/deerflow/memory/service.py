"""Operations on a user's memory: read, edit, undo, erase, import, export and disable; and external storage."""

import asyncio
import contextlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Protocol, runtime_checkable

import orjson

from deerflow.config.sections.base import Settings
from deerflow.config.sections.memory import MemoryConfig
from deerflow.domain.errors import Conflict, NotFound, StorageUnavailable
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.memory import (
    Category,
    Fact,
    FactHit,
    FactProvenance,
    MemoryChange,
    MemoryEdit,
    MemoryScope,
    MemoryState,
    ScheduledExtraction,
    SummaryKey,
    new_fact_id,
    remove_fact,
    set_summary,
    upsert_fact,
)
from deerflow.memory.document import build_edits, parse_document, to_document
from deerflow.memory.ledger import Ledger
from deerflow.memory.queries.pending import list_pending

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

    async def remove(self, owner: str) -> None:
        """Remove all memories of a user."""
        await asyncio.to_thread(shutil.rmtree, self._folder(owner), ignore_errors=True)
        if self.file is not None and owner == LOCAL_USER.user_id:
            self.file.unlink(missing_ok=True)

    def path(self, scope: MemoryScope) -> Path:
        """Return the file of a memory. Owner and agent names may contain any characters, so they are hashed."""
        if self.file is not None and scope == MemoryScope(LOCAL_USER.user_id):
            return self.file
        agent = f"-{sha256(scope.agent.encode()).hexdigest()[:16]}" if scope.agent else ""
        return self._folder(scope.owner) / f"memory{agent}.json"

    def _folder(self, owner: str) -> Path:
        return self.folder / sha256(owner.encode()).hexdigest()[:16]


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


MAX_PENDING = 50
"""Maximum number of pending threads that are listed."""


@dataclass(frozen=True, slots=True)
class FactChange:
    """Changes to a fact; None leaves a field as it is."""

    content: str | None = None
    category: Category | None = None
    confidence: float | None = None

    def apply(self, fact: Fact) -> Fact:
        """Return the fact with the changes applied."""
        return replace(
            fact,
            content=fact.content if self.content is None else self.content.strip(),
            category=self.category or fact.category,
            confidence=fact.confidence if self.confidence is None else self.confidence,
        )


@dataclass(frozen=True, slots=True)
class MemoryService:
    """Memory of all users. Methods that change it raise `Conflict` when it is no longer at `expected_seq`."""

    ledger: Ledger
    settings: Settings[MemoryConfig]
    storage: MemoryStorage | None = None
    """External storage of documents, which other programs may edit."""

    async def read(self, scope: MemoryScope, as_of: datetime | None = None) -> MemoryState:
        """Return the memory, or its state at a point in time."""
        if as_of is None and self.storage is not None:
            await self._import_external(scope, await self.storage.load(scope))
        return await self.ledger.read_state(scope, as_of)

    async def reload(self, scope: MemoryScope) -> MemoryState:
        """Return the memory after reading the external document again."""
        if self.storage is not None:
            await self._import_external(scope, await self.storage.reload(scope))
        return await self.ledger.read_state(scope)

    async def add_fact(
        self,
        scope: MemoryScope,
        content: str,
        category: Category = "context",
        confidence: float = 0.5,
        expected_seq: int | None = None,
    ) -> Fact:
        """Add a fact.

        Raises:
            InvalidRequest: It is empty or too long.
            Conflict: Another fact has the same content.
        """
        new = Fact(new_fact_id(), content.strip(), category, confidence, datetime.now(UTC))
        made = await self.ledger.apply(scope, partial(build_addition, new), "user", expected_seq=expected_seq)
        fact = made[0].after
        assert isinstance(fact, Fact)
        return fact

    async def change_fact(
        self, scope: MemoryScope, fact_id: str, change: FactChange, expected_seq: int | None = None
    ) -> None:
        """Change a fact; its source is kept.

        Raises:
            NotFound: It does not exist.
            InvalidRequest: The new content is invalid.
            Conflict: Another fact has the same content.
        """
        edits = partial(build_change, fact_id, change)
        await self.ledger.apply(scope, edits, "user", expected_seq=expected_seq)

    async def write_summary(
        self, scope: MemoryScope, key: SummaryKey, text: str, expected_seq: int | None = None
    ) -> None:
        """Replace a summary; an empty text removes it. The change can be undone.

        Raises:
            InvalidRequest: It is too long.
        """
        edits = [set_summary(key, text.strip(), datetime.now(UTC))]
        await self.ledger.apply(scope, edits, "user", expected_seq=expected_seq)

    async def delete_fact(self, scope: MemoryScope, fact_id: str, *, keep_history: bool = False) -> None:
        """Erase a fact permanently, or remove it so that the removal can be undone.

        Raises:
            NotFound: It does not exist.
        """
        if not keep_history:
            await self.ledger.erase_fact(scope, fact_id)
            return
        await self.ledger.read_fact(scope, fact_id)
        await self.ledger.apply(scope, [remove_fact(fact_id)], "user")

    async def clear(self, scope: MemoryScope, *, keep_history: bool = False) -> None:
        """Erase everything permanently, or remove it so that the removal can be undone."""
        if keep_history:
            await self.import_document(scope, {})
        else:
            await self.ledger.erase_all(scope)

    async def import_document(
        self, scope: MemoryScope, document: Mapping[str, Any], expected_seq: int | None = None
    ) -> Sequence[MemoryChange]:
        """Replace the memory by a document, as one change that can be undone.

        Raises:
            InvalidRequest: It is not a memory document.
        """
        read = await asyncio.to_thread(parse_document, document)
        edits = partial(build_edits, read, now=datetime.now(UTC))
        return await self.ledger.apply(scope, edits, "import", expected_seq=expected_seq)

    async def search(
        self, scope: MemoryScope, words: str, limit: int = 10, category: Category | None = None
    ) -> Sequence[FactHit]:
        """Return facts that contain any of the words, best first."""
        return await self.ledger.search(scope, words, limit, category)

    async def read_history(
        self, scope: MemoryScope, limit: int = 50, before: int | None = None, fact_id: str | None = None
    ) -> Sequence[MemoryChange]:
        """Return changes, newest first."""
        return await self.ledger.read_history(scope, limit, before, fact_id)

    async def undo(self, scope: MemoryScope, which: str) -> Sequence[MemoryChange]:
        """Undo a change, or a group of changes; raises `NotFound` and `Conflict`."""
        return await self.ledger.undo(scope, which)

    async def explain(self, scope: MemoryScope, fact_id: str) -> FactProvenance:
        """Return the provenance of a fact, or raise `NotFound`."""
        return await self.ledger.explain(scope, fact_id)

    async def erase_thread(self, scope: MemoryScope, thread_id: str) -> None:
        """Erase the facts that were extracted from a thread, and everything derived from them."""
        await self.ledger.erase_thread(scope, thread_id)

    async def list_pending(self, scope: MemoryScope) -> Sequence[ScheduledExtraction]:
        """Return the threads with pending extraction, in order of processing."""
        return await self.ledger.database.read(partial(list_pending, scope=scope, limit=MAX_PENDING))

    async def is_enabled(self, scope: MemoryScope) -> bool:
        """Return whether the user allows this memory; the server configuration may still disable memory."""
        return not await self.ledger.is_off(scope)

    async def set_enabled(self, scope: MemoryScope, *, is_on: bool) -> None:
        """Enable or disable reading and extraction for this memory; its content is kept."""
        await self.ledger.set_off(scope, is_off=not is_on)

    async def forget_thread(self, thread_id: str, user_id: str) -> None:
        """Remove a deleted thread from all memories of a user, as configured by `forget_with_thread`."""
        await self.ledger.forget_thread(thread_id, user_id, with_facts=self.settings.current.forget_with_thread)

    async def forget_user(self, user_id: str) -> None:
        """Remove all memories of a user from the external storage. Their rows are deleted with all others."""
        if isinstance(self.storage, JsonFileStorage):
            await self.storage.remove(user_id)
        elif self.storage is not None:  # its files are its own, so it gets empty documents
            for scope in await self.ledger.list_scopes(user_id):
                await self.ledger.erase_all(scope)

    async def _import_external(self, scope: MemoryScope, document: Mapping[str, Any] | None) -> None:
        if document is not None:
            await self.import_document(scope, document)


def build_addition(new: Fact, state: MemoryState) -> Sequence[MemoryEdit]:
    """Return the edit that adds a fact, or raise `Conflict` when another fact has the same content."""
    for fact in state.facts:
        if fact.id != new.id and normalize_content(fact.content) == normalize_content(new.content):
            raise Conflict(f"already known as fact {fact.id!r}")
    return [upsert_fact(new)]


def build_change(fact_id: str, change: FactChange, state: MemoryState) -> Sequence[MemoryEdit]:
    """Return the edit that changes a fact, or raise `NotFound`."""
    for fact in state.facts:
        if fact.id == fact_id:
            # The change itself is made by the user, wherever the fact came from.
            return [replace(edit, source=None) for edit in build_addition(change.apply(fact), state)]
    raise NotFound(f"no fact {fact_id!r} in memory")


def normalize_content(content: str) -> str:
    """Return a text in which case and whitespace are normalized, for comparison."""
    return " ".join(content.casefold().split())
