"""What becomes memory of what a model has understood: thresholds, copies, contradictions, corrections, limits."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from deerflow.domain.learning import Heard
from deerflow.domain.memory import CATEGORIES, Edit, Fact, MemoryState, Summary
from deerflow.memory.revision import MOST_NEW_FACTS, NotUnderstood, Revision, Rules, Update, read_update
from tests.memory.answers import learned
from tests.memory.notes import fact

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MESSAGES = (Heard("m1", "human", "I live in Bonn now"), Heard("m2", "ai", "Noted."), Heard("m3", "human", "Bye"))
OLD = fact("The user lives in Köln", confidence=0.8, created_at=NOW - timedelta(days=1))


def revise(
    answer: str, known: Sequence[Fact] = (), rules: Rules = Rules(), state: MemoryState | None = None
) -> list[Edit]:
    return Revision(state or MemoryState(list(known)), "t", MESSAGES, rules, NOW).edits(read_update(answer))


def after(edits: Sequence[Edit], known: Sequence[Fact] = ()) -> dict[str, Fact]:
    """What is told once the edits are made, by content."""
    facts: dict[str, Fact] = {each.id: each for each in known}
    for edit in edits:
        facts.pop(edit.target, None)
        if isinstance(edit.after, Fact) and edit.after.valid_to is None:
            facts[edit.target] = edit.after
    return {each.content: each for each in facts.values()}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no JSON object"),
        ("I learned nothing.", "no JSON object"),
        ("{'newFacts': []}", "not JSON"),
        ('{"newFacts": [{"content": "x"}]}', "newFacts.0.confidence"),
        ('{"newFacts": [{"content": "x", "confidence": 7}]}', "newFacts.0.confidence"),
        ('{"newFacts": "none"}', "newFacts"),
        ('{"user": {"workContext": "busy"}}', "user.workContext"),
        ('{"a":' * 30_000 + "1" + "}" * 30_000, "nested too deeply"),
        ('{"a": "' + "x" * 200_000 + '"}', "more than 200000"),
    ],
)
def test_an_answer_that_is_not_what_was_asked_for_is_refused_with_a_reason(text: str, complaint: str) -> None:
    with pytest.raises(NotUnderstood, match=complaint):
        read_update(text)


@pytest.mark.parametrize("text", ["{}", "```json\n{}\n```", 'Here it is: {"newFacts": []} Done.', '{"more": 1}'])
def test_words_around_the_answer_and_more_keys_do_no_harm(text: str) -> None:
    assert revise(text) == [] and isinstance(read_update(text), Update)


@pytest.mark.parametrize(
    ("new", "kept"),
    [
        ({"content": "sure", "confidence": 0.7}, True),
        ({"content": "unsure", "confidence": 0.69}, False),
        ({"content": "   "}, False),
        ({"content": "Their file is /mnt/user-data/uploads/a.pdf"}, False),
        ({"content": "They gave <uploaded_files>a.pdf"}, False),
    ],
)
def test_what_is_unsure_empty_or_about_uploads_is_not_kept(new: Mapping[str, object], kept: bool) -> None:
    assert bool(revise(learned(dict(new)))) is kept


@pytest.mark.parametrize("same", ["the user lives in köln", "  The user  lives in KÖLN. ", "The user lives in Köln"])
def test_what_is_known_is_not_kept_twice_but_may_be_believed_more_firmly(same: str) -> None:
    assert revise(learned({"content": same, "confidence": 0.8}), [OLD]) == []
    (edit,) = revise(learned({"content": same, "confidence": 0.95}), [OLD])
    assert isinstance(edit.after, Fact) and (edit.target, edit.after.confidence) == (OLD.id, 0.95)
    assert len(revise(learned({"content": "New"}, {"content": "new"}))) == 1


def test_a_contradiction_takes_the_place_of_what_was_known() -> None:
    edits = revise(learned({"content": "The user lives in Bonn", "replaces": [OLD.id, "fact_unknown"]}), [OLD])
    (told,) = after(edits, [OLD]).values()
    assert (told.content, told.supersedes, told.valid_from) == ("The user lives in Bonn", OLD.id, NOW)
    (over,) = [edit.after for edit in edits if edit.target == OLD.id]
    assert isinstance(over, Fact) and over.valid_to == NOW


@pytest.mark.parametrize("hint", [{"replaces": [OLD.id]}, {"sourceError": "the user lives in köln"}])
def test_a_correction_keeps_the_error_beside_it_and_not_among_what_is_told(hint: dict[str, object]) -> None:
    new = {"content": "The user lives in Bonn", "category": "correction", **hint}
    (told,) = after(revise(learned(new), [OLD]), [OLD]).values()
    assert told.category == "correction" and (told.source_error or "").casefold() == "the user lives in köln"
    assert told.content == "The user lives in Bonn" and told.supersedes == OLD.id


def test_only_corrections_have_an_error_and_an_unknown_category_is_context() -> None:
    new = {"content": "The user has a cat", "category": "pets", "sourceError": "dog"}
    (told,) = after(revise(learned(new))).values()
    assert (told.category, told.source_error) == ("context", None)
    kinds = [{"content": f"As {kind}", "category": kind} for kind in CATEGORIES]
    assert {each.category for each in after(revise(learned(*kinds))).values()} == set(CATEGORIES)


@pytest.mark.parametrize(
    ("said", "source"),
    [
        ({"message": 1, "quote": "I live in Bonn"}, ("m1", "I live in Bonn")),
        ({"message": 1, "quote": "made up"}, ("m1", "I live in Bonn now")),
        ({"message": 2, "quote": "Noted."}, ("m3", "Bye")),
        ({"message": 99}, ("m3", "Bye")),
        ({}, ("m3", "Bye")),
    ],
)
def test_the_source_is_what_a_person_really_said(said: dict[str, object], source: tuple[str, str]) -> None:
    (told,) = after(revise(learned({"content": "x", **said}))).values()
    assert told.source is not None and (told.source.message_id, told.source.quote) == source
    assert told.source.thread_id == "t"


def test_what_the_person_takes_back_goes_and_what_is_not_there_is_passed_over() -> None:
    assert after(revise(learned(remove=(OLD.id, "fact_unknown")), [OLD]), [OLD]) == {}


def test_of_too_many_facts_the_least_sure_go_and_of_these_the_oldest() -> None:
    known = [
        fact(f"{confidence} {age}", confidence=confidence, created_at=NOW - timedelta(days=age))
        for confidence, age in ((0.9, 9), (0.8, 2), (0.8, 1), (0.7, 0))
    ]
    new = [{"content": "new", "confidence": 0.85}, {"content": "weak", "confidence": 0.7}]
    left = after(revise(learned(*new), known, Rules(most_facts=3)), known)
    assert set(left) == {"0.9 9", "0.8 1", "new"}
    many = [{"content": f"fact {number}"} for number in range(MOST_NEW_FACTS + 5)]
    assert len(revise(learned(*many))) == MOST_NEW_FACTS


def test_summaries_change_only_where_the_model_says_so() -> None:
    state = MemoryState(summaries={"user.workContext": Summary("Cooks", NOW), "user.topOfMind": Summary("Rest", NOW)})
    said = {
        "workContext": {"summary": "Bakes", "shouldUpdate": True},
        "personalContext": {"summary": "Ignored", "shouldUpdate": False},
        "topOfMind": {"summary": "Rest", "shouldUpdate": True},
    }
    history = {"recentMonths": {"summary": "Moved", "shouldUpdate": True}, "earlierContext": {"shouldUpdate": True}}
    edits = revise(json.dumps({"user": said, "history": history}), state=state)
    written = {edit.target: edit.after.summary for edit in edits if isinstance(edit.after, Summary)}
    assert written == {"user.workContext": "Bakes", "history.recentMonths": "Moved"}
