"""Which rules apply to which file."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from deerflow.skills.scanner.package import SCRIPT_ENDINGS
from deerflow.skills.scanner.places import CLEARTEXT, LOCAL, NAMESPACES
from deerflow.skills.scanner.prompts import PYTHON_LANGUAGES, SHELL_LANGUAGES, check_prompt, code_blocks
from deerflow.skills.scanner.python import check_python
from deerflow.skills.scanner.rules import Finding, found
from deerflow.skills.scanner.secrets import check_secrets
from deerflow.skills.scanner.shell import check_shell

PROMPT_ENDINGS = frozenset({".md", ".markdown", ".txt", ".mdx", ".rst"})
MAX_OF_A_RULE = 20
"""More of the same in one file are not told of."""


def check_content(path: str, text: str) -> list[Finding]:
    """What is wrong with what a file says."""
    counted: dict[str, int] = {}
    kept = []
    for finding in check_all(path, text.replace("\r\n", "\n")):
        counted[finding.rule_id] = counted.get(finding.rule_id, 0) + 1
        if counted[finding.rule_id] <= MAX_OF_A_RULE:
            kept.append(finding)
    return kept


def check_all(path: str, text: str) -> Iterator[Finding]:
    """Every rule for a file of its kind."""
    kind = kind_of(path, text)
    yield from check_secrets(text, path)
    if kind == "python":
        yield from check_python(text, path)
    elif kind == "script":
        yield from check_shell(text, path)
    elif kind == "prompt":
        yield from check_prompt(text, path)
        yield from check_blocks(text, path)
    if kind in ("python", "script"):
        yield from check_addresses(text, path)


def kind_of(path: str, text: str) -> str:
    """How a file is used: by its name, or by its first line."""
    ending = PurePosixPath(path).suffix.lower()
    first = text[:200].partition("\n")[0]
    if ending in (".py", ".pyw") or (first.startswith("#!") and "python" in first):
        return "python"
    if ending in SCRIPT_ENDINGS or first.startswith("#!") or PurePosixPath(path).name in ("Makefile", "Dockerfile"):
        return "script"
    return "prompt" if ending in PROMPT_ENDINGS else "data"


def check_blocks(text: str, path: str) -> Iterator[Finding]:
    """Code in Markdown, which the agent will run as it stands."""
    for block in code_blocks(text):
        if block.language in PYTHON_LANGUAGES:
            yield from check_python(block.text, path, block.line)
        elif block.language in SHELL_LANGUAGES:
            yield from check_shell(block.text, path, block.line)


def check_addresses(text: str, path: str) -> Iterator[Finding]:
    """Addresses that are asked without encryption."""
    for number, line in enumerate(text.split("\n"), 1):
        for match in CLEARTEXT.finditer(line[:4000]):
            host = match[1]
            if LOCAL.match(host):
                yield found("network-local-http", path, number, match[0])
            elif not host.lower().startswith(NAMESPACES):
                yield found("network-cleartext-http", path, number, match[0])
