"""Memories as documents: those of others are taken over, odd ones refused whole, and nothing is lost on the way."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from deerflow.domain.errors import InvalidRequest, StorageUnavailable
from deerflow.domain.memory import GONE, MemoryScope, MemoryState, Source, knowing, summarising
from deerflow.memory.document import edits_for, read_document, to_document
from deerflow.memory.ledger import Ledger
from deerflow.memory.storage import JsonFileStorage, LedgerStorage
from tests.memory.notes import MINE, fact

FOUND: dict[str, Any] = {
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


NO_MEMORIES: list[tuple[dict[str, Any], str]] = [
    ({"facts": "none"}, "facts: "),
    ({"facts": [{"content": ""}]}, r"facts\.0\.content: "),
    ({"facts": [{"content": "x", "confidence": 7}]}, r"facts\.0\.confidence: "),
    ({"facts": [{"content": "x", "createdAt": "yesterday"}]}, r"facts\.0\.createdAt: "),
    ({"facts": [{"content": "x", "createdAt": 5}]}, r"facts\.0\.createdAt: "),
    ({"user": {"topOfMind": {"summary": 5}}}, r"user\.topOfMind\.summary: "),
    ({"history": []}, "history: "),
]


async def test_what_is_not_a_memory_is_refused_and_what_is_known_stays(ledger: Ledger) -> None:
    storage = LedgerStorage(ledger)
    await storage.save(MINE, FOUND)
    before = await storage.load(MINE)
    for document, where in NO_MEMORIES:
        with pytest.raises(InvalidRequest, match=f"this is not a memory: {where}"):
            await storage.save(MINE, document)
    assert await storage.reload(MINE) == before


async def test_an_existing_document_is_taken_over_and_comes_out_as_it_went_in(ledger: Ledger) -> None:
    storage = LedgerStorage(ledger)
    await storage.save(MINE, FOUND)
    state = await ledger.state(MINE)
    assert state.facts[0].source == Source("thread-7") and state.facts[1].source_error == "said architect"
    assert state.summaries["history.recentMonths"].updated_at == datetime(2025, 2, 1, 10, tzinfo=UTC)

    exported = await storage.load(MINE)
    assert exported["facts"][0] == FOUND["facts"][0]
    assert exported["facts"][1] == {**FOUND["facts"][1], "category": "context", "confidence": 1.0}
    assert exported["user"]["workContext"] == FOUND["user"]["workContext"]
    assert exported["user"]["topOfMind"] == {"summary": "", "updatedAt": ""}

    await storage.save(MINE, FOUND)  # an odd name always becomes the same one
    assert (await ledger.state(MINE)).facts[:2] == state.facts[:2]
    await storage.save(MINE, exported)
    again = {**(await storage.load(MINE)), "lastUpdated": ""}
    assert again == {**exported, "lastUpdated": ""}
    other = MemoryScope("somebody else")
    await storage.save(other, exported)
    assert {**(await storage.load(other)), "lastUpdated": ""} == again


def test_a_document_changes_only_what_is_different_in_it() -> None:
    now = datetime.now(UTC)
    told = fact("Likes tea", thread="t1")
    state = MemoryState([told, fact("Likes rain")], {}, now, 2)
    document = to_document(state)
    document["facts"].pop()
    document["facts"][0]["content"] = "Likes green tea"
    document["user"]["topOfMind"]["summary"] = "Tea"
    edits = edits_for(read_document(document), state, now)
    assert [(edit.target, edit.after and getattr(edit.after, "content", "")) for edit in edits] == [
        (state.facts[1].id, None),
        (told.id, "Likes green tea"),
        ("user.topOfMind", ""),
    ]
    assert getattr(edits[1].after, "source", None) == told.source, "what the document does not tell is kept"


def test_the_source_of_a_fact_outlives_its_thread_as_a_word() -> None:
    state = MemoryState([fact("A", source=GONE), fact("B")])
    entries = to_document(state)["facts"]
    assert [entry["source"] for entry in entries] == ["deleted thread", "manual"]
    read = [edit.after for edit in edits_for(read_document({"facts": entries}), MemoryState(), datetime.now(UTC))]
    assert [getattr(each, "source", "") for each in read] == [GONE, None]


async def test_a_file_holds_a_memory_that_people_edit_and_a_broken_one_is_told_of(tmp_path: Path) -> None:
    storage = JsonFileStorage(tmp_path)
    assert await storage.load(MINE) is None
    await storage.save(MINE, FOUND)
    await storage.save(MemoryScope("me", "helper"), {"facts": []})
    assert await storage.load(MINE) == FOUND and await storage.reload(MemoryScope("me", "helper")) == {"facts": []}
    for content in (b"{", b"[]"):
        storage.path(MINE).write_bytes(content)
        with pytest.raises(StorageUnavailable, match=r"the memory in 'memory.json'"):
            await storage.load(MINE)
    assert len(list(storage.path(MINE).parent.iterdir())) == 2, "nothing is left lying about"


async def test_a_storage_elsewhere_is_told_of_every_change(ledger: Ledger, tmp_path: Path) -> None:
    kept: list[dict[str, Any]] = []

    async def keep(scope: MemoryScope, state: MemoryState) -> None:
        kept.append(to_document(state))

    told = Ledger(ledger.database, ledger.scrub, keep)
    tea = fact("Likes tea")
    changes = await told.apply(MINE, [knowing(tea), summarising("user.topOfMind", "Tea", tea.created_at)], "user")
    await told.apply(MINE, [knowing(tea)], "user")
    await told.undo(MINE, changes[0].change_id)
    await told.erase_all(MINE)
    assert [len(document["facts"]) for document in kept] == [1, 0, 0]
    assert orjson.dumps(kept[-1]).count(b"Tea") == 0
