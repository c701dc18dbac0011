"""What a run is told of a memory, on both databases."""

from typing import Any

import pytest

from deerflow.agents.middlewares.tokens import text_tokens
from deerflow.config.memory import MemoryConfig
from deerflow.domain.memory import MemoryScope, knowing, summarising
from deerflow.memory.ledger import Ledger
from deerflow.memory.memories import FactChange, Memories
from deerflow.memory.recall import MOST_CANDIDATES, MemoryOfRun
from tests.memory.notes import MINE, fact


def memory_of(ledger: Ledger, scope: MemoryScope = MINE, **settings: Any) -> MemoryOfRun:
    config = MemoryConfig(**settings)
    return MemoryOfRun(Memories(ledger, lambda: config), scope, "t", text_tokens)


async def test_what_was_told_is_told_again_as_it_was_until_it_is_erased(ledger: Ledger) -> None:
    tea, tabs = fact("Drinks tea"), fact("Prefers tabs")
    cooks = summarising("user.workContext", "Cooks.", tea.created_at)
    await ledger.apply(MINE, [knowing(tea), knowing(tabs), cooks], "model")
    told = await memory_of(ledger).recall("Hello")
    assert all(words in told.text for words in ("Drinks tea", "Prefers tabs", "Cooks."))
    assert "tea" not in str(told.note) and "Cooks" not in str(told.note)

    await Memories(ledger, MemoryConfig).change_fact(MINE, tea.id, FactChange(content="Drinks coffee"))
    await ledger.apply(MINE, [summarising("user.workContext", "Bakes.", tea.created_at)], "model")
    again = await memory_of(ledger).recall_again(told.note)
    assert again.text == told.text and "Drinks coffee" in (await memory_of(ledger).recall("Hello")).text

    await ledger.erase_fact(MINE, tea.id)
    left = await memory_of(ledger).recall_again(told.note)
    assert "tea" not in left.text and "coffee" not in left.text and "Prefers tabs" in left.text
    assert left.receipt is not None and (left.receipt.injected, left.receipt.dropped) == ([tabs.id], 1)
    await ledger.switch(MINE, is_off=True)
    assert (await memory_of(ledger).recall_again(told.note)).text == ""


async def test_of_many_facts_those_are_told_that_fit(ledger: Ledger) -> None:
    many = [fact(f"Number {number} of the things nobody asks for", confidence=0.9) for number in range(150)]
    wanted = fact("Keeps bees and sells honey", confidence=0.7)
    await ledger.apply(MINE, [knowing(each) for each in [*many, wanted]], "import")
    told = await memory_of(ledger, max_injection_tokens=500).recall("Where do I sell my honey?")
    assert wanted.content in told.text and told.receipt is not None
    receipt = told.receipt
    assert receipt.considered == 151 == len(receipt.injected) + receipt.dropped and receipt.tokens <= 500
    assert receipt.injected[0] == wanted.id and len(receipt.injected) < MOST_CANDIDATES


@pytest.mark.parametrize(
    "note",
    [{}, {"seq": "1"}, {"seq": 1, "facts": "all"}, {"seq": 1, "facts": [1, None, {}], "summaries": ["user"]}],
)
async def test_a_note_that_somebody_made_up_tells_nothing(ledger: Ledger, note: dict[str, object]) -> None:
    await ledger.apply(MINE, [knowing(fact("Drinks tea"))], "model")
    assert (await memory_of(ledger).recall_again(note)).text == ""


async def test_notes_and_searches_lead_into_no_other_memory(ledger: Ledger) -> None:
    await ledger.apply(MINE, [knowing(fact("Drinks tea"))], "model")
    told = await memory_of(ledger).recall("tea")
    for scope in (MemoryScope("you"), MemoryScope("me", "writer")):
        await ledger.apply(scope, [knowing(fact("Likes rain"))], "model")
        other = memory_of(ledger, scope)
        assert (await other.recall_again(told.note)).text == ""
        assert "tea" not in (await memory_of(ledger, scope).recall("tea")).text
        assert await other.search("tea", None, 10) == []


async def test_one_receipt_is_given_for_a_run(ledger: Ledger) -> None:
    memory = memory_of(ledger)
    receipt = memory.take_receipt(await memory.recall("Hello"))
    assert receipt is not None and (receipt.considered, receipt.injected) == (0, [])
    await ledger.apply(MINE, [knowing(fact("Drinks tea"))], "model")
    memory = memory_of(ledger)
    told = await memory.recall("Hello")
    assert memory.take_receipt(told) is told.receipt is not None and memory.take_receipt(told) is None
