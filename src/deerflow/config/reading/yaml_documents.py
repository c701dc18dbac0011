"""YAML texts as documents, and settings as YAML texts. What reads YAML comes with this module, so it is loaded late."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from deerflow.config.reading.document import MAX_DEPTH, Document
from deerflow.config.reading.problems import KeyPath, Place, Problem, WrongConfig
from deerflow.config.reading.syntax import explain_yaml

MAX_VALUES = 100_000
TAG = "tag:yaml.org,2002:"
SCALARS = frozenset({"str", "int", "float", "bool", "null"})


def read_yaml(text: str, source: str) -> Document:
    """The document in a YAML text.

    Raises:
        WrongConfig: The text is not YAML, or not a mapping.
    """
    try:
        loader = PlainLoader(text)
        root = loader.get_single_node()
    except yaml.YAMLError as error:
        raise WrongConfig([explain_yaml(error, text, source)]) from None
    except RecursionError:
        raise WrongConfig([Problem(Place(source), (), "is nested too deeply")]) from None
    if root is None:
        return Document({}, {(): Place(source, 1)})
    tree = _Tree(loader, source)
    data = tree.build(root, ())
    if data is None:
        data = {}
    if not isinstance(data, dict):
        problem = Problem(tree.places[()], (), "must be a mapping: lines of the form 'key: value'")
        raise WrongConfig([*tree.problems, problem])
    return Document(data, tree.places, tuple(tree.problems))


def write_yaml(settings: Mapping[str, object]) -> str:
    """`settings` for reading and editing, in their own letters unless YAML would take one of them for a line break."""
    if not settings:
        return ""
    text: str = yaml.safe_dump(settings, allow_unicode=True, sort_keys=False)
    return text if yaml.safe_load(text) == settings else yaml.safe_dump(settings, sort_keys=False)


class PlainLoader(yaml.SafeLoader):
    """Reads what JSON could say too: a date is text."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [(tag, pattern) for tag, pattern in resolvers if tag.removeprefix(TAG) in SCALARS | {"merge"}]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


@dataclass(slots=True)
class _Tree:
    """Turns YAML nodes into plain data and notes where each key stands."""

    loader: PlainLoader
    source: str
    places: dict[KeyPath, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    _count: int = 0
    _around: list[yaml.Node] = field(default_factory=list)

    def build(self, node: yaml.Node, path: KeyPath) -> Any:
        self.places.setdefault(path, self._place(node, node))
        self._count += 1
        # Aliases of aliases can blow a few lines up to gigabytes, and an alias inside its own anchor has no end.
        if self._count > MAX_VALUES or len(path) > MAX_DEPTH or node in self._around:
            raise WrongConfig([Problem(self.places[path], path[:1], "is too large or nested too deeply")])
        self._around.append(node)
        try:
            return self._value(node, path)
        finally:
            self._around.pop()

    def _value(self, node: yaml.Node, path: KeyPath) -> Any:
        kind = node.tag.removeprefix(TAG)
        if isinstance(node, yaml.MappingNode) and kind == "map":
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and kind == "seq":
            return [self.build(item, (*path, index)) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and kind in SCALARS:
            return self._scalar(node, path)
        hint = "; for a variable write $NAME" if "env" in kind.lower() else ""
        return self._object(path, node, f"the tag {_show_tag(kind)!r} is not known{hint}")

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == f"{TAG}merge":
                merged = self._merged(value_node, path) | merged
        own: dict[str, yaml.Node] = {}
        for key_node, value_node in node.value:
            if key_node.tag != f"{TAG}merge":
                self._enter(own, key_node, value_node, path)
        return merged | {key: self.build(value_node, (*path, key)) for key, value_node in own.items()}

    def _merged(self, node: yaml.Node, path: KeyPath) -> dict[str, Any]:
        """What `<<` brings in; of several mappings the first to have a key wins."""
        merged: dict[str, Any] = {}
        for source in reversed(node.value if isinstance(node, yaml.SequenceNode) else [node]):
            if isinstance(source, yaml.MappingNode):
                merged |= self.build(source, path)
            else:
                self._object(path, source, "'<<' must name a mapping, for instance '*anchor'")
        return merged

    def _enter(self, own: dict[str, yaml.Node], key_node: yaml.Node, value_node: yaml.Node, path: KeyPath) -> None:
        if not isinstance(key_node, yaml.ScalarNode):
            self._object(path, key_node, "a key must be plain text")
            return
        key = key_node.value  # text as it is written, also where YAML would read `on` or `7` as something else
        if key in own:
            self._object((*path, key), key_node, f"is given twice; first in line {self.places[(*path, key)].line}")
            return
        own[key] = value_node
        self.places[(*path, key)] = self._place(key_node, value_node)

    def _scalar(self, node: yaml.ScalarNode, path: KeyPath) -> Any:
        try:
            return self.loader.construct_object(node)
        except (yaml.YAMLError, ValueError, KeyError):
            return self._object(path, node, f"is not a valid {node.tag.removeprefix(TAG)}")

    def _object(self, path: KeyPath, node: yaml.Node, text: str) -> None:
        self.problems.append(Problem(self._place(node, node), path, text))

    def _place(self, start: yaml.Node, value: yaml.Node) -> Place:
        written = value.value if isinstance(value, yaml.ScalarNode) and value.style is None else None
        return Place(self.source, start.start_mark.line + 1, start.start_mark.column + 1, written)


def _show_tag(kind: str) -> str:
    return kind if kind.startswith("!") else f"!!{kind}"
