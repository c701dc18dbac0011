"""Plain data that remembers where each of its parts was written."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from deerflow.config.reading.problems import KeyPath, Place, Problem

MAX_DEPTH = 50


@dataclass(frozen=True, slots=True)
class Document:
    """A tree of mappings, lists and values, with the place of every key."""

    data: dict[str, Any]
    places: Mapping[KeyPath, Place]
    problems: tuple[Problem, ...] = ()
    variables: Mapping[KeyPath, tuple[str, ...]] = field(default_factory=dict)
    """Which environment variables a value was made of."""

    def place(self, path: KeyPath) -> Place:
        """Where `path` was written, or the nearest thing around it that was."""
        return next(self.places[path[:end]] for end in range(len(path), -1, -1) if path[:end] in self.places)

    def problem(self, path: KeyPath, text: str) -> Problem:
        """`text` about `path`, at its place."""
        return Problem(self.place(path), path, text)

    def without(self, *keys: str) -> "Document":
        """The same document, with some top-level keys left out."""
        return replace(self, data={key: value for key, value in self.data.items() if key not in keys})


def empty(name: str) -> Document:
    """The document of a file that says nothing."""
    return Document({}, {(): Place(name)})


def from_argument(data: Mapping[str, object], name: str) -> Document:
    """The document that a dict in code amounts to."""
    place = Place(name)
    problems: list[Problem] = []
    return Document(_plain(data, (), place, problems), {(): place}, tuple(problems))


def merge(base: Document, over: Document) -> Document:
    """Both documents as one: mappings key by key, anything else as `over` has it."""
    replaced: set[KeyPath] = set()
    data = _merge(base.data, over.data, (), replaced)
    places = {path: place for path, place in base.places.items() if not _is_within(path, replaced)}
    places |= {path: over.place(path) for path in replaced}
    return Document(data, places, base.problems + over.problems)


def _plain(value: object, path: KeyPath, place: Place, problems: list[Problem]) -> Any:
    """`value` with mappings as dicts and sequences as lists, so that all that follows need know only these."""
    if len(path) > MAX_DEPTH:
        problems.append(Problem(place, path[:1], "is nested too deeply"))
        return None
    if isinstance(value, Mapping):
        problems += [
            Problem(place, path, f"keys must be text, not {key!r}") for key in value if not isinstance(key, str)
        ]
        return {key: _plain(item, (*path, key), place, problems) for key, item in value.items() if isinstance(key, str)}
    if isinstance(value, (list, tuple)):
        return [_plain(item, (*path, index), place, problems) for index, item in enumerate(value)]
    return value


def _merge(base: dict[str, Any], over: dict[str, Any], path: KeyPath, replaced: set[KeyPath]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(base.get(key), dict):
            merged[key] = _merge(base[key], value, (*path, key), replaced)
        else:
            merged[key] = value
            replaced.add((*path, key))
    return merged


def _is_within(path: KeyPath, roots: set[KeyPath]) -> bool:
    return any(path[:end] in roots for end in range(len(path) + 1))
