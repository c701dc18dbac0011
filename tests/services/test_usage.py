"""Token usage and cost: every call is counted once, however its run ends."""

import asyncio
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deerflow.config.sections.models import PricingConfig
from deerflow.config.source import open_source
from deerflow.domain.errors import InvalidRequest, ModelRejected, NotFound
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.domain.runs import CancelAction, RunRecord, RunRequest, RunStatus
from deerflow.domain.usage import TokenCounts, UsageEntry, UsageOrigin, sum_counts
from deerflow.harness import Harness, open_harness
from deerflow.models.factory import ENTRY_KEY
from deerflow.models.usage import compute_cost
from deerflow.persistence.engine import open_database
from deerflow.persistence.queries.usage import record_usage
from deerflow.services.usage import UsageService
from deerflow.testing import Answer, ScriptedModel, Stall, calling
from deerflow.testing.turns import Usage as Cost
from tests.runtime.support import simulate_crash, wait_for_text
from tests.support import OpenHarness

PRICED = {
    "name": "dear",
    "use": "deerflow.models.demo:DemoChatModel",
    "model": "demo",
    "context_window": 1000,
    "pricing": {"currency": "EUR", "input": 2, "cached_input": 0.5, "output": 10.1, "reasoning": 20},
}
USAGE = Cost(input_tokens=100, output_tokens=7, cached_tokens=40, reasoning_tokens=2)


def build_answer(text: str, usage: Cost = USAGE) -> Answer:
    return Answer(text, usage=usage)


def set_entry_name(model: ScriptedModel, name: str) -> ScriptedModel:
    """Return the model with the name of a configuration entry."""
    model.metadata = {ENTRY_KEY: name}
    return model


async def finish_run(
    harness: Harness, text: str = "Go on", thread: str = "t", who: Principal = LOCAL_USER
) -> RunRecord:
    request = RunRequest(thread, [{"type": "human", "content": text}])
    run = await harness.runs.create_or_reject(request, who)
    async with asyncio.timeout(20):
        return await harness.runs.join(thread, run.run_id, who)


async def test_sums_all_calls_of_a_run(harness_saying: OpenHarness) -> None:
    look = calling("ls", description="look", path="/mnt/user-data/workspace")
    model = ScriptedModel.saying(Answer(calls=look.calls, usage=USAGE), build_answer("Done."), build_answer("Again."))
    async with harness_saying(model) as harness:
        run = await finish_run(harness)
        assert (run.input_tokens, run.output_tokens) == (200, 14)
        await finish_run(harness)
        usage = await harness.resources.usage.get_thread_usage("t", LOCAL_USER)
        assert usage.totals.counts == TokenCounts(3, 0, 300, 120, 0, 21, 6)
        assert [(share.name, share.spending.counts.calls) for share in usage.by_caller] == [("lead_agent", 3)]
        assert usage.context is not None and usage.context.used_tokens == 107


async def test_an_unknown_price_is_not_zero(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying(build_answer("Hi."))) as harness:
        await finish_run(harness)
        totals = (await harness.resources.usage.get_thread_usage("t", LOCAL_USER)).totals
        assert totals.cost is None and not totals.costs and totals.unpriced_tokens == 107


async def test_computes_costs_exactly(tmp_path: Path) -> None:
    source = open_source(directory=tmp_path, environment={}, overrides={"models": [PRICED]})
    async with open_harness(
        source, set_entry_name(ScriptedModel.saying(*[build_answer("Hi.")] * 3), "dear")
    ) as harness:
        for _ in range(3):
            await finish_run(harness)
        usage = await harness.resources.usage.get_thread_usage("t", LOCAL_USER)
    # 60 in at 2, 40 cached at 0.5, 5 out at 10.1, 2 thought at 20, per million, three times
    assert usage.totals.cost is not None and usage.totals.cost.amount == Decimal("0.0006915")
    assert usage.totals.cost.currency == "EUR"
    assert usage.context is not None and (usage.context.model, usage.context.window_tokens) == ("dear", 1000)


async def test_prices_earlier_usage_at_the_first_price(tmp_path: Path) -> None:
    async with open_harness(open_source(directory=tmp_path, environment={}), ScriptedModel.saying("Hi.")) as harness:
        await finish_run(harness)
    entry = {**PRICED, "name": "scripted"}
    source = open_source(directory=tmp_path, environment={}, overrides={"models": [entry]})
    async with open_harness(source, ScriptedModel.saying()) as harness:
        totals = (await harness.resources.usage.get_thread_usage("t", LOCAL_USER)).totals
        assert totals.cost is not None and totals.cost.amount > 0


async def test_records_usage_of_cancelled_failed_and_rolled_back_runs(
    harness_saying: OpenHarness,
) -> None:
    look = Answer(calls=calling("ls", description="look", path="/mnt/user-data/workspace").calls, usage=USAGE)
    model = ScriptedModel.saying(
        look, Stall(Answer("Half")), look, ModelRejected("no"), look, Stall(Answer("Undone")), "Fine."
    )
    async with harness_saying(model) as harness, asyncio.timeout(30):
        for action, word in ((CancelAction.INTERRUPT, "Half"), (None, ""), (CancelAction.ROLLBACK, "Undone")):
            if action is None:
                assert (await finish_run(harness)).status is RunStatus.ERROR
                continue
            run = await harness.runs.create_or_reject(RunRequest("t", [{"type": "human", "content": "Go"}]), LOCAL_USER)
            await wait_for_text(harness, run, word)
            await harness.runs.cancel("t", run.run_id, LOCAL_USER, action)
        counts = (await harness.resources.usage.get_thread_usage("t", LOCAL_USER)).totals.counts
        assert (counts.calls, counts.unmetered_calls, counts.input_tokens) == (6, 3, 300)


async def test_counts_a_call_once_after_a_crash(database_location: Path | str, harness_saying: OpenHarness) -> None:
    look = Answer(calls=calling("ls", description="look", path="/mnt/user-data/workspace").calls, usage=USAGE)
    async with asyncio.timeout(30):
        async with harness_saying(ScriptedModel.saying(look, Stall(Answer("Half")))) as harness:
            run = await harness.runs.create_or_reject(RunRequest("t", [{"type": "human", "content": "Go"}]), LOCAL_USER)
            await wait_for_text(harness, run, "Half")
        await simulate_crash(database_location)
        async with harness_saying(ScriptedModel.saying(build_answer("Whole."))) as harness:
            ended = await harness.runs.join("t", run.run_id, LOCAL_USER)
            assert (ended.input_tokens, ended.output_tokens) == (200, 14)


async def test_counts_titles_and_summaries_by_caller(tmp_path: Path) -> None:
    demo = {"use": "deerflow.models.demo:DemoChatModel", "model": "demo", "delay_ms": 0}
    chosen = {
        "models": [{"name": "demo", **demo}, {"name": "namer", **demo}],
        "title": {"model_name": "namer"},
        "summarization": {
            "trigger": [{"type": "messages", "value": 14}],
            "keep": {"type": "messages", "value": 2},
        },
    }
    source = open_source(directory=tmp_path, environment={}, overrides=chosen)
    model = ScriptedModel.saying(*[f"Answer {number}" for number in range(14)])
    async with open_harness(source, model) as harness:
        for _ in range(9):
            await finish_run(harness)
        await asyncio.gather(*harness.runs._background.tasks)
        usage = await harness.resources.usage.get_thread_usage("t", LOCAL_USER)
    calls = {share.name: share.spending.counts.calls for share in usage.by_caller}
    assert calls["lead_agent"] == 9 and calls["title"] == 1 and calls["summarization"] >= 1


async def test_does_not_show_usage_of_other_users(harness_saying: OpenHarness) -> None:
    other = Principal("other")
    async with harness_saying(ScriptedModel.saying(build_answer("Hi."), build_answer("Ho."))) as harness:
        await finish_run(harness)
        await finish_run(harness, thread="u", who=other)
        with pytest.raises(NotFound):
            await harness.resources.usage.get_thread_usage("t", other)
        assert (await harness.resources.usage.get_stats(other)).totals.counts.calls == 1
        assert [each.run.run.thread_id for each in await harness.resources.usage.list_runs(other, 10)] == ["u"]


async def test_usage_outlives_its_thread(harness_saying: OpenHarness) -> None:
    async with harness_saying(ScriptedModel.saying(build_answer("Hi."))) as harness:
        await finish_run(harness)
        await harness.threads.delete("t", LOCAL_USER)
        stats = await harness.resources.usage.get_stats(LOCAL_USER)
        assert (stats.threads, sum(stats.runs.values()), stats.totals.counts.total_tokens) == (0, 0, 107)


async def test_daily_usage_follows_the_calendar_of_the_time_zone(database_location: Path | str) -> None:
    """The 29th of March 2026 has 23 hours in Berlin, and midnight there is not midnight in Kathmandu."""
    moments = ["2026-03-28T22:59:59", "2026-03-28T23:00:00", "2026-03-29T21:59:59", "2026-03-29T22:00:00"]
    entry = UsageEntry("lead_agent", "m", TokenCounts(calls=1, input_tokens=1))
    async with open_database(database_location) as database:
        for moment in moments:
            origin = UsageOrigin("local", datetime.fromisoformat(moment).replace(tzinfo=UTC))
            await database.write(partial(record_usage, origin=origin, entries=[entry]))
        usage = UsageService(database, lambda _owner: {}, lambda _model, _owner: None)
        berlin = await usage.get_daily_usage(LOCAL_USER, 3, "Europe/Berlin", today=date(2026, 3, 30))
        assert [(day.name, day.spending.counts.calls) for day in berlin.by_day] == [
            ("2026-03-28", 1),
            ("2026-03-29", 2),
            ("2026-03-30", 1),
        ]
        nepal = await usage.get_daily_usage(LOCAL_USER, 2, "Asia/Kathmandu", today=date(2026, 3, 30))
        assert [day.spending.counts.calls for day in nepal.by_day] == [2, 2]
        for wrong in ("Nowhere/Else", "../etc/passwd", "", "Europe", "a\0b"):
            with pytest.raises(InvalidRequest):
                await usage.get_daily_usage(LOCAL_USER, 2, wrong)


async def test_usage_by_thread_has_titles_and_sums_up_deleted_threads(harness_saying: OpenHarness) -> None:
    answers = [build_answer("One."), build_answer("Two."), build_answer("Three."), build_answer("Four.")]
    async with harness_saying(ScriptedModel.saying(*answers)) as harness:
        for text, thread in (("Herons", "a"), ("More", "a"), ("Storks", "b"), ("Cranes", "c")):
            await finish_run(harness, text, thread)
        await harness.threads.delete("b", LOCAL_USER)
        await harness.threads.delete("c", LOCAL_USER)
        usage = await harness.resources.usage.get_daily_usage(LOCAL_USER, 1, "UTC")
        found = {each.thread_id: (each.title, each.spending.counts.calls) for each in usage.by_thread}
        assert found == {"a": ("Herons", 2), None: (None, 2)}
        assert (await harness.resources.usage.get_daily_usage(Principal("other"), 1, "UTC")).by_thread == []


def test_cached_tokens_do_not_exceed_input_tokens() -> None:
    pricing = PricingConfig.model_validate({"input": 1, "output": 1})
    strange = TokenCounts(1, 0, 10, 50, 50, 3, 9)
    assert compute_cost(strange, pricing) == 13 * 10**6


Step = tuple[str, str, Cost, bool]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ada", "bob"]),
        st.sampled_from(["1", "2", "3"]),
        st.builds(Cost, *[st.integers(0, 10**9)] * 4),
        st.booleans(),
    ),
    max_size=8,
)


@pytest.mark.slow
@settings(max_examples=12, deadline=None, database=None)
@given(STEPS)
def test_sums_of_runs_threads_and_user_agree(steps: list[Step]) -> None:
    asyncio.run(compare_sums(steps))


async def compare_sums(steps: list[Step]) -> None:
    lines = [Answer(f"Answer {number}", usage=cost) for number, (_, _, cost, _) in enumerate(steps)]
    script = [ModelRejected("no") if fails else line for line, (*_, fails) in zip(lines, steps, strict=True)]
    with TemporaryDirectory() as home:
        source = open_source(directory=Path(home), environment={}, overrides={"models": [PRICED]})
        async with open_harness(source, set_entry_name(ScriptedModel.saying(*script), "dear")) as harness:
            runs = [
                await finish_run(harness, thread=f"{user}-{thread}", who=Principal(user))
                for user, thread, _, _ in steps
            ]
            for user in ("ada", "bob"):
                await compare_sums_of(harness, Principal(user), [run for run in runs if run.owner == user])


async def compare_sums_of(harness: Harness, who: Principal, runs: list[RunRecord]) -> None:
    of_runs = [await harness.resources.usage.get_run_spending(run) for run in runs]
    of_threads = [
        (await harness.resources.usage.get_thread_usage(name, who)).totals for name in {run.thread_id for run in runs}
    ]
    everything = (await harness.resources.usage.get_stats(who)).totals
    daily = (await harness.resources.usage.get_daily_usage(who, 2, "UTC")).totals
    for parts in (of_runs, of_threads, [daily]):
        assert sum_counts(part.counts for part in parts) == everything.counts
        assert sum(money.amount for part in parts for money in part.costs) == sum(
            money.amount for money in everything.costs
        )
    assert sum(run.input_tokens + run.output_tokens for run in runs) == everything.counts.total_tokens


async def test_ignores_invalid_usage_of_a_model(tmp_path: Path) -> None:
    dearest = {**PRICED, "pricing": {"input": 999999, "output": 999999}}
    source = open_source(directory=tmp_path, environment={}, overrides={"models": [dearest]})
    line = Answer("Hi.", usage=Cost(input_tokens=10**18, output_tokens=-5))
    async with open_harness(source, set_entry_name(ScriptedModel.saying(line), "dear")) as harness:
        assert (await finish_run(harness)).status is RunStatus.SUCCESS
        totals = (await harness.resources.usage.get_thread_usage("t", LOCAL_USER)).totals
        assert (totals.counts.input_tokens, totals.counts.output_tokens) == (10**12, 0)
        assert totals.cost is not None and totals.cost.amount == Decimal(999999) * 10**6
