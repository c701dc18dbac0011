"""Measures the shape of the source tree against its limits and prints one table; exits with 1 if a limit is missed.

python scripts/shape.py

The rows about packages count where the modules of a feature are, by their names. Five modules must be outside of the
packages that a feature may have (its own, configuration, gateway, client, command line); `FORCED_MODULES` says why.
The table shows both numbers: without these modules, which has the limit, and with all.
"""

from __future__ import annotations

import ast
import re
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "deerflow"
RIDDLE = re.compile(r"^(What|Who|Whoever|Whom|Whose|Where|How|Whether|Which|Have|So (long|many|much))\b")
LOADERS = {"load_object", "load_class", "load_extra", "import_module", "__import__"}
USE_LOADERS = {
    "config/imports.py": "loads the classes that `use:` names",
    "sandbox/previews/draw_slides.py": "a program of the sandbox: the server does not have python-pptx",
    "sandbox/previews/read_document.py": "a program of the sandbox: the server does not have python-docx",
    "sandbox/previews/slide_text.py": "a program of the sandbox: the server does not have lxml",
    "skills/check_file.py": "a program of the sandbox: reads a file with whatever library is there",
    "projects/extract_passages.py": "a program of the sandbox: reads documents with whatever library is there",
    "uploads/convert_document.py": "a program of the sandbox: converts a document with whatever library is there",
}
"""Modules that may import by string."""
UNTYPED_SETTINGS = re.compile(r"lambda: [\w.]*\.refresh\(\)[^\n]*")
"""Settings of a long-lived service that are not a `Settings[T]`."""
MEMORY = re.compile(r"memor(y|ies)", re.IGNORECASE)
GUARDRAILS = re.compile(r"guardrail|budget|policy", re.IGNORECASE)
FORCED_MODULES = {
    "agents/middlewares/memory_middleware.py": "founding import path: re-exports the class",
    "agents/middlewares/guardrail_middleware.py": "founding import path: re-exports the class",
    "domain/memory.py": "protocols and data that a run context carries to every tool; the domain imports nothing above",
    "harness/memory.py": "connects memory with budget and model calls, which capabilities may not import",
    "persistence/migrations/versions/0009_memory.py": "released migration: its name is in databases",
}
"""Modules of a feature that cannot be in its own package, with the reason."""
LATER_PACKAGES = {"channels": 64, "teams": 8}
"""Capabilities added after the layout was settled, and how many modules each may have, those at the edge included.

The other packages keep their common limit; decision record 56 gives the reason.
"""
HISTORY = "persistence/migrations/versions/"
"""Released migrations, which are only added to: they are no part of the sizes."""


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    value: float
    limit: str
    is_met: bool
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Module:
    """A source file with its syntax tree."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        """Path below the package."""
        return str(self.path.relative_to(SOURCE))

    @property
    def lines(self) -> int:
        """Number of lines."""
        return self.text.count("\n")


def main() -> None:
    """Print the table."""
    modules = [read(path) for path in sorted(SOURCE.rglob("*.py"))]
    rows = [*sizes(modules), *language(modules), *spread(modules)]
    width = max(len(row.name) for row in rows)
    for row in rows:
        print(f"{row.name:<{width}}  {row.value:>8g}  {row.limit:>8}  {'ok' if row.is_met else 'MISSED'}")
        for detail in () if row.is_met else row.details[:12]:
            print(f"    {detail}")
    sys.exit(not all(row.is_met for row in rows))


def read(path: Path) -> Module:
    """Parse a module."""
    text = path.read_text(encoding="utf-8")
    return Module(path, text, ast.parse(text))


def at_most(name: str, value: float, limit: float, details: list[str] | None = None) -> Row:
    """Return a row with an upper limit."""
    return Row(name, value, f"<= {limit:g}", value <= limit, tuple(details or ()))


def sizes(modules: list[Module]) -> Iterator[Row]:
    """Yield the rows about modules and folders."""
    modules = [module for module in modules if not module.name.startswith(HISTORY)]
    lines = [module.lines for module in modules]
    folders = Counter(str(module.path.parent.relative_to(SOURCE)) for module in modules)
    later = {name: [module.name for module in modules if belongs_to(module, name)] for name in LATER_PACKAGES}
    yield at_most("modules", len(modules) - sum(map(len, later.values())), 480)
    for name, limit in LATER_PACKAGES.items():
        yield at_most(f"modules of {name}", len(later[name]), limit, later[name])
    median = statistics.median(lines)
    yield Row("median lines of a module", median, ">= 110", median >= 110)
    yield at_most("largest module", max(lines), 400, [module.name for module in modules if module.lines > 400])
    yield at_most(
        "largest folder", max(folders.values()), 20, [f"{name}: {n}" for name, n in folders.items() if n > 20]
    )
    root = [module.name for module in modules if module.name.startswith("harness/")]
    yield at_most("modules of the composition root", len(root), 6, root)
    untyped = [f"{module.name}: {each}" for module in modules for each in UNTYPED_SETTINGS.findall(module.text)]
    yield at_most("settings passed as lambdas", len(untyped), 0, untyped)


def belongs_to(module: Module, package: str) -> bool:
    """Return True if a module is in a package, or is the router, client, command or tables with its name."""
    return package in Path(module.name).with_suffix("").parts


def language(modules: list[Module]) -> Iterator[Row]:
    """Yield the rows about names and docstrings."""
    documented = [(module, node, text) for module in modules for node, text in docstrings(module.tree)]
    riddles = [f"{module.name}: {text[:80]}" for module, _, text in documented if RIDDLE.match(text)]
    yield at_most("docstrings with riddle openings, %", 100 * len(riddles) / len(documented), 1, riddles)
    classes = defaultdict(list)
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].append(module.name)
    twice = [f"{name}: {', '.join(places)}" for name, places in classes.items() if len(places) > 1]
    yield at_most("public class names used twice", len(twice), 0, twice)
    terms = list(retired(modules))
    yield at_most("retired terms", len(terms), 0, terms)
    strings = list(string_imports(modules))
    yield at_most("imports by string", len(strings), 0, strings)
    casts = [
        f"{module.name}:{node.lineno}"
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "cast"
    ]
    yield at_most("casts", len(casts), 25, casts)


def spread(modules: list[Module]) -> Iterator[Row]:
    """Yield the rows about how many packages a feature is spread over, by the names of modules."""
    names = {module.name for module in modules}
    stale = [name for name in FORCED_MODULES if name not in names]
    yield at_most("forced modules that do not exist", len(stale), 0, stale)
    for name, pattern, limit in (("memory", MEMORY, 5), ("guardrails and budget", GUARDRAILS, 4)):
        named = {each for each in names if pattern.search(each)}
        free = {each.partition("/")[0] for each in named - FORCED_MODULES.keys()}
        everything = {each.partition("/")[0] for each in named}
        yield at_most(f"packages of {name}", len(free), limit, sorted(free))
        yield Row(f"packages of {name}, with forced modules", len(everything), "-", is_met=True)


def docstrings(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield the nodes with docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node, text


def retired(modules: list[Module]) -> Iterator[str]:
    """Yield names that contain a retired term."""
    terms = (ROOT / "tests" / "architecture" / "retired_terms.txt").read_text(encoding="utf-8").split()
    pattern = re.compile(rf"(?:^|_)(?:{'|'.join(terms)})(?:$|_)")
    for module in modules:
        for node in ast.walk(module.tree):
            name = getattr(node, "name", None)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and name:
                words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
                if pattern.search(words):
                    yield f"{module.name}:{node.lineno} {name}"


def string_imports(modules: list[Module]) -> Iterator[str]:
    """Yield calls that import a constant module path."""
    for module in modules:
        if module.name in USE_LOADERS:
            continue
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in LOADERS and isinstance(node.args[0], ast.Constant | ast.JoinedStr):
                yield f"{module.name}:{node.lineno}"


if __name__ == "__main__":
    main()
