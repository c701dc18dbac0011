"""Placement of custom middlewares by `Next` and `Prev`."""

import pytest
from langchain.agents.middleware import AgentMiddleware

from deerflow.agents.ordering import Next, Prev, place_middlewares


class First(AgentMiddleware): ...


class Middle(AgentMiddleware): ...


class Last(AgentMiddleware): ...


CHAIN = [First(), Middle(), Last()]


def names(*extras: AgentMiddleware) -> list[str]:
    return [type(middleware).__name__ for middleware in place_middlewares(CHAIN, extras)]


def extra(name: str, *decorators: object) -> AgentMiddleware:
    kind = type(name, (AgentMiddleware,), {})
    for decorate in decorators:
        kind = decorate(kind)
    return kind()


def test_extras_without_an_anchor_precede_the_last_middleware_in_given_order() -> None:
    assert names(extra("A"), extra("B")) == ["First", "Middle", "A", "B", "Last"]


def test_an_anchored_extra_is_adjacent_to_its_anchor() -> None:
    assert names(extra("A", Next(First)), extra("B", Prev(Last))) == ["First", "A", "Middle", "B", "Last"]


def test_one_anchor_may_have_extras_on_both_sides() -> None:
    assert names(extra("A", Next(Middle)), extra("B", Prev(Middle))) == ["First", "B", "Middle", "A", "Last"]


def test_an_extra_may_be_anchored_to_a_later_extra() -> None:
    class Base(AgentMiddleware): ...

    follower = extra("Follower", Next(Base))
    assert names(follower, Base()) == ["First", "Middle", "Base", "Follower", "Last"]


def test_the_last_middleware_stays_last() -> None:
    assert names(extra("A", Next(Last))) == ["First", "Middle", "A", "Last"]


def test_a_subclass_matches_the_anchor() -> None:
    class Better(Middle): ...

    placed = place_middlewares([First(), Better(), Last()], [extra("A", Next(Middle))])
    assert [type(middleware).__name__ for middleware in placed] == ["First", "Better", "A", "Last"]


def test_an_anchor_is_not_inherited() -> None:
    @Next(First)
    class Parent(AgentMiddleware): ...

    class Child(Parent): ...

    assert names(Child()) == ["First", "Middle", "Child", "Last"]


def test_two_extras_cannot_have_the_same_position() -> None:
    with pytest.raises(ValueError, match="A and B both want to stand right after First"):
        names(extra("A", Next(First)), extra("B", Next(First)))


def test_a_missing_anchor_is_reported_with_the_extra() -> None:
    class Absent(AgentMiddleware): ...

    with pytest.raises(ValueError, match="A is anchored to Absent, which is not in the chain"):
        names(extra("A", Next(Absent)))


def test_circular_anchors_are_reported() -> None:
    class One(AgentMiddleware): ...

    @Next(One)
    class Two(AgentMiddleware): ...

    Next(Two)(One)
    with pytest.raises(ValueError, match="circular: One to Two, Two to One"):
        names(One(), Two())


def test_a_class_has_only_one_anchor() -> None:
    with pytest.raises(ValueError, match="is anchored to .* and cannot be anchored to"):
        extra("A", Next(First), Prev(Last))


@pytest.mark.parametrize("decorator", [Next, Prev])
def test_an_anchor_must_be_a_middleware_class(decorator: object) -> None:
    for wrong in (First(), str, "First"):
        with pytest.raises(TypeError, match="takes a middleware class"):
            decorator(wrong)


def test_an_extra_must_be_an_instance() -> None:
    with pytest.raises(TypeError, match="must be an instance of AgentMiddleware"):
        place_middlewares(CHAIN, [First])
