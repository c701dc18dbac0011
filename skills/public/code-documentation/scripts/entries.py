"""One thing a program offers to others."""

from dataclasses import dataclass, field


@dataclass
class Entry:
    """A module, class, function, method or constant, with what its documentation says."""

    kind: str
    name: str
    file: str
    line: int
    signature: str = ""
    summary: str = ""
    parameters: list[str] = field(default_factory=list)
    lacks: list[str] = field(default_factory=list)
    """What is not documented about it."""
