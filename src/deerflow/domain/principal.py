"""Who is asking."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Principal:
    """The owner of what a request makes and sees."""

    user_id: str


LOCAL_USER = Principal("local")
"""The person at the keyboard: whoever reaches a server that listens on loopback only."""
