"""What a command prints is told while it runs, soon and within bounds."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import orjson

from deerflow.domain.events import StreamEvent
from deerflow.domain.runs import RunRecord
from deerflow.harness import Harness
from deerflow.sandbox.progress import MAX_PIECE, MAX_TOLD, PAUSE_S, Progress
from deerflow.testing import ScriptedModel
from tests.sandbox.desk import LIMIT_S, WORK, act, begin, desk, work


class Ear:
    """Hears reports, and can be waited for."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []
        self._more = asyncio.Event()

    def hear(self, report: dict[str, Any]) -> None:
        self.heard.append(report)
        self._more.set()

    async def until(self, count: int) -> Sequence[str]:
        async with asyncio.timeout(5):
            while len(self.heard) < count:
                self._more.clear()
                await self._more.wait()
        return [report["output"] for report in self.heard]


async def test_the_first_piece_is_told_at_once_and_the_next_ones_together() -> None:
    ear = Ear()
    progress = Progress(ear.hear, "call_1", "bash")
    progress.hear("a")
    assert ear.heard == [{"type": "tool_progress", "tool_call_id": "call_1", "tool": "bash", "output": "a"}]
    progress.hear("b")
    progress.hear("c")
    assert len(ear.heard) == 1
    assert await ear.until(2) == ["a", "bc"]
    progress.close()


async def test_after_a_silence_a_piece_is_told_at_once_again() -> None:
    ear = Ear()
    progress = Progress(ear.hear, "call_1", "bash")
    progress.hear("a")
    quiet = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(2 * PAUSE_S, quiet.set_result, None)
    await quiet
    progress.hear("b")
    assert [report["output"] for report in ear.heard] == ["a", "b"]
    progress.close()


async def test_nothing_is_told_after_the_end() -> None:
    ear = Ear()
    progress = Progress(ear.hear, "call_1", "bash")
    progress.hear("a")
    progress.hear("b")
    progress.close()
    progress.hear("c")
    late = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(2 * PAUSE_S, late.set_result, None)
    await late
    assert [report["output"] for report in ear.heard] == ["a"]


async def test_a_flood_is_told_in_part() -> None:
    ear = Ear()
    progress = Progress(ear.hear, "call_1", "bash")
    pieces = MAX_TOLD // MAX_PIECE
    for number in range(1, pieces + 1):
        progress.hear("x" * 10 * MAX_PIECE)
        await ear.until(number)
    progress.hear("y")
    assert [len(report["output"]) for report in ear.heard] == [MAX_PIECE] * pieces
    progress.close()


async def test_readers_of_a_run_see_the_output_before_the_command_has_ended(tmp_path: Path) -> None:
    command = "echo begun; until [ -e go ]; do sleep 0.02; done; echo over"
    async with desk(tmp_path, ScriptedModel.saying(act("bash", command=command), "Done.")) as harness:
        run = await begin(harness)
        seen: list[StreamEvent] = []
        async with asyncio.timeout(LIMIT_S), aclosing(events(harness, run)) as log:
            async for event in log:
                seen.append(event)
                if event.event == "custom" and b"tool_progress" in event.data:
                    (work(tmp_path) / "go").touch()
        custom = [(event.seq, orjson.loads(event.data)) for event in seen if event.event == "custom"]
        told = [(seq, data) for seq, data in custom if data["type"] == "tool_progress"]
        results = [event.seq for event in seen if event.event == "messages" and b'"type":"tool"' in event.data]
        assert told[0][1] == {
            "type": "tool_progress", "tool_call_id": "call_1_0", "tool": "bash", "output": "begun\n"
        }  # fmt: skip
        assert results and told[-1][0] < results[0]


async def test_a_command_that_floods_fills_neither_the_log_nor_the_answer(tmp_path: Path) -> None:
    flood = act("bash", command=f"yes {WORK} | head -c 30000000")
    async with desk(tmp_path, ScriptedModel.saying(flood, "Done.")) as harness:
        run = await begin(harness)
        async with asyncio.timeout(LIMIT_S), aclosing(events(harness, run)) as log:
            sizes = [len(event.data) async for event in log if event.event == "custom"]
        assert sizes and sum(sizes) < 2 * MAX_TOLD


async def events(harness: Harness, run: RunRecord) -> AsyncIterator[StreamEvent]:
    """The log of a run, as it grows."""
    async with aclosing(harness.runs.listen(run)) as groups:
        async for group in groups:
            for event in group:
                yield event
