"""What the names in a Python file stand for: imports, other names for them, and the usual ways to hide both."""

import ast
from collections.abc import Mapping
from functools import cached_property

BUILTINS = ("builtins", "__builtins__", "__builtin__")
MAX_PASSES = 6
"""A name for a name for a name: so far is followed."""


class Names:
    """What the names in a tree stand for: `sp.run` is `subprocess.run` after `import subprocess as sp`."""

    def __init__(self, tree: ast.AST) -> None:
        self._tree = tree

    def of(self, node: ast.AST, depth: int = 0) -> str:
        """The dotted name of an expression, empty when it has none."""
        if depth > 20:
            return ""
        match node:
            case ast.Name(id=name):
                return self._known.get(name, name)
            case ast.Attribute(value=value, attr=attribute):
                return joined(self.of(value, depth + 1), attribute)
            case ast.Subscript(value=value, slice=ast.Constant(value=str(key))):
                owner = self.of(value, depth + 1)
                return joined(owner.removesuffix(".__dict__"), key) if is_namespace(owner) else ""
            case ast.Call():
                return self._of_call(node, depth + 1)
        return ""

    def _of_call(self, call: ast.Call, depth: int) -> str:
        function, arguments = self.of(call.func, depth), call.args
        if function in ("__import__", "importlib.import_module", "builtins.__import__") and arguments:
            return text_of(arguments[0]) or ""
        if function in ("getattr", "builtins.getattr") and len(arguments) >= 2:
            return joined(self.of(arguments[0], depth), text_of(arguments[1]) or "?")
        if function in ("vars", "builtins.vars") and arguments:
            return f"{self.of(arguments[0], depth)}.__dict__"
        # What comes of an object keeps its name: `socket.socket().connect` is that of a socket.
        return function

    @cached_property
    def _known(self) -> Mapping[str, str]:
        known: dict[str, str] = {}
        own = {node.name for node in ast.walk(self._tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        known.update({name: f"here.{name}" for name in own})
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Import):
                for each in node.names:
                    known[each.asname or each.name.split(".")[0]] = (
                        each.name if each.asname else each.name.split(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom) and not node.level:
                known.update({each.asname or each.name: f"{node.module}.{each.name}" for each in node.names})
        self.__dict__["_known"] = known  # what follows asks for what is known so far
        assignments = [node for node in ast.walk(self._tree) if is_renaming(node)]
        for _ in range(MAX_PASSES):
            before = dict(known)
            for node in assignments:
                self._rename(node, known)
            if known == before:
                break
        return known

    def _rename(self, node: ast.AST, known: dict[str, str]) -> None:
        """Note what is given another name."""
        value = getattr(node, "value", None) or getattr(node, "context_expr", None)
        target = getattr(node, "optional_vars", None) or getattr(node, "target", None) or node.targets[0]  # type: ignore[attr-defined]
        if not isinstance(target, ast.Name) or value is None:
            return
        name = self.of(value)
        if name and name != target.id and not name.startswith(f"{target.id}."):
            known[target.id] = name


def is_renaming(node: ast.AST) -> bool:
    """Whether something gets a name here."""
    if isinstance(node, ast.Assign):
        return len(node.targets) == 1
    return isinstance(node, ast.NamedExpr | ast.AnnAssign) or (
        isinstance(node, ast.withitem) and bool(node.optional_vars)
    )


def is_namespace(name: str) -> bool:
    """Whether what stands in brackets behind it is a name as well."""
    return name in BUILTINS or name.endswith(".__dict__") or name == "sys.modules"


def joined(owner: str, attribute: str) -> str:
    """The dotted name of what belongs to something; of the built-in things it is the last part alone."""
    if owner in BUILTINS and attribute == "__dict__":
        return owner
    if owner == "sys.modules" or owner in BUILTINS:
        return attribute
    return f"{owner}.{attribute}" if owner else f"?.{attribute}"


def text_of(node: ast.AST | None, depth: int = 0) -> str | None:
    """The text that an expression stands for, also when it is put together from pieces; None when nobody knows."""
    if depth > 50:
        return None
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            first, second = text_of(left, depth + 1), text_of(right, depth + 1)
            return None if first is None or second is None else first + second
        case ast.JoinedStr(values=values):
            return "".join(text_of(value, depth + 1) or "" for value in values)
    return None
