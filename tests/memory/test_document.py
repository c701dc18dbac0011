"""Memory documents: import, export, files and external storage."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from deerflow.config.imports import load_object
from deerflow.config.sections.base import Settings
from deerflow.config.sections.memory import MemoryConfig
from deerflow.config.source import open_source
from deerflow.domain.errors import ConfigError, InvalidRequest, StorageUnavailable
from deerflow.domain.memory import DELETED_SOURCE, FactSource, MemoryScope, MemoryState, set_summary, upsert_fact
from deerflow.harness import open_harness
from deerflow.memory.document import build_edits, parse_document, to_document
from deerflow.memory.ledger import Ledger
from deerflow.memory.service import JsonFileStorage, LedgerStorage, MemoryService
from tests.memory.support import SCOPE, make_fact

DOCUMENT: dict[str, Any] = {
    "version": "1.0",
    "lastUpdated": "2025-03-01T10:00:00.123456Z",
    "user": {
        "workContext": {"summary": "Builds bridges.", "updatedAt": "2025-03-01T10:00:00Z"},
        "personalContext": {"summary": "", "updatedAt": ""},
    },
    "history": {"recentMonths": {"summary": "Moved to Oslo.", "updatedAt": "2025-02-01T10:00:00"}},
    "facts": [
        {"id": "fact_ab12", "content": "Prefers metric units", "category": "preference", "confidence": 0.95,
         "createdAt": "2025-01-01T00:00:00Z", "source": "thread-7"},
        {"id": "fact_cd34", "content": "桥梁工程师", "category": "hobby", "confidence": 1,
         "createdAt": "2025-01-02T00:00:00Z", "source": "manual", "sourceError": "said architect"},
        {"id": "../odd id", "content": "Has a dog", "somethingNew": True},
    ],
}  # fmt: skip


INVALID_DOCUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"facts": "none"}, "facts: "),
    ({"facts": [{"content": ""}]}, r"facts\.0\.content: "),
    ({"facts": [{"content": "x", "confidence": 7}]}, r"facts\.0\.confidence: "),
    ({"facts": [{"content": "x", "createdAt": "yesterday"}]}, r"facts\.0\.createdAt: "),
    ({"facts": [{"content": "x", "createdAt": 5}]}, r"facts\.0\.createdAt: "),
    ({"user": {"topOfMind": {"summary": 5}}}, r"user\.topOfMind\.summary: "),
    ({"history": []}, "history: "),
]


async def test_refuses_an_invalid_document_and_keeps_the_memory(ledger: Ledger) -> None:
    memory = MemoryService(ledger, Settings(MemoryConfig))
    await memory.import_document(SCOPE, DOCUMENT)
    before = to_document(await memory.read(SCOPE))
    for document, where in INVALID_DOCUMENTS:
        with pytest.raises(InvalidRequest, match=f"invalid memory document: {where}"):
            await memory.import_document(SCOPE, document)
    assert to_document(await memory.read(SCOPE)) == before


async def test_imports_and_exports_a_document_unchanged(ledger: Ledger) -> None:
    memory = MemoryService(ledger, Settings(MemoryConfig))
    await memory.import_document(SCOPE, DOCUMENT)
    state = await ledger.read_state(SCOPE)
    assert state.facts[0].source == FactSource("thread-7") and state.facts[1].source_error == "said architect"
    assert state.summaries["history.recentMonths"].updated_at == datetime(2025, 2, 1, 10, tzinfo=UTC)

    exported = to_document(await memory.read(SCOPE))
    assert exported["facts"][0] == DOCUMENT["facts"][0]
    assert exported["facts"][1] == {**DOCUMENT["facts"][1], "category": "context", "confidence": 1.0}
    assert exported["user"]["workContext"] == DOCUMENT["user"]["workContext"]
    assert exported["user"]["topOfMind"] == {"summary": "", "updatedAt": ""}

    await memory.import_document(SCOPE, DOCUMENT)  # an invalid id is always mapped to the same one
    assert (await ledger.read_state(SCOPE)).facts[:2] == state.facts[:2]
    await memory.import_document(SCOPE, exported)
    again = {**to_document(await memory.read(SCOPE)), "lastUpdated": ""}
    assert again == {**exported, "lastUpdated": ""}
    other = MemoryScope("other user")
    await memory.import_document(other, exported)
    assert {**(to_document(await memory.read(other))), "lastUpdated": ""} == again


def test_builds_edits_only_for_differences() -> None:
    now = datetime.now(UTC)
    tea = make_fact("Likes tea", thread="t1")
    state = MemoryState([tea, make_fact("Likes rain")], {}, now, 2)
    document = to_document(state)
    document["facts"].pop()
    document["facts"][0]["content"] = "Likes green tea"
    document["user"]["topOfMind"]["summary"] = "Tea"
    edits = build_edits(parse_document(document), state, now)
    assert [(edit.target, edit.after and getattr(edit.after, "content", "")) for edit in edits] == [
        (state.facts[1].id, None),
        (tea.id, "Likes green tea"),
        ("user.topOfMind", ""),
    ]
    assert getattr(edits[1].after, "source", None) == tea.source, "fields that documents lack are kept"


def test_keeps_source_names_of_deleted_threads() -> None:
    state = MemoryState([make_fact("A", source=DELETED_SOURCE), make_fact("B")])
    entries = to_document(state)["facts"]
    assert [entry["source"] for entry in entries] == ["deleted thread", "manual"]
    read = [edit.after for edit in build_edits(parse_document({"facts": entries}), MemoryState(), datetime.now(UTC))]
    assert [getattr(each, "source", "") for each in read] == [DELETED_SOURCE, None]


async def test_reads_edited_files_and_raises_for_broken_ones(tmp_path: Path) -> None:
    storage = JsonFileStorage(tmp_path)
    assert await storage.load(SCOPE) is None
    await storage.save(SCOPE, DOCUMENT)
    await storage.save(MemoryScope("me", "helper"), {"facts": []})
    assert await storage.load(SCOPE) == DOCUMENT and await storage.reload(MemoryScope("me", "helper")) == {"facts": []}
    for content in (b"{", b"[]"):
        storage.path(SCOPE).write_bytes(content)
        with pytest.raises(StorageUnavailable, match=r"memory file 'memory.json'"):
            await storage.reload(SCOPE)
    assert len(list(storage.path(SCOPE).parent.iterdir())) == 2, "no temporary file is left"


def test_the_default_storage_class_can_be_loaded() -> None:
    assert load_object(MemoryConfig().storage_class) is LedgerStorage


async def test_saves_every_change_to_the_external_storage(ledger: Ledger, tmp_path: Path) -> None:
    kept: list[dict[str, Any]] = []

    async def keep(scope: MemoryScope, state: MemoryState) -> None:
        kept.append(to_document(state))

    observed = Ledger(ledger.database, ledger.purge, keep)
    tea = make_fact("Likes tea")
    changes = await observed.apply(
        SCOPE, [upsert_fact(tea), set_summary("user.topOfMind", "Tea", tea.created_at)], "user"
    )
    await observed.apply(SCOPE, [upsert_fact(tea)], "user")
    await observed.undo(SCOPE, changes[0].change_id)
    await observed.erase_all(SCOPE)
    assert [len(document["facts"]) for document in kept] == [1, 0, 0]
    assert orjson.dumps(kept[-1]).count(b"Tea") == 0


@pytest.mark.parametrize("path", ["os:system", "pathlib:Path", "deerflow.memory.service:nothing"])
async def test_a_storage_that_is_no_class_of_storages_is_refused_before_it_is_called(tmp_path: Path, path: str) -> None:
    source = open_source(directory=tmp_path, environment={}, overrides={"memory": {"storage_class": path}})
    with pytest.raises(ConfigError, match="memory.storage_class"):
        async with open_harness(source):
            pass
