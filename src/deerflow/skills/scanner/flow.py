"""Where a value goes in a Python file: from what it is read to what sends it."""

import ast
from collections.abc import Callable, Iterator

MAX_PASSES = 12
MAX_NODES = 200_000

IsSource = Callable[[ast.AST], bool]


class Flow:
    """The names in a tree that may hold what comes of a source."""

    def __init__(self, tree: ast.AST, is_source: IsSource) -> None:
        self._is_source = is_source
        self._nodes = list(ast.walk(tree))
        self._functions = {
            node.name: node for node in self._nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        self.names: set[str] = set()
        self._follow()

    def reaches(self, node: ast.AST) -> bool:
        """Whether an expression may hold what comes of a source."""
        return any(
            self._is_source(each) or (isinstance(each, ast.Name) and each.id in self.names) for each in ast.walk(node)
        )

    def _follow(self) -> None:
        steps = list(self._steps())
        for _ in range(MAX_PASSES):
            before = len(self.names)
            for value, targets in steps:
                if not targets <= self.names and self.reaches(value):
                    self.names |= targets
            if len(self.names) == before:
                return

    def _steps(self) -> Iterator[tuple[ast.AST, set[str]]]:
        """Each place where something passes from an expression to names."""
        for node in self._nodes:
            match node:
                case ast.Assign(targets=targets, value=value):
                    yield value, {name for target in targets for name in written_names(target)}
                case (
                    ast.AnnAssign(target=target, value=ast.expr() as value) | ast.AugAssign(target=target, value=value)
                ):
                    yield value, set(written_names(target))
                case ast.NamedExpr(target=target, value=value):
                    yield value, {target.id}
                case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                    yield value, set(written_names(target))
                case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                    yield value, set(written_names(target))
                case ast.Call():
                    yield from self._passed(node)
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    yield from ((value, {name}) for value in returned(node))

    def _passed(self, call: ast.Call) -> Iterator[tuple[ast.AST, set[str]]]:
        """What a call hands on: to the parameters of a function in the same file, and to what it adds to."""
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("append", "extend", "add", "update", "write"):
            holders = set(written_names(call.func.value))
            yield from ((argument, holders) for argument in call.args if holders)
        function = self._functions.get(call.func.id) if isinstance(call.func, ast.Name) else None
        if function is not None:
            names = [each.arg for each in function.args.args]
            yield from ((value, {name}) for name, value in zip(names, call.args, strict=False))
            yield from ((each.value, {each.arg}) for each in call.keywords if each.arg)


def written_names(target: ast.AST) -> Iterator[str]:
    """The names that hold what is written to a target."""
    match target:
        case ast.Name(id=name):
            yield name
        case ast.Attribute(value=value) | ast.Subscript(value=value) | ast.Starred(value=value):
            yield from written_names(value)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            for element in elements:
                yield from written_names(element)


def returned(function: ast.AST) -> Iterator[ast.AST]:
    """What a function gives back."""
    for node in ast.walk(function):
        if isinstance(node, ast.Return | ast.Yield) and node.value is not None:
            yield node.value
