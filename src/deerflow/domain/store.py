"""What clients keep beside threads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from deerflow.domain.errors import InvalidRequest

Namespace = tuple[str, ...]
LONGEST = 512


@dataclass(frozen=True, slots=True)
class StoredItem:
    """A value somebody keeps under a key."""

    namespace: Namespace
    key: str
    value: Mapping[str, object]
    created_at: datetime
    updated_at: datetime


def check_namespace(labels: Sequence[str], *, may_be_empty: bool = False) -> Namespace:
    """`labels` as a namespace.

    Raises:
        InvalidRequest: they are no labels, or too long together.
    """
    if not labels and not may_be_empty:
        raise InvalidRequest("a namespace has at least one label")
    for label in labels:
        if not label or "." in label:
            raise InvalidRequest(f"a label of a namespace is a text without periods, not {label!r}")
    if len(".".join(labels)) > LONGEST:
        raise InvalidRequest(f"the labels of a namespace are at most {LONGEST} characters together")
    return tuple(labels)
