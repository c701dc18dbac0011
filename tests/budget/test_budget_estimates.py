"""Tests of how much of a budget a run can use: reservations follow the reported usage and never exceed the limit."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import orjson
import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata

from deerflow.budget.account import Account, BudgetTracker, TokenEstimator
from deerflow.budget.model_calls import describe_call, read_usage
from deerflow.domain.runs import RunStatus
from deerflow.domain.usage import BudgetSpent, ModelCallRequest, ModelCallUsage, PromptSize, SpendingLimit, TokenCounts
from deerflow.harness import open_harness
from deerflow.testing import Answer, ScriptedModel, ScriptedServer, ServerRequest, Usage, calling
from tests.budget.support import GreedyEndpoint, MemoryReservationLog, finish_run, list_files, open_budget_config

TASKS = 30
CEILINGS = (3, 3.5, 4, 4.5, 5, 6, 8, 10, 13, 17, 22, 30)
"""Ceilings as multiples of the first request."""
WORDS = ("the", "run", "of", "this", "report", "and", "tools", "between", "several", "conversations", "documentation")


MIN_SHARE = 0.7
"""Share of the steps that a limit pays for, if tokens were known in advance. The answer is the last step of a run."""


@pytest.mark.parametrize("seed", range(TASKS))
async def test_honest_run_uses_its_budget_and_never_exceeds_it(seed: int) -> None:
    task = create_task(seed)
    done = paid = 0
    for ceiling in CEILINGS:
        limit = int(ceiling * task.first_request)
        outcome, steps = await run_task(task, limit), task.count_paid_steps(limit)
        assert outcome.tokens <= limit, f"ceiling {ceiling}"
        assert outcome.has_answer and outcome.steps >= MIN_SHARE * steps, f"ceiling {ceiling}"
        done, paid = done + outcome.steps, paid + steps
    assert done >= MIN_SHARE * paid


@pytest.mark.parametrize("ceiling", CEILINGS)
async def test_honest_runs_use_seventy_percent_of_every_ceiling(ceiling: float) -> None:
    tasks = [create_task(seed) for seed in range(TASKS)]
    limits = [int(ceiling * task.first_request) for task in tasks]
    done = [(await run_task(task, limit)).steps for task, limit in zip(tasks, limits, strict=True)]
    paid = [task.count_paid_steps(limit) for task, limit in zip(tasks, limits, strict=True)]
    assert sum(done) >= MIN_SHARE * sum(paid)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(0, TASKS, 6))
async def test_honest_run_of_a_harness_uses_its_budget_and_never_exceeds_it(tmp_path: Path, seed: int) -> None:
    provider = HonestProvider(seed)
    look_up = {"name": "look_up", "group": "web", "use": "tests.budget.test_budget_estimates:look_up"}
    more = {"tools": [look_up], "memory": {"enabled": False}, "summarization": {"enabled": False}}
    entry = {"max_tokens": provider.task.max_output, "context_window": 10**6}
    async with (
        ScriptedServer([provider.answer], endless=True) as server,
        open_harness(open_budget_config(tmp_path, server, {"max_tokens": 10**9}, more, **entry)) as harness,
    ):
        await finish_run(harness, SpendingLimit(10**9), "measured")
        costs = list(provider.costs)
        assert len(costs) == len(provider.task.steps) + 1
        done = paid = 0
        for ceiling in CEILINGS:
            limit = int(ceiling * provider.first_request)
            provider.begin()
            run, _, entries = await finish_run(harness, SpendingLimit(limit), f"ceiling-{int(10 * ceiling)}")
            assert run.status is RunStatus.SUCCESS, run.error
            assert sum(provider.costs) <= limit, f"ceiling {ceiling}"
            assert max(each["spent"]["tokens"] for each in entries) <= limit, f"ceiling {ceiling}"
            steps = sum(total <= limit for total in accumulate(costs[:-1]))
            assert provider.has_answered and provider.steps >= MIN_SHARE * steps, f"ceiling {ceiling}"
            done, paid = done + provider.steps, paid + steps
    assert done >= MIN_SHARE * paid


async def test_ceiling_of_four_and_a_half_first_requests_pays_for_three_steps_and_an_answer(tmp_path: Path) -> None:
    first: list[int] = []
    endpoint = GreedyEndpoint(list_files)

    def answer(request: ServerRequest) -> Answer:
        reply = endpoint.answer(request)
        assert isinstance(reply, Answer) and reply.usage is not None
        first.append(reply.usage.input_tokens)
        return reply

    async with (
        ScriptedServer([answer], endless=True) as server,
        open_harness(open_budget_config(tmp_path, server, {"max_tokens": 10**9})) as harness,
    ):
        await finish_run(harness, SpendingLimit(200_000), "measured")
        limit = int(4.5 * first[0])
        endpoint.taken.clear()
        _, text, entries = await finish_run(harness, SpendingLimit(limit), "small")
    assert endpoint.taken["lead"] >= 3 and text.startswith("word ")
    assert endpoint.taken["tokens"] <= limit
    assert max(each["spent"]["tokens"] for each in entries) <= limit


@pytest.mark.parametrize("reports", [True, False])
async def test_endpoint_that_ignores_the_output_limit_exceeds_the_budget_by_one_call_at_most(reports: bool) -> None:
    limit, call, spent, sent = 50_000, 10_000, 0, AIMessage("word " * 9_000)
    tracker = BudgetTracker(SpendingLimit(limit), Account(), dict, MemoryReservationLog(), reserves_final_answer=True)
    for number in range(20):
        try:
            grant = await tracker.reserve(ModelCallRequest("lead_agent", "m", PromptSize(0, 4_000), 500, 100))
        except BudgetSpent:
            break
        usage = to_usage(1_000, call - 1_000) if reports else None
        tracker.settle(grant, read_usage(sent.model_copy(update={"id": str(number), "usage_metadata": usage})))
        spent += call
    assert limit / 2 < spent <= limit + call


def test_estimate_follows_reported_counts() -> None:
    estimator, first = TokenEstimator(), PromptSize(30_000, 3_000, "prefix")
    unknown = estimator.estimate(ModelCallRequest("lead_agent", "m", first, 1_000, 100))
    assert (unknown.likely, unknown.dense, unknown.maximum) == (11_000, 16_500, 33_000)
    asking = ModelCallRequest("lead_agent", "m", first, 1_000, 100)
    estimator.record(asking, ModelCallUsage(TokenCounts(1, 0, 6_600, 0, 0, 100), "reply", 500))
    after = PromptSize(30_000, 8_000, "prefix", "reply")
    known = estimator.estimate(ModelCallRequest("lead_agent", "m", after, 1_000, 100))
    # 6,700 tokens are known; the 4,500 new bytes take a token for 4.5 bytes, or one for each.
    assert (known.likely, known.dense, known.maximum) == (7_700, 11_200, 11_200)
    assert estimator.estimate(ModelCallRequest("lead_agent", "other", after, 1_000, 100)).maximum == 38_000


def test_model_with_implausible_reports_is_estimated_at_the_maximum() -> None:
    estimator, asking = TokenEstimator(), ModelCallRequest("lead_agent", "m", PromptSize(900, 100), 1_000, 100)
    estimator.distrust("m")
    estimate = estimator.estimate(asking)
    assert estimate.likely == estimate.dense == estimate.maximum == 1_000


@dataclass(frozen=True)
class Text:
    """Text with its tokens, as a provider counts them."""

    text: str
    tokens: int


def write_text(rng: random.Random, size: int, bytes_per_token: dict[str, float]) -> Text:
    """Return about `size` bytes of prose, code, Chinese or figures."""
    kind = rng.choice(list(bytes_per_token))
    if kind == "prose":
        text = " ".join(rng.choice(WORDS) for _ in range(size // 6))
    elif kind == "code":
        text = "\n".join(f"    value_{number} = call(item[{number}])" for number in range(size // 30))
    elif kind == "chinese":
        text = "".join(rng.choice("一个报告的工具和对话之间很长") for _ in range(size // 3))
    else:
        text = " ".join(str(rng.randrange(10**6)) for _ in range(size // 7))
    return Text(text, round(len(text.encode()) / bytes_per_token[kind]))


@dataclass(frozen=True)
class Task:
    """A run as a provider sees it: the first request, and for each step an answer and the result of a tool."""

    first: tuple[Text, Text]
    steps: tuple[tuple[Text, Text], ...]
    max_output: int

    @property
    def first_request(self) -> int:
        return sum(each.tokens for each in self.first)

    def iterate_costs(self) -> Iterator[int]:
        """Yield the tokens of each step."""
        prompt = self.first_request
        for answer, result in self.steps:
            yield prompt + answer.tokens
            prompt += answer.tokens + result.tokens

    def count_paid_steps(self, limit: int) -> int:
        """Return the number of steps that a limit pays for."""
        total, steps = 0, 0
        for cost in self.iterate_costs():
            total += cost
            if total > limit:
                break
            steps += 1
        return steps


@cache
def create_task(seed: int) -> Task:
    rng = random.Random(seed)
    bytes_per_token = {
        "prose": rng.uniform(3.5, 5.5),
        "code": rng.uniform(2.5, 4),
        "chinese": rng.uniform(2, 4.5),
        "figures": rng.uniform(1.2, 3),
    }
    prose = {"prose": bytes_per_token["prose"]}
    first = (
        write_text(rng, rng.randrange(8_000, 60_000), prose),
        write_text(rng, rng.choice((100, 1_000, 20_000)), bytes_per_token),
    )
    steps = tuple(
        (write_text(rng, rng.randrange(100, 2_000), prose), write_text(rng, rng.randrange(100, 6_000), bytes_per_token))
        for _ in range(60)
    )
    return Task(first, steps, rng.choice((2_048, 8_192, 32_768)))


@dataclass(frozen=True)
class Outcome:
    """Complete steps of a run within its budget, the final answer among them, and the tokens the provider counted."""

    steps: int
    tokens: int
    has_answer: bool


async def run_task(task: Task, limit: int) -> Outcome:
    """Run steps until the budget is used up, then answer."""
    tracker = BudgetTracker(SpendingLimit(limit), Account(), dict, MemoryReservationLog(), reserves_final_answer=True)
    system, question = task.first
    messages: list[BaseMessage] = [SystemMessage(system.text), HumanMessage(question.text)]
    model, prompt, spent, steps = ScriptedModel.saying(), task.first_request, 0, 0
    for answer, result in task.steps:
        try:
            grant = await tracker.reserve(
                describe_call("lead_agent", model, messages, default_max_output=task.max_output)
            )
        except BudgetSpent:
            final = await answer_finally(tracker)
            return Outcome(steps + bool(final), spent + final, bool(final))
        said = min(answer.tokens, grant.output_tokens)
        reply = AIMessage(answer.text, id=f"reply-{len(messages)}", usage_metadata=to_usage(prompt, said))
        tracker.settle(grant, read_usage(reply))
        spent += prompt + said
        steps += said == answer.tokens
        prompt += said + result.tokens
        messages += [reply, ToolMessage(result.text, tool_call_id=f"call-{len(messages)}")]
    return Outcome(steps, spent, has_answer=True)


async def answer_finally(tracker: BudgetTracker) -> int:
    """Make the largest possible final call and return its tokens, one for each byte of the request."""
    room = tracker.get_final_call_limits("scripted")
    if room is None or room[0] < 1_000:
        return 0
    size = room[0]
    grant = await tracker.reserve(
        ModelCallRequest("lead_agent", "scripted", PromptSize(0, size, "final"), room[1], 256, is_last=True)
    )
    tracker.settle(grant, ModelCallUsage(TokenCounts(1, 0, size, 0, 0, grant.output_tokens)))
    return size + grant.output_tokens


def to_usage(prompt: int, output: int) -> UsageMetadata:
    return UsageMetadata(input_tokens=prompt, output_tokens=output, total_tokens=prompt + output)


def look_up(seed: int, step: int) -> str:
    """Look something up.

    Args:
        seed: The task.
        step: The step of the task.
    """
    return create_task(seed).steps[step][1].text


FIXED_BYTES_PER_TOKEN = 4
"""Of the system prompt and the tools of a harness."""


class HonestProvider:
    """Endpoint that works on a task step by step, reports its usage, and keeps to the output limit."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.task = create_task(seed)
        self.costs: list[int] = []
        """Tokens of each call of the current run."""
        self.steps = 0
        self.has_answered = False
        self.first_request = 0

    def begin(self) -> None:
        self.costs, self.steps, self.has_answered = [], 0, False

    def answer(self, request: ServerRequest) -> Answer:
        tools = request.body.get("tools") or []
        results = sum(message["role"] == "tool" for message in request.messages)
        prompt = self._count(request.messages, tools)
        self.first_request = self.first_request or prompt
        limit = request.body.get("max_tokens") or request.body["max_completion_tokens"]
        if not tools or results == len(self.task.steps):  # the final answer takes what it gets
            self.steps, self.has_answered = self.steps + 1, True
            return self._reply("word " * min(limit, 500), prompt, min(limit, 500))
        said = self.task.steps[results][0]
        self.steps += said.tokens <= limit
        call = calling("look_up", seed=self.seed, step=results)
        reply = self._reply(said.text, prompt, min(said.tokens, limit))
        return Answer(reply.text, calls=call.calls, usage=reply.usage)

    def _reply(self, text: str, prompt: int, output: int) -> Answer:
        self.costs.append(prompt + output)
        return Answer((text,), usage=Usage(prompt, output))

    def _count(self, messages: list[dict[str, Any]], tools: list[Any]) -> int:
        """Return the tokens of a request: those of the task for its steps, and of everything else by its length."""
        steps = sum(message["role"] == "tool" for message in messages)
        done = sum(said.tokens + result.tokens for said, result in self.task.steps[:steps])
        others = [message for message in messages if message["role"] not in ("tool", "assistant")]
        return done + len(orjson.dumps([others, tools])) // FIXED_BYTES_PER_TOKEN
