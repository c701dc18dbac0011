"""What is wrong with a YAML text that cannot even be read, in plain words."""

import re

import yaml

from deerflow.config.reading.problems import Place, Problem

# What the YAML reader says, what the person who wrote the file needs to hear, and whether that is about
# the place where the reader gave up or about the place where the broken thing began.
YAML_SENTENCES = (
    (r"found character '\\t'", "a tab is used for indentation; use spaces", "end"),
    (r"found character '(.)' that cannot start", "a value cannot start with '{0}'; put it in quotes", "end"),
    (r"mapping values are not allowed", "unexpected ':'; check the indentation, or put the value in quotes", "end"),
    (r"could not find expected ':'", "a ':' is missing after the key", "start"),
    (r"found unexpected end of stream", "a quote is not closed", "start"),
    (r"found unknown escape character '(.)'", "a backslash in double quotes; write '\\\\' or use single quotes", "end"),
    (r"found undefined alias '(.*)'", "the alias '*{0}' has no anchor '&{0}' before it", "end"),
    (r"found duplicate anchor '(.*)'", "the anchor '&{0}' is set twice", "end"),
    (r"but found another document", "only one document is allowed; remove the second '---'", "end"),
    (r"expected <block end>", "the indentation does not match the lines above", "end"),
    (r"expected ',' or '(.)'", "a ',' or the closing '{0}' is missing", "start"),
)


def explain_yaml(error: yaml.YAMLError, text: str, source: str) -> Problem:
    """Where and why the YAML reader gave up."""
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return Problem(Place(source, line), (), f"the character {chr(error.character)!r} is not allowed in YAML")
    if not isinstance(error, yaml.MarkedYAMLError):
        return Problem(Place(source), (), "is not valid YAML")
    reason = error.problem or error.context or "is not valid YAML"
    for pattern, sentence, side in YAML_SENTENCES:
        if match := re.search(pattern, reason):
            mark = (side == "start" and error.context_mark) or error.problem_mark
            return Problem(_at(mark, source), (), sentence.format(*match.groups()))
    return Problem(_at(error.problem_mark, source), (), f"is not valid YAML: {reason}")


def _at(mark: yaml.Mark | None, source: str) -> Place:
    return Place(source) if mark is None else Place(source, mark.line + 1, mark.column + 1)
