"""Reading and writing YAML. Importing this module loads PyYAML, so it is imported where it is needed."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from deerflow.config.loader.document import (
    MAX_DEPTH,
    ConfigDocument,
    ConfigProblem,
    InvalidConfig,
    KeyPath,
    SourceLocation,
)

# The parser's message, the message for the author of the file, and whether it refers to the position where
# the parser stopped ("end") or where the broken element began ("start").
YAML_MESSAGES = (
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


def explain_yaml(error: yaml.YAMLError, text: str, source: str) -> ConfigProblem:
    """Return the problem that a YAML syntax error describes."""
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return ConfigProblem(
            SourceLocation(source, line), (), f"the character {chr(error.character)!r} is not allowed in YAML"
        )
    if not isinstance(error, yaml.MarkedYAMLError):
        return ConfigProblem(SourceLocation(source), (), "is not valid YAML")
    reason = error.problem or error.context or "is not valid YAML"
    for pattern, message, side in YAML_MESSAGES:
        if match := re.search(pattern, reason):
            mark = (side == "start" and error.context_mark) or error.problem_mark
            return ConfigProblem(_to_location(mark, source), (), message.format(*match.groups()))
    return ConfigProblem(_to_location(error.problem_mark, source), (), f"is not valid YAML: {reason}")


def _to_location(mark: yaml.Mark | None, source: str) -> SourceLocation:
    return SourceLocation(source) if mark is None else SourceLocation(source, mark.line + 1, mark.column + 1)


MAX_VALUES = 100_000
TAG = "tag:yaml.org,2002:"
SCALARS = frozenset({"str", "int", "float", "bool", "null"})


def read_yaml(text: str, source: str) -> ConfigDocument:
    """Return the document in a YAML text.

    Raises:
        InvalidConfig: The text is not YAML, or not a mapping.
    """
    try:
        loader = PlainLoader(text)
        root = loader.get_single_node()
    except yaml.YAMLError as error:
        raise InvalidConfig([explain_yaml(error, text, source)]) from None
    except RecursionError:
        raise InvalidConfig([ConfigProblem(SourceLocation(source), (), "is nested too deeply")]) from None
    if root is None:
        return ConfigDocument({}, {(): SourceLocation(source, 1)})
    tree = _TreeBuilder(loader, source)
    data = tree.build(root, ())
    if data is None:
        data = {}
    if not isinstance(data, dict):
        problem = ConfigProblem(tree.locations[()], (), "must be a mapping: lines of the form 'key: value'")
        raise InvalidConfig([*tree.problems, problem])
    return ConfigDocument(data, tree.locations, tuple(tree.problems))


def write_yaml(settings: Mapping[str, object]) -> str:
    """Return `settings` as YAML for reading and editing; characters that YAML treats as line breaks are escaped."""
    if not settings:
        return ""
    text: str = yaml.safe_dump(settings, allow_unicode=True, sort_keys=False)
    return text if yaml.safe_load(text) == settings else yaml.safe_dump(settings, sort_keys=False)


class PlainLoader(yaml.SafeLoader):
    """Loads only types that JSON has too: a date is text."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [(tag, pattern) for tag, pattern in resolvers if tag.removeprefix(TAG) in SCALARS | {"merge"}]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


@dataclass(slots=True)
class _TreeBuilder:
    """Builds plain data from YAML nodes and records the location of each key."""

    loader: PlainLoader
    source: str
    locations: dict[KeyPath, SourceLocation] = field(default_factory=dict)
    problems: list[ConfigProblem] = field(default_factory=list)
    _count: int = 0
    _open_nodes: list[yaml.Node] = field(default_factory=list)

    def build(self, node: yaml.Node, path: KeyPath) -> Any:
        self.locations.setdefault(path, self._locate(node, node))
        self._count += 1
        # Aliases of aliases can expand a few lines to gigabytes, and an alias inside its own anchor never ends.
        if self._count > MAX_VALUES or len(path) > MAX_DEPTH or node in self._open_nodes:
            raise InvalidConfig([ConfigProblem(self.locations[path], path[:1], "is too large or nested too deeply")])
        self._open_nodes.append(node)
        try:
            return self._build_value(node, path)
        finally:
            self._open_nodes.pop()

    def _build_value(self, node: yaml.Node, path: KeyPath) -> Any:
        kind = node.tag.removeprefix(TAG)
        if isinstance(node, yaml.MappingNode) and kind == "map":
            return self._build_mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and kind == "seq":
            return [self.build(item, (*path, index)) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and kind in SCALARS:
            return self._build_scalar(node, path)
        hint = "; for a variable write $NAME" if "env" in kind.lower() else ""
        return self._report(path, node, f"the tag {_format_tag(kind)!r} is not known{hint}")

    def _build_mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == f"{TAG}merge":
                merged = self._build_merged(value_node, path) | merged
        own: dict[str, yaml.Node] = {}
        for key_node, value_node in node.value:
            if key_node.tag != f"{TAG}merge":
                self._add_key(own, key_node, value_node, path)
        return merged | {key: self.build(value_node, (*path, key)) for key, value_node in own.items()}

    def _build_merged(self, node: yaml.Node, path: KeyPath) -> dict[str, Any]:
        """Return the keys that `<<` merges; the first of several mappings wins."""
        merged: dict[str, Any] = {}
        for source in reversed(node.value if isinstance(node, yaml.SequenceNode) else [node]):
            if isinstance(source, yaml.MappingNode):
                merged |= self.build(source, path)
            else:
                self._report(path, source, "'<<' must name a mapping, for instance '*anchor'")
        return merged

    def _add_key(self, own: dict[str, yaml.Node], key_node: yaml.Node, value_node: yaml.Node, path: KeyPath) -> None:
        if not isinstance(key_node, yaml.ScalarNode):
            self._report(path, key_node, "a key must be plain text")
            return
        key = key_node.value  # the text as written, also where YAML would read `on` or `7` as another type
        if key in own:
            self._report((*path, key), key_node, f"is given twice; first in line {self.locations[(*path, key)].line}")
            return
        own[key] = value_node
        self.locations[(*path, key)] = self._locate(key_node, value_node)

    def _build_scalar(self, node: yaml.ScalarNode, path: KeyPath) -> Any:
        try:
            return self.loader.construct_object(node)
        except (yaml.YAMLError, ValueError, KeyError):
            return self._report(path, node, f"is not a valid {node.tag.removeprefix(TAG)}")

    def _report(self, path: KeyPath, node: yaml.Node, text: str) -> None:
        self.problems.append(ConfigProblem(self._locate(node, node), path, text))

    def _locate(self, start: yaml.Node, value: yaml.Node) -> SourceLocation:
        written = value.value if isinstance(value, yaml.ScalarNode) and value.style is None else None
        return SourceLocation(self.source, start.start_mark.line + 1, start.start_mark.column + 1, written)


def _format_tag(kind: str) -> str:
    return kind if kind.startswith("!") else f"!!{kind}"
