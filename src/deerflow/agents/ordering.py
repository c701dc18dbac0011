"""Positions of extra middlewares: directly after or before a built-in one."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

from langchain.agents.middleware import AgentMiddleware

AnyMiddleware = AgentMiddleware[Any, Any, Any]
M = TypeVar("M", bound=type[AnyMiddleware])
Side = Literal["after", "before"]

DECORATORS: dict[Side, str] = {"after": "Next", "before": "Prev"}
ATTRIBUTES: dict[Side, str] = {"after": "_next_anchor", "before": "_prev_anchor"}


def Next(anchor: type[AnyMiddleware]) -> Callable[[M], M]:  # a name of the founding documents
    """Place the decorated middleware directly after `anchor`."""
    return _placing(anchor, "after")


def Prev(anchor: type[AnyMiddleware]) -> Callable[[M], M]:
    """Place the decorated middleware directly before `anchor`."""
    return _placing(anchor, "before")


def place_middlewares(chain: Sequence[AnyMiddleware], extras: Sequence[AnyMiddleware]) -> list[AnyMiddleware]:
    """Return `chain` with `extras`: anchored ones next to their anchors, others before the last middleware.

    Raises:
        TypeError: an extra is not a middleware.
        ValueError: two extras have the same position, or an anchor does not exist.
    """
    for extra in extras:
        if not isinstance(extra, AgentMiddleware):
            raise TypeError(f"extra middleware must be an instance of AgentMiddleware, not {extra!r}")
    _refuse_rivals(extras)
    placed = list(chain)
    placed[-1:-1] = [extra for extra in extras if get_anchor(extra) is None]
    waiting = [extra for extra in extras if get_anchor(extra) is not None]
    while waiting:
        ready = next((extra for extra in waiting if _place_of_anchor(extra, placed) is not None), None)
        if ready is None:
            raise ValueError(_why_not(waiting))
        _insert(ready, placed)
        waiting.remove(ready)
    last = chain[-1] if chain else None
    return sorted(placed, key=lambda middleware: middleware is last)  # stable: only the last one moves


def get_anchor(extra: AnyMiddleware) -> tuple[type[AnyMiddleware], Side] | None:
    """Return the anchor of an extra and its side."""
    for side, attribute in ATTRIBUTES.items():
        anchor = vars(type(extra)).get(attribute)
        if anchor is not None:
            return anchor, side
    return None


def _placing(anchor: type[AnyMiddleware], side: Side) -> Callable[[M], M]:
    if not (isinstance(anchor, type) and issubclass(anchor, AgentMiddleware)):
        raise TypeError(f"@{DECORATORS[side]} takes a middleware class, not {anchor!r}")

    def decorate(middleware: M) -> M:
        known = [vars(middleware)[attribute] for attribute in ATTRIBUTES.values() if attribute in vars(middleware)]
        if known:
            both = f"{known[0].__name__} and cannot be anchored to {anchor.__name__} too"
            raise ValueError(f"{middleware.__name__} is anchored to {both}: use one of @Next and @Prev, once")
        setattr(middleware, ATTRIBUTES[side], anchor)
        return middleware

    return decorate


def _refuse_rivals(extras: Sequence[AnyMiddleware]) -> None:
    owners: dict[tuple[type[AnyMiddleware], Side], AnyMiddleware] = {}
    for extra in extras:
        place = get_anchor(extra)
        if place is None:
            continue
        if place in owners:
            anchor, side = place
            names = f"{_name(owners[place])} and {_name(extra)}"
            raise ValueError(f"{names} both want to stand right {side} {anchor.__name__}: anchor one to the other")
        owners[place] = extra


def _place_of_anchor(extra: AnyMiddleware, placed: Sequence[AnyMiddleware]) -> int | None:
    anchor, _ = get_anchor(extra) or (type(extra), "after")
    return next((index for index, other in enumerate(placed) if isinstance(other, anchor)), None)


def _insert(extra: AnyMiddleware, placed: list[AnyMiddleware]) -> None:
    index = _place_of_anchor(extra, placed)
    found = get_anchor(extra)
    assert index is not None and found is not None
    placed.insert(index + (found[1] == "after"), extra)


def _why_not(waiting: Sequence[AnyMiddleware]) -> str:
    anchors = {_name(extra): anchor for extra in waiting if (anchor := (get_anchor(extra) or (None,))[0])}
    missing = [
        f"{name} is anchored to {anchor.__name__}, which is not in the chain"
        for name, anchor in anchors.items()
        if not any(isinstance(extra, anchor) for extra in waiting)
    ]
    if missing:
        return "; ".join(missing)
    circle = ", ".join(f"{name} to {anchor.__name__}" for name, anchor in anchors.items())
    return f"the anchors are circular: {circle}"


def _name(middleware: AnyMiddleware) -> str:
    return type(middleware).__name__
