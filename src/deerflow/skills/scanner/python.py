"""Rules about Python scripts, which are read as a tree and not run."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from deerflow.skills.scanner.flow import MAX_NODES, Flow
from deerflow.skills.scanner.names import Names, text_of
from deerflow.skills.scanner.places import METADATA, SENSITIVE_PATH
from deerflow.skills.scanner.rules import Finding, found
from deerflow.skills.scanner.shell import check_shell

EXECUTE = frozenset({"eval", "exec", "execfile", "builtins.eval", "builtins.exec", "types.FunctionType",
                     "code.InteractiveInterpreter.runcode", "code.InteractiveInterpreter.runsource"})  # fmt: skip
SHELL = frozenset({"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "commands.getoutput",
                   "commands.getstatusoutput", "asyncio.create_subprocess_shell", "pty.spawn", "posix.system",
                   "platform.popen", "os.popen2", "os.popen3", "popen2.popen2"})  # fmt: skip
PROGRAMS = frozenset({"subprocess.run", "subprocess.call", "subprocess.check_call", "subprocess.check_output",
                      "subprocess.Popen", "asyncio.create_subprocess_exec", "asyncio.subprocess.create_subprocess_exec",
                      "os.posix_spawn", "os.startfile"})  # fmt: skip
EXEC_FAMILY = re.compile(r"(?:os|posix)\.(?:exec[lv]p?e?|spawn[lv]p?e?)$")
IMPORTS = frozenset({"__import__", "builtins.__import__", "importlib.import_module", "importlib.__import__",
                     "runpy.run_path", "runpy.run_module"})  # fmt: skip
LOADERS = frozenset({"pickle.load", "pickle.loads", "pickle.Unpickler", "cPickle.loads", "dill.load", "dill.loads",
                     "marshal.load", "marshal.loads", "shelve.open", "joblib.load", "cloudpickle.loads", "torch.load",
                     "jsonpickle.decode", "pandas.read_pickle", "numpy.load", "yaml.load", "yaml.load_all",
                     "yaml.unsafe_load", "yaml.full_load"})  # fmt: skip
SENDERS = re.compile(
    r"(?:requests|httpx|aiohttp|urllib3?|urllib\.request|http\.client|socket|smtplib|ftplib|paramiko|websockets?|telnetlib"
    r"|boto3|grequests|pycurl|xmlrpc\.client|asyncio\.open_connection|imaplib|dns)(?:\.|$)"
)
"""Modules whose calls carry what they are given elsewhere."""
SHELL_BINARIES = re.compile(r"^(?:/usr)?(?:/bin/)?(?:(?:ba|z|da|k)?sh|cmd(?:\.exe)?|powershell(?:\.exe)?)$")
CARRIERS = re.compile(r"^(?:curl|wget|nc|ncat|scp|rsync|ftp|ssh)$")
RESCUE = re.compile(r"(?<![\w.])(?:exec|eval)\s{0,4}\(|os\.system\s{0,4}\(|shell\s{0,4}=\s{0,4}True")
"""What is looked for in a file that is no Python of today."""
MAX_INNER = 3
"""Code in texts in code: so deep is looked."""


@dataclass(frozen=True)
class Script:
    """A Python file as a tree."""

    tree: ast.Module
    file: str
    depth: int = 0

    @cached_property
    def names(self) -> Names:
        return Names(self.tree)

    @cached_property
    def calls(self) -> list[tuple[str, ast.Call]]:
        """Every call, with the name of what is called."""
        return [(self.names.of(node.func), node) for node in ast.walk(self.tree) if isinstance(node, ast.Call)]

    @cached_property
    def prose(self) -> frozenset[int]:
        """Texts that nothing is done with, as descriptions of functions are."""
        return frozenset(id(node.value) for node in ast.walk(self.tree) if isinstance(node, ast.Expr))

    def finding(self, rule_id: str, node: ast.AST, detail: str = "") -> Finding:
        """That a rule applies at a place in the tree."""
        return found(rule_id, self.file, getattr(node, "lineno", None), evidence_of(node), detail)


def check_python(text: str, file: str, first_line: int = 1, depth: int = 0) -> Iterator[Finding]:
    """What is wrong with a script that begins at `first_line` of a file."""
    try:
        tree = ast.parse(text)
        if first_line > 1:
            ast.increment_lineno(tree, first_line - 1)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        yield from rescue(text, file, first_line)
        return
    script = Script(tree, file, depth)
    if sum(1 for _ in ast.walk(tree)) > MAX_NODES:
        yield found("package-oversized-file", file, detail="the script is too intricate to be looked at")
        return
    for name, call in script.calls:
        yield from check_call(script, name, call)
    yield from check_secrets_sent(script)
    yield from check_environment_sent(script)
    yield from check_reverse_shell(script)
    yield from check_forks(script)
    yield from check_addresses(script)


def rescue(text: str, file: str, first_line: int) -> Iterator[Finding]:
    """What can be said of a script that Python does not read."""
    for number, line in enumerate(text.split("\n"), first_line):
        if match := RESCUE.search(line.partition("#")[0][:4000]):
            rule = "python-dynamic-exec" if match[0].startswith(("exec", "eval")) else "python-shell-exec"
            yield found(rule, file, number, line)
    yield from check_shell(text, file, first_line)


def check_call(script: Script, name: str, call: ast.Call) -> Iterator[Finding]:
    """What is wrong with a call by itself."""
    if name in EXECUTE:
        yield from check_executed(script, call)
    elif name in SHELL or (name.startswith("subprocess.") and asks_for_shell(call)):
        yield script.finding("python-shell-exec", call)
    elif name in PROGRAMS or EXEC_FAMILY.match(name):
        yield script.finding("python-subprocess", call)
        yield from check_arguments(script, call)
    elif name in IMPORTS and not (call.args and text_of(call.args[0])):
        yield script.finding("python-dynamic-import", call)
    elif name in LOADERS and not is_careful(name, call):
        yield script.finding("python-unsafe-deserialization", call)
    elif name.endswith(".?") and name.split(".")[0] in ("os", "subprocess", "builtins", "__builtins__", "sys", "?"):
        yield script.finding("python-dynamic-import", call, "a name that is made up at run time")


def check_executed(script: Script, call: ast.Call) -> Iterator[Finding]:
    """Code in a text can be looked at if it stands there; else nobody knows what is run."""
    text = text_of(call.args[0]) if call.args else None
    if text is None or isinstance(call.args[0], ast.JoinedStr) or script.depth >= MAX_INNER:
        yield script.finding("python-dynamic-exec", call)
    else:
        yield from check_python(text, script.file, call.lineno, script.depth + 1)


def asks_for_shell(call: ast.Call) -> bool:
    """Whether `shell=` is given and not plainly false."""
    given = next((each.value for each in call.keywords if each.arg == "shell"), None)
    return given is not None and not (isinstance(given, ast.Constant) and not given.value)


def is_careful(name: str, call: ast.Call) -> bool:
    """Whether a loader is told to take plain data only, which some take by default."""
    told = {each.arg: each.value for each in call.keywords}
    if name == "torch.load":
        return "weights_only" in told
    if name.startswith("yaml."):
        return "Safe" in evidence_of(call)
    value = told.get("allow_pickle")
    return name == "numpy.load" and not (isinstance(value, ast.Constant) and value.value is True)


def check_arguments(script: Script, call: ast.Call) -> Iterator[Finding]:
    """Commands among the arguments of a program that is started, as for `bash -c`."""
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
            if runs_python and script.depth < MAX_INNER:
                yield from check_python(text, script.file, line, script.depth + 1)


def check_secrets_sent(script: Script) -> Iterator[Finding]:
    """Places of credentials, and whether what is read there is sent."""
    flow = Flow(script.tree, lambda node: is_sensitive(node) and id(node) not in script.prose)
    sent = [call for name, call in script.calls if is_sender(name, call) and flow.reaches(call)]
    for call in sent:
        yield script.finding("python-sensitive-exfil", call)
    if not sent:
        for node in ast.walk(script.tree):
            if is_sensitive(node) and id(node) not in script.prose:
                yield script.finding("python-sensitive-path-read", node)


def is_sensitive(node: ast.AST) -> bool:
    """Whether an expression is the path of a place of credentials; a sentence that names one is not."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return False
    return (
        len(node.value) <= 300 and not re.search(r"\s(?!Data)", node.value) and bool(SENSITIVE_PATH.search(node.value))
    )


def is_sender(name: str, call: ast.Call) -> bool:
    """Whether a call carries what it is given elsewhere."""
    if name in PROGRAMS or name in SHELL:
        return any(
            isinstance(node, ast.Constant) and isinstance(node.value, str) and CARRIERS.match(node.value)
            for node in ast.walk(call)
        )
    return bool(SENDERS.match(name))


def check_environment_sent(script: Script) -> Iterator[Finding]:
    """All of the environment, where it is sent."""
    singled_out = {
        id(node.value)
        for node in ast.walk(script.tree)
        if isinstance(node, ast.Subscript | ast.Attribute)
        and not (isinstance(node, ast.Attribute) and node.attr in ("items", "copy", "values"))
    } | {id(each) for node in ast.walk(script.tree) if isinstance(node, ast.Compare) for each in node.comparators}

    def is_whole(node: ast.AST) -> bool:
        named = isinstance(node, ast.Name | ast.Attribute) and script.names.of(node) in ("os.environ", "os.environb")
        return named and id(node) not in singled_out

    flow = Flow(script.tree, is_whole)
    for name, call in script.calls:
        if is_sender(name, call) and flow.reaches(call):
            yield script.finding("python-env-dump-exfil", call)


def check_reverse_shell(script: Script) -> Iterator[Finding]:
    """A connection whose other end gets the input and output of a shell."""
    called = {name for name, _ in script.calls}
    connects = any(
        name.startswith("socket.") and name.endswith((".connect", ".create_connection", ".accept")) for name in called
    )
    if not connects:
        return
    for name, call in script.calls:
        starts_shell = name in PROGRAMS or name in SHELL or EXEC_FAMILY.match(name)
        texts = (
            node.value for node in ast.walk(call) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        )
        if name == "os.dup2" or name == "pty.spawn" or (starts_shell and any(map(SHELL_BINARIES.match, texts))):
            yield script.finding("python-reverse-shell", call)
            return
        if starts_shell and any(script.names.of(argument).startswith("socket.") for argument in received(call)):
            yield script.finding("python-reverse-shell", call)
            return


def received(call: ast.Call) -> Iterator[ast.AST]:
    """The expressions in a call whose value came from elsewhere by a name."""
    yield from (node for node in ast.walk(call) if isinstance(node, ast.Name | ast.Attribute) and node is not call.func)


def check_forks(script: Script) -> Iterator[Finding]:
    """Processes that are started in a loop without end."""
    for node in ast.walk(script.tree):
        if isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and node.test.value:
            for each in ast.walk(node):
                if isinstance(each, ast.Call) and script.names.of(each.func) == "os.fork":
                    yield script.finding("resource-fork-bomb", each)
                    return


def check_addresses(script: Script) -> Iterator[Finding]:
    """The address under which clouds give out credentials."""
    for node in ast.walk(script.tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in script.prose
        if is_text and len(node.value) < 2000 and METADATA.search(node.value):  # type: ignore[attr-defined]
            yield script.finding("network-cloud-metadata", node)


def evidence_of(node: ast.AST) -> str:
    """The code at a place in the tree, if it is not too much to write down."""
    if sum(1 for _ in ast.walk(node)) > 200:
        return ""
    return ast.unparse(node) if isinstance(node, ast.expr) else ""
