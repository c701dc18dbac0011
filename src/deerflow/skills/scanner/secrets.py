"""Rules about secrets that somebody has left in a text."""

import math
import re
from collections import Counter
from collections.abc import Iterator

from deerflow.skills.scanner.rules import Finding, found

KEY_BEGINS = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
KEY_LINE = re.compile(r"[A-Za-z0-9+/=\\n\"' ]{24,}")
KEY_LINES = 2
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
MIN_BITS = 3.0
"""Per character. What people make up is below, what machines draw is above."""


def check_secrets(text: str, file: str) -> Iterator[Finding]:
    """Keys and tokens in a text."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if "PRIVATE KEY" in line and KEY_BEGINS.search(line) and has_key(lines, number):
            yield found("secret-private-key", file, number, "-----BEGIN … PRIVATE KEY-----")
        yield from tokens_in(line[:4000], file, number)


def has_key(lines: list[str], begin: int) -> bool:
    """Whether something like a key follows, and not dots where a reader is to put one."""
    own = lines[begin - 1].partition("KEY")[2]
    if len(own) > 120 and KEY_LINE.search(own):
        return True
    following = [line.strip().strip("\"',") for line in lines[begin : begin + 8]]
    return sum(1 for line in following if KEY_LINE.fullmatch(line) and not is_made_up(line)) >= KEY_LINES


def tokens_in(line: str, file: str, number: int) -> Iterator[Finding]:
    """Tokens in a line; what is said of them does not repeat them."""
    tokens = [token for token in TOKENS.findall(line) if not is_made_up(token)]
    if tokens:
        yield found("secret-cloud-token", file, number, f"{tokens[0][:6]}…")
        return
    for match in ASSIGNMENT.finditer(line):
        value = match[1]
        if not is_made_up(value) and any(each.isdigit() for each in value) and any(each.isalpha() for each in value):
            yield found("secret-env-assignment", file, number, f"{line[match.start() : match.start(1)]}…")
            return


def is_made_up(value: str) -> bool:
    """Whether a value stands for one, as in an example."""
    lower = value.lower()
    if any(word in lower for word in (*PLACEHOLDERS, *SEQUENCES)):
        return True
    return bits_per_character(value) < MIN_BITS


def bits_per_character(value: str) -> float:
    """How surprising its characters are."""
    total = len(value)
    return -sum(count / total * math.log2(count / total) for count in Counter(value).values())
