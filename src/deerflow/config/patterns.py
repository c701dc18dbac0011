"""Regular expressions of models and people: matched in linear time, whatever they are."""

from typing import Any, Protocol, cast

from deerflow.config.imports import load_object

ENGINE = "re2"
"""A name, for it takes memory that a server without such patterns need not spend."""


class Pattern(Protocol):
    """A regular expression that is ready to use."""

    def search(self, text: str) -> object | None: ...


class BadPattern(ValueError):
    """What was given is no regular expression, or has a form that cannot be matched in linear time."""


def compile_linear(pattern: str, *, ignore_case: bool = False) -> Pattern:
    """`pattern`, to be searched for in time that grows with the text alone.

    Raises:
        BadPattern: It is none, or needs backtracking.
    """
    options = cast(Any, load_object(f"{ENGINE}:Options"))()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    try:
        return cast(Pattern, cast(Any, load_object(f"{ENGINE}:compile"))(pattern, options))
    except cast(type[Exception], load_object(f"{ENGINE}:error")) as problem:
        said = problem.args[0].decode(errors="replace") if problem.args else "no reason given"
        raise BadPattern(f"{pattern!r} is no regular expression without backtracking: {said}") from problem
