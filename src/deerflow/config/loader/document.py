"""Configuration documents: parsed data with the source location of every key, and the problems found in it."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel
from pydantic.fields import FieldInfo

from deerflow.domain.errors import ConfigError

KeyPath = tuple[str | int, ...]
MAX_DEPTH = 50
MIN_SIMILARITY = 0.6


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A position in a file, or an argument, which has no lines."""

    source: str
    line: int | None = None
    column: int = 0
    written: str | None = None
    """The source text of a plain scalar."""

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One problem in a configuration."""

    location: SourceLocation
    path: KeyPath
    text: str

    def __str__(self) -> str:
        key = f"{format_path(self.path)}: " if self.path else ""
        return f"{self.location}: {key}{self.text}"


class InvalidConfig(ConfigError):
    """All problems of a configuration, one line each, in the order of the file."""

    def __init__(self, problems: Iterable[ConfigProblem]) -> None:
        self.problems = tuple(sorted(dict.fromkeys(problems), key=_sort_key))
        super().__init__("\n".join(map(str, self.problems)))


def _sort_key(problem: ConfigProblem) -> tuple[bool, int, int]:
    location = problem.location
    return (location.line is None, location.line or 0, location.column)


@dataclass(frozen=True, slots=True)
class ConfigDocument:
    """A tree of mappings, lists and values, with the location of every key."""

    data: dict[str, Any]
    locations: Mapping[KeyPath, SourceLocation]
    problems: tuple[ConfigProblem, ...] = ()
    variables: Mapping[KeyPath, tuple[str, ...]] = field(default_factory=dict)
    """The environment variables that each value was made of."""

    def locate(self, path: KeyPath) -> SourceLocation:
        """Return the location of `path`, or of its nearest ancestor that has one."""
        return next(self.locations[path[:end]] for end in range(len(path), -1, -1) if path[:end] in self.locations)

    def make_problem(self, path: KeyPath, text: str) -> ConfigProblem:
        """Return a problem at the location of `path`."""
        return ConfigProblem(self.locate(path), path, text)

    def drop_keys(self, *keys: str) -> "ConfigDocument":
        """Return the document without some top-level keys."""
        return replace(self, data={key: value for key, value in self.data.items() if key not in keys})


def make_empty_document(name: str) -> ConfigDocument:
    """Return the document of an empty file."""
    return ConfigDocument({}, {(): SourceLocation(name)})


def from_mapping(data: Mapping[str, object], name: str) -> ConfigDocument:
    """Return the document for a mapping given in code."""
    location = SourceLocation(name)
    problems: list[ConfigProblem] = []
    return ConfigDocument(_to_plain(data, (), location, problems), {(): location}, tuple(problems))


def merge_documents(base: ConfigDocument, over: ConfigDocument) -> ConfigDocument:
    """Return both documents merged: mappings key by key, other values from `over`."""
    replaced: set[KeyPath] = set()
    data = _merge(base.data, over.data, (), replaced)
    locations = {path: location for path, location in base.locations.items() if not _is_within(path, replaced)}
    locations |= {path: over.locate(path) for path in replaced}
    return ConfigDocument(data, locations, base.problems + over.problems)


def _to_plain(value: object, path: KeyPath, location: SourceLocation, problems: list[ConfigProblem]) -> Any:
    """Return `value` with mappings as dicts and sequences as lists, the only types the following steps know."""
    if len(path) > MAX_DEPTH:
        problems.append(ConfigProblem(location, path[:1], "is nested too deeply"))
        return None
    if isinstance(value, Mapping):
        wrong = [key for key in value if not isinstance(key, str)]
        problems += [ConfigProblem(location, path, f"keys must be text, not {key!r}") for key in wrong]
        own = {key: item for key, item in value.items() if isinstance(key, str)}
        return {key: _to_plain(item, (*path, key), location, problems) for key, item in own.items()}
    if isinstance(value, (list, tuple)):
        return [_to_plain(item, (*path, index), location, problems) for index, item in enumerate(value)]
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


def format_path(path: KeyPath) -> str:
    """Return a key path as text, such as `models[0].name`."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{_format_key(key)}" for key in path)
    return text.removeprefix(".")


def _format_key(key: str) -> str:
    return key if re.fullmatch(r"[\w-]+", key) else repr(key)


def find_nearest(key: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate most similar to `key`; None when none is similar."""
    found = max(candidates, key=lambda candidate: measure_similarity(key, candidate), default=None)
    return found if found is not None and measure_similarity(key, found) >= MIN_SIMILARITY else None


def measure_similarity(key: str, other: str) -> float:
    """Return the similarity of two keys from 0 to 1; case, dashes and underscores are ignored."""
    return SequenceMatcher(None, _simplify(key), _simplify(other)).ratio()


def _simplify(key: str) -> str:
    return key.lower().replace("_", "").replace("-", "")


def find_fields(model: type[BaseModel], path: KeyPath) -> Mapping[str, FieldInfo]:
    """Return the fields of the settings at `path` by their keys; empty where any key is allowed."""
    annotation: Any = model
    for key in path:
        annotation = _find_type(annotation, key)
    found = _find_model(annotation)
    return {} if found is None else {_find_key(name, field): field for name, field in found.model_fields.items()}


def _find_type(annotation: Any, key: str | int) -> Any:
    """Return the type of the value under `key`."""
    model = _find_model(annotation)
    if model is not None:
        fields = model.model_fields.items()
        return next((field.annotation for name, field in fields if _find_key(name, field) == key), None)
    for choice in _list_choices(annotation):
        if get_origin(choice) in (list, tuple, dict):
            return get_args(choice)[1 if get_origin(choice) is dict else 0]
    return None


def _find_model(annotation: Any) -> type[BaseModel] | None:
    choices = _list_choices(annotation)
    return next((choice for choice in choices if isinstance(choice, type) and issubclass(choice, BaseModel)), None)


def _list_choices(annotation: Any) -> list[Any]:
    if get_origin(annotation) in (Union, UnionType):
        return [choice for choice in get_args(annotation) if choice is not NoneType]
    return [annotation]


def _find_key(name: str, field: FieldInfo) -> str:
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        alias = alias.choices[0]
    return alias if isinstance(alias, str) else name
