"""Looking for rows by what their JSON holds."""

from collections.abc import Mapping

import orjson
from sqlalchemy import ColumnElement, Text, cast
from sqlalchemy.types import JSON

from deerflow.domain.errors import InvalidRequest


def holds(column: ColumnElement[JSON], wanted: Mapping[str, object]) -> list[ColumnElement[bool]]:
    """That the object in `column` has these values at its top.

    Raises:
        InvalidRequest: a value is neither a text nor a number nor true or false.
    """
    return [equals(column, key, value) for key, value in wanted.items()]


def equals(column: ColumnElement[JSON], key: str, value: object) -> ColumnElement[bool]:
    """That the object in `column` has `value` under `key`. They are compared as texts, which any two values can be."""
    if '"' in key or "\\" in key:
        raise InvalidRequest(f"{key!r} cannot be looked for: leave out quotes and backslashes")
    return cast(column[key].as_string(), Text).in_(words_for(key, value))


def words_for(key: str, value: object) -> list[str]:
    """How databases write a value."""
    if isinstance(value, bool):
        return ["true", "1"] if value else ["false", "0"]
    if isinstance(value, str):
        return [value]
    if isinstance(value, int | float):
        return [orjson.dumps(value).decode()]
    raise InvalidRequest(f"{key!r} can be looked for by a text, a number, true or false, not by {value!r}")
