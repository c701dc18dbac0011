"""What pydantic objects to, in words for the person who wrote the file."""

import json
import re
from types import MappingProxyType
from typing import Any

from pydantic_core import ErrorDetails

from deerflow.config.reading.likeness import nearest

LONGEST_QUOTE = 40
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


def requirement(error: ErrorDetails) -> str:
    """What the value must be."""
    kind, context = error["type"], error.get("ctx", {})
    if kind in REQUIREMENTS:
        return REQUIREMENTS[kind].format(**context)
    if kind == "string_too_short" and context["min_length"] == 1:
        return "must not be empty"
    if kind == "objection":
        return str(context["sentence"])
    message = error["msg"].replace("Input should", "must")
    return message[:1].lower() + message[1:]


def correction(error: ErrorDetails, written: str | None) -> str:
    """What was given instead, and what to write when that can be guessed."""
    kind, value = error["type"], error["input"]
    if kind not in REQUIREMENTS:
        return str(error.get("ctx", {}).get("hint", ""))
    if value is None:
        return ", but has no value"
    return f", not {_name(value, written)}{_hint(kind, value, written, error)}"


def _name(value: Any, written: str | None) -> str:
    if isinstance(value, str):
        return f"the text {_short(value)!r}"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, (bool, int, float)):
        return _short(json.dumps(value) if written is None else written)
    return f"a {type(value).__name__}"


def _hint(kind: str, value: Any, written: str | None, error: ErrorDetails) -> str:
    if kind == "string_type" and written is not None:
        return f'; put it in quotes: "{_short(written)}"'
    if kind in {"int_type", "float_type"} and isinstance(value, str) and re.fullmatch(r"[-+]?\d+(\.\d+)?", value):
        return "; remove the quotes" if kind == "float_type" or "." not in value else ""
    if kind == "literal_error" and isinstance(value, str):
        guess = nearest(value, re.findall(r"'([^']*)'", error["ctx"]["expected"]))
        return f"; did you mean {guess!r}?" if guess else ""
    return ""


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}…"
