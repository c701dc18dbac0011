"""What is wrong with a configuration, and where it was written."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from deerflow.domain.errors import ConfigError

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a file, or the argument that has no lines."""

    source: str
    line: int | None = None
    column: int = 0
    written: str | None = None
    """The value as it stands there, when it is a plain one."""

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to correct."""

    place: Place
    path: KeyPath
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {show_path(self.path)}: {self.text}" if self.path else f"{self.place}: {self.text}"


class WrongConfig(ConfigError):
    """All that is wrong with a configuration, one line each, in the order of the file."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(dict.fromkeys(problems), key=_reading_order))
        super().__init__("\n".join(map(str, self.problems)))


def show_path(path: KeyPath) -> str:
    """`models[0].name`, as a reader would write it."""
    shown = "".join(f"[{key}]" if isinstance(key, int) else f".{_show_key(key)}" for key in path)
    return shown.removeprefix(".")


def _show_key(key: str) -> str:
    return key if re.fullmatch(r"[\w-]+", key) else repr(key)


def _reading_order(problem: Problem) -> tuple[bool, int, int]:
    place = problem.place
    return (place.line is None, place.line or 0, place.column)
