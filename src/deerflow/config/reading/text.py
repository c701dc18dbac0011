"""YAML and JSON texts as documents."""

import json
from collections.abc import Callable, Mapping
from typing import cast

from deerflow.config.imports import load_object
from deerflow.config.reading.document import Document
from deerflow.config.reading.problems import Place, Problem, WrongConfig

# By name: a server without a configuration file reads no YAML before its first run.
READ_YAML = "deerflow.config.reading.yaml_documents:read_yaml"
WRITE_YAML = "deerflow.config.reading.yaml_documents:write_yaml"

JSON_SENTENCES = (
    (
        "Expecting property name",
        "a key in double quotes is expected here; comments and a comma at the end are not allowed",
    ),
    ("Illegal trailing comma", "a comma at the end is not allowed"),
    ("Expecting ',' delimiter", "a ',' or the closing bracket is missing here"),
    ("Expecting ':' delimiter", "a ':' is missing here"),
    ("Expecting value", "a value is missing here; text needs double quotes"),
    ("Unterminated string", "a double quote is not closed"),
    ("Extra data", "something follows the closing bracket"),
    ("Invalid control character", "a line break or tab stands inside a text; write \\n or \\t"),
    ("Invalid \\escape", "a single backslash; write \\\\"),
)


def parse_yaml(text: str, source: str) -> Document:
    """The document in a YAML text.

    Raises:
        WrongConfig: The text is not YAML, or not a mapping.
    """
    return cast(Callable[[str, str], Document], load_object(READ_YAML))(text, source)


def parse_json(text: str, source: str) -> Document:
    """The document in a JSON text; an empty one counts as `{}`.

    Raises:
        WrongConfig: The text is not JSON, or not an object.
    """
    try:
        data = json.loads(text) if text.strip() else {}
    except json.JSONDecodeError as error:
        raise WrongConfig([explain_json(error, source)]) from None
    except (ValueError, RecursionError):
        raise WrongConfig([Problem(Place(source), (), "is nested too deeply or holds a number too long")]) from None
    if not isinstance(data, dict):
        raise WrongConfig([Problem(Place(source, 1), (), 'must be an object: {"key": value, …}')])
    try:
        # JSON is YAML too, except for tabs between its tokens; only the positions are taken from this reading.
        written = parse_yaml(text.replace("\t", " "), source)
    except WrongConfig:
        return Document(data, {(): Place(source)})
    return Document(data, written.places, written.problems)


def to_yaml(settings: Mapping[str, object]) -> str:
    """`settings` for reading and editing."""
    return cast(Callable[[Mapping[str, object]], str], load_object(WRITE_YAML))(settings)


def explain_json(error: json.JSONDecodeError, source: str) -> Problem:
    """Where and why the JSON reader gave up."""
    words = next((sentence for start, sentence in JSON_SENTENCES if error.msg.startswith(start)), error.msg)
    return Problem(Place(source, error.lineno, error.colno), (), words)
