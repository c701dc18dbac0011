"""Rules about what a skill says to the agent: its Markdown."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from deerflow.skills.scanner.places import CARRIERS, SENSITIVE_PATH
from deerflow.skills.scanner.rules import Finding, found

OVERRIDES = (
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
UNSEEN = re.compile("[\u200b\u2060-\u2064\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
"""Characters that nobody sees: zero width, direction of writing, tags; not joiners, which languages and emoji need."""
FENCE = re.compile(r"^ {0,12}(`{3,}|~{3,})\s{0,4}([\w+#.-]{0,30})")
SHELL_LANGUAGES = frozenset(
    {"", "sh", "bash", "shell", "zsh", "console", "terminal", "fish", "powershell", "ps1", "bat"}
)
PYTHON_LANGUAGES = frozenset({"python", "py", "python3"})


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """What stands between two fences of a Markdown file, for the agent to run."""

    language: str
    text: str
    line: int


def check_prompt(text: str, file: str) -> Iterator[Finding]:
    """What is wrong with a text that an agent is to follow."""
    for number, line in enumerate(text.split("\n"), 1):
        short = line[:4000]
        if UNSEEN.search(short.removeprefix("\ufeff")):
            yield found("declaration-prompt-override", file, number, detail="there are characters that nobody sees")
        if any(pattern.search(short) for pattern in OVERRIDES):
            yield found("declaration-prompt-override", file, number, short)
        if CAPABILITIES.search(short):
            yield found("declaration-sensitive-capability", file, number, short)
        if SENSITIVE_PATH.search(short):
            yield found("declaration-sensitive-path", file, number, short)
        if CARRIERS.search(short):
            yield found("declaration-external-endpoint", file, number, short)


def code_blocks(text: str) -> Iterator[CodeBlock]:
    """The fenced blocks of a Markdown file; one that is not closed goes on to the end."""
    fence, language, begun, gathered = "", "", 0, [""]
    for number, line in enumerate(text.split("\n"), 1):
        match = FENCE.match(line)
        if not fence and match:
            fence, language, begun, gathered = match[1], match[2].lower(), number + 1, []
        elif fence and match and match[1].startswith(fence) and not match[2]:
            yield CodeBlock(language, "\n".join(gathered), begun)
            fence = ""
        elif fence:
            gathered.append(line)
    if fence:
        yield CodeBlock(language, "\n".join(gathered), begun)
