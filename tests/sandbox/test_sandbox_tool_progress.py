"""Live output of commands."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import orjson
import pytest

from deerflow.domain.runs import RunEvent, RunRecord
from deerflow.harness import Harness
from deerflow.sandbox.tools import MAX_CHUNK, MAX_STREAMED, REPORT_INTERVAL_S, ToolProgress
from deerflow.testing import ScriptedModel
from tests.sandbox.support import LIMIT_S, WORK, act, begin, open_sandbox_harness, work


class ReportCollector:
    """Collects reports and can be awaited."""

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []
        self._more = asyncio.Event()

    def add(self, report: dict[str, Any]) -> None:
        self.received.append(report)
        self._more.set()

    async def until(self, count: int) -> Sequence[str]:
        async with asyncio.timeout(5):
            while len(self.received) < count:
                self._more.clear()
                await self._more.wait()
        return [report["output"] for report in self.received]


async def test_reports_the_first_chunk_at_once_and_batches_the_next() -> None:
    reports = ReportCollector()
    progress = ToolProgress(reports.add, "call_1", "bash")
    progress.add("a")
    assert reports.received == [{"type": "tool_progress", "tool_call_id": "call_1", "tool": "bash", "output": "a"}]
    progress.add("b")
    progress.add("c")
    assert len(reports.received) == 1
    assert await reports.until(2) == ["a", "bc"]
    progress.close()


async def test_reports_at_once_after_a_pause() -> None:
    reports = ReportCollector()
    progress = ToolProgress(reports.add, "call_1", "bash")
    progress.add("a")
    quiet = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(2 * REPORT_INTERVAL_S, quiet.set_result, None)
    await quiet
    progress.add("b")
    assert [report["output"] for report in reports.received] == ["a", "b"]
    progress.close()


async def test_reports_nothing_after_close() -> None:
    reports = ReportCollector()
    progress = ToolProgress(reports.add, "call_1", "bash")
    progress.add("a")
    progress.add("b")
    progress.close()
    progress.add("c")
    late = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(2 * REPORT_INTERVAL_S, late.set_result, None)
    await late
    assert [report["output"] for report in reports.received] == ["a"]


@pytest.mark.slow
async def test_limits_reported_output() -> None:
    reports = ReportCollector()
    progress = ToolProgress(reports.add, "call_1", "bash")
    pieces = MAX_STREAMED // MAX_CHUNK
    for number in range(1, pieces + 1):
        progress.add("x" * 10 * MAX_CHUNK)
        await reports.until(number)
    progress.add("y")
    assert [len(report["output"]) for report in reports.received] == [MAX_CHUNK] * pieces
    progress.close()


async def test_streams_output_before_the_command_exits(tmp_path: Path) -> None:
    command = "echo begun; until [ -e go ]; do sleep 0.02; done; echo over"
    async with open_sandbox_harness(tmp_path, ScriptedModel.saying(act("bash", command=command), "Done.")) as harness:
        run = await begin(harness)
        seen: list[RunEvent] = []
        async with asyncio.timeout(LIMIT_S), aclosing(stream_events(harness, run)) as log:
            async for event in log:
                seen.append(event)
                if event.event == "custom" and b"tool_progress" in event.data:
                    (work(tmp_path) / "go").touch()
        custom = [(event.seq, orjson.loads(event.data)) for event in seen if event.event == "custom"]
        message = [(seq, data) for seq, data in custom if data["type"] == "tool_progress"]
        results = [event.seq for event in seen if event.event == "messages" and b'"type":"tool"' in event.data]
        assert message[0][1] == {
            "type": "tool_progress", "tool_call_id": "call_1_0", "tool": "bash", "output": "begun\n"
        }  # fmt: skip
        assert results and message[-1][0] < results[0]


@pytest.mark.slow
async def test_bounds_the_log_and_the_result_of_a_flooding_command(tmp_path: Path) -> None:
    flood = act("bash", command=f"yes {WORK} | head -c 30000000")
    async with open_sandbox_harness(tmp_path, ScriptedModel.saying(flood, "Done.")) as harness:
        run = await begin(harness)
        async with asyncio.timeout(LIMIT_S), aclosing(stream_events(harness, run)) as log:
            sizes = [len(event.data) async for event in log if event.event == "custom"]
        assert sizes and sum(sizes) < 2 * MAX_STREAMED


async def stream_events(harness: Harness, run: RunRecord) -> AsyncIterator[RunEvent]:
    """Yield the events of a run as they arrive."""
    async with aclosing(harness.runs.listen(run)) as groups:
        async for group in groups:
            for event in group:
                yield event
