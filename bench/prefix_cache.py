"""How much of each request a provider's prefix cache could serve, over a long session with tools.

A request counts as cached as far as it begins like the one before it, byte for byte, tools and system prompt included.
Also the time that a run needs to compare a request of 200 messages with the one before.
"""

import asyncio
import itertools
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import orjson
from _table import Row, record
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.utils import convert_to_openai_messages

from deerflow.budget.model_calls import ConversationPrefix, SentRequests, describe_tools
from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import RunRequest, RunStatus
from deerflow.domain.usage import Prompt
from deerflow.harness import open_harness
from deerflow.testing import Answer, ModelCall, ScriptedModel, calling

TURNS = 50
SPARE = 10
"""Lines for what the harness asks on its own, such as notes on what is compacted."""
QUIET = {"memory": {"mode": "tool"}}
"""Nothing is learned meanwhile: that is no request of the session."""
BAR = 0.95
MESSAGES, CALLS = 200, 25
"""The length of the thread after half of the compared calls."""
COMPARE_BAR_MS = 0.2
ANSWER = "Part {} looks good. " + "The figures agree with what was said before. " * 6


def main() -> int:
    """Hold one session and compare its requests."""
    with tempfile.TemporaryDirectory() as scratch:
        requests = asyncio.run(hold_session(Path(scratch)))
    rate = hit_rate([serialized(request) for request in requests])
    verdict = "" if rate >= BAR else "  MISSED"
    print(f"prefix-cache hit rate, {TURNS} turns, {len(requests)} requests: {rate:.1%} (bar ≥ {BAR:.0%}){verdict}")
    first, later = measure_comparison()
    verdict = "" if later <= COMPARE_BAR_MS else "  MISSED"
    bar = f"(bar ≤ {COMPARE_BAR_MS} ms){verdict}; first of a run {first:.2f} ms"
    print(f"comparison with the request before, {MESSAGES} messages: {later:.3f} ms per model call {bar}")
    record(
        [
            Row("prefix-cache hit rate", "ratio", rate, better="higher", bar=BAR),
            Row(f"requests of {TURNS} turns", "count", len(requests)),
            Row(
                f"comparison of {MESSAGES} messages with the request before", "figure", later, "ms", bar=COMPARE_BAR_MS
            ),
        ]
    )
    return int(rate < BAR or later > COMPARE_BAR_MS)


async def hold_session(directory: Path) -> list[ModelCall]:
    """What the model is asked in turns of two tool calls and an answer each."""
    model = ScriptedModel.saying(*[reply] * (3 * TURNS + SPARE))
    async with open_harness(open_source(directory=directory, environment={}, overrides=QUIET), model) as harness:
        for number in range(TURNS):
            text = f"What about part {number}? Please look at the figures once more."
            request = RunRequest("session", [{"type": "human", "content": text}])
            run = await harness.runs.create_or_reject(request, LOCAL_USER)
            ended = await harness.runs.join("session", run.run_id, LOCAL_USER)
            if ended.status is not RunStatus.SUCCESS:
                sys.exit(f"a turn failed: {ended.error}")
    return model.requests


def reply(messages: Sequence[BaseMessage]) -> Answer:
    """Two searches nobody made before, then an answer."""
    done = sum(1 for _ in itertools.takewhile(lambda message: message.type != "human", reversed(messages)))
    return Answer(ANSWER.format(len(messages))) if done >= 4 else calling("search_history", query=f"{len(messages)}")


def measure_comparison() -> tuple[float, float]:
    """The milliseconds of the first comparison of a run, which hashes all messages, and the median of the others."""
    system, tools = SystemMessage("Rules. " * 2000), describe_tools([])
    turns = [make_turn(number) for number in range(MESSAGES // 4 + CALLS // 2)]
    prefix = ConversationPrefix("run", SentRequests(), "thread")
    times = []
    for number in range(len(turns) - CALLS, len(turns)):
        prompt = Prompt("model", tools, system, list(itertools.chain.from_iterable(turns[: number + 1])))
        began = time.perf_counter()
        prefix.compare(prompt)
        times.append((time.perf_counter() - began) * 1000)
    return times[0], sorted(times[1:])[CALLS // 2]


def make_turn(number: int) -> list[BaseMessage]:
    """A question, a call with a file of 2 kB, its result of 3 kB and an answer."""
    call = {"name": "write_file", "args": {"path": f"/{number}", "content": "x" * 2000}, "id": f"call-{number}"}
    result = ToolMessage("result " * 400, tool_call_id=f"call-{number}", name="write_file")
    return [HumanMessage(f"Question {number}"), AIMessage("", tool_calls=[call]), result, AIMessage(ANSWER)]


def serialized(request: ModelCall) -> bytes:
    """The request as a provider's cache sees it: tools first, then the messages."""
    return orjson.dumps([request.tools, convert_to_openai_messages(list(request.messages))])


def hit_rate(requests: Sequence[bytes]) -> float:
    """The share of all bytes that begin like the request before; the first request has none before it."""
    pairs = list(itertools.pairwise(requests))
    cached = sum(common_prefix(before, now) for before, now in pairs)
    return cached / sum(len(now) for _, now in pairs)


def common_prefix(one: bytes, other: bytes) -> int:
    """How many bytes are the same at the beginning of both."""
    limit = min(len(one), len(other))
    return next((place for place in range(limit) if one[place] != other[place]), limit)


if __name__ == "__main__":
    sys.exit(main())
