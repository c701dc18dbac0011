"""The YAML in the header of a SKILL.md. What reads it comes with this module, so it is loaded with the first skill."""

from typing import Any

import yaml

from deerflow.config.reading.syntax import explain_yaml
from deerflow.domain.errors import SkillInvalid

MAX_HEADER_CHARACTERS = 16 * 1024
MAX_SIGNS, MAX_DEPTH = 500, 20
"""Nested signs cost the YAML reader time that grows with their square: five seconds for 16,000 brackets."""


def read_fields(header: str, where: str) -> dict[str, Any]:
    """The fields of a header, every plain value as the text that is written."""
    if len(header) > MAX_HEADER_CHARACTERS:
        raise SkillInvalid(
            f"{where}: the header has {len(header):,} characters; at most {MAX_HEADER_CHARACTERS:,} are allowed"
        )
    if any(sum(map(header.count, signs)) > MAX_SIGNS for signs in (("[", "{"), ("? ",), ("- -",))):
        raise SkillInvalid(f"{where}: the header is too intricate; write it with fewer brackets")
    try:
        root = yaml.compose(header, getattr(yaml, "CBaseLoader", yaml.BaseLoader))
    except yaml.YAMLError:
        raise SkillInvalid(explain(header, where)) from None
    except RecursionError:
        raise SkillInvalid(f"{where}: the header is nested too deeply") from None
    if not isinstance(root, yaml.MappingNode):
        raise SkillInvalid(f"{where}: the header must be lines of the form 'key: value'")
    return _Plain(where).mapping(root, 0)


def explain(header: str, where: str) -> str:
    """Why a header is no YAML; the reader that is asked for it is slow, but says more."""
    try:
        yaml.compose(header, yaml.BaseLoader)
    except yaml.YAMLError as error:
        return str(explain_yaml(error, header, where))
    return f"{where}: the header is not valid YAML"


class _Plain:
    """Turns YAML nodes into plain data, and refuses what would make much of little."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._seen: set[int] = set()

    def mapping(self, node: yaml.MappingNode, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._refuse(key, "a key must be plain text")
            if key.value in found:
                raise self._refuse(key, f"{key.value!r} is given twice")
            found[key.value] = self._value(value, depth + 1)
        return found

    def _value(self, node: yaml.Node, depth: int) -> Any:
        if id(node) in self._seen:
            raise self._refuse(node, "'*' refers to a part of the header; write the part out")
        self._seen.add(id(node))
        if depth > MAX_DEPTH:
            raise self._refuse(node, "the header is nested too deeply")
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, depth + 1) for item in node.value]
        return node.value

    def _refuse(self, node: yaml.Node, sentence: str) -> SkillInvalid:
        return SkillInvalid(f"{self._where}:{node.start_mark.line + 1}: {sentence}")
