"""What memories hold, as JSON in rows and back."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import Row

from deerflow.domain.memory import Change, Fact, Known, MemoryScope, Source, Summary

Fields = dict[str, Any]
MOMENTS = ("created_at", "valid_from", "valid_to")


def key_of(scope: MemoryScope) -> dict[str, str]:
    """What the rows of a memory have in common."""
    return {"owner": scope.owner, "agent": scope.agent or ""}


def to_fields(known: Known | None) -> Fields | None:
    """What is known, as JSON."""
    if known is None:
        return None
    fields = asdict(known)
    return {key: value.isoformat() if isinstance(value, datetime) else value for key, value in fields.items()}


def to_known(fields: Mapping[str, Any] | None) -> Known | None:
    """The same, read back."""
    if fields is None:
        return None
    return to_fact(fields) if "content" in fields else to_summary(fields)


def to_fact(fields: Mapping[str, Any]) -> Fact:
    """A fact, read back."""
    moments = {name: datetime.fromisoformat(fields[name]) if fields[name] else None for name in MOMENTS}
    return Fact(**{**fields, **moments, "source": to_source(fields["source"])})


def to_summary(fields: Mapping[str, Any]) -> Summary:
    """A summary, read back."""
    return Summary(fields["summary"], datetime.fromisoformat(fields["updated_at"]))


def to_source(fields: Mapping[str, Any] | None) -> Source | None:
    """A source, read back."""
    return None if fields is None else Source(**fields)


def to_row(scope: MemoryScope, change: Change) -> Fields:
    """A change as a row."""
    learned = change.source or getattr(change.after, "source", None)
    return {
        **key_of(scope),
        "seq": change.seq,
        "change_id": change.change_id,
        "group_id": change.group,
        "at": change.at,
        "actor": change.actor,
        "kind": change.kind,
        "target": change.target,
        "before": to_fields(change.before),
        "after": to_fields(change.after),
        "source": asdict(change.source) if change.source else None,
        "source_thread": learned.thread_id if learned else None,
        "undoes": change.undoes,
    }


def to_change(row: Row[Any]) -> Change:
    """A row as a change."""
    return Change(
        change_id=row.change_id,
        seq=row.seq,
        at=row.at,
        actor=row.actor,
        kind=row.kind,
        target=row.target,
        before=to_known(row.before),
        after=to_known(row.after),
        source=to_source(row.source),
        group=row.group_id,
        undoes=row.undoes,
    )
