"""Middlewares of the user's own find their place, or are told why not."""

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


def test_without_an_anchor_extras_stand_before_the_last_in_their_order() -> None:
    assert names(extra("A"), extra("B")) == ["First", "Middle", "A", "B", "Last"]


def test_an_anchored_extra_stands_right_beside_its_anchor() -> None:
    assert names(extra("A", Next(First)), extra("B", Prev(Last))) == ["First", "A", "Middle", "B", "Last"]


def test_both_sides_of_one_anchor_may_be_taken() -> None:
    assert names(extra("A", Next(Middle)), extra("B", Prev(Middle))) == ["First", "B", "Middle", "A", "Last"]


def test_an_extra_may_be_anchored_to_another_given_later() -> None:
    class Base(AgentMiddleware): ...

    follower = extra("Follower", Next(Base))
    assert names(follower, Base()) == ["First", "Middle", "Base", "Follower", "Last"]


def test_the_last_of_the_chain_stays_last() -> None:
    assert names(extra("A", Next(Last))) == ["First", "Middle", "A", "Last"]


def test_a_subclass_of_the_anchor_counts_as_the_anchor() -> None:
    class Better(Middle): ...

    placed = place_middlewares([First(), Better(), Last()], [extra("A", Next(Middle))])
    assert [type(middleware).__name__ for middleware in placed] == ["First", "Better", "A", "Last"]


def test_an_anchor_is_not_inherited() -> None:
    @Next(First)
    class Parent(AgentMiddleware): ...

    class Child(Parent): ...

    assert names(Child()) == ["First", "Middle", "Child", "Last"]


def test_two_extras_cannot_have_the_same_place() -> None:
    with pytest.raises(ValueError, match="A and B both want to stand right after First"):
        names(extra("A", Next(First)), extra("B", Next(First)))


def test_a_missing_anchor_is_named_with_who_wants_it() -> None:
    class Absent(AgentMiddleware): ...

    with pytest.raises(ValueError, match="A is anchored to Absent, which is not in the chain"):
        names(extra("A", Next(Absent)))


def test_a_circle_is_named() -> None:
    class One(AgentMiddleware): ...

    @Next(One)
    class Two(AgentMiddleware): ...

    Next(Two)(One)
    with pytest.raises(ValueError, match="circular: One to Two, Two to One"):
        names(One(), Two())


def test_one_class_has_one_anchor() -> None:
    with pytest.raises(ValueError, match="is anchored to .* and cannot be anchored to"):
        extra("A", Next(First), Prev(Last))


@pytest.mark.parametrize("decorator", [Next, Prev])
def test_an_anchor_is_a_middleware_class(decorator: object) -> None:
    for wrong in (First(), str, "First"):
        with pytest.raises(TypeError, match="takes a middleware class"):
            decorator(wrong)


def test_an_extra_is_an_instance() -> None:
    with pytest.raises(TypeError, match="must be an instance of AgentMiddleware"):
        place_middlewares(CHAIN, [First])
