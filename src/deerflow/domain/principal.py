"""Who is asking."""

from dataclasses import dataclass, field

from deerflow.domain.ids import check_user_id


@dataclass(frozen=True, slots=True)
class Principal:
    """The owner of what a request makes and sees.

    Raises:
        InvalidRequest: Nobody can be called so: a person's files are in a folder of that name.
    """

    user_id: str
    is_admin: bool = field(default=False, compare=False)
    """Whether they may change what concerns everybody."""

    def __post_init__(self) -> None:
        check_user_id(self.user_id)


LOCAL_USER = Principal("local", is_admin=True)
"""The person at the keyboard: whoever reaches a server that listens on loopback only."""
