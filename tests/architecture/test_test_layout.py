"""Helpers of tests are in support modules, where they can be found and moved without a test."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
TEST_MODULE = re.compile(r"^tests\.(?:\w+\.)*test_\w+$")


def test_no_module_imports_from_a_test_module() -> None:
    found = [
        f"{path.relative_to(TESTS)}: {module}"
        for path in sorted(TESTS.rglob("*.py"))
        for module in list_imports(path)
        if TEST_MODULE.match(module)
    ]
    assert found == []


def list_imports(path: Path) -> Iterator[str]:
    """Yield the imported modules, and the names imported from them, which may be modules too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names if alias.name.startswith("test_"))
