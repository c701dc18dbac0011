"""Facts for tests."""

from datetime import UTC, datetime

from deerflow.domain.memory import Category, Fact, FactSource, MemoryScope, MemoryState, new_fact_id

MINE = MemoryScope("me")


def fact(content: str, category: Category = "preference", thread: str | None = None, **more: object) -> Fact:
    """Return a fact, extracted from a thread or added by the user."""
    source = FactSource(thread, "m1", f"they said: {content}") if thread else None
    fields: dict[str, object] = {"confidence": 0.8, "created_at": datetime.now(UTC), "source": source, **more}
    return Fact(id=new_fact_id(), content=content, category=category, **fields)  # type: ignore[arg-type]


def contents(state: MemoryState) -> list[str]:
    """Return the contents of the facts."""
    return [each.content for each in state.facts]
