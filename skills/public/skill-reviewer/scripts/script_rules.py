"""Rules about scripts and the contract: what is used must be declared, and nothing more."""

import ast
import re
import sys
from collections.abc import Iterator
from types import MappingProxyType

from package import Finding, Package, line_of

DISTRIBUTIONS = MappingProxyType(
    {
        "yaml": "pyyaml", "PIL": "pillow", "pptx": "python-pptx", "docx": "python-docx", "bs4": "beautifulsoup4",
        "dateutil": "python-dateutil", "sklearn": "scikit-learn", "cv2": "opencv-python", "pdfminer": "pdfminer-six",
        "markdown_it": "markdown-it-py",
    }
)  # fmt: skip
"""Names that pip knows packages by, where they differ from what is imported."""
NETWORK = {"urllib", "requests", "httpx", "aiohttp", "http", "socket", "urllib3"}
DANGEROUS = {"eval", "exec", "os.system", "os.popen", "pickle.loads", "pickle.load", "marshal.loads", "__import__"}
TOOLS = (
    "bash", "web_search", "web_fetch", "image_search", "task", "write_file", "str_replace", "glob", "grep",
    "view_image", "skill_manage", "setup_agent", "update_agent",
)  # fmt: skip
SECTIONS = {
    "needs": {"tools", "paths", "hosts", "environment", "packages"},
    "budget": {"seconds", "max_tool_calls"},
}
URL = re.compile(r"https?://([A-Za-z0-9.-]+\.[A-Za-z]{2,})")
EXAMPLES = re.compile(
    r"(^|\.)(example\.(org|com|net)|example|test|invalid|localhost|w3\.org|github\.com|doi\.org|a9\.com)$"
)


def examine_scripts(package: Package) -> Iterator[Finding]:
    """All rules of this module."""
    yield from examine_contract(package)
    packages: set[str] = set()
    variables: set[str] = set()
    has_network = False
    for path, text in package.python().items():
        try:
            tree = ast.parse(text)
        except SyntaxError as problem:
            yield Finding("error", "syntax", path, problem.lineno or 0, f"it does not compile: {problem.msg}")
            continue
        used = Use(tree)
        yield from examine_script(path, text, used)
        local = {file.rpartition("/")[2].removesuffix(".py") for file in package.python()}
        packages |= {name for name in used.imports if name not in sys.stdlib_module_names and name not in local}
        variables |= used.variables
        has_network = has_network or bool(used.imports & NETWORK)
    if package.contract is not None:
        yield from compare(package, packages, variables, has_network)
    yield from examine_tools(package)


class Use(ast.NodeVisitor):
    """What a script uses."""

    def __init__(self, tree: ast.AST) -> None:
        self.imports: set[str] = set()
        self.variables: set[str] = set()
        self.dangers: list[tuple[int, str]] = []
        self.has_guard = False
        self.visit(tree)

    def visit_Import(self, node: ast.Import) -> None:
        self.imports |= {alias.name.partition(".")[0] for alias in node.names}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level == 0 and node.module:
            self.imports.add(node.module.partition(".")[0])

    def visit_If(self, node: ast.If) -> None:
        self.has_guard = self.has_guard or "__name__" in ast.unparse(node.test)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if ast.unparse(node.value).endswith("os.environ") and isinstance(node.slice, ast.Constant):
            self.variables.add(str(node.slice.value))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = ast.unparse(node.func)
        first = node.args[0] if node.args else None
        if called in ("os.environ.get", "os.getenv", "environ.get", "getenv") and isinstance(first, ast.Constant):
            self.variables.add(str(first.value))
        shell = any(k.arg == "shell" and isinstance(k.value, ast.Constant) and k.value.value for k in node.keywords)
        if called in DANGEROUS or shell:
            self.dangers.append((node.lineno, f"{called}{' with shell=True' if shell else ''}"))
        self.generic_visit(node)


def examine_script(path: str, text: str, used: Use) -> Iterator[Finding]:
    """One script by itself."""
    if used.has_guard and "argparse" not in used.imports and "sys.argv" in text:
        yield Finding("warning", "command-line", path, 1, "it reads sys.argv by hand; argparse explains itself")
    for line, what in used.dangers:
        yield Finding("warning", "dangerous-call", path, line, f"{what}: what if its input comes from a stranger?")


def examine_contract(package: Package) -> Iterator[Finding]:
    """The contract by itself."""
    if package.contract_problem:
        yield Finding("error", "contract", "skill.toml", 0, f"it is not TOML: {package.contract_problem}")
    elif package.contract is None:
        yield Finding("warning", "no-contract", "skill.toml", 0, "there is none; what it needs is not limited")
    for section, content in (package.contract or {}).items():
        if section not in SECTIONS or not isinstance(content, dict):
            yield Finding("error", "contract", "skill.toml", 0, f"`{section}` is unknown; [needs] and [budget] exist")
        elif unknown := sorted(content.keys() - SECTIONS[section]):
            yield Finding("error", "contract", "skill.toml", 0, f"[{section}] does not know {', '.join(unknown)}")
    if package.contract and "budget" not in package.contract:
        yield Finding("note", "contract", "skill.toml", 0, "no [budget]: nothing stops it when it runs in circles")


def compare(package: Package, packages: set[str], variables: set[str], has_network: bool) -> Iterator[Finding]:
    """The contract against what scripts use."""
    declared = {str(name).lower().replace("_", "-") for name in package.needs.get("packages", [])}
    for name in sorted(packages):
        if DISTRIBUTIONS.get(name, name).lower().replace("_", "-") not in declared:
            message = f"scripts import {name}, but `packages` does not name {DISTRIBUTIONS.get(name, name)}"
            yield Finding("error", "undeclared-package", "skill.toml", 0, message)
    allowed = set(package.needs.get("environment", []))
    for name in sorted(variables - allowed - {"HOME", "PATH", "TMPDIR"}):
        yield Finding(
            "error", "undeclared-variable", "skill.toml", 0, f"scripts read {name}, but `environment` does not name it"
        )
    everything = "\n".join(package.texts.values())
    for name in sorted(allowed - variables):
        if len(re.findall(rf"\b{re.escape(name)}\b", everything)) < 2:
            yield Finding("warning", "unused-variable", "skill.toml", 0, f"{name} is declared, but nothing uses it")
    yield from compare_hosts(package, has_network)


def compare_hosts(package: Package, has_network: bool) -> Iterator[Finding]:
    """The hosts of the contract against those that scripts name."""
    hosts = [str(host) for host in package.needs.get("hosts", [])]
    scripts = {p: t for p, t in package.texts.items() if p.startswith("scripts/")}
    for path, text in scripts.items():
        for match in URL.finditer(text):
            if has_network and not EXAMPLES.search(match[1]) and not any(covers(host, match[1]) for host in hosts):
                line = line_of(text, match.start())
                yield Finding("note", "undeclared-host", path, line, f"{match[1]} is not among `hosts`; is it asked?")
    named = "\n".join([*scripts.values(), package.body])
    # Pages that searches find can be anywhere.
    has_web = not {"web_search", "web_fetch"}.isdisjoint(package.needs.get("tools", []))
    for host in hosts:
        is_explained = has_web if host == "*" else host.removeprefix("*.") in named
        if not is_explained:
            yield Finding("warning", "unused-host", "skill.toml", 0, f"`hosts` names {host}; nothing explains why")


def covers(host: str, name: str) -> bool:
    """Whether an entry of `hosts` allows a host."""
    return host in ("*", name) or (host.startswith("*.") and name.endswith(host[1:]))


def examine_tools(package: Package) -> Iterator[Finding]:
    """Tools that the text tells to use, but the header does not allow."""
    allowed, needed = package.tools, package.needs.get("tools")
    if allowed is not None:
        runs = "bash" not in allowed and re.search(r"```(bash|sh)\b|\bscripts/\w+\.(py|sh)\b", package.body)
        if runs:
            yield Finding(
                "error", "undeclared-tool", "SKILL.md", 0, "commands are to be run, but `bash` is not allowed"
            )
        for name in TOOLS:
            if name not in allowed and re.search(rf"`{name}`", package.body) and not (name == "bash" and runs):
                yield Finding(
                    "warning", "undeclared-tool", "SKILL.md", 0, f"the text names `{name}`, which is not allowed"
                )
    if allowed is not None and isinstance(needed, list) and set(allowed) != set(needed):
        differ = ", ".join(sorted(set(allowed) ^ set(needed)))
        yield Finding("warning", "contract", "skill.toml", 0, f"`tools` and `allowed-tools` differ in {differ}")
