"""Names and docstrings use the terms of the field. Retired terms stand in `retired_terms.txt`."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TERMS = (Path(__file__).with_name("retired_terms.txt")).read_text().split()
RIDDLE = re.compile(r"^(What|Who|Whoever|Whom|Whose|Where|How|Whether|Which|Have|So (long|many|much))\b")
DIALECT = re.compile(
    r"\b(in vain|comes to nothing|gone on with|goes on with|whoever|somebody|nobody|told of|for good|set aside)\b",
    re.IGNORECASE,
)


def test_no_name_contains_a_retired_term() -> None:
    pattern = re.compile(rf"(?:^|_)(?:{'|'.join(TERMS)})(?:$|_)")
    found = [f"{place}: {name}" for place, name in list_names() if pattern.search(to_snake_case(name))]
    assert found == []


def test_docstrings_open_with_a_verb_or_a_noun() -> None:
    opened = [(place, text) for place, text in list_docstrings()]
    riddles = [f"{place}: {text}" for place, text in opened if RIDDLE.match(text)]
    assert len(riddles) * 100 <= len(opened), riddles[:20]


def test_docstrings_are_free_of_the_old_dialect() -> None:
    opened = [(place, text) for place, text in list_docstrings()]
    dialect = [f"{place}: {text}" for place, text in opened if DIALECT.search(text)]
    assert len(dialect) * 200 <= len(opened), dialect[:20]


def list_names() -> Iterator[tuple[str, str]]:
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.name


def list_docstrings() -> Iterator[tuple[str, str]]:
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text:
                    yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}", text.splitlines()[0]


def to_snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
