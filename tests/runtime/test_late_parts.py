from dataclasses import dataclass, replace
from pathlib import PurePosixPath

import pytest

from deerflow.domain.errors import ConfigError
from deerflow.runtime.late import Late, Recipe


@dataclass(frozen=True)
class Kitchen:
    name: str
    path: Late[PurePosixPath] = Late()


def test_a_part_that_cannot_be_loaded_says_so_when_it_is_asked_for() -> None:
    kitchen = Kitchen("one", path=Recipe("deerflow.nowhere:Nothing"))

    with pytest.raises(ConfigError, match=r"there is no module 'deerflow\.nowhere'"):
        _ = kitchen.path


def test_a_late_part_must_be_given() -> None:
    with pytest.raises(TypeError, match="path"):
        Kitchen("one")


def test_a_part_is_made_of_its_ingredients_and_once() -> None:
    kitchen = Kitchen("one", path=Recipe("pathlib:PurePosixPath", "a", "b"))

    assert kitchen.path == PurePosixPath("a/b")
    assert kitchen.path is kitchen.path


def test_two_holders_have_parts_of_their_own() -> None:
    one, two = (Kitchen(name, path=Recipe("pathlib:PurePosixPath", name)) for name in ("one", "two"))

    assert (one.path, two.path) == (PurePosixPath("one"), PurePosixPath("two"))


def test_a_copy_of_a_holder_has_the_same_part() -> None:
    kitchen = Kitchen("one", path=Recipe("pathlib:PurePosixPath", "a"))

    assert replace(kitchen, name="two").path is kitchen.path
