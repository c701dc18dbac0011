"""Configuration; the only package that reads the environment. Here: regular expressions from models and users."""

from typing import Protocol


class LinearPattern(Protocol):
    """A compiled regular expression."""

    def search(self, text: str) -> object | None: ...


class InvalidPattern(ValueError):
    """The pattern is not a regular expression, or cannot be matched in linear time."""


def compile_linear(pattern: str, *, ignore_case: bool = False) -> LinearPattern:
    """Return `pattern` compiled for matching in time that is linear in the text.

    Raises:
        InvalidPattern: The pattern is invalid or needs backtracking.
    """
    # The engine takes memory that a server without such patterns does not need.
    import re2

    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    try:
        compiled: LinearPattern = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace") if error.args else "no reason given"
        raise InvalidPattern(f"{pattern!r} is not a regular expression without backtracking: {reason}") from error
    return compiled
