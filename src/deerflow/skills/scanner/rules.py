"""The rules: what is looked for, how bad it is, and what to do about it."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Literal

Severity = Literal["CRITICAL", "HIGH", "MEDIUM", "LOW"]
MAX_EVIDENCE = 120


@dataclass(frozen=True, slots=True)
class Rule:
    """What is wrong where a rule applies."""

    severity: Severity
    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A place in a skill to which a rule applies."""

    rule_id: str
    severity: Severity
    file: str
    line: int | None
    message: str
    remediation: str
    evidence: str = ""
    """The line, shortened, secrets left out."""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}, line {self.line}"
        return f"{place}: {self.message} ({self.rule_id})"

    def as_dict(self) -> dict[str, Any]:
        """The finding as JSON has it."""
        return asdict(self)


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "package-path-traversal": Rule("CRITICAL", "the path leads out of the skill", "use paths below the skill"),
        "package-absolute-path": Rule("CRITICAL", "the path is absolute", "use paths relative to the skill"),
        "package-symlink": Rule("HIGH", "it is a link, which may lead anywhere", "put the file itself there"),
        "package-nested-skill-md": Rule("CRITICAL", "a skill within a skill", "make two skills of it"),
        "package-oversized-total": Rule("CRITICAL", "the skill is too large to be looked at", "make it smaller"),
        "package-too-many-members": Rule("CRITICAL", "the skill has too many files", "leave some of them out"),
        "package-oversized-file": Rule("CRITICAL", "the file is too large to be looked at", "split or shorten it"),
        "package-executable-binary": Rule("CRITICAL", "it is a compiled program", "bring the source instead"),
        "package-nested-archive": Rule("HIGH", "an archive, into which nobody looks", "unpack it into the skill"),
        "package-hidden-sensitive-file": Rule("HIGH", "such files hold credentials", "leave it out"),
        "package-git-directory": Rule("MEDIUM", "the history of a repository", "leave the folder .git out"),
        "secret-private-key": Rule("CRITICAL", "it holds a private key", "take it out, and replace the key"),
        "secret-cloud-token": Rule("CRITICAL", "it holds a token of a service", "take it out, and revoke the token"),
        "secret-env-assignment": Rule("HIGH", "it seems to set a secret", "read it from the environment"),
        "declaration-prompt-override": Rule(
            "HIGH", "it tells the agent to set its rules aside, or hides text", "say what to do, openly"
        ),
        "declaration-sensitive-capability": Rule(
            "HIGH", "it asks for what a skill does not need", "do without, or have a person do it"
        ),
        "declaration-sensitive-path": Rule("HIGH", "it names a place of credentials", "do not use that file"),
        "declaration-external-endpoint": Rule(
            "MEDIUM", "it names an address to which data is often carried off", "use the service itself"
        ),
        "python-dynamic-exec": Rule("CRITICAL", "it runs code that is made up at run time", "write the code out"),
        "python-shell-exec": Rule("CRITICAL", "it gives text to a shell", "call subprocess.run with a list"),
        "python-sensitive-exfil": Rule("CRITICAL", "it sends credentials elsewhere", "do not read or send them"),
        "python-env-dump-exfil": Rule(
            "CRITICAL", "it sends all environment variables elsewhere", "send only what is needed"
        ),
        "python-reverse-shell": Rule("CRITICAL", "it gives somebody elsewhere a shell here", "take it out"),
        "python-dynamic-import": Rule(
            "HIGH", "it imports modules whose names are made up at run time", "import them by name"
        ),
        "python-subprocess": Rule("HIGH", "it starts other programs", "make sure that no text of others gets there"),
        "python-sensitive-path-read": Rule("HIGH", "it reads a place of credentials", "do not read that file"),
        "python-unsafe-deserialization": Rule(
            "MEDIUM", "what it loads can run code", "use JSON, or a safe loader"
        ),
        "shell-reverse-shell": Rule("CRITICAL", "it gives somebody elsewhere a shell here", "take it out"),
        "shell-reverse-shell-heuristic": Rule(
            "HIGH", "it opens connections in a way shells are given away", "use curl or a program for it"
        ),
        "shell-sensitive-exfil": Rule("CRITICAL", "it sends credentials elsewhere", "do not read or send them"),
        "shell-curl-pipe-shell": Rule("HIGH", "it runs what it downloads", "bring the script along"),
        "shell-destructive-command": Rule("HIGH", "it destroys files or disks", "delete only what the skill made"),
        "shell-env-dump": Rule("MEDIUM", "it shows all environment variables", "show only what is needed"),
        "network-cloud-metadata": Rule(
            "CRITICAL", "it asks the cloud for the machine's credentials", "take it out"
        ),
        "resource-fork-bomb": Rule("CRITICAL", "it starts processes without end", "take it out"),
        "network-cleartext-http": Rule("MEDIUM", "it uses http without encryption", "use https"),
        "network-local-http": Rule("LOW", "it asks a server on this machine or network", "say so in SKILL.md"),
    }
)  # fmt: skip
"""Every rule, by its id."""


def found(rule_id: str, file: str, line: int | None = None, evidence: str = "", detail: str = "") -> Finding:
    """That a rule applies somewhere; `detail` says more than the rule does."""
    rule = RULES[rule_id]
    message = f"{rule.message}: {detail}" if detail else rule.message
    return Finding(rule_id, rule.severity, file, line, message, rule.remedy, shortened(evidence))


def blocking(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Those because of which a skill is refused."""
    return tuple(finding for finding in findings if finding.severity == "CRITICAL")


def shortened(line: str) -> str:
    """A line for reading: one line, not long, nothing in it that moves the cursor."""
    text = "".join(each if each.isprintable() else " " for each in line.strip()[: 4 * MAX_EVIDENCE])
    text = " ".join(text.split())
    return text if len(text) <= MAX_EVIDENCE else f"{text[: MAX_EVIDENCE - 1]}…"
