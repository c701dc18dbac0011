"""Rules for Python scripts, based on their syntax tree."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from deerflow.skills.scanner.dataflow import MAX_NODES, NameResolver, TaintAnalysis, evaluate_string
from deerflow.skills.scanner.rules import METADATA_HOST, SENSITIVE_PATH, Finding, make_finding
from deerflow.skills.scanner.shell import check_shell

EXEC_FUNCTIONS = frozenset(
    {
        "eval",
        "exec",
        "execfile",
        "builtins.eval",
        "builtins.exec",
        "types.FunctionType",
        "code.InteractiveInterpreter.runcode",
        "code.InteractiveInterpreter.runsource",
    }
)
SHELL_FUNCTIONS = frozenset(
    {
        "os.system",
        "os.popen",
        "subprocess.getoutput",
        "subprocess.getstatusoutput",
        "commands.getoutput",
        "commands.getstatusoutput",
        "asyncio.create_subprocess_shell",
        "pty.spawn",
        "posix.system",
        "platform.popen",
        "os.popen2",
        "os.popen3",
        "popen2.popen2",
    }
)
PROCESS_FUNCTIONS = frozenset(
    {
        "subprocess.run",
        "subprocess.call",
        "subprocess.check_call",
        "subprocess.check_output",
        "subprocess.Popen",
        "asyncio.create_subprocess_exec",
        "asyncio.subprocess.create_subprocess_exec",
        "os.posix_spawn",
        "os.startfile",
    }
)
EXEC_FAMILY = re.compile(r"(?:os|posix)\.(?:exec[lv]p?e?|spawn[lv]p?e?)$")
IMPORT_FUNCTIONS = frozenset(
    {
        "__import__",
        "builtins.__import__",
        "importlib.import_module",
        "importlib.__import__",
        "runpy.run_path",
        "runpy.run_module",
    }
)
UNSAFE_LOADERS = frozenset(
    {
        "pickle.load",
        "pickle.loads",
        "pickle.Unpickler",
        "cPickle.loads",
        "dill.load",
        "dill.loads",
        "marshal.load",
        "marshal.loads",
        "shelve.open",
        "joblib.load",
        "cloudpickle.loads",
        "torch.load",
        "jsonpickle.decode",
        "pandas.read_pickle",
        "numpy.load",
        "yaml.load",
        "yaml.load_all",
        "yaml.unsafe_load",
        "yaml.full_load",
    }
)
NETWORK_MODULES = re.compile(
    r"(?:requests|httpx|aiohttp|urllib3?|urllib\.request|http\.client|socket|smtplib|ftplib|paramiko|websockets?|telnetlib"
    r"|boto3|grequests|pycurl|xmlrpc\.client|asyncio\.open_connection|imaplib|dns)(?:\.|$)"
)
"""Modules whose calls send data over the network."""
SHELL_BINARIES = re.compile(r"^(?:/usr)?(?:/bin/)?(?:(?:ba|z|da|k)?sh|cmd(?:\.exe)?|powershell(?:\.exe)?)$")
NETWORK_PROGRAMS = re.compile(r"^(?:curl|wget|nc|ncat|scp|rsync|ftp|ssh)$")
FALLBACK_PATTERN = re.compile(r"(?<![\w.])(?:exec|eval)\s{0,4}\(|os\.system\s{0,4}\(|shell\s{0,4}=\s{0,4}True")
"""Pattern for files that cannot be parsed."""
MAX_NESTING = 3
"""Maximum depth of code in string literals."""


@dataclass(frozen=True)
class PythonScript:
    """A parsed Python file."""

    tree: ast.Module
    file: str
    depth: int = 0

    @cached_property
    def resolver(self) -> NameResolver:
        return NameResolver(self.tree)

    @cached_property
    def calls(self) -> list[tuple[str, ast.Call]]:
        """All calls with the resolved name of the function."""
        return [(self.resolver.resolve(node.func), node) for node in ast.walk(self.tree) if isinstance(node, ast.Call)]

    @cached_property
    def unused_strings(self) -> frozenset[int]:
        """Ids of string statements, such as docstrings."""
        return frozenset(id(node.value) for node in ast.walk(self.tree) if isinstance(node, ast.Expr))

    def finding(self, rule_id: str, node: ast.AST, detail: str = "") -> Finding:
        """Return a finding at a node of the tree."""
        return make_finding(rule_id, self.file, getattr(node, "lineno", None), get_evidence(node), detail)


def check_python(text: str, file: str, first_line: int = 1, depth: int = 0) -> Iterator[Finding]:
    """Yield findings in a script that starts at `first_line` of a file."""
    try:
        tree = ast.parse(text)
        if first_line > 1:
            ast.increment_lineno(tree, first_line - 1)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        yield from check_unparsable(text, file, first_line)
        return
    script = PythonScript(tree, file, depth)
    if sum(1 for _ in ast.walk(tree)) > MAX_NODES:
        yield make_finding("package-oversized-file", file, detail="the script is too complex to scan")
        return
    for name, call in script.calls:
        yield from check_call(script, name, call)
    yield from check_references(script)
    yield from check_credential_exfiltration(script)
    yield from check_environment_exfiltration(script)
    yield from check_reverse_shell(script)
    yield from check_fork_bombs(script)
    yield from check_metadata_hosts(script)


def check_unparsable(text: str, file: str, first_line: int) -> Iterator[Finding]:
    """Yield findings in a script that cannot be parsed."""
    for number, line in enumerate(text.split("\n"), first_line):
        if match := FALLBACK_PATTERN.search(line.partition("#")[0][:4000]):
            rule = "python-dynamic-exec" if match[0].startswith(("exec", "eval")) else "python-shell-exec"
            yield make_finding(rule, file, number, line)
    yield from check_shell(text, file, first_line)


def check_call(script: PythonScript, name: str, call: ast.Call) -> Iterator[Finding]:
    """Yield findings in a single call."""
    if name in EXEC_FUNCTIONS:
        yield from check_exec_argument(script, call)
    elif is_shell(name) or (name.startswith("subprocess.") and uses_shell(call)):
        yield script.finding("python-shell-exec", call)
    elif name in PROCESS_FUNCTIONS or EXEC_FAMILY.match(name):
        yield script.finding("python-subprocess", call)
        yield from check_arguments(script, call)
    elif name in IMPORT_FUNCTIONS and not (call.args and script.resolver.resolve_string(call.args[0])):
        yield script.finding("python-dynamic-import", call)
    elif name in UNSAFE_LOADERS and not is_safe_load(name, call):
        yield script.finding("python-unsafe-deserialization", call)
    elif name.endswith(".?") and name.split(".")[0] in ("os", "subprocess", "builtins", "__builtins__", "sys", "?"):
        yield script.finding("python-dynamic-import", call, "name computed at run time")


def check_references(script: PythonScript) -> Iterator[Finding]:
    """Yield references to functions that execute strings, passed on without a call."""
    called = {id(call.func) for _, call in script.calls}
    called |= {id(node.value) for node in ast.walk(script.tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(script.tree):
        if not isinstance(node, ast.Name | ast.Attribute) or id(node) in called:
            continue
        name = script.resolver.resolve(node)
        if not isinstance(node.ctx, ast.Load) or (
            isinstance(node, ast.Name) and node.id in script.resolver.local_names
        ):
            continue
        if name in EXEC_FUNCTIONS:
            yield script.finding("python-dynamic-exec", node)
        elif name in SHELL_FUNCTIONS:
            yield script.finding("python-shell-exec", node)


def check_exec_argument(script: PythonScript, call: ast.Call) -> Iterator[Finding]:
    """Check the code in a string literal; report any other argument."""
    text = evaluate_string(call.args[0]) if call.args else None
    if text is None or isinstance(call.args[0], ast.JoinedStr) or script.depth >= MAX_NESTING:
        yield script.finding("python-dynamic-exec", call)
    else:
        yield from check_python(text, script.file, call.lineno, script.depth + 1)


def is_shell(name: str) -> bool:
    """Return True if a function passes its argument to a shell, including the one of the C library."""
    return name in SHELL_FUNCTIONS or (name.startswith("ctypes.") and name.endswith((".system", ".popen", ".execve")))


def uses_shell(call: ast.Call) -> bool:
    """Return True if `shell=` is set and not a false constant."""
    value = next((each.value for each in call.keywords if each.arg == "shell"), None)
    for spread in (each.value for each in call.keywords if each.arg is None):
        if isinstance(spread, ast.Dict) and any(evaluate_string(key) == "shell" for key in spread.keys):
            return True
    return value is not None and not (isinstance(value, ast.Constant) and not value.value)


def is_safe_load(name: str, call: ast.Call) -> bool:
    """Return True if a loader is restricted to plain data by its arguments or default."""
    options = {each.arg: each.value for each in call.keywords}
    if name == "torch.load":
        return "weights_only" in options
    if name.startswith("yaml."):
        return "Safe" in get_evidence(call)
    value = options.get("allow_pickle")
    return name == "numpy.load" and not (isinstance(value, ast.Constant) and value.value is True)


def check_arguments(script: PythonScript, call: ast.Call) -> Iterator[Finding]:
    """Check commands in the arguments of a started program, as in `bash -c`."""
    texts = [
        (node.value, node.lineno)
        for node in ast.walk(call)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    runs_python = any("python" in text and len(text) < 100 for text, _ in texts) and any(
        text == "-c" for text, _ in texts
    )
    for text, line in texts:
        if " " in text:
            yield from check_shell(text, script.file, line)
            if runs_python and script.depth < MAX_NESTING:
                yield from check_python(text, script.file, line, script.depth + 1)


def check_credential_exfiltration(script: PythonScript) -> Iterator[Finding]:
    """Yield calls that send credentials, or else all reads of credential paths."""
    taint = TaintAnalysis(script.tree, lambda node: is_sensitive(node) and id(node) not in script.unused_strings)
    sent = [call for name, call in script.calls if sends_data(name, call) and taint.is_tainted(call)]
    for call in sent:
        yield script.finding("python-sensitive-exfil", call)
    if not sent:
        for node in ast.walk(script.tree):
            if is_sensitive(node) and id(node) not in script.unused_strings:
                yield script.finding("python-sensitive-path-read", node)


def is_sensitive(node: ast.AST) -> bool:
    """Return True if a string is the path of credentials. A sentence that mentions one is not."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return False
    return (
        len(node.value) <= 300 and not re.search(r"\s(?!Data)", node.value) and bool(SENSITIVE_PATH.search(node.value))
    )


def sends_data(name: str, call: ast.Call) -> bool:
    """Return True if a call sends its arguments over the network."""
    if name in PROCESS_FUNCTIONS or name in SHELL_FUNCTIONS:
        return any(
            isinstance(node, ast.Constant) and isinstance(node.value, str) and NETWORK_PROGRAMS.match(node.value)
            for node in ast.walk(call)
        )
    return bool(NETWORK_MODULES.match(name))


def check_environment_exfiltration(script: PythonScript) -> Iterator[Finding]:
    """Yield calls that send the whole environment."""
    partial_uses = {
        id(node.value)
        for node in ast.walk(script.tree)
        if isinstance(node, ast.Subscript | ast.Attribute)
        and not (isinstance(node, ast.Attribute) and node.attr in ("items", "copy", "values"))
    } | {id(each) for node in ast.walk(script.tree) if isinstance(node, ast.Compare) for each in node.comparators}

    def is_whole_environment(node: ast.AST) -> bool:
        named = isinstance(node, ast.Name | ast.Attribute) and script.resolver.resolve(node) in (
            "os.environ",
            "os.environb",
        )
        return named and id(node) not in partial_uses

    taint = TaintAnalysis(script.tree, is_whole_environment)
    for name, call in script.calls:
        if sends_data(name, call) and taint.is_tainted(call):
            yield script.finding("python-env-dump-exfil", call)


def check_reverse_shell(script: PythonScript) -> Iterator[Finding]:
    """Yield calls that connect a shell to a socket."""
    called = {name for name, _ in script.calls}
    connects = any(
        name.startswith("socket.") and name.endswith((".connect", ".create_connection", ".accept")) for name in called
    )
    if not connects:
        return
    for name, call in script.calls:
        starts_shell = name in PROCESS_FUNCTIONS or name in SHELL_FUNCTIONS or EXEC_FAMILY.match(name)
        texts = (
            node.value for node in ast.walk(call) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        )
        if name == "os.dup2" or name == "pty.spawn" or (starts_shell and any(map(SHELL_BINARIES.match, texts))):
            yield script.finding("python-reverse-shell", call)
            return
        if starts_shell and any(
            script.resolver.resolve(argument).startswith("socket.") for argument in find_argument_names(call)
        ):
            yield script.finding("python-reverse-shell", call)
            return


def find_argument_names(call: ast.Call) -> Iterator[ast.AST]:
    """Yield the names and attributes used in the arguments of a call."""
    yield from (node for node in ast.walk(call) if isinstance(node, ast.Name | ast.Attribute) and node is not call.func)


def check_fork_bombs(script: PythonScript) -> Iterator[Finding]:
    """Yield forks in an endless loop."""
    endless = [
        node
        for node in ast.walk(script.tree)
        if isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and node.test.value
    ]
    forks = [call for loop in endless for call in ast.walk(loop) if isinstance(call, ast.Call)]
    yield from (
        script.finding("resource-fork-bomb", call) for call in forks if script.resolver.resolve(call.func) == "os.fork"
    )


def check_metadata_hosts(script: PythonScript) -> Iterator[Finding]:
    """Yield addresses of cloud metadata services."""
    for node in ast.walk(script.tree):
        is_text = (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in script.unused_strings
        )
        if is_text and len(node.value) < 2000 and METADATA_HOST.search(node.value):  # type: ignore[attr-defined]
            yield script.finding("network-cloud-metadata", node)


def get_evidence(node: ast.AST) -> str:
    """Return the source of an expression, unless it is too large."""
    if sum(1 for _ in ast.walk(node)) > 200:
        return ""
    return ast.unparse(node) if isinstance(node, ast.expr) else ""
