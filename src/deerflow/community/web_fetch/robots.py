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
        for agents, rule in _rules(body[:MAX_ROBOTS_BYTES].decode("utf-8", "replace")):
            for agent in agents:
                groups.setdefault(agent, []).append(rule)
        return cls(tuple(groups.get(AGENT, groups.get(EVERYBODY, ()))))

    def allow(self, path: str) -> bool:
        """Whether a path, with its query, may be visited: the longest rule decides, and of two the kinder."""
        fitting = [(len(rule.path), rule.allows) for rule in self.rules if rule.fits(path)]
        return max(fitting, default=(0, True))[1]


def _rules(text: str) -> Iterator[tuple[tuple[str, ...], Rule]]:
    """Each rule with those it is for. An agent that has no rule at all is told of with one that allows everything."""
    agents: tuple[str, ...] = ()
    is_naming = False
    for line in text.splitlines():
        key, colon, value = line.partition("#")[0].partition(":")
        key, value = key.strip().lower(), value.strip()
        if not colon or key not in ("user-agent", "allow", "disallow"):
            continue
        if key == "user-agent":
            agents = (*agents, value.lower()) if is_naming else (value.lower(),)
            is_naming = True
            yield (value.lower(),), Rule("", allows=True)
            continue
        is_naming = False
        if value:
            yield agents, Rule(value, allows=key == "allow")
