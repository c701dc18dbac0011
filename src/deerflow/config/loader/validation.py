"""Validation of documents: problems in plain words, and masking of secrets."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from deerflow.config.loader.document import (
    ConfigDocument,
    ConfigProblem,
    InvalidConfig,
    KeyPath,
    find_fields,
    find_nearest,
    format_path,
)

CUSTOM_ERROR = "custom"
"""The type of the errors that `sections.base.make_error` returns."""
MASK = "********"
NO_VARIABLES: Mapping[KeyPath, tuple[str, ...]] = MappingProxyType({})
SECRET_WORDS = re.compile(
    r"(^|[_-])(api[_-]?keys?|token|secret|password|passwd|authorization|credentials?)$|_key$", re.I
)
MIN_SECRET_CHARS = 8
"""Shorter values occur in any text and protect nothing."""
PLACEHOLDER_KEYS = frozenset(
    {
        "ollama",
        "empty",
        "none",
        "null",
        "x",
        "lm-studio",
        "no-key",
        "no-key-required",
        "sk-no-key-required",
        "not-needed",
    }
    | {"not-used", "unused", "placeholder", "anything", "dummy", "dummy-key", "changeme", "your-api-key"}
)
"""Values that people write as a key where none is needed, in lower case."""
CREDENTIALS_IN_URL = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def is_secret(path: KeyPath) -> bool:
    """Return True if a key is named like a secret."""
    names = [key for key in path if isinstance(key, str)]
    # `openAIApiKey` and `X-Api-Key` name the same thing.
    return any(SECRET_WORDS.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)) for name in names)


def is_redactable(secret: str) -> bool:
    """Return True if a secret is replaced in texts: not if it is a word that error messages contain anyway."""
    return len(secret) >= MIN_SECRET_CHARS and secret.lower() not in PLACEHOLDER_KEYS


def mask(value: Any, variables: Mapping[KeyPath, tuple[str, ...]] = NO_VARIABLES, path: KeyPath = ()) -> Any:
    """Return `value` for display: without secrets and without values of variables."""
    if isinstance(value, Mapping):
        return {key: mask(item, variables, (*path, key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [mask(item, variables, (*path, index)) for index, item in enumerate(value)]
    if names := variables.get(path):
        return f"{MASK} (from {', '.join(f'${name}' for name in names)})"
    if value is None:
        return None
    if is_secret(path):
        return MASK
    return CREDENTIALS_IN_URL.sub(MASK, value) if isinstance(value, str) else value


MAX_QUOTE_CHARS = 40
MAPPING = "a mapping: lines of the form 'key: value'"
LIST = "a list: lines that start with '- '"

REQUIREMENTS = MappingProxyType(
    {
        "string_type": "must be text",
        "int_type": "must be a whole number",
        "int_from_float": "must be a whole number",
        "float_type": "must be a number",
        "finite_number": "must be a finite number",
        "bool_type": "must be true or false",
        "dict_type": f"must be {MAPPING}",
        "model_type": f"must be {MAPPING}",
        "list_type": f"must be {LIST}",
        "tuple_type": f"must be {LIST}",
        "literal_error": "must be {expected}",
        "greater_than": "must be more than {gt:g}",
        "greater_than_equal": "must be at least {ge:g}",
        "less_than": "must be less than {lt:g}",
        "less_than_equal": "must be at most {le:g}",
    }
)


def describe_requirement(error: ErrorDetails) -> str:
    """Return what the value must be."""
    kind, context = error["type"], error.get("ctx", {})
    if kind in REQUIREMENTS:
        return REQUIREMENTS[kind].format(**context)
    if kind == "string_too_short" and context["min_length"] == 1:
        return "must not be empty"
    if kind == CUSTOM_ERROR:
        return str(context["message"])
    message = error["msg"].replace("Input should", "must")
    return message[:1].lower() + message[1:]


def describe_correction(error: ErrorDetails, written: str | None) -> str:
    """Return what was given instead, with a suggestion where one can be guessed."""
    kind, value = error["type"], error["input"]
    if kind not in REQUIREMENTS:
        return str(error.get("ctx", {}).get("hint", ""))
    if value is None:
        return ", but has no value"
    return f", not {_describe_value(value, written)}{_suggest(kind, value, written, error)}"


def _describe_value(value: Any, written: str | None) -> str:
    if isinstance(value, str):
        return f"the text {_shorten(value)!r}"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, (bool, int, float)):
        return _shorten(json.dumps(value) if written is None else written)
    return f"a {type(value).__name__}"


def _suggest(kind: str, value: Any, written: str | None, error: ErrorDetails) -> str:
    if kind == "string_type" and written is not None:
        return f'; put it in quotes: "{_shorten(written)}"'
    if kind in {"int_type", "float_type"} and isinstance(value, str) and re.fullmatch(r"[-+]?\d+(\.\d+)?", value):
        return "; remove the quotes" if kind == "float_type" or "." not in value else ""
    if kind == "literal_error" and isinstance(value, str):
        guess = find_nearest(value, re.findall(r"'([^']*)'", error["ctx"]["expected"]))
        return f"; did you mean {guess!r}?" if guess else ""
    return ""


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_QUOTE_CHARS else f"{text[:MAX_QUOTE_CHARS]}…"


M = TypeVar("M", bound=BaseModel)

# Variables have no types: their text is converted to the number or boolean that the setting requires.
TEXT_CONVERTERS: Mapping[str, TypeAdapter[Any]] = MappingProxyType(
    {"int_type": TypeAdapter(int), "float_type": TypeAdapter(float), "bool_type": TypeAdapter(bool)}
)


def validate(model: type[M], document: ConfigDocument) -> M:
    """Return the settings in `document`.

    Raises:
        InvalidConfig: The document has problems.
    """
    settings, errors = _try_validate(model, document.data)
    texts = [error for error in errors if error["loc"] in document.variables and error["type"] in TEXT_CONVERTERS]
    if texts:
        document = replace(document, data=reduce(_convert_text, texts, document.data))
        settings, errors = _try_validate(model, document.data)
    reported = {problem.path for problem in document.problems}
    problems = [_make_problem(model, document, error) for error in errors if error["loc"] not in reported]
    if settings is None or document.problems:
        raise InvalidConfig([*document.problems, *problems])
    return settings


def _try_validate(model: type[M], data: object) -> tuple[M | None, list[ErrorDetails]]:
    try:
        return model.model_validate(data, by_alias=True, by_name=False), []
    except ValidationError as error:
        return None, error.errors(include_url=False)


def _convert_text(data: dict[str, Any], error: ErrorDetails) -> Any:
    """Return `data` with the text that `error` refers to converted to the required type."""
    return _convert(data, error["loc"], TEXT_CONVERTERS[error["type"]])


def _convert(data: Any, path: KeyPath, kind: TypeAdapter[Any]) -> Any:
    """Return `data` with the text at `path` converted; unchanged when the text is not valid for that type."""
    if path:
        changed = data.copy()
        changed[path[0]] = _convert(data[path[0]], path[1:], kind)
        return changed
    try:
        return kind.validate_strings(data)
    except ValidationError:
        return data


def _make_problem(model: type[BaseModel], document: ConfigDocument, error: ErrorDetails) -> ConfigProblem:
    path = error["loc"]
    if error["type"] == "extra_forbidden":
        return document.make_problem(path, _describe_unknown_key(model, path))
    if error["type"] == "missing":
        return document.make_problem(path, _describe_missing_key(model, path))
    text = describe_requirement(error)
    if names := document.variables.get(path):
        text += f"; the value comes from {' and '.join(f'${name}' for name in names)}"
    elif not is_secret(path):
        text += describe_correction(error, document.locate(path).written)
    return document.make_problem(path, text)


def _describe_unknown_key(model: type[BaseModel], path: KeyPath) -> str:
    """Return the message for an unknown key: the probable key, or the known ones."""
    parent, key = path[:-1], str(path[-1])
    known = list(find_fields(model, parent))
    if longer := [name for name in known if name.startswith(f"{key}_")]:
        return f"unknown key; did you mean {longer[0]!r}?"
    for section in [(), *((name,) for name in find_fields(model, ()))]:
        if section != parent and key in find_fields(model, section):
            level = "" if section else " at the top level"
            return f"unknown key here; did you mean {format_path((*section, key))!r}{level}?"
    if guess := find_nearest(key, known):
        return f"unknown key; did you mean {guess!r}?"
    return f"unknown key; known keys: {', '.join(known)}"


def _describe_missing_key(model: type[BaseModel], path: KeyPath) -> str:
    field = find_fields(model, path[:-1]).get(str(path[-1]))
    if field is None or not field.description:
        return "is missing"
    return f"is missing: {field.description[:1].lower()}{field.description[1:].removesuffix('.')}"
