"""Rules about what a skill says: header, instructions, references, hidden text, secrets."""

import re
from collections.abc import Iterator

from package import Finding, Package, line_of

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
KEYS = {
    "name", "description", "license", "allowed-tools", "required-secrets", "secrets-autonomous", "metadata",
    "compatibility", "version", "author",
}  # fmt: skip
SITUATION = re.compile(
    r"\buse (this skill )?(it )?(when|for|to|if)\b|\bwhen (somebody|the user|a user|you)\b|用于|当用户|verwende",
    re.IGNORECASE,
)
LIMIT = re.compile(r"\bnot for\b|\bdo not use\b|\bdon't use\b|不用于|不要用|nicht für", re.IGNORECASE)
VAGUE = re.compile(
    r"\b(be careful|as appropriate|as needed|ensure (high )?quality|follow best practices|if necessary|"
    r"use good judge?ment|make sure (that )?everything)\b",
    re.IGNORECASE,
)
SHOUTS = re.compile(r"\b(MUST|NEVER|ALWAYS|CRITICAL|IMPORTANT|MANDATORY)\b")
PLACEHOLDER = re.compile(r"\bTODO\b|\bTBD\b|\bFIXME\b|lorem ipsum", re.IGNORECASE)
CHECKS = re.compile(r"\b(check|verif|quality|validate|before (you )?deliver)|检查|质量|prüf", re.IGNORECASE)
MENTION = re.compile(
    r"(?<![\w/.-])(?:/mnt/skills/[\w*]+/([\w-]+)/)?((?:references|scripts|templates|assets)/[\w./-]*\w)"
)
INVISIBLE = re.compile(r"[\u200b-\u200f\u202a-\u202e\u2060-\u2064\U000e0000-\U000e007f]")
ORDERS = re.compile(
    r"ignore (all |any )?(previous|prior|above) instructions|do not (tell|inform|show) the user|"
    r"without (telling|informing) the user|this skill (is|was) (already )?(approved|reviewed|safe)",
    re.IGNORECASE,
)
SECRET = re.compile(
    r"\b(sk-[A-Za-z0-9_-]{20,}|AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{30,}|xox[bp]-[A-Za-z0-9-]{20,}|AIza[\w-]{35})\b|"
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
MACHINE = re.compile(r"(?<![\w/])(/home/[a-z]\w*|/Users/\w+|/root/\w+|[A-Z]:\\\\?\w+)")
MAX_LINES, MAX_TOKENS, MAX_SHOUTS = 500, 5000, 8
FOLDERS = ("references/", "scripts/", "templates/", "assets/")


def examine_text(package: Package) -> Iterator[Finding]:
    """All rules of this module."""
    if package.header is None:
        yield Finding("error", "header", "SKILL.md", 1, package.header_problem)
    else:
        yield from examine_header(package)
        yield from examine_description(package)
    yield from examine_body(package)
    yield from examine_references(package)
    for path, text in package.texts.items():
        yield from examine_dangers(path, text)
    for link in package.links:
        yield Finding("error", "link", link, 0, "a link is refused on installation; put the file itself there")


def examine_header(package: Package) -> Iterator[Finding]:
    """Name, fields, licence."""
    header = package.header or {}
    name = header.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name) or len(name) > 64:
        yield Finding("error", "header", "SKILL.md", 2, f"`name` is {name!r}; small letters, digits, single hyphens")
    elif name != package.name:
        yield Finding("error", "header", "SKILL.md", 2, f"`name` is {name!r}, but the folder is {package.name!r}")
    if unknown := sorted(set(map(str, header)) - KEYS):
        yield Finding("warning", "header", "SKILL.md", 2, f"unknown fields: {', '.join(unknown)}")
    if not header.get("license"):
        yield Finding("note", "header", "SKILL.md", 2, "no licence: others do not know whether they may use it")


def examine_description(package: Package) -> Iterator[Finding]:
    """Whether an agent would choose it rightly."""

    def finding(severity: str, message: str) -> Finding:
        return Finding(severity, "description", "SKILL.md", 3, message)  # type: ignore[arg-type]

    said = (package.header or {}).get("description")
    if not isinstance(said, str) or not said.strip():
        yield finding("error", "there is none; it alone decides whether the skill is read")
        return
    if len(said) > 1024 or re.search(r"[<>]", said):
        yield finding("error", "more than 1,024 characters or angle brackets; it would be refused")
    if len(said) < 80:
        yield finding("warning", f"{len(said)} characters are too few to say what, when and when not")
    if not SITUATION.search(said):
        yield finding("warning", "it names no situation; add “Use when somebody …” in users' words")
    if not LIMIT.search(said):
        yield finding("note", "it names no limit; “Not for …” keeps it from being used too often")
    if re.search(r"\b(I|I'll|my)\b", without_code(said)):
        yield finding("warning", "it speaks in the first person; the agent reads it as about itself")


def examine_body(package: Package) -> Iterator[Finding]:
    """Whether an agent can work by it."""
    body, first = package.body, package.body_line
    lines = body.count("\n")
    if lines > MAX_LINES or len(body) / 4 > MAX_TOKENS:
        size = f"{lines} lines, about {len(body) // 4:,} tokens"
        yield Finding("warning", "length", "SKILL.md", first, f"{size}; move depth to references/")
    if len(body.split()) < 60:
        yield Finding("warning", "steps", "SKILL.md", first, "there is hardly anything to follow")
    if not re.search(r"^\s*(\d+[.)]|#+ (step|schritt|步骤|\d))", body, re.IGNORECASE | re.MULTILINE):
        yield Finding("warning", "steps", "SKILL.md", first, "no ordered steps")
    if not CHECKS.search(body):
        yield Finding("warning", "check", "SKILL.md", first, "nothing says how to check the result before delivering")
    for rule, pattern in (("vague", VAGUE), ("placeholder", PLACEHOLDER)):
        for match in pattern.finditer(without_code(body)):
            severity = "error" if rule == "placeholder" else "warning"
            line = first - 1 + line_of(body, match.start())
            yield Finding(severity, rule, "SKILL.md", line, f"{match[0]!r} tells the agent nothing")  # type: ignore[arg-type]
    shouts = len(SHOUTS.findall(without_code(body)))
    if shouts > MAX_SHOUTS:
        yield Finding("warning", "shouting", "SKILL.md", first, f"{shouts} words in capitals; none is heard any more")


def without_code(text: str) -> str:
    """Text in which code and quoted words are blanks, so that positions stay."""
    return re.sub(
        r"```.*?```|`[^`\n]*`|[“\"][^“”\"\n]*[”\"]", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.DOTALL
    )


def examine_references(package: Package) -> Iterator[Finding]:
    """Files that are named and absent, or there and never named."""
    files = {*package.texts, *package.others}
    mentioned: set[str] = set()
    for path, text in package.texts.items():
        if path.startswith("tests/"):
            continue
        for match in MENTION.finditer(text):
            owner, named = match.groups()
            mentioned.add(named)
            is_ours = owner in (None, package.name)
            known = named in files or any(file.startswith(f"{named}/") for file in files)
            if path == "SKILL.md" and is_ours and not known and "." in named.rpartition("/")[2]:
                yield Finding("error", "dead-reference", path, line_of(text, match.start()), f"{named} is not there")
    yield from unmentioned(package, files, mentioned)


def unmentioned(package: Package, files: set[str], mentioned: set[str]) -> Iterator[Finding]:
    """Files that no text names, by path, by name or by folder, and no script imports."""
    prose = " ".join(text for path, text in package.texts.items() if path.endswith(".md"))
    modules = " ".join(package.python().values())
    for file in sorted(file for file in files if file.startswith(FOLDERS)):
        folder, _, name = file.rpartition("/")
        imported = re.search(rf"^\s*(from|import) {re.escape(name.removesuffix('.py'))}\b", modules, re.MULTILINE)
        by_folder = any(f"{folder}/".startswith(f"{one}/") for one in mentioned)
        if file not in mentioned and name not in prose and not by_folder and not imported:
            yield Finding("warning", "unmentioned", file, 0, "nothing says when to read or run it")


def examine_dangers(path: str, text: str) -> Iterator[Finding]:
    """Secrets, paths of one machine, hidden text."""
    for match in SECRET.finditer(text):
        yield Finding("error", "secret", path, line_of(text, match.start()), f"{match[0][:8]}… looks like a key")
    if path.startswith(("SKILL", "scripts/", "references/")) and (match := MACHINE.search(text)):
        line = line_of(text, match.start())
        yield Finding("warning", "machine-path", path, line, f"{match[0]!r} exists on one machine")
    if match := INVISIBLE.search(text):
        yield Finding(
            "error", "hidden-text", path, line_of(text, match.start()), f"invisible character U+{ord(match[0]):04X}"
        )
    if path.endswith(".md") and not path.startswith("tests/"):
        for match in ORDERS.finditer(without_code(text)):
            yield Finding(
                "error", "hidden-text", path, line_of(text, match.start()), f"{match[0]!r}: why must it say that?"
            )
