"""Parts that are made, and loaded for that, when they are first asked for: most servers never need them."""

from collections.abc import Callable
from functools import cache
from typing import Any, Generic, Never, TypeVar, cast, overload

from deerflow.config.imports import load_object

Part = TypeVar("Part")


class Recipe:
    """How a part is made: of some ingredients, by what is to be loaded."""

    def __init__(self, place: str, *ingredients: object) -> None:
        self._place = place
        self._ingredients = ingredients

    def make(self) -> Any:
        """The part. The first time this blocks."""
        return cast(Callable[..., Any], load_object(self._place))(*self._ingredients)


class Late(Generic[Part]):
    """A field of a dataclass without slots: who makes that gives the recipe, who reads it gets the part, made once."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __set__(self, holder: object, given: Recipe | Part) -> None:
        # Who copies the holder gives the part itself.
        vars(holder)[self._name] = cache(given.make) if isinstance(given, Recipe) else lambda: given

    @overload
    def __get__(self, holder: None, owner: type) -> Never: ...
    @overload
    def __get__(self, holder: object, owner: type) -> Part: ...
    def __get__(self, holder: object | None, owner: type) -> Part:
        if holder is None:
            raise AttributeError(self._name)  # by which a dataclass knows that the field has no default
        return cast(Part, vars(holder)[self._name]())
