"""Settings from a document, or every objection to it in plain words."""

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from deerflow.config.reading.document import Document
from deerflow.config.reading.keys import fields_at
from deerflow.config.reading.likeness import nearest
from deerflow.config.reading.problems import KeyPath, Problem, WrongConfig, show_path
from deerflow.config.reading.secrets import is_secret
from deerflow.config.reading.wording import correction, requirement

M = TypeVar("M", bound=BaseModel)

# Variables have no types: their text becomes the number or the switch that the setting asks for.
FROM_TEXT: Mapping[str, TypeAdapter[Any]] = MappingProxyType(
    {"int_type": TypeAdapter(int), "float_type": TypeAdapter(float), "bool_type": TypeAdapter(bool)}
)


def validate(model: type[M], document: Document) -> M:
    """The settings in `document`.

    Raises:
        WrongConfig: Something in it is wrong.
    """
    settings, errors = _attempt(model, document.data)
    texts = [error for error in errors if error["loc"] in document.variables and error["type"] in FROM_TEXT]
    if texts:
        document = replace(document, data=reduce(_typed, texts, document.data))
        settings, errors = _attempt(model, document.data)
    reported = {problem.path for problem in document.problems}
    objections = [_problem(model, document, error) for error in errors if error["loc"] not in reported]
    if settings is None or document.problems:
        raise WrongConfig([*document.problems, *objections])
    return settings


def _attempt(model: type[M], data: object) -> tuple[M | None, list[ErrorDetails]]:
    try:
        return model.model_validate(data, by_alias=True, by_name=False), []
    except ValidationError as error:
        return None, error.errors(include_url=False)


def _typed(data: dict[str, Any], error: ErrorDetails) -> Any:
    """`data` with the text that `error` is about turned into what was asked for."""
    return _convert(data, error["loc"], FROM_TEXT[error["type"]])


def _convert(data: Any, path: KeyPath, kind: TypeAdapter[Any]) -> Any:
    """`data` with the text at `path` converted, or as it is when the text means nothing of that kind."""
    if path:
        changed = data.copy()
        changed[path[0]] = _convert(data[path[0]], path[1:], kind)
        return changed
    try:
        return kind.validate_strings(data)
    except ValidationError:
        return data


def _problem(model: type[BaseModel], document: Document, error: ErrorDetails) -> Problem:
    path = error["loc"]
    if error["type"] == "extra_forbidden":
        return document.problem(path, _unknown_key(model, path))
    if error["type"] == "missing":
        return document.problem(path, _missing_key(model, path))
    text = requirement(error)
    if names := document.variables.get(path):
        text += f"; the value comes from {' and '.join(f'${name}' for name in names)}"
    elif not is_secret(path):
        text += correction(error, document.place(path).written)
    return document.problem(path, text)


def _unknown_key(model: type[BaseModel], path: KeyPath) -> str:
    """Says which key was probably meant, or which there are."""
    parent, key = path[:-1], str(path[-1])
    known = list(fields_at(model, parent))
    if begun := [name for name in known if name.startswith(f"{key}_")]:
        return f"unknown key; did you mean {begun[0]!r}?"
    for section in [(), *((name,) for name in fields_at(model, ()))]:
        if section != parent and key in fields_at(model, section):
            level = "" if section else " at the top level"
            return f"unknown key here; did you mean {show_path((*section, key))!r}{level}?"
    if guess := nearest(key, known):
        return f"unknown key; did you mean {guess!r}?"
    return f"unknown key; known are {', '.join(known)}"


def _missing_key(model: type[BaseModel], path: KeyPath) -> str:
    field = fields_at(model, path[:-1]).get(str(path[-1]))
    if field is None or not field.description:
        return "is missing"
    return f"is missing: {field.description[:1].lower()}{field.description[1:].removesuffix('.')}"
