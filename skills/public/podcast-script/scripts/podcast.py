"""Check and time a two-host podcast script, and export it for speech, chapters and a transcript."""

import argparse
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PER_MINUTE = {"en": 150, "de": 130, "fr": 155, "es": 160, "it": 150, "pt": 150, "zh": 260, "ja": 330}
"""Words a minute in conversation; characters for zh and ja."""
TURN_S = 0.35
"""The breath between two speakers."""
LINE = re.compile(r"([^\W\d_][\w .'-]{0,30}?)\s*[:：]\s*(.+)")
CUE = re.compile(r"\[([^\]]*)\]")
TIMED = re.compile(r"(pause|music|sound)\s+(\d+(?:\.\d+)?)\b", re.IGNORECASE)
SENTENCE = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])")
UNSPEAKABLE = {
    "an address on the web": re.compile(r"https?://|www\."),
    "marks of Markdown": re.compile(r"\*\*|__|`|\]\("),
    "a slash between words": re.compile(r"\w/\w"),
    "a long number in digits": re.compile(r"\d{5,}|\d+[.,]\d{3}[.,]\d{3}"),
}
FILLER = re.compile(r"^(absolutely|exactly|great (point|question)|totally|indeed|wow)[.!,]", re.IGNORECASE)
MAX_SENTENCE, MAX_TURN = 32, 90
SHARE = (0.35, 0.65)
TOLERANCE = 0.10


class Unusable(Exception):
    """A script that cannot be used."""


@dataclass(frozen=True)
class Turn:
    """What one host says, or a timed cue between lines."""

    number: int
    chapter: int
    speaker: str
    text: str
    cues: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class Episode:
    """A script as it was read."""

    title: str
    language: str
    chapters: list[str]
    turns: list[Turn]

    @property
    def seconds(self) -> float:
        return sum(turn.seconds for turn in self.turns)


def main() -> int:
    """Check or export."""
    parser = argparse.ArgumentParser(description=__doc__)
    acts = parser.add_subparsers(dest="act", required=True)
    checking = acts.add_parser("check", help="length, balance, and what trips a speaker")
    checking.add_argument("script", type=Path)
    checking.add_argument("--minutes", type=float, help="the wanted length")
    checking.add_argument("--json", action="store_true", help="print the result as JSON")
    exporting = acts.add_parser("export", help="files for a speech provider, players and readers")
    exporting.add_argument("script", type=Path)
    exporting.add_argument("--voices", nargs="+", required=True, metavar="NAME=VOICE")
    exporting.add_argument("--out", type=Path, required=True, help="a folder; made if absent")
    exporting.add_argument("--max-chars", type=int, default=2000, help="longest piece the provider takes")
    options = parser.parse_args()
    try:
        episode = load(options.script)
        return check(episode, options) if options.act == "check" else export(episode, options)
    except (Unusable, OSError) as problem:
        print(f"Error: {problem}", file=sys.stderr)
        return 2


def load(path: Path) -> Episode:
    """The episode of a file."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise Unusable(f"{path} is not text in UTF-8") from None
    title, language, chapters, turns = "", "en", [], []
    for number, line in enumerate(map(str.strip, lines), 1):
        if line.startswith("# "):
            title = line[2:].strip()
        elif line.startswith("## "):
            chapters.append(line[3:].strip())
        elif given := re.fullmatch(r"language\s*:\s*([a-z]{2}).*", line):
            language = given[1]
        elif line and not re.match(r"(hosts|<!--)", line):
            turns.append(turn_of(line, number, len(chapters) - 1, language))
    if language not in PER_MINUTE:
        raise Unusable(f"the language {language!r} has no known speed; use one of {', '.join(PER_MINUTE)}")
    if not title or not turns:
        raise Unusable(f"{path} needs a line `# Title` and lines such as `ANNA: Hello.`")
    return Episode(title, language, chapters or [title], turns)


def turn_of(line: str, number: int, chapter: int, language: str) -> Turn:
    """One line of the script."""
    match = LINE.fullmatch(CUE.sub("", line).strip()) if not line.startswith("[") else None
    cues = tuple(CUE.findall(line))
    waiting = sum(float(found[2]) for cue in cues if (found := TIMED.match(cue.strip())))
    if match is None:
        if CUE.sub("", line).strip():
            raise Unusable(f"line {number} is neither `NAME: words`, a cue in brackets nor a heading: {line[:50]!r}")
        return Turn(number, max(chapter, 0), "", "", cues, waiting)
    text = " ".join(match[2].split())
    spoken = spoken_units(text, language) / PER_MINUTE.get(language, 150) * 60
    return Turn(number, max(chapter, 0), match[1].strip().upper(), text, cues, waiting + spoken + TURN_S)


def spoken_units(text: str, language: str) -> int:
    """Words, or characters where words are not separated; digits take the time of the words they become."""
    if language in ("zh", "ja"):
        return len(re.findall(r"[\u3040-\u30ff\u4e00-\u9fff]|\d|[A-Za-z]+", text))
    extra = sum(len(re.sub(r"\D", "", number)) - 1 for number in re.findall(r"\d[\d.,]*", text))
    return len(text.split()) + max(extra, 0)


def check(episode: Episode, options: argparse.Namespace) -> int:
    """Print what is known and what is wrong."""
    problems = list(examine(episode, options.minutes))
    shares = shares_of(episode)
    if options.json:
        result = {"ok": not problems, "seconds": round(episode.seconds), "shares": shares, "problems": problems}
        print(json.dumps(result, ensure_ascii=False, indent=2))
        return 1 if problems else 0
    for problem in problems:
        print(f"PROBLEM {problem}")
    for start, name in chapter_starts(episode):
        print(f"  {clock(start)} {name}")
    told = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    print(f"{clock(episode.seconds)} in all; {told}; {len(problems)} problems")
    return 1 if problems else 0


def examine(episode: Episode, minutes: float | None) -> Iterator[str]:
    """What is to be corrected."""
    shares = shares_of(episode)
    if len(shares) != 2:
        yield f"[hosts] there are {len(shares)} speakers ({', '.join(shares)}); a dialogue has two"
    elif not SHARE[0] <= min(shares.values()):
        quiet = min(shares, key=lambda name: shares[name])
        yield f"[balance] {quiet} says {shares[quiet]:.0%}; each should have {SHARE[0]:.0%} to {SHARE[1]:.0%}"
    if minutes and abs(episode.seconds / 60 - minutes) > TOLERANCE * minutes:
        yield f"[length] {clock(episode.seconds)} instead of {clock(minutes * 60)}"
    for turn in episode.turns:
        yield from examine_turn(turn, episode.language)


def examine_turn(turn: Turn, language: str) -> Iterator[str]:
    """What trips the speaker of one turn."""
    for what, pattern in UNSPEAKABLE.items():
        if found := pattern.search(turn.text):
            yield f"[unspeakable] line {turn.number} has {what}: {found[0]!r}"
    if FILLER.match(turn.text):
        yield f"[filler] line {turn.number} begins with {turn.text.split()[0]!r}; let the host ask or object"
    scale = 1.7 if language in ("zh", "ja") else 1.0
    units = spoken_units(turn.text, language)
    if units > MAX_TURN * scale:
        yield f"[long-turn] line {turn.number} is {units} words long; interrupt it"
    for sentence in SENTENCE.split(turn.text):
        if spoken_units(sentence, language) > MAX_SENTENCE * scale:
            yield f"[long-sentence] line {turn.number}: {sentence[:40]!r}… cannot be said in one breath"


def shares_of(episode: Episode) -> dict[str, float]:
    """How much of the talk is whose."""
    units: dict[str, int] = {}
    for turn in episode.turns:
        if turn.speaker:
            units[turn.speaker] = units.get(turn.speaker, 0) + spoken_units(turn.text, episode.language)
    total = sum(units.values()) or 1
    return {name: round(count / total, 3) for name, count in units.items()}


def chapter_starts(episode: Episode) -> list[tuple[float, str]]:
    """When each chapter begins."""
    starts, at = {0: 0.0}, 0.0
    for turn in episode.turns:
        starts.setdefault(turn.chapter, at)
        at += turn.seconds
    return [(starts[index], name) for index, name in enumerate(episode.chapters) if index in starts]


def export(episode: Episode, options: argparse.Namespace) -> int:
    """Write the four files."""
    voices = voices_of(options.voices, {turn.speaker for turn in episode.turns if turn.speaker})
    options.out.mkdir(parents=True, exist_ok=True)
    lines = list(speech_lines(episode, voices, options.max_chars))
    script = {"title": episode.title, "language": episode.language, "seconds": round(episode.seconds), "lines": lines}
    starts = chapter_starts(episode)
    chapters = {"version": "1.2.0", "chapters": [{"startTime": round(at, 1), "title": name} for at, name in starts]}
    files = {
        "lines.json": json.dumps(script, ensure_ascii=False, indent=1),
        "chapters.json": json.dumps(chapters, ensure_ascii=False, indent=1),
        "chapters.txt": "".join(f"{clock(at)} {name}\n" for at, name in starts),
        "transcript.txt": "".join(f"{turn.speaker}: {turn.text}\n\n" for turn in episode.turns if turn.speaker),
    }
    for name, content in files.items():
        (options.out / name).write_text(content, encoding="utf-8")
    print(f"{len(lines)} pieces, {len(starts)} chapters, about {clock(episode.seconds)}, in {options.out}")
    return 0


def voices_of(given: list[str], speakers: set[str]) -> dict[str, str]:
    """A voice for every speaker."""
    voices = {name.upper(): voice for name, _, voice in (pair.partition("=") for pair in given) if voice}
    if missing := sorted(speakers - voices.keys()):
        raise Unusable(f"{', '.join(missing)} has no voice; give --voices {missing[0]}=VOICE")
    return voices


def speech_lines(episode: Episode, voices: dict[str, str], longest: int) -> Iterator[dict[str, Any]]:
    """Pieces of speech and silence, in order; a long turn is cut between sentences."""
    for turn in episode.turns:
        for cue in turn.cues:
            if found := TIMED.match(cue.strip()):
                yield {"kind": found[1].lower(), "seconds": float(found[2]), "note": cue.partition(":")[2].strip()}
        manner = [cue for cue in turn.cues if not TIMED.match(cue.strip())]
        for piece in pieces_of(turn.text, longest):
            line = {"kind": "speech", "speaker": turn.speaker, "voice": voices[turn.speaker], "text": piece}
            yield {**line, "manner": ", ".join(manner)} if manner else line


def pieces_of(text: str, longest: int) -> Iterator[str]:
    """Text in pieces of at most `longest` characters."""
    piece = ""
    for sentence in SENTENCE.split(text) if text else ():
        if len(sentence) > longest:
            raise Unusable(f"a sentence is longer than {longest} characters: {sentence[:50]!r}…")
        if piece and len(piece) + 1 + len(sentence) > longest:
            yield piece
            piece = ""
        piece = f"{piece} {sentence}".strip()
    if piece:
        yield piece


def clock(seconds: float) -> str:
    """`mm:ss`, with hours when there are any."""
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours:02}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes:02}:{whole % 60:02}"


if __name__ == "__main__":
    sys.exit(main())
