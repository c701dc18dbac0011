"""Check the SOUL.md of an agent: its parts, its length, and whether its sentences can be watched."""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

PARTS = {
    "voice": r"voice|tone|style|speak|stimme|ton|sprache|语气|风格|声音",
    "how it works": r"how you work|way of working|work|arbeit|工作|做事",
    "limits": r"never|limits?|not do|grenzen|nie\b|不做|底线|边界",
}
EMPTY = re.compile(
    r"\byou (?:are|should be|must be)(?: always| very| an?)? (?:helpful|friendly|precise|concise|professional|expert|"
    r"knowledgeable|polite|accurate|creative|smart|empathetic|proactive)\b",
    re.IGNORECASE,
)
PLACEHOLDER = re.compile(r"<[^<>\n]{2,60}>|\bTODO\b|\bTBD\b|\{\{|\[name\]", re.IGNORECASE)
SECRET = re.compile(r"\b(sk-[\w-]{16,}|AKIA[0-9A-Z]{16}|gh[pousr]_\w{30,})|password\s*[:=]\s*\S+", re.IGNORECASE)
PERSONAL = re.compile(r"\b[\w.+-]+@[\w-]+\.[\w.]+\b|\+\d[\d ()-]{7,}\d")
TODAY = re.compile(
    r"\b(write|send|finish|prepare|call|make)\b[^.\n]*\b(today|tomorrow)\b|\bthis week\b|\bin this conversation\b",
    re.IGNORECASE,
)
LIMIT = re.compile(r"\b(do not|don't|never)\b", re.IGNORECASE)
WAY_OUT = re.compile(
    r"\b(instead|you say|you tell|you ask|you propose|you name|you point|hand(s)? (it )?(back|over))\b", re.IGNORECASE
)
WORDS = (120, 400)
MIN_BEHAVIOURS = 6


def main() -> int:
    """Check one soul."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("soul", type=Path)
    options = parser.parse_args()
    try:
        text = options.soul.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        print(f"Error: {options.soul} cannot be read: {problem}", file=sys.stderr)
        return 2
    problems = [*examine_form(text), *examine_sentences(text)]
    for problem in problems:
        print(f"PROBLEM {problem}")
    print(f"{length(text)} words, {len(problems)} problems")
    return 1 if problems else 0


def examine_form(text: str) -> Iterator[str]:
    """Length and parts."""
    least, most = WORDS
    if not least <= length(text) <= most:
        yield f"[length] {length(text)} words; {least} to {most} are kept in mind"
    prose = re.sub(r"^#.*$", "", text, flags=re.MULTILINE).strip()
    if not re.match(r"(\W*)(you are|du bist|sie sind|你是|您是|tu es|vous êtes|eres)", prose, re.IGNORECASE):
        yield "[person] it does not begin with “You are …”"
    headings = " ".join(re.findall(r"^#+\s*(.+)$", text, re.MULTILINE)).casefold()
    for part, pattern in PARTS.items():
        if not re.search(pattern, headings):
            yield f"[missing-part] no heading speaks of {part}"


def examine_sentences(text: str) -> Iterator[str]:
    """What the sentences say."""
    for rule, pattern, why in (
        ("empty", EMPTY, "is an adjective, not a behaviour; say what one would see"),
        ("placeholder", PLACEHOLDER, "was not filled in"),
        ("secret", SECRET, "looks like a secret; a soul is shown in every conversation"),
        ("personal", PERSONAL, "is an address of somebody"),
        ("today", TODAY, "is a task of today; it belongs into the conversation"),
    ):
        for match in pattern.finditer(text):
            shown = match[0] if rule != "secret" else f"{match[0][:6]}…"
            yield f"[{rule}] line {text.count(chr(10), 0, match.start()) + 1}: {shown!r} {why}"
    sentences = re.split(r"(?<=[.!?。！？])\s+|\n", text)
    behaviours = [
        s for s in sentences if re.search(r"\b(you|du|sie|tu|vous)\b|你|您", s, re.IGNORECASE) and not EMPTY.search(s)
    ]
    if len(behaviours) < MIN_BEHAVIOURS:
        yield f"[few-behaviours] {len(behaviours)} sentences tell what it does; {MIN_BEHAVIOURS} make a character"
    if LIMIT.search(text) and not WAY_OUT.search(text):
        yield "[no-way-out] limits say what it does not do, but never what it does instead"


def length(text: str) -> int:
    """Words; two characters count as one where words are not separated."""
    return (
        len(re.findall(r"[^\W_]+", re.sub(r"[\u4e00-\u9fff]", "", text)))
        + len(re.findall(r"[\u4e00-\u9fff]", text)) // 2
    )


if __name__ == "__main__":
    sys.exit(main())
