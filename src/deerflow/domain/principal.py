"""Who is asking."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Principal:
    """The owner of what a request makes and sees."""

    user_id: str
    is_admin: bool = field(default=False, compare=False)
    """Whether they may change what concerns everybody."""


LOCAL_USER = Principal("local", is_admin=True)
"""The person at the keyboard: whoever reaches a server that listens on loopback only."""
