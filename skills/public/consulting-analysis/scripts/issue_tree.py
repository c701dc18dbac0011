"""Check an issue tree, draw it, and list the work it asks for, the most decisive first."""

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

try:
    import yaml
except ImportError:
    yaml = None

NEEDED = ("hypothesis", "analysis", "source", "refuted_by")
LEVELS = {"high": 3, "medium": 2, "low": 1}
STATES = ("open", "confirmed", "refuted")
MAX_DEPTH = 4
OVERLAP = 0.6
COMMON = re.compile(
    r"an?|and|are|as|at|be|by|do|does|for|from|how|in|is|it|of|on|or|the|to|we|what|which|who|will|with|our"
)


class Unusable(Exception):
    """A tree that cannot be read."""


@dataclass(frozen=True)
class Node:
    """One question of the tree, with its place, for instance `1.2`."""

    place: str
    content: dict[str, Any]
    children: tuple["Node", ...]

    @property
    def question(self) -> str:
        return str(self.content.get("question", "")).strip()

    def walk(self) -> Iterator["Node"]:
        """This one and all below."""
        yield self
        for child in self.children:
            yield from child.walk()


def main() -> int:
    """Do one of the three things."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("act", choices=["check", "draw", "workplan"])
    parser.add_argument("tree", type=Path, help="the tree, in YAML")
    options = parser.parse_args()
    try:
        root = load(options.tree)
    except Unusable as problem:
        print(f"Error: {problem}", file=sys.stderr)
        return 2
    if options.act == "draw":
        print(drawing(root))
        return 0
    if options.act == "workplan":
        print(workplan(root))
        return 0
    problems, warnings = list(examine(root)), list(overlaps(root))
    for word, found in (("PROBLEM", problems), ("warning", warnings)):
        for place, message in found:
            print(f"{word} {place}: {message}")
    leaves = sum(not node.children for node in root.walk())
    print(f"{leaves} leaves, {len(problems)} problems, {len(warnings)} warnings")
    return 1 if problems else 0


def load(path: Path) -> Node:
    """The tree of a file."""
    if yaml is None:
        raise Unusable("reading a tree needs the package pyyaml, which is not installed in this sandbox")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as problem:
        raise Unusable(f"{path} cannot be read: {problem}") from None
    except yaml.YAMLError as problem:
        raise Unusable(f"{path} is not YAML: {' '.join(str(problem).split())}") from None
    return node_of(content, "0")


def node_of(content: Any, place: str) -> Node:
    """A node and all below it."""
    if not isinstance(content, dict):
        raise Unusable(f"node {place} is {content!r}; write `question:` and `branches:` or a hypothesis below it")
    branches = content.get("branches") or []
    if not isinstance(branches, list):
        raise Unusable(f"`branches` of node {place} must be a list")
    prefix = "" if place == "0" else f"{place}."
    children = tuple(node_of(branch, f"{prefix}{number}") for number, branch in enumerate(branches, 1))
    return Node(place, content, children)


def examine(root: Node) -> Iterator[tuple[str, str]]:
    """What is wrong, with its place."""
    if not root.content.get("decision"):
        yield "0", "there is no `decision`; say who decides what, and when"
    for node in root.walk():
        if not node.question.endswith(("?", "？")):
            yield node.place, f"{node.question!r} is not a question"
        if node.children:
            if not 2 <= len(node.children) <= 5:
                yield node.place, f"it has {len(node.children)} branches; two to five can be kept apart"
        elif node.place == "0":
            yield "0", "the question has no branches"
        else:
            yield from examine_leaf(node)
        if node.place.count(".") >= MAX_DEPTH:
            yield node.place, f"it lies deeper than {MAX_DEPTH} levels; give that branch a tree of its own"


def examine_leaf(node: Node) -> Iterator[tuple[str, str]]:
    """What a leaf lacks."""
    if missing := [name for name in NEEDED if not str(node.content.get(name) or "").strip()]:
        yield node.place, f"the leaf {node.question!r} lacks {', '.join(missing)}"
    if str(node.content.get("hypothesis") or "").strip().endswith("?"):
        yield node.place, "its hypothesis is a question; write a statement that could be false"
    for name in ("effect", "doubt"):
        if node.content.get(name, "medium") not in LEVELS:
            yield node.place, f"`{name}` is {node.content[name]!r}; it is high, medium or low"
    state = node.content.get("status", "open")
    if state not in STATES:
        yield node.place, f"`status` is {state!r}; it is open, confirmed or refuted"
    elif state != "open" and not node.content.get("finding"):
        yield node.place, f"it is {state}, but has no `finding`"


def overlaps(root: Node) -> Iterator[tuple[str, str]]:
    """Branches of one node that seem to ask the same."""
    for node in root.walk():
        for one, other in combinations(node.children, 2):
            first, second = words(one.question), words(other.question)
            if first and second and len(first & second) / min(len(first), len(second)) >= OVERLAP:
                yield f"{one.place} and {other.place}", "they share most of their words; do they overlap?"


def words(text: str) -> set[str]:
    """The telling words of a question."""
    return {word for word in re.findall(r"\w+", text.casefold()) if not COMMON.fullmatch(word)}


def drawing(root: Node) -> str:
    """The tree as a Mermaid diagram."""
    lines = ["```mermaid", "flowchart LR"]
    for node in root.walk():
        name = "n" + node.place.replace(".", "_")
        label = node.question.replace('"', "'")
        lines.append(f'  {name}["{label}"]')
        lines += [f"  {name} --> n{child.place.replace('.', '_')}" for child in node.children]
    return "\n".join([*lines, "```"])


def workplan(root: Node) -> str:
    """The leaves as a table, by effect on the decision and doubt."""
    leaves = [node for node in root.walk() if not node.children]
    leaves.sort(key=lambda node: -weight(node))
    rows = ["| leaf | weight | hypothesis | analysis | source | refuted by | status |", "|---|---|---|---|---|---|---|"]
    for node in leaves:
        cells = [node.content.get(name) or "" for name in ("hypothesis", "analysis", "source", "refuted_by")]
        cells.append(node.content.get("status", "open"))
        text = " | ".join(str(cell).replace("|", "/") for cell in cells)
        rows.append(f"| {node.place} | {weight(node)} | {text} |")
    return "\n".join(rows)


def weight(node: Node) -> int:
    """How much a leaf matters: effect times doubt, 1 to 9."""
    return LEVELS.get(node.content.get("effect", "medium"), 2) * LEVELS.get(node.content.get("doubt", "medium"), 2)


if __name__ == "__main__":
    sys.exit(main())
