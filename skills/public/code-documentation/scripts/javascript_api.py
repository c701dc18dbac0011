"""What JavaScript and TypeScript files export, with the JSDoc in front of it."""

import re
from pathlib import Path

from entries import Entry

DECLARATION = re.compile(
    r"^export\s+(?P<default>default\s+)?(?:declare\s+)?(?:abstract\s+)?(?P<async>async\s+)?"
    r"(?P<kind>function\*?|class|const|let|var|interface|type|enum)\s+(?P<name>[A-Za-z_$][\w$]*)",
    re.MULTILINE,
)
NAMED = re.compile(r"^export\s*(?:type\s*)?\{([^}]*)\}(\s*from\s*['\"]([^'\"]+)['\"])?", re.MULTILINE)
COMMON = re.compile(r"^(?:module\.)?exports(?:\.(?P<name>[\w$]+))?\s*=\s*(?P<value>.*)", re.MULTILINE)
LOCAL = re.compile(
    r"^(?:async\s+)?(?P<kind>function\*?|class|const|let|var)\s+(?P<name>[A-Za-z_$][\w$]*)", re.MULTILINE
)
METHOD = re.compile(
    r"^\s+(?:public\s+|static\s+|async\s+|get\s+|set\s+)*(?P<name>[A-Za-z_$][\w$]*)\s*\((?P<args>[^)]*)\)[^;{=]*\{",
    re.MULTILINE,
)
ARROW = re.compile(
    r"\A(?:export\s+)?(?:const|let|var)[^=;]*=\s*(?:async\s*)?(?:\([^;]*?\)[^=;]*?|[\w$]+\s*)=>", re.DOTALL
)
TAG = re.compile(r"@param\s+(?:\{[^}]*\}\s+)?\[?([A-Za-z_$][\w$]*)")
KEYWORDS = {"if", "for", "while", "switch", "catch", "return", "function", "constructor", "super"}


def javascript_entries(path: Path, shown: str) -> list[Entry]:
    """What a file exports, in the order of its lines."""
    text = path.read_text(encoding="utf-8-sig")
    code = blanked(text)
    entries: dict[str, Entry] = {}
    local = {match["name"]: match for match in LOCAL.finditer(code)}
    for match in DECLARATION.finditer(code):
        add(entries, match["name"], match["kind"], text, code, match.start(), shown)
    for match in NAMED.finditer(code):
        for part in filter(None, (piece.strip() for piece in match[1].split(","))):
            name = part.removeprefix("type ").split(" as ")[0].strip()
            public = part.split(" as ")[-1].strip()
            if match[2]:
                source = text[match.start(2) : match.end(2)].strip()
                entries[public] = Entry("re-export", public, shown, line_of(text, match.start()), f"{public} {source}")
            elif name in local:
                add(entries, public, local[name]["kind"], text, code, local[name].start(), shown)
    for match in COMMON.finditer(code):
        names = [match["name"]] if match["name"] else re.findall(r"[A-Za-z_$][\w$]*", match["value"])
        for name in names:
            if name in local:
                add(entries, name, local[name]["kind"], text, code, local[name].start(), shown)
            elif match["name"]:
                callable_ = "=>" in match["value"] or "function" in match["value"]
                add(entries, name, "function" if callable_ else "const", text, code, match.start(), shown)
    return sorted(entries.values(), key=lambda entry: entry.line)


def add(entries: dict[str, Entry], name: str, kind: str, text: str, code: str, start: int, shown: str) -> None:
    """One export, for a class also its methods."""
    head = signature(text, code, start)
    kind = {"function*": "function", "let": "const", "var": "const"}.get(kind, kind)
    if kind == "const" and (ARROW.match(code[start : start + 300]) or re.search(r"=\s*(async\s+)?function\b", head)):
        kind = "function"
    entry = Entry(kind, name, shown, line_of(text, start), head)
    describe(entry, comment_before(text, start), parameters(code, start) if kind == "function" else [])
    entries[name] = entry
    if kind == "class":
        end = block_end(code, start)
        for match in METHOD.finditer(code, start, end):
            called = match["name"]
            if called in KEYWORDS or called.startswith(("_", "#")) or "private" in match[0]:
                continue
            place = match.start() + len(match[0]) - len(match[0].lstrip())
            method = Entry(
                "method", f"{name}.{called}", shown, line_of(text, place), text[place : match.end() - 1].strip()
            )
            describe(method, comment_before(text, place), names_in(match["args"]))
            entries[method.name] = method


def describe(entry: Entry, comment: str, names: list[str]) -> None:
    """Put the words of a comment to the entry."""
    lines = [line.strip().lstrip("*").strip() for line in comment.split("\n")]
    words = [line for line in lines if line and not line.startswith("@")]
    entry.summary, entry.parameters = " ".join(words[:2])[:200], names
    if not entry.summary:
        entry.lacks.append("description")
    if "@param" in comment:
        described = TAG.findall(comment)
        entry.lacks += [f"parameter {name}" for name in names if name not in described]


def blanked(text: str) -> str:
    """The text with strings and comments replaced by blanks, so that nothing in them counts as code."""
    pattern = re.compile(r"//[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|`(?:\\.|[^`\\])*`", re.DOTALL)
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def comment_before(text: str, start: int) -> str:
    """The JSDoc that ends right before a place."""
    match = re.search(r"/\*\*((?:(?!\*/).)*)\*/\s*$", text[:start], re.DOTALL)
    return match[1] if match else ""


def signature(text: str, code: str, start: int) -> str:
    """A declaration up to its body."""
    end = min((place for sign in ("{", ";", "\n\n") if (place := code.find(sign, start)) > 0), default=start + 120)
    if (match := ARROW.match(code[start : start + 300])) and "\n\n" not in match[0]:
        end = start + match.end() - 2
    return " ".join(text[start:end].split()).removeprefix("export ").strip().rstrip("=").strip()


def parameters(code: str, start: int) -> list[str]:
    """The names between the first parentheses."""
    opened = code.find("(", start, start + 400)
    depth, place = 0, opened
    while 0 <= place < len(code):
        depth += {"(": 1, ")": -1}.get(code[place], 0)
        if depth == 0:
            return names_in(code[opened + 1 : place])
        place += 1
    return []


def names_in(text: str) -> list[str]:
    """Names of parameters; patterns that take objects apart are left out."""
    flat = re.sub(r"[{\[<(][^{}\[\]<>()]*[}\]>)]", "", text)
    found = [
        re.match(r"\s*(?:\.\.\.)?(?:(?:public|private|readonly)\s+)*([A-Za-z_$][\w$]*)", part)
        for part in flat.split(",")
    ]
    return [match[1] for match in found if match]


def block_end(code: str, start: int) -> int:
    """Where the block that begins after a place ends."""
    depth = 0
    for place in range(code.find("{", start), len(code)):
        depth += {"{": 1, "}": -1}.get(code[place], 0)
        if depth == 0:
            return place
    return len(code)


def line_of(text: str, place: int) -> int:
    """The line of a place."""
    return text.count("\n", 0, place) + 1
