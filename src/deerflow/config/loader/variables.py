"""Environment variables in values: `$NAME` alone, `${NAME}` and `${NAME:-default}` anywhere, `$$` for a dollar sign."""

import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from deerflow.config.loader.document import ConfigDocument, ConfigProblem, InvalidConfig, KeyPath, SourceLocation
from deerflow.config.loader.files import read_text

NAME = r"[A-Za-z_][A-Za-z0-9_]*"
WHOLE_VALUE = re.compile(rf"\$({NAME})")
REFERENCE = re.compile(rf"\$(?:(?P<dollar>\$)|{{(?P<name>{NAME})(?::-(?P<default>[^${{}}]*))?}}|(?P<broken>{{))")


def substitute_variables(
    document: ConfigDocument,
    environment: Mapping[str, str],
    advice: str,
    is_in_use: Callable[[KeyPath], bool] = lambda path: True,
) -> ConfigDocument:
    """Return the document with environment variables substituted.

    Args:
        document: The document as written.
        environment: The variables.
        advice: The advice for a missing variable.
        is_in_use: Returns False for parts that stay as they are written.
    """
    substitution = _Substitution(document, environment, advice, is_in_use)
    data = substitution.substitute(document.data, ())
    problems = document.problems + tuple(substitution.problems)
    return replace(document, data=data, problems=problems, variables=substitution.variables)


@dataclass(slots=True)
class _Substitution:
    """One pass over a document."""

    document: ConfigDocument
    environment: Mapping[str, str]
    advice: str
    is_in_use: Callable[[KeyPath], bool]
    problems: list[ConfigProblem] = field(default_factory=list)
    variables: dict[KeyPath, tuple[str, ...]] = field(default_factory=dict)

    def substitute(self, value: Any, path: KeyPath) -> Any:
        if not self.is_in_use(path):
            return value
        if isinstance(value, dict):
            return {key: self.substitute(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.substitute(item, (*path, index)) for index, item in enumerate(value)]
        return self._substitute_text(value, path) if isinstance(value, str) and "$" in value else value

    def _substitute_text(self, text: str, path: KeyPath) -> str:
        if whole := WHOLE_VALUE.fullmatch(text):
            text = f"${{{whole[1]}}}"
        elif leading := WHOLE_VALUE.match(text):
            self._report(path, f"write '${{{leading[1]}}}' for a variable inside a text, or '$$' for a dollar sign")
            return text
        if names := tuple(match["name"] for match in REFERENCE.finditer(text) if match["name"]):
            self.variables[path] = names
        return REFERENCE.sub(lambda match: self._resolve(match, path), text)

    def _resolve(self, match: re.Match[str], path: KeyPath) -> str:
        if match["dollar"]:
            return "$"
        if match["broken"]:
            self._report(path, "'${' must be followed by 'NAME}' or 'NAME:-default}'; write '$${' for the text itself")
            return match[0]
        name, default = match["name"], match["default"]
        value = self.environment.get(name)
        if value is None and default is None:
            self._report(path, f"the environment variable {name} is not set; {self._advice(name)}")
            return ""
        # As in a shell, a default also replaces an empty value.
        return value or default or ""

    def _advice(self, name: str) -> str:
        nearest = get_close_matches(name, self.environment, n=1, cutoff=0.85)
        return f"did you mean {nearest[0]}?" if nearest else self.advice

    def _report(self, path: KeyPath, text: str) -> None:
        self.problems.append(self.document.make_problem(path, text))


def read_dotenv(path: Path) -> dict[str, str]:
    """Return the variables that a `.env` file sets."""
    # Most installations have no such file.
    from dotenv import dotenv_values
    from dotenv.parser import parse_stream

    text = read_text(path, path.name)
    lines = [binding.original.line for binding in parse_stream(io.StringIO(text)) if binding.error]
    if lines:
        locations = [SourceLocation(path.name, line) for line in lines]
        raise InvalidConfig(ConfigProblem(each, (), "must be of the form NAME=value") for each in locations)
    return {name: value for name, value in dotenv_values(stream=io.StringIO(text)).items() if value is not None}
