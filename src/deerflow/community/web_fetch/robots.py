"""What a site asks of robots (RFC 9309). Work grows with the size of the file times that of the path, and no faster."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

MAX_ROBOTS_BYTES = 128 * 1024
AGENT = "deerflow"
EVERYBODY = "*"


@dataclass(frozen=True, slots=True)
class Rule:
    """Whether paths like this one may be visited; `*` is anything, `$` the end."""

    path: str
    allows: bool

    def fits(self, path: str) -> bool:
        """Whether the rule speaks of a path."""
        pattern = self.path.removesuffix("$")
        first, *others = pattern.split("*")
        if not path.startswith(first):
            return False
        place = len(first)
        for part in others:
            found = path.find(part, place)
            if found < 0:
                return False
            place = found + len(part)
        if not self.path.endswith("$"):
            return True
        last = others[-1] if others else first
        return place == len(path) or (bool(others) and path.endswith(last) and len(path) - len(last) >= place)


@dataclass(frozen=True, slots=True)
class Robots:
    """The rules of a site for us."""

    rules: tuple[Rule, ...] = ()

    @classmethod
    def read(cls, body: bytes) -> Self:
        """The rules in the text of a robots.txt: those for us, else those for everybody."""
        groups: dict[str, list[Rule]] = {}
        named: set[str] = set()
        is_naming = False
        for key, value in _lines(body[:MAX_ROBOTS_BYTES].decode("utf-8", "replace")):
            if key == "user-agent":
                # Of all who may be named only two matter, so the work does not grow with their number.
                named = (named if is_naming else set()) | ({value.lower()} & {AGENT, EVERYBODY})
                groups |= {agent: groups.get(agent, []) for agent in named}
            elif value:
                for agent in named:
                    groups[agent].append(Rule(value, allows=key == "allow"))
            is_naming = key == "user-agent"
        return cls(tuple(groups.get(AGENT, groups.get(EVERYBODY, ()))))

    def allow(self, path: str) -> bool:
        """Whether a path, with its query, may be visited: the longest rule decides, and of two the kinder."""
        fitting = [(len(rule.path), rule.allows) for rule in self.rules if rule.fits(path)]
        return max(fitting, default=(0, True))[1]


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """What is said, line by line, as far as it concerns anybody."""
    for line in text.splitlines():
        key, _, value = line.partition("#")[0].partition(":")
        if (key := key.strip().lower()) in ("user-agent", "allow", "disallow"):
            yield key, value.strip()
