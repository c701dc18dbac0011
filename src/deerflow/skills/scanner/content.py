"""Content rules for skill files: prompts, secrets, URLs, and code by language. Run as a child process."""

import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from deerflow.domain.taint import INVISIBLE
from deerflow.sandbox.jobs import drop_privileges
from deerflow.skills.scanner.python import check_python
from deerflow.skills.scanner.rules import (
    CLEARTEXT_URL,
    EXFILTRATION_HOSTS,
    LOCAL_HOST,
    NAMESPACE_HOSTS,
    SCRIPT_SUFFIXES,
    SENSITIVE_PATH,
    Finding,
    make_finding,
)
from deerflow.skills.scanner.shell import check_shell

PROMPT_SUFFIXES = frozenset({".md", ".markdown", ".txt", ".mdx", ".rst"})
MAX_PER_RULE = 20
"""Maximum number of findings per rule and file."""


def check_content(path: str, text: str) -> list[Finding]:
    """Return the findings in the content of a file."""
    counts: dict[str, int] = {}
    kept = []
    for finding in apply_rules(path, text.replace("\r\n", "\n")):
        counts[finding.rule_id] = counts.get(finding.rule_id, 0) + 1
        if counts[finding.rule_id] <= MAX_PER_RULE:
            kept.append(finding)
    return kept


def apply_rules(path: str, text: str) -> Iterator[Finding]:
    """Yield the findings of all rules that apply to the type of a file."""
    file_type = detect_type(path, text)
    yield from check_secrets(text, path)
    if file_type == "python":
        yield from check_python(text, path)
    elif file_type == "script":
        yield from check_shell(text, path)
    elif file_type == "prompt":
        yield from check_prompt(text, path)
        yield from check_code_blocks(text, path)
    if file_type in ("python", "script"):
        yield from check_urls(text, path)


def detect_type(path: str, text: str) -> str:
    """Return the type of a file by its suffix or first line."""
    suffix = PurePosixPath(path).suffix.lower()
    first = text[:200].partition("\n")[0]
    if suffix in (".py", ".pyw") or (first.startswith("#!") and "python" in first):
        return "python"
    if suffix in SCRIPT_SUFFIXES or first.startswith("#!") or PurePosixPath(path).name in ("Makefile", "Dockerfile"):
        return "script"
    return "prompt" if suffix in PROMPT_SUFFIXES else "data"


def check_code_blocks(text: str, path: str) -> Iterator[Finding]:
    """Check the code blocks of a Markdown file, because an agent may run them."""
    for block in find_code_blocks(text):
        if block.language in PYTHON_LANGUAGES:
            yield from check_python(block.text, path, block.line)
        elif block.language in SHELL_LANGUAGES:
            yield from check_shell(block.text, path, block.line)


def check_urls(text: str, path: str) -> Iterator[Finding]:
    """Yield unencrypted URLs."""
    for number, line in enumerate(text.split("\n"), 1):
        for match in CLEARTEXT_URL.finditer(line[:4000]):
            host = match[1]
            if LOCAL_HOST.match(host):
                yield make_finding("network-local-http", path, number, match[0])
            elif not host.lower().startswith(NAMESPACE_HOSTS):
                yield make_finding("network-cleartext-http", path, number, match[0])


PROMPT_OVERRIDES = (
    re.compile(
        r"(?i)\b(?:ignore|disregard|forget|override)\b.{0,30}\b(?:previous|prior|above|earlier|system|all other|your)\b"
        r".{0,30}\b(?:instruction|prompt|rule|guideline|message|polic|restriction)"
    ),
    re.compile(r"(?i)\b(?:do not|don't|never)\s{1,3}(?:tell|inform|mention (?:this|it) to|alert)\s.{0,20}\buser\b"),
    re.compile(r"(?i)\byou are (?:now|no longer)\b.{0,40}\b(?:unrestricted|jailbroken|DAN|bound by|in developer mode)"),
    re.compile(r"(?i)\b(?:reveal|print|output|repeat|send)\b.{0,30}\b(?:system prompt|hidden instructions)"),
    re.compile(r"(?i)\bwithout (?:asking|telling|informing|notifying|the knowledge of)\b.{0,15}\buser\b"),
    re.compile(r"(?i)\b(?:silently|secretly|covertly)\b.{0,40}\b(?:send|upload|post|run|execute|copy|install)\b"),
)
CAPABILITIES = re.compile(
    r"(?i)\b(?:keylog(?:ger|ging)|exfiltrat(?:e|ing)|privilege escalation"
    r"|disable (?:the )?(?:sandbox|antivirus|firewall|security|guardrails?)"
    r"|bypass (?:the )?(?:sandbox|guardrails?|approval|security|safety)"
    r"|steal (?:the )?(?:password|credential|token|cookie)"
    r"|install a (?:rootkit|backdoor)|crypto ?min(?:er|ing)|persist(?:ence)? (?:across|after) reboot)"
)
FENCE = re.compile(r"^ {0,12}(`{3,}|~{3,})\s{0,4}([\w+#.-]{0,30})")
SHELL_LANGUAGES = frozenset(
    {"", "sh", "bash", "shell", "zsh", "console", "terminal", "fish", "powershell", "ps1", "bat"}
)
PYTHON_LANGUAGES = frozenset({"python", "py", "python3"})


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """A fenced code block of a Markdown file."""

    language: str
    text: str
    line: int


def check_prompt(text: str, file: str) -> Iterator[Finding]:
    """Yield findings in instructions for an agent."""
    for number, line in enumerate(text.split("\n"), 1):
        short = line[:4000]
        if INVISIBLE.search(short.removeprefix("\ufeff")):
            yield make_finding("declaration-prompt-override", file, number, detail="invisible characters")
        if any(pattern.search(short) for pattern in PROMPT_OVERRIDES):
            yield make_finding("declaration-prompt-override", file, number, short)
        if CAPABILITIES.search(short):
            yield make_finding("declaration-sensitive-capability", file, number, short)
        if SENSITIVE_PATH.search(short):
            yield make_finding("declaration-sensitive-path", file, number, short)
        if EXFILTRATION_HOSTS.search(short):
            yield make_finding("declaration-external-endpoint", file, number, short)


def find_code_blocks(text: str) -> Iterator[CodeBlock]:
    """Yield the fenced blocks of a Markdown file. An unclosed block extends to the end."""
    fence, language, start, lines = "", "", 0, [""]
    for number, line in enumerate(text.split("\n"), 1):
        match = FENCE.match(line)
        if not fence and match:
            fence, language, start, lines = match[1], match[2].lower(), number + 1, []
        elif fence and match and match[1].startswith(fence) and not match[2]:
            yield CodeBlock(language, "\n".join(lines), start)
            fence = ""
        elif fence:
            lines.append(line)
    if fence:
        yield CodeBlock(language, "\n".join(lines), start)


PRIVATE_KEY_HEADER = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
KEY_LINE = re.compile(r"[A-Za-z0-9+/=\\n\"' ]{24,}")
KEY_LINES = 2
KEY_START = re.compile(r"(?:^|\\n)(?:M[A-P]|b3BlbnNzaC1r)[A-Za-z0-9+/=]{14,}(?=$|\\)")
"""First line of a key: the Base64 of a DER sequence, or of the OpenSSH format. Short keys have no other line."""
KEY_FILES = (".pem", ".key", ".p8", ".pk8")
PUTTY_HEADER = re.compile(r"PuTTY-User-Key-File-\d+: ")
TOKENS = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:AKIA|ASIA)[0-9A-Z]{16}"
    r"|gh[pousr]_[A-Za-z0-9]{36,255}"
    r"|github_pat_[A-Za-z0-9_]{60,255}"
    r"|glpat-[A-Za-z0-9_-]{20,64}"
    r"|xox[abposr]-[A-Za-z0-9-]{20,255}"
    r"|sk-(?:ant|proj|svcacct|or)-[A-Za-z0-9_-]{24,255}"
    r"|sk-[A-Za-z0-9]{32,64}"
    r"|[sr]k_live_[A-Za-z0-9]{24,99}"
    r"|AIza[0-9A-Za-z_-]{35}"
    r"|ya29\.[0-9A-Za-z_-]{40,255}"
    r"|hf_[A-Za-z0-9]{34}"
    r"|npm_[A-Za-z0-9]{36}"
    r"|pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{40,255}"
    r"|SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"
    r")"
)
ASSIGNMENT = re.compile(
    r"(?i)(?<![A-Za-z0-9])[A-Z0-9_.-]{0,40}(?:api_?key|secret|token|passwd|password|access_?key)[\"']?\s{0,4}[:=]\s{0,4}"
    r"[\"']?([A-Za-z0-9+/=_\-.!@#%^&*]{16,200})"
)
PLACEHOLDERS = ("example", "your", "xxxx", "placeholder", "changeme", "dummy", "sample", "redacted", "test", "fake")
SEQUENCES = ("0123456789", "1234567890", "abcdefgh", "aaaaaa", "000000", "******", "......")
MIN_ENTROPY = 3.0
"""Minimum entropy per character in bits. Invented placeholders are below, generated secrets above."""


def check_secrets(text: str, file: str) -> Iterator[Finding]:
    """Yield keys and tokens in a text."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if "PRIVATE KEY" in line and PRIVATE_KEY_HEADER.search(line) and is_private_key(file, lines, number):
            yield make_finding("secret-private-key", file, number, "-----BEGIN … PRIVATE KEY-----")
        elif number == 1 and PUTTY_HEADER.match(line):
            yield make_finding("secret-private-key", file, number, "PuTTY-User-Key-File")
        yield from find_tokens(line[:4000], file, number)


def is_private_key(file: str, lines: list[str], begin: int) -> bool:
    """Return True if a header starts a key: always in a key file, elsewhere if key material follows."""
    return file.lower().endswith(KEY_FILES) or has_key_material(lines, begin)


def has_key_material(lines: list[str], begin: int) -> bool:
    """Return True if a key follows its header, not a placeholder."""
    rest = lines[begin - 1].partition("KEY")[2]
    if (len(rest) > 120 and KEY_LINE.search(rest)) or KEY_START.search(rest):
        return True
    following = [line.strip().strip("\"',") for line in lines[begin : begin + 8]]
    if any(KEY_START.search(line.removesuffix("\\n")) for line in following[:4]):
        return True
    return sum(1 for line in following if KEY_LINE.fullmatch(line) and not is_placeholder(line)) >= KEY_LINES


def find_tokens(line: str, file: str, number: int) -> Iterator[Finding]:
    """Yield tokens in a line. The evidence does not repeat them."""
    tokens = [token for token in TOKENS.findall(line) if not is_placeholder(token)]
    if tokens:
        yield make_finding("secret-cloud-token", file, number, f"{tokens[0][:6]}…")
        return
    for match in ASSIGNMENT.finditer(line):
        value = match[1]
        if (
            not is_placeholder(value)
            and any(each.isdigit() for each in value)
            and any(each.isalpha() for each in value)
        ):
            yield make_finding("secret-env-assignment", file, number, f"{line[match.start() : match.start(1)]}…")
            return


def is_placeholder(value: str) -> bool:
    """Return True if a value is an example, not a secret."""
    lower = value.lower()
    if any(word in lower for word in (*PLACEHOLDERS, *SEQUENCES)):
        return True
    return compute_entropy(value) < MIN_ENTROPY


def compute_entropy(value: str) -> float:
    """Return the Shannon entropy per character."""
    total = len(value)
    return -sum(count / total * math.log2(count / total) for count in Counter(value).values())


RECURSION_LIMIT = 3_000


def main() -> None:
    """Scan the files of one skill from standard input."""
    limits = json.loads(sys.argv[1])
    sys.setrecursionlimit(RECURSION_LIMIT)
    "".encode("utf-8-sig")  # load the codec now: after dropping privileges its module may be unreadable
    check_content("warm.py", "eval(x)")
    drop_privileges(limits["cpu_s"], limits["memory_bytes"], limits["uid"])
    files = json.loads(sys.stdin.buffer.readline())
    findings = []
    for path, length in files:
        text = sys.stdin.buffer.read(length).decode("utf-8", errors="replace")
        findings += [finding.as_dict() for finding in check_content(path, text.removeprefix("\ufeff"))]
    json.dump(findings, sys.stdout)


if __name__ == "__main__":
    main()
