"""The shape of the code: small modules, small functions, no hidden state. Exceptions stand here, each with a reason."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))

MAX_MODULE = 400
MAX_FUNCTION = 50
MAX_NESTING = 3

LONG_MODULES: dict[str, str] = {}
LONG_FUNCTIONS = {
    "0001_threads_runs_events.py:upgrade": "a migration is a list of statements",
}
BROAD_EXCEPTS = {
    "deerflow/guardrails/middleware.py": "a provider of the user's may raise anything",
    "deerflow/agents/middlewares/model_calls.py": "vendors raise classes we do not import",
    "deerflow/budget/model_calls.py": "the same",
    "deerflow/models/factory.py": "a vendor's constructor may raise anything",
    "deerflow/runtime/runs/worker.py": "the boundary of a run",
    "deerflow/subagents/execution.py": "the boundary of a task: one that fails leaves the others alone",
    "deerflow/runtime/runs/manager.py": "a run whose end cannot be written",
    "deerflow/runtime/runs/recovery.py": "a damaged record may raise anything, and must not stop the server",
    "deerflow/channels/service.py": "a connection that fails is opened again, whatever the reason",
    "deerflow/channels/inbox.py": "one update that fails must not keep all others from being received",
    "deerflow/runtime/journal/journal.py": "the writer serves all runs, and none of them may stop it",
}
ALLOWED_AT_IMPORT = {
    "logging.getLogger": "a logger holds no state of ours",
    "re.compile": "a compiled pattern does not change",
    "APIRouter": "the routes of a resource, filled at import",
    "typer.Typer": "the commands of the terminal, filled at import",
    "MetaData": "the tables, fixed at import",
    "Table": "a table, fixed at import",
    "Index": "an index, fixed at import",
    "TypeVar": "a name for the type checker",
    "ParamSpec": "a name for the type checker",
    "Lock": "for what a library cannot do twice at once",
    "frozenset": "does not change",
    "MappingProxyType": "does not change",
    "Path": "does not change",
    "datetime": "does not change",
    "insert": "a statement, fixed at import",
    "make_search_tool": "a web tool, which holds nothing until it is configured",
    "make_image_tool": "the same",
    "make_page_tool": "the same",
    "make_fetch_tool": "the same",
}


def test_modules_are_short_enough_to_read_at_once() -> None:
    long = {
        get_location(path): lines
        for path in SOURCES
        if (lines := path.read_text().count("\n")) > MAX_MODULE and get_location(path) not in LONG_MODULES
    }
    assert long == {}


def test_functions_fit_on_a_screen() -> None:
    long = [
        f"{path.name}:{node.name}"
        for path in SOURCES
        for node in list_functions(path)
        if (node.end_lineno or 0) - node.lineno + 1 > MAX_FUNCTION
    ]
    assert [name for name in long if name not in LONG_FUNCTIONS] == []


def test_nothing_is_nested_deeply() -> None:
    deep = [
        f"{get_location(path)}:{node.name}"
        for path in SOURCES
        for node in list_functions(path)
        if measure_depth(node) > MAX_NESTING
    ]
    assert deep == []


def test_modules_hold_no_state() -> None:
    assert [state for path in SOURCES for state in find_module_state(path)] == []


def test_only_listed_boundaries_catch_all_exceptions() -> None:
    broad = {
        get_location(path)
        for path in SOURCES
        for node in ast.walk(parse(path))
        if isinstance(node, ast.ExceptHandler) and (node.type is None or ast.unparse(node.type) == "Exception")
    }
    assert broad == BROAD_EXCEPTS.keys()


def test_tests_use_real_parts() -> None:
    text = "".join(path.read_text() for path in TESTS if path != Path(__file__))
    mocks = len(re.findall(r"\b(?:Magic|Async)?Mock\(|monkeypatch\.setattr|\bpatch\(", text))
    tests = len(re.findall(r"^\s*(?:async )?def test_", text, re.M))
    assert mocks * 100 <= 5 * tests
    assert re.findall(r"\b(?:time|asyncio)\.sleep\((?!0\))", text) == []


def get_location(path: Path) -> str:
    return str(path.relative_to(ROOT / "src"))


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def list_functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(parse(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def measure_depth(node: ast.AST, level: int = 0) -> int:
    """Return the depth of nested loops, branches and handlers; `with` is not counted."""
    inner = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.FunctionDef)]
    blocks = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.Match)
    return max([level, *(measure_depth(child, level + is_new_block(node, child, blocks)) for child in inner)])


def is_new_block(parent: ast.AST, child: ast.AST, blocks: tuple[type[ast.AST], ...]) -> bool:
    is_elif = isinstance(parent, ast.If) and isinstance(child, ast.If) and parent.orelse == [child]
    return isinstance(child, blocks) and not is_elif


def find_module_state(path: Path) -> Iterator[str]:
    """Yield names that are bound at import to mutable values."""
    for node in parse(path).body:
        if isinstance(node, ast.Global):
            yield f"{get_location(path)}: global"
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        target = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
        if not is_constant(target, node.value):
            yield f"{get_location(path)}: {target}"


def is_constant(name: str, value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        maker = ast.unparse(value.func)
        # A capitalised name at the top of a module is a promise that the instance is frozen data.
        return maker in ALLOWED_AT_IMPORT or name.isupper()
    if isinstance(value, ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp):
        return name.isupper() or name == "__all__"
    return True
