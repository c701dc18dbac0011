"""Environment variables in values: `$NAME` alone, `${NAME}` and `${NAME:-default}` anywhere, `$$` for a dollar."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

from deerflow.config.reading.document import Document
from deerflow.config.reading.problems import KeyPath, Problem

NAME = r"[A-Za-z_][A-Za-z0-9_]*"
ALONE = re.compile(rf"\$({NAME})")
REFERENCE = re.compile(rf"\$(?:(?P<dollar>\$)|{{(?P<name>{NAME})(?::-(?P<default>[^${{}}]*))?}}|(?P<broken>{{))")


def fill_variables(
    document: Document,
    environment: Mapping[str, str],
    advice: str,
    is_in_use: Callable[[KeyPath], bool] = lambda path: True,
) -> Document:
    """The document with the values of the variables it refers to.

    Args:
        document: What the user wrote.
        environment: The variables there are.
        advice: What to do about one that is missing.
        is_in_use: Tells which parts need the values; the others stay as they are written.
    """
    filling = _Filling(document, environment, advice, is_in_use)
    data = filling.fill(document.data, ())
    problems = document.problems + tuple(filling.problems)
    return replace(document, data=data, problems=problems, variables=filling.variables)


@dataclass(slots=True)
class _Filling:
    """One walk through a document."""

    document: Document
    environment: Mapping[str, str]
    advice: str
    is_in_use: Callable[[KeyPath], bool]
    problems: list[Problem] = field(default_factory=list)
    variables: dict[KeyPath, tuple[str, ...]] = field(default_factory=dict)

    def fill(self, value: Any, path: KeyPath) -> Any:
        if not self.is_in_use(path):
            return value
        if isinstance(value, dict):
            return {key: self.fill(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.fill(item, (*path, index)) for index, item in enumerate(value)]
        return self._text(value, path) if isinstance(value, str) and "$" in value else value

    def _text(self, text: str, path: KeyPath) -> str:
        if alone := ALONE.fullmatch(text):
            text = f"${{{alone[1]}}}"
        elif begun := ALONE.match(text):
            self._object(path, f"write '${{{begun[1]}}}' for a variable inside a text, or '$$' for a dollar sign")
            return text
        if names := tuple(match["name"] for match in REFERENCE.finditer(text) if match["name"]):
            self.variables[path] = names
        return REFERENCE.sub(lambda match: self._reference(match, path), text)

    def _reference(self, match: re.Match[str], path: KeyPath) -> str:
        if match["dollar"]:
            return "$"
        if match["broken"]:
            self._object(path, "'${' must be followed by 'NAME}' or 'NAME:-default}'; write '$${' for the text itself")
            return match[0]
        name, default = match["name"], match["default"]
        value = self.environment.get(name)
        if value is None and default is None:
            self._object(path, f"the environment variable {name} is not set; {self._advice(name)}")
            return ""
        # As in a shell, a default also stands in for an empty value.
        return value or default or ""

    def _advice(self, name: str) -> str:
        nearest = get_close_matches(name, self.environment, n=1, cutoff=0.85)
        return f"did you mean {nearest[0]}?" if nearest else self.advice

    def _object(self, path: KeyPath, text: str) -> None:
        self.problems.append(self.document.problem(path, text))
