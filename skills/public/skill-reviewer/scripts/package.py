"""A skill as the rules see it: its files, header and contract."""

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

try:
    import yaml
except ImportError:
    yaml = None

FENCE = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
TEXTS = {".md", ".py", ".sh", ".js", ".ts", ".toml", ".yaml", ".yml", ".json", ".txt", ".html", ".css", ".csv"}
LEFT_OUT = {"__pycache__", ".git", "node_modules", ".DS_Store"}
MAX_FILES, MAX_TEXT_BYTES = 5000, 2_000_000


class Unusable(Exception):
    """A folder that cannot be audited."""


@dataclass(frozen=True)
class Finding:
    """Something a rule objects to."""

    severity: Literal["error", "warning", "note"]
    rule: str
    file: str
    line: int
    message: str


@dataclass(frozen=True)
class Package:
    """The skill."""

    folder: Path
    texts: dict[str, str]
    """Files that hold text, by their paths in the skill."""
    others: list[str]
    header: dict[str, Any] | None
    header_problem: str
    body: str
    body_line: int
    contract: dict[str, Any] | None
    contract_problem: str = ""
    links: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @property
    def needs(self) -> dict[str, Any]:
        """What the contract says it needs."""
        found = (self.contract or {}).get("needs", {})
        return found if isinstance(found, dict) else {}

    @property
    def tools(self) -> list[str] | None:
        """The tools SKILL.md allows; None: it does not limit them."""
        written = (self.header or {}).get("allowed-tools")
        if isinstance(written, str):
            return re.findall(r"[^\s,(]+(?=\(|\s|,|$)", written)
        return [str(name) for name in written] if isinstance(written, list) else None

    def python(self) -> dict[str, str]:
        """Its Python scripts."""
        return {path: text for path, text in self.texts.items() if re.fullmatch(r"scripts/.+\.py", path)}


def open_package(folder: Path) -> Package:
    """Read a skill."""
    if yaml is None:
        raise Unusable("reading headers needs the package pyyaml, which is not installed in this sandbox")
    if not (folder / "SKILL.md").is_file():
        raise Unusable(f"{folder} has no SKILL.md")
    texts, others, links = read_files(folder)
    text = texts.get("SKILL.md")
    if text is None:
        raise Unusable(f"{folder / 'SKILL.md'} is a link, too large or not text in UTF-8")
    header, problem, body, line = read_header(text)
    contract, contract_problem = read_contract(texts.get("skill.toml"))
    return Package(folder, texts, others, header, problem, body, line, contract, contract_problem, links)


def read_files(folder: Path) -> tuple[dict[str, str], list[str], list[str]]:
    """Texts with their content, other files, and links."""
    texts: dict[str, str] = {}
    others: list[str] = []
    links: list[str] = []
    for count, path in enumerate(sorted(folder.rglob("*"))):
        if count > MAX_FILES:
            raise Unusable(f"{folder} has more than {MAX_FILES} files; a skill is a small folder")
        inside = path.relative_to(folder)
        if not LEFT_OUT.isdisjoint(inside.parts):
            continue
        if path.is_symlink():
            links.append(str(inside))
        elif path.is_file():
            content = readable(path)
            if content is None:
                others.append(inside.as_posix())
            else:
                texts[inside.as_posix()] = content
    return texts, others, links


def readable(path: Path) -> str | None:
    """The text of a file that holds one."""
    if path.suffix.lower() not in TEXTS or path.stat().st_size > MAX_TEXT_BYTES:
        return None
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def read_header(text: str) -> tuple[dict[str, Any] | None, str, str, int]:
    """The header or why there is none, the body, and the line the body begins at."""
    match = FENCE.match(text)
    if match is None:
        return None, "SKILL.md must begin with a header between two lines of ---", text, 1
    line = text[: match.end()].count("\n") + 1
    try:
        header = yaml.safe_load(match[1])
    except yaml.YAMLError as problem:
        return None, f"the header is not YAML: {' '.join(str(problem).split())[:200]}", text[match.end() :], line
    if not isinstance(header, dict):
        return None, "the header must be lines of the form key: value", text[match.end() :], line
    return header, "", text[match.end() :], line


def read_contract(text: str | None) -> tuple[dict[str, Any] | None, str]:
    """The contract, or why it cannot be read."""
    if text is None:
        return None, ""
    try:
        return tomllib.loads(text), ""
    except tomllib.TOMLDecodeError as problem:
        return None, str(problem)


def line_of(text: str, position: int) -> int:
    """The line a position is in."""
    return text.count("\n", 0, position) + 1
