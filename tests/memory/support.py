"""Facts, outputs of the extraction model and pending extractions, for tests."""

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import uuid4

from sqlalchemy import Connection, and_, select

from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.memory import Category, Fact, FactSource, MemoryScope, MemoryState, PendingExtraction, new_fact_id
from deerflow.harness import Harness
from deerflow.memory.ledger import Ledger
from deerflow.memory.queries.facts import owned_by
from deerflow.memory.queries.pending import claim_first, to_payer
from deerflow.persistence.queries.threads import insert_thread
from deerflow.persistence.tables import memory_pending

LONG_DEBOUNCE = {"debounce_seconds": 3600}
"""Facts are extracted only when a test requests it."""
TABS_FACT = {"content": "The user prefers tabs", "message": 1, "quote": "I prefer tabs"}
NOW = datetime(2026, 1, 1, tzinfo=UTC)
WAIT = timedelta(seconds=30)
LEASE = timedelta(seconds=60)
LOCAL_SCOPE = MemoryScope(LOCAL_USER.user_id)
SCOPE = MemoryScope("me")


def make_fact(content: str, category: Category = "preference", thread: str | None = None, **more: object) -> Fact:
    """Return a fact, extracted from a thread or added by the user."""
    source = FactSource(thread, "m1", f"they said: {content}") if thread else None
    fields: dict[str, object] = {"confidence": 0.8, "created_at": datetime.now(UTC), "source": source, **more}
    return Fact(id=new_fact_id(), content=content, category=category, **fields)  # type: ignore[arg-type]


def list_contents(state: MemoryState) -> list[str]:
    """Return the contents of the facts."""
    return [each.content for each in state.facts]


def build_extraction_output(*facts: dict[str, object], remove: tuple[str, ...] = (), **summaries: str) -> str:
    """Return an output of the extraction model with these facts and summaries; the default confidence is high."""
    user = {key: {"summary": text, "shouldUpdate": True} for key, text in summaries.items()}
    sure = [{"category": "preference", "confidence": 0.9, **fact} for fact in facts]
    return json.dumps({"user": user, "newFacts": sure, "factsToRemove": list(remove)})


async def extract_now(harness: Harness, scope: MemoryScope) -> int:
    """Process the pending extractions of a memory once each, without debounce; return their number."""
    done: list[str] = []

    def claim(connection: Connection) -> PendingExtraction | None:
        which = and_(owned_by(memory_pending, scope), memory_pending.c.thread_id.not_in(done))
        return claim_first(connection, which, datetime.now(UTC), uuid4().hex, LEASE)

    while extraction := await harness.core.database.write(claim):
        await harness.extraction.extract(extraction)
        done.append(extraction.thread_id)
    return len(done)


async def create_thread(ledger: Ledger, thread: str = "t") -> None:
    made = partial(insert_thread, thread_id=thread, owner=LOCAL_SCOPE.owner, metadata={})
    await ledger.database.write(made)


def read_remaining_tokens(connection: Connection) -> int:
    """Return the tokens that are left for the pending extraction."""
    payer = to_payer(connection.execute(select(memory_pending.c.data)).scalar_one())
    assert payer is not None and payer.limit is not None and payer.limit.max_tokens is not None
    return payer.limit.max_tokens
