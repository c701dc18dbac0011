"""Surveys a code tree for its documentation: overview, api, undocumented, links."""

import argparse
import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote

from entries import Entry
from javascript_api import javascript_entries
from python_api import python_entries

SKIPPED = {
    ".git", ".venv", "venv", "node_modules", "__pycache__", "dist", "build", ".mypy_cache", ".ruff_cache", ".tox",
    "target", "vendor", ".next", "coverage",
}  # fmt: skip
JAVASCRIPT = {".js", ".mjs", ".cjs", ".ts", ".tsx", ".jsx", ".mts"}
LANGUAGES = {
    ".py": "Python", ".js": "JavaScript", ".mjs": "JavaScript", ".cjs": "JavaScript", ".jsx": "JavaScript",
    ".ts": "TypeScript", ".tsx": "TypeScript", ".mts": "TypeScript", ".go": "Go", ".rs": "Rust", ".java": "Java",
    ".kt": "Kotlin", ".c": "C", ".h": "C", ".cpp": "C++", ".cs": "C#", ".rb": "Ruby", ".php": "PHP",
    ".swift": "Swift", ".sh": "Shell", ".sql": "SQL", ".css": "CSS", ".html": "HTML", ".vue": "Vue",
}  # fmt: skip
MANIFESTS = (
    "pyproject.toml", "setup.py", "requirements.txt", "package.json", "go.mod", "Cargo.toml", "Makefile",
    "Dockerfile", "compose.yaml", "docker-compose.yml", ".env.example",
)  # fmt: skip
OF_PYTHON = ("name", "version", "description", "requires-python", "dependencies", "scripts")
OF_JAVASCRIPT = ("name", "version", "description", "main", "bin", "scripts", "engines")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)|<img[^>]+src=\"([^\"]+)\"")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
LARGEST = 1_000_000


def main() -> None:
    """Read the command line and do what it asks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["overview", "api", "undocumented", "links"])
    parser.add_argument("tree", type=Path, help="the folder of the project")
    parser.add_argument("--out", type=Path, help="write there instead of printing (api: .md or .json)")
    parser.add_argument("--json", action="store_true", help="JSON instead of text")
    parser.add_argument("--tests", action="store_true", help="count tests as API too")
    parser.add_argument("--types", action="store_true", help="undocumented: name missing types too")
    parser.add_argument("--at-least", type=float, default=100.0, help="undocumented: accept this percentage")
    arguments = parser.parse_args()
    if not arguments.tree.is_dir():
        fail(f"there is no folder {str(arguments.tree)!r}")
    {"overview": overview, "api": api, "undocumented": undocumented, "links": links}[arguments.command](arguments)


def overview(arguments: argparse.Namespace) -> None:
    """What a README must know: languages, manifests, ways in, what documentation there is."""
    tree = arguments.tree
    lines: Counter[str] = Counter()
    for path in files(tree):
        if (language := LANGUAGES.get(path.suffix)) and path.stat().st_size < LARGEST:
            lines[language] += path.read_bytes().count(b"\n")
    facts = {
        "lines": dict(lines.most_common()),
        "folders": sorted(path.name for path in tree.iterdir() if path.is_dir() and path.name not in SKIPPED),
        "manifests": [name for name in MANIFESTS if (tree / name).is_file()],
        "documents": sorted(str(path.relative_to(tree)) for path in files(tree) if path.suffix in {".md", ".rst"}),
        "tests": sum(is_test(path.relative_to(tree)) for path in files(tree)),
        "license": next((path.name for path in tree.iterdir() if path.name.lower().startswith("licen")), None),
        **manifest_facts(tree),
    }
    deliver(json.dumps(facts, indent=2, ensure_ascii=False), arguments.out)


def manifest_facts(tree: Path) -> dict[str, Any]:
    """Name, version, commands and dependencies, from what the project says of itself."""
    facts: dict[str, Any] = {}
    try:
        if (file := tree / "pyproject.toml").is_file():
            project = tomllib.loads(file.read_text(encoding="utf-8")).get("project", {})
            facts["python"] = {key: project.get(key) for key in OF_PYTHON}
        if (file := tree / "package.json").is_file():
            package = json.loads(file.read_text(encoding="utf-8"))
            facts["javascript"] = {key: package.get(key) for key in OF_JAVASCRIPT}
        if (file := tree / "Makefile").is_file():
            facts["make"] = re.findall(r"^([a-z][\w-]*):(?!=)", file.read_text(encoding="utf-8"), re.MULTILINE)
    except (ValueError, UnicodeDecodeError) as problem:
        print(f"note: {file.name} cannot be read: {problem}", file=sys.stderr)
    return facts


def api(arguments: argparse.Namespace) -> None:
    """Everything public, by file, as Markdown or JSON."""
    entries = collected(arguments)
    as_json = arguments.json or (arguments.out and arguments.out.suffix == ".json")
    if as_json:
        deliver(json.dumps([asdict(entry) for entry in entries], indent=2, ensure_ascii=False), arguments.out)
        return
    parts = ["# API"]
    for name in dict.fromkeys(entry.file for entry in entries):
        here = [entry for entry in entries if entry.file == name]
        module = next((entry for entry in here if entry.kind == "module"), None)
        parts.append(f"## `{module.name if module else name}`\n\n{module.summary if module else ''}".rstrip())
        for entry in here:
            if entry.kind != "module":
                level = "####" if "." in entry.name else "###"
                parts.append(f"{level} `{entry.signature or entry.name}`\n\n{entry.summary or '*not documented*'}")
    deliver("\n\n".join(parts) + "\n", arguments.out)


def undocumented(arguments: argparse.Namespace) -> None:
    """What has no description, or describes only some of its parameters; exit 3 below the wanted share."""
    entries = [entry for entry in collected(arguments) if entry.kind not in {"constant", "re-export", "type"}]
    gaps = []
    for entry in entries:
        lacks = [gap for gap in entry.lacks if arguments.types or not gap.startswith("type of")]
        if lacks:
            gaps.append(
                {"file": entry.file, "line": entry.line, "name": entry.name, "kind": entry.kind, "lacks": lacks}
            )
    described = sum("description" not in entry.lacks for entry in entries)
    share = 100 * described / len(entries) if entries else 100.0
    if arguments.json:
        print(
            json.dumps(
                {"public": len(entries), "described": described, "percent": round(share, 1), "gaps": gaps}, indent=2
            )
        )
    else:
        for gap in gaps:
            print(f"{gap['file']}:{gap['line']}: {gap['kind']} {gap['name']} lacks {', '.join(gap['lacks'])}")
        print(f"{described} of {len(entries)} public things are described ({share:.0f} %)")
    sys.exit(3 if share < arguments.at_least or (gaps and arguments.at_least >= 100) else 0)


def links(arguments: argparse.Namespace) -> None:
    """Relative links and anchors in Markdown files that lead nowhere; exit 3 if there are any."""
    broken, count = [], 0
    for path in files(arguments.tree):
        if path.suffix != ".md":
            continue
        text = FENCE.sub("", path.read_text(encoding="utf-8", errors="replace"))
        for match in LINK.finditer(text):
            target = unquote(match[1] or match[2])
            if re.match(r"[a-z][a-z0-9+.-]*:|//", target, re.IGNORECASE):
                continue
            count += 1
            name, _, anchor = target.partition("#")
            file = (path.parent / name) if name else path
            if not file.exists():
                broken.append(f"{path.relative_to(arguments.tree)}: {target} does not exist")
            elif anchor and file.suffix == ".md" and anchor not in anchors(file):
                broken.append(f"{path.relative_to(arguments.tree)}: {target} has no such heading")
    print("\n".join(broken) or f"{count} links, none broken")
    sys.exit(3 if broken else 0)


def anchors(path: Path) -> set[str]:
    """The anchors headings get."""
    found: set[str] = set()
    for heading in re.findall(
        r"^#{1,6}\s+(.+?)\s*#*$", FENCE.sub("", path.read_text(encoding="utf-8", errors="replace")), re.MULTILINE
    ):
        plain = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()).replace(" ", "-")
        number = 1
        unique = plain
        while unique in found:
            unique, number = f"{plain}-{number}", number + 1
        found.add(unique)
    return found


def collected(arguments: argparse.Namespace) -> list[Entry]:
    """The API of the whole tree; files that cannot be read are noted and left out."""
    entries: list[Entry] = []
    for path in files(arguments.tree):
        shown = path.relative_to(arguments.tree)
        if path.suffix not in JAVASCRIPT | {".py"} or (is_test(shown) and not arguments.tests) or ".min." in path.name:
            continue
        private = any(part.startswith("_") and part != "__init__.py" for part in shown.parts)
        if private or path.stat().st_size > LARGEST or path.name.endswith(".d.ts"):
            continue
        try:
            read = python_entries if path.suffix == ".py" else javascript_entries
            entries += read(path, shown.as_posix())
        except (SyntaxError, UnicodeDecodeError, ValueError, RecursionError) as problem:
            print(f"note: {shown} cannot be read: {problem}", file=sys.stderr)
    if not entries:
        fail(f"{arguments.tree} has no Python or JavaScript with a public API")
    return entries


def files(tree: Path) -> Iterator[Path]:
    """Files of the project, without what was installed or built."""
    for path in sorted(tree.rglob("*")):
        if path.is_file() and not path.is_symlink() and not SKIPPED & set(path.relative_to(tree).parts):
            yield path


def is_test(path: Path) -> bool:
    """Whether a file belongs to the tests."""
    folders = {"tests", "test", "__tests__", "spec"} & set(path.parts[:-1])
    return (
        bool(folders)
        or path.name.startswith("test_")
        or path.name == "conftest.py"
        or ".test." in path.name
        or ".spec." in path.name
    )


def deliver(text: str, target: Path | None) -> None:
    """Print, or write and say where."""
    if target is None:
        print(text)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    print(f"{target}: {text.count(chr(10)) + 1} lines")


def fail(message: str) -> NoReturn:
    """End with one sentence for whoever called."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(1)


if __name__ == "__main__":
    main()
