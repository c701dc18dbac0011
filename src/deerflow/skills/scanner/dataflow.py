"""Static analysis of Python files: taint propagation and name resolution."""

import ast
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

MAX_PASSES = 12
MAX_NODES = 200_000

IsSource = Callable[[ast.AST], bool]


class TaintAnalysis:
    """Set of names that may hold data from a source."""

    def __init__(self, tree: ast.AST, is_source: IsSource) -> None:
        self._is_source = is_source
        self._nodes = list(ast.walk(tree))
        self._functions = {
            node.name: node for node in self._nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        self.tainted_names: set[str] = set()
        self._propagate()

    def is_tainted(self, node: ast.AST) -> bool:
        """Return True if an expression may hold data from a source."""
        return any(
            self._is_source(each) or (isinstance(each, ast.Name) and each.id in self.tainted_names)
            for each in ast.walk(node)
        )

    def _propagate(self) -> None:
        steps = list(self._find_assignments())
        for _ in range(MAX_PASSES):
            before = len(self.tainted_names)
            for value, targets in steps:
                if not targets <= self.tainted_names and self.is_tainted(value):
                    self.tainted_names |= targets
            if len(self.tainted_names) == before:
                return

    def _find_assignments(self) -> Iterator[tuple[ast.AST, set[str]]]:
        """Yield each expression with the names that its value flows to."""
        for node in self._nodes:
            match node:
                case ast.Assign(targets=targets, value=value):
                    yield value, {name for target in targets for name in find_target_names(target)}
                case (
                    ast.AnnAssign(target=target, value=ast.expr() as value) | ast.AugAssign(target=target, value=value)
                ):
                    yield value, set(find_target_names(target))
                case ast.NamedExpr(target=target, value=value):
                    yield value, {target.id}
                case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                    yield value, set(find_target_names(target))
                case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                    yield value, set(find_target_names(target))
                case ast.Call():
                    yield from self._find_call_assignments(node)
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    yield from ((value, {name}) for value in find_return_values(node))

    def _find_call_assignments(self, call: ast.Call) -> Iterator[tuple[ast.AST, set[str]]]:
        """Yield the flows of a call: to parameters of functions in the same file, and to mutated objects."""
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("append", "extend", "add", "update", "write"):
            holders = set(find_target_names(call.func.value))
            yield from ((argument, holders) for argument in call.args if holders)
        function = self._functions.get(call.func.id) if isinstance(call.func, ast.Name) else None
        if function is not None:
            parameters = [each.arg for each in function.args.args]
            yield from ((value, {name}) for name, value in zip(parameters, call.args, strict=False))
            yield from ((each.value, {each.arg}) for each in call.keywords if each.arg)


def find_target_names(target: ast.AST) -> Iterator[str]:
    """Yield the names that are assigned by a target."""
    match target:
        case ast.Name(id=name):
            yield name
        case ast.Attribute(value=value) | ast.Subscript(value=value) | ast.Starred(value=value):
            yield from find_target_names(value)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            for element in elements:
                yield from find_target_names(element)


def find_return_values(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the expressions that a function returns or yields."""
    for node in ast.walk(function):
        if isinstance(node, ast.Return | ast.Yield) and node.value is not None:
            yield node.value


BUILTINS = ("builtins", "__builtins__", "__builtin__")
NAMESPACES = ("sys.modules", "globals", "locals")
MAX_ALIAS_PASSES = 6
"""Maximum depth of alias chains."""


class NameResolver:
    """Resolver of aliases: `sp.run` is `subprocess.run` after `import subprocess as sp`."""

    def __init__(self, tree: ast.AST) -> None:
        self._tree = tree

    def resolve(self, node: ast.AST, depth: int = 0) -> str:
        """Return the dotted name of an expression, or an empty string."""
        if depth > 20:
            return ""
        match node:
            case ast.Name(id=name):
                return self._aliases.get(name, name)
            case ast.Attribute(value=value, attr=attribute):
                return join_name(self.resolve(value, depth + 1), attribute)
            case ast.Subscript(value=value, slice=ast.Constant(value=str(key))):
                owner = self.resolve(value, depth + 1)
                return join_name(owner.removesuffix(".__dict__"), key) if is_namespace(owner) else ""
            case ast.Call():
                return self._resolve_call(node, depth + 1)
        return ""

    def resolve_string(self, node: ast.AST) -> str | None:
        """Return the string value of an expression or constant name, or None."""
        return self._constants.get(node.id) if isinstance(node, ast.Name) else evaluate_string(node)

    @cached_property
    def local_names(self) -> frozenset[str]:
        """Names that are assigned or declared as parameters in the file."""
        nodes = list(ast.walk(self._tree))
        written = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        taken = {node.arg for node in nodes if isinstance(node, ast.arg)}
        return frozenset(written | taken)

    @cached_property
    def _constants(self) -> Mapping[str, str]:
        found: dict[str, set[str | None]] = {}
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                found.setdefault(node.targets[0].id, set()).add(evaluate_string(node.value))
        single = {name: next(iter(texts)) for name, texts in found.items() if len(texts) == 1}
        return {name: value for name, value in single.items() if value is not None}

    def _resolve_call(self, call: ast.Call, depth: int) -> str:
        function, arguments = self.resolve(call.func, depth), call.args
        if function in ("__import__", "importlib.import_module", "builtins.__import__") and arguments:
            return self.resolve_string(arguments[0]) or ""
        if function in ("getattr", "builtins.getattr") and len(arguments) >= 2:
            return join_name(self.resolve(arguments[0], depth), self.resolve_string(arguments[1]) or "?")
        if function in ("vars", "builtins.vars") and arguments:
            return f"{self.resolve(arguments[0], depth)}.__dict__"
        # The result of a call keeps its name: `socket.socket().connect` belongs to a socket.
        return function

    @cached_property
    def _aliases(self) -> Mapping[str, str]:
        aliases: dict[str, str] = {}
        local_names = {node.name for node in ast.walk(self._tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        aliases.update({name: f"here.{name}" for name in local_names})
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Import):
                for each in node.names:
                    aliases[each.asname or each.name.split(".")[0]] = (
                        each.name if each.asname else each.name.split(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom) and not node.level:
                aliases.update({each.asname or each.name: f"{node.module}.{each.name}" for each in node.names})
        self.__dict__["_aliases"] = aliases  # the calls below resolve names with the aliases found so far
        assignments = [node for node in ast.walk(self._tree) if is_aliasing(node)]
        for _ in range(MAX_ALIAS_PASSES):
            before = dict(aliases)
            for node in assignments:
                self._add_alias(node, aliases)
            if aliases == before:
                break
        return aliases

    def _add_alias(self, node: ast.AST, aliases: dict[str, str]) -> None:
        """Record the alias defined by an assignment."""
        value = getattr(node, "value", None) or getattr(node, "context_expr", None)
        target = getattr(node, "optional_vars", None) or getattr(node, "target", None) or node.targets[0]  # type: ignore[attr-defined]
        if not isinstance(target, ast.Name) or value is None:
            return
        name = self.resolve(value)
        if name and name != target.id and not name.startswith(f"{target.id}."):
            aliases[target.id] = name


def is_aliasing(node: ast.AST) -> bool:
    """Return True if a node assigns a value to a name."""
    if isinstance(node, ast.Assign):
        return len(node.targets) == 1
    return isinstance(node, ast.NamedExpr | ast.AnnAssign) or (
        isinstance(node, ast.withitem) and bool(node.optional_vars)
    )


def is_namespace(name: str) -> bool:
    """Return True if subscripts of the expression are names."""
    return name in BUILTINS or name.endswith(".__dict__") or name in NAMESPACES


def join_name(owner: str, attribute: str) -> str:
    """Return the dotted name of an attribute. For builtins and namespaces it is the attribute alone."""
    if owner in BUILTINS and attribute == "__dict__":
        return owner
    if owner in NAMESPACES or owner in BUILTINS:
        return attribute
    return f"{owner}.{attribute}" if owner else f"?.{attribute}"


def evaluate_string(node: ast.AST | None, depth: int = 0) -> str | None:
    """Return the value of a string expression, including concatenations, or None."""
    if depth > 50:
        return None
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            first, second = evaluate_string(left, depth + 1), evaluate_string(right, depth + 1)
            return None if first is None or second is None else first + second
        case ast.JoinedStr(values=values):
            return "".join(evaluate_string(value, depth + 1) or "" for value in values)
    return None
