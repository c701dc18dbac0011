"""The public API of Python files, read from their syntax trees; nothing is imported or run."""

import ast
from pathlib import Path

from entries import Entry

Function = ast.FunctionDef | ast.AsyncFunctionDef


def python_entries(path: Path, shown: str) -> list[Entry]:
    """What a file offers.

    Raises:
        SyntaxError: It is no Python.
    """
    tree = ast.parse(path.read_text(encoding="utf-8-sig"), shown)
    offered = exported(tree)
    module = Entry("module", module_name(shown), shown, 1, summary=first_sentence(ast.get_docstring(tree)))
    entries = [lacking(module)]
    for node in tree.body:
        if isinstance(node, Function | ast.ClassDef) and is_public(node.name, offered):
            entries += class_entries(node, shown) if isinstance(node, ast.ClassDef) else [function_entry(node, shown)]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            entries += constants(node, shown, offered)
    return entries


def class_entries(node: ast.ClassDef, shown: str, above: str = "") -> list[Entry]:
    """A class and its public methods."""
    name = f"{above}{node.name}"
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    own = Entry("class", name, shown, node.lineno, f"class {name}({bases})" if bases else f"class {name}")
    own.summary = first_sentence(ast.get_docstring(node))
    entries = [lacking(own)]
    for child in node.body:
        if isinstance(child, Function) and not child.name.startswith("_"):
            entries.append(function_entry(child, shown, f"{name}."))
        elif isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
            entries += class_entries(child, shown, f"{name}.")
    return entries


def function_entry(node: Function, shown: str, above: str = "") -> Entry:
    """A function or method, with the parameters its docstring leaves out."""
    marks = {ast.unparse(mark).split(".")[-1] for mark in node.decorator_list}
    kind = "property" if marks & {"property", "cached_property"} else "method" if above else "function"
    start = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    entry = Entry(kind, f"{above}{node.name}", shown, node.lineno)
    entry.signature = f"{start} {above}{node.name}({ast.unparse(node.args)}){returns}"
    text = ast.get_docstring(node) or ""
    entry.summary = first_sentence(text)
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    entry.parameters = [argument.arg for argument in every if argument.arg not in {"self", "cls"}]
    if "overload" in marks or "override" in marks:
        return entry
    lacking(entry)
    # Only where somebody began to describe parameters is one that is missing a gap.
    if any(word in text for word in ("Args:", "Parameters\n", ":param ", "@param")):
        entry.lacks += [f"parameter {name}" for name in entry.parameters if name not in text]
    if node.returns is None and not marks & {"property"} and node.name != "__init__":
        entry.lacks.append("type of the result")
    untyped = [
        argument.arg for argument in every if argument.annotation is None and argument.arg not in {"self", "cls"}
    ]
    entry.lacks += [f"type of {name}" for name in untyped]
    return entry


def constants(node: ast.Assign | ast.AnnAssign, shown: str, offered: list[str] | None) -> list[Entry]:
    """Names in capitals, or those named in __all__."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    wanted = [name for name in names if (name in offered if offered is not None else name.isupper() and name[0] != "_")]
    kind = f": {ast.unparse(node.annotation)}" if isinstance(node, ast.AnnAssign) else ""
    return [Entry("constant", name, shown, node.lineno, f"{name}{kind}") for name in wanted]


def exported(tree: ast.Module) -> list[str] | None:
    """The names in __all__, if it is a plain list."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            try:
                return [str(name) for name in ast.literal_eval(node.value)]
            except (ValueError, TypeError):
                return None
    return None


def is_public(name: str, offered: list[str] | None) -> bool:
    """Whether others are meant to use a name."""
    return name in offered if offered is not None else not name.startswith("_")


def lacking(entry: Entry) -> Entry:
    """The entry, with the lack of any description noted."""
    if not entry.summary:
        entry.lacks.append("description")
    return entry


def first_sentence(text: str | None) -> str:
    """The first paragraph of a docstring, in one line."""
    return " ".join((text or "").strip().split("\n\n")[0].split())


def module_name(shown: str) -> str:
    """How a file is imported."""
    parts = list(Path(shown).with_suffix("").parts)
    if parts[0] in {"src", "lib"}:
        parts = parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
