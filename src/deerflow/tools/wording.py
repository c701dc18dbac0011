"""How tools speak of files, so that a name cannot pretend to be more than a name."""


def one_line(name: str) -> str:
    """`name` with everything that would break its line written as an escape."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in name)


def in_words(size: int) -> str:
    """A number of bytes for reading."""
    amount = float(size)
    for unit in ("B", "KB", "MB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GB"
