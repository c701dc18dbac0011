"""Memory injection of a run, on both databases."""

from typing import Any

import pytest

from deerflow.agent_support.tokens import count_text_tokens
from deerflow.config.sections.base import Settings
from deerflow.config.sections.memory import MemoryConfig
from deerflow.domain.memory import MemoryScope, set_summary, upsert_fact
from deerflow.memory.injection import MAX_CANDIDATES, LedgerRunMemory
from deerflow.memory.ledger import Ledger
from deerflow.memory.service import FactChange, MemoryService
from tests.memory.support import SCOPE, make_fact


def create_run_memory(ledger: Ledger, scope: MemoryScope = SCOPE, **settings: Any) -> LedgerRunMemory:
    config = MemoryConfig(**settings)
    return LedgerRunMemory(MemoryService(ledger, Settings(lambda: config)), scope, "t", count_text_tokens)


async def test_restores_an_injection_except_for_erased_facts(ledger: Ledger) -> None:
    tea, tabs = make_fact("Drinks tea"), make_fact("Prefers tabs")
    cooks = set_summary("user.workContext", "Cooks.", tea.created_at)
    await ledger.apply(SCOPE, [upsert_fact(tea), upsert_fact(tabs), cooks], "model")
    injection = await create_run_memory(ledger).build_injection("Hello")
    assert all(words in injection.text for words in ("Drinks tea", "Prefers tabs", "Cooks."))
    assert "tea" not in str(injection.note) and "Cooks" not in str(injection.note)

    await MemoryService(ledger, Settings(MemoryConfig)).change_fact(SCOPE, tea.id, FactChange(content="Drinks coffee"))
    await ledger.apply(SCOPE, [set_summary("user.workContext", "Bakes.", tea.created_at)], "model")
    again = await create_run_memory(ledger).restore_injection(injection.note)
    assert (
        again.text == injection.text
        and "Drinks coffee" in (await create_run_memory(ledger).build_injection("Hello")).text
    )

    await ledger.erase_fact(SCOPE, tea.id)
    left = await create_run_memory(ledger).restore_injection(injection.note)
    assert "tea" not in left.text and "coffee" not in left.text and "Prefers tabs" in left.text
    assert left.receipt is not None and (left.receipt.injected, left.receipt.dropped) == ([tabs.id], 1)
    await ledger.set_off(SCOPE, is_off=True)
    assert (await create_run_memory(ledger).restore_injection(injection.note)).text == ""


async def test_injects_matching_facts_of_a_large_memory(ledger: Ledger) -> None:
    many = [make_fact(f"Number {number} of the things nobody asks for", confidence=0.9) for number in range(150)]
    wanted = make_fact("Keeps bees and sells honey", confidence=0.7)
    await ledger.apply(SCOPE, [upsert_fact(each) for each in [*many, wanted]], "import")
    injection = await create_run_memory(ledger, max_injection_tokens=500).build_injection("Where do I sell my honey?")
    assert wanted.content in injection.text and injection.receipt is not None
    receipt = injection.receipt
    assert receipt.considered == 151 == len(receipt.injected) + receipt.dropped and receipt.tokens <= 500
    assert receipt.injected[0] == wanted.id and len(receipt.injected) < MAX_CANDIDATES


@pytest.mark.parametrize(
    "note",
    [{}, {"seq": "1"}, {"seq": 1, "facts": "all"}, {"seq": 1, "facts": [1, None, {}], "summaries": ["user"]}],
)
async def test_ignores_a_forged_note(ledger: Ledger, note: dict[str, object]) -> None:
    await ledger.apply(SCOPE, [upsert_fact(make_fact("Drinks tea"))], "model")
    assert (await create_run_memory(ledger).restore_injection(note)).text == ""


async def test_notes_and_searches_stay_within_the_scope(ledger: Ledger) -> None:
    await ledger.apply(SCOPE, [upsert_fact(make_fact("Drinks tea"))], "model")
    injection = await create_run_memory(ledger).build_injection("tea")
    for scope in (MemoryScope("you"), MemoryScope("me", "writer")):
        await ledger.apply(scope, [upsert_fact(make_fact("Likes rain"))], "model")
        other = create_run_memory(ledger, scope)
        assert (await other.restore_injection(injection.note)).text == ""
        assert "tea" not in (await create_run_memory(ledger, scope).build_injection("tea")).text
        assert await other.search("tea", None, 10) == []


async def test_returns_one_receipt_per_run(ledger: Ledger) -> None:
    memory = create_run_memory(ledger)
    receipt = memory.take_receipt(await memory.build_injection("Hello"))
    assert receipt is not None and (receipt.considered, receipt.injected) == (0, [])
    await ledger.apply(SCOPE, [upsert_fact(make_fact("Drinks tea"))], "model")
    memory = create_run_memory(ledger)
    injection = await memory.build_injection("Hello")
    assert memory.take_receipt(injection) is injection.receipt is not None and memory.take_receipt(injection) is None
