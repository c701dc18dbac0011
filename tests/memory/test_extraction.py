"""Edits built from model output: thresholds, duplicates, contradictions, corrections and limits."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from deerflow.domain.memory import CATEGORIES, ConversationMessage, Fact, MemoryEdit, MemoryState, Summary
from deerflow.memory.extraction import (
    MAX_NEW_FACTS,
    ExtractionRules,
    InvalidModelOutput,
    MemoryRevision,
    MemoryUpdate,
    parse_update,
)
from tests.memory.support import build_extraction_output, make_fact

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MESSAGES = (
    ConversationMessage("m1", "human", "I live in Bonn now"),
    ConversationMessage("m2", "ai", "Noted."),
    ConversationMessage("m3", "human", "Bye"),
)
OLD = make_fact("The user lives in Köln", confidence=0.8, created_at=NOW - timedelta(days=1))


def build_edits(
    answer: str,
    known: Sequence[Fact] = (),
    rules: ExtractionRules = ExtractionRules(),
    state: MemoryState | None = None,
) -> list[MemoryEdit]:
    return MemoryRevision(state or MemoryState(list(known)), "t", MESSAGES, rules, NOW).build_edits(
        parse_update(answer)
    )


def apply_edits(edits: Sequence[MemoryEdit], known: Sequence[Fact] = ()) -> dict[str, Fact]:
    """Return the current facts after the edits, by content."""
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
def test_refuses_invalid_output_with_a_reason(text: str, complaint: str) -> None:
    with pytest.raises(InvalidModelOutput, match=complaint):
        parse_update(text)


@pytest.mark.parametrize("text", ["{}", "```json\n{}\n```", 'Here it is: {"newFacts": []} Done.', '{"more": 1}'])
def test_ignores_text_around_the_output_and_unknown_keys(text: str) -> None:
    assert build_edits(text) == [] and isinstance(parse_update(text), MemoryUpdate)


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
def test_rejects_unsure_empty_and_upload_facts(new: Mapping[str, object], kept: bool) -> None:
    assert bool(build_edits(build_extraction_output(dict(new)))) is kept


@pytest.mark.parametrize("same", ["the user lives in köln", "  The user  lives in KÖLN. ", "The user lives in Köln"])
def test_raises_the_confidence_of_known_facts(same: str) -> None:
    assert build_edits(build_extraction_output({"content": same, "confidence": 0.8}), [OLD]) == []
    (edit,) = build_edits(build_extraction_output({"content": same, "confidence": 0.95}), [OLD])
    assert isinstance(edit.after, Fact) and (edit.target, edit.after.confidence) == (OLD.id, 0.95)
    assert len(build_edits(build_extraction_output({"content": "New"}, {"content": "new"}))) == 1


def test_supersedes_contradicted_facts() -> None:
    edits = build_edits(
        build_extraction_output({"content": "The user lives in Bonn", "replaces": [OLD.id, "fact_unknown"]}), [OLD]
    )
    (fact,) = apply_edits(edits, [OLD]).values()
    assert (fact.content, fact.supersedes, fact.valid_from) == ("The user lives in Bonn", OLD.id, NOW)
    (over,) = [edit.after for edit in edits if edit.target == OLD.id]
    assert isinstance(over, Fact) and over.valid_to == NOW


@pytest.mark.parametrize("hint", [{"replaces": [OLD.id]}, {"sourceError": "the user lives in köln"}])
def test_stores_the_corrected_error_separately(hint: dict[str, object]) -> None:
    new = {"content": "The user lives in Bonn", "category": "correction", **hint}
    (fact,) = apply_edits(build_edits(build_extraction_output(new), [OLD]), [OLD]).values()
    assert fact.category == "correction" and (fact.source_error or "").casefold() == "the user lives in köln"
    assert fact.content == "The user lives in Bonn" and fact.supersedes == OLD.id


def test_stores_errors_of_corrections_only_and_maps_unknown_categories() -> None:
    new = {"content": "The user has a cat", "category": "pets", "sourceError": "dog"}
    (fact,) = apply_edits(build_edits(build_extraction_output(new))).values()
    assert (fact.category, fact.source_error) == ("context", None)
    kinds = [{"content": f"As {kind}", "category": kind} for kind in CATEGORIES]
    assert {each.category for each in apply_edits(build_edits(build_extraction_output(*kinds))).values()} == set(
        CATEGORIES
    )


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
def test_the_source_is_a_user_message(said: dict[str, object], source: tuple[str, str]) -> None:
    (fact,) = apply_edits(build_edits(build_extraction_output({"content": "x", **said}))).values()
    assert fact.source is not None and (fact.source.message_id, fact.source.quote) == source
    assert fact.source.thread_id == "t"


def test_removes_retracted_facts_and_ignores_unknown_ids() -> None:
    assert apply_edits(build_edits(build_extraction_output(remove=(OLD.id, "fact_unknown")), [OLD]), [OLD]) == {}


def test_removes_excess_facts_by_confidence_and_age() -> None:
    known = [
        make_fact(f"{confidence} {age}", confidence=confidence, created_at=NOW - timedelta(days=age))
        for confidence, age in ((0.9, 9), (0.8, 2), (0.8, 1), (0.7, 0))
    ]
    new = [{"content": "new", "confidence": 0.85}, {"content": "weak", "confidence": 0.7}]
    left = apply_edits(build_edits(build_extraction_output(*new), known, ExtractionRules(max_facts=3)), known)
    assert set(left) == {"0.9 9", "0.8 1", "new"}
    many = [{"content": f"fact {number}"} for number in range(MAX_NEW_FACTS + 5)]
    assert len(build_edits(build_extraction_output(*many))) == MAX_NEW_FACTS


def test_updates_only_marked_summaries() -> None:
    state = MemoryState(summaries={"user.workContext": Summary("Cooks", NOW), "user.topOfMind": Summary("Rest", NOW)})
    said = {
        "workContext": {"summary": "Bakes", "shouldUpdate": True},
        "personalContext": {"summary": "Ignored", "shouldUpdate": False},
        "topOfMind": {"summary": "Rest", "shouldUpdate": True},
    }
    history = {"recentMonths": {"summary": "Moved", "shouldUpdate": True}, "earlierContext": {"shouldUpdate": True}}
    edits = build_edits(json.dumps({"user": said, "history": history}), state=state)
    written = {edit.target: edit.after.summary for edit in edits if isinstance(edit.after, Summary)}
    assert written == {"user.workContext": "Bakes", "history.recentMonths": "Moved"}
