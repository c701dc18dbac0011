"""One turn with the agent for whoever asks, told while it happens."""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from deerflow.client.approvals import is_about_calls
from deerflow.domain.errors import NotFound
from deerflow.domain.events import StreamEvent
from deerflow.domain.principal import Principal
from deerflow.domain.runs import Resume, RunRecord, RunRequest, RunStatus
from deerflow.harness import Harness
from deerflow.serving.happenings import Happening, Listener, Waited

Ending = Literal["answered", "asks", "needs_approval", "failed", "stopped"]
HEARTBEAT_S = 10.0


@dataclass(slots=True)
class Turn:
    """A run that somebody follows; `ending` says how it ended, once it has."""

    harness: Harness
    who: Principal
    request: RunRequest
    run: RunRecord | None = None
    ending: Ending = "stopped"
    questions: Sequence[Mapping[str, Any]] = ()
    """What a paused run waits for, as the state of the thread tells it; when it `asks`, a text is its answer."""
    listener: Listener = field(default_factory=Listener)

    async def follow(self) -> AsyncGenerator[Happening]:
        """What happens. Whoever stops listening stops the run.

        Raises:
            Conflict: The thread has a run under way.
            NotFound: It does not exist and is not to be made, or is somebody else's.
        """
        runs = self.harness.runs
        self.run = await runs.create_or_reject(self.request, self.who)
        is_over = False
        try:
            async with aclosing(runs.listen(self.run, heartbeat_s=HEARTBEAT_S)) as groups:
                async for group in groups:
                    for happening in self._heard(group):
                        yield happening
            is_over = True
        finally:
            if not is_over:  # nothing can be awaited by somebody who was cancelled
                runs.stop_soon(self.run)
        await self._look_back()

    def _heard(self, group: Sequence[StreamEvent]) -> Iterator[Happening]:
        """What a group of events means; an empty one is a sign of life."""
        if not group:
            yield Waited()
        for event in group:
            yield from self.listener.hear(event)

    def read_questions(self, interrupts: bytes) -> None:
        """Take in what a paused thread waits for."""
        self.questions = orjson.loads(interrupts)

    def asked(self) -> str:
        """What was asked in place of an answer, by a tool of the user's own or by the agent."""
        if self.ending != "asks" or not self.questions:
            return self.listener.answer
        return "\n\n".join(str(question["value"]) for question in self.questions)

    async def _look_back(self) -> None:
        assert self.run is not None
        thread_id = self.run.thread_id
        try:
            run = self.run = await self.harness.runs.get(thread_id, self.run.run_id, self.who)
            thread = await self.harness.threads.get(thread_id, self.who)
        except NotFound:  # deleted by somebody who could not wait
            return
        if self.listener.failure is not None or run.status in (RunStatus.ERROR, RunStatus.TIMEOUT):
            self.ending = "failed"
        elif thread.waits_for == "approval":
            state = await self.harness.threads.state(thread_id, self.who)
            self.read_questions(state.interrupts)
            self.ending = "needs_approval" if all(map(is_about_calls, self.questions)) else "asks"
        elif run.status is RunStatus.SUCCESS:
            self.ending = "asks" if thread.waits_for == "answer" else "answered"
        else:
            self.ending = "stopped"


def answering(questions: Sequence[Mapping[str, Any]], text: str) -> Resume:
    """A text as the answer to everything that was asked."""
    return Resume({question["id"]: text for question in questions})


async def stop_all(harness: Harness) -> None:
    """Stop what is under way: whoever wanted it has gone, and no other process is to go on with it."""
    for run in harness.runs.under_way():
        await harness.runs.stop(run.run_id)
