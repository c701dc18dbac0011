"""Repair of thread state after a run that did not complete."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.types import Command, Interrupt, StateSnapshot

from deerflow.agents.middlewares.tool_calls import UNKNOWN
from deerflow.agents.spec import AgentGraph
from deerflow.domain.runs import RunStatus
from deerflow.domain.tools import LedgerCall, OutcomeUnknown
from deerflow.persistence.checkpoints import RUN_KEY
from deerflow.runtime.journal.state_diff import Changes, StateDiff
from deerflow.runtime.runs.attempt import Attempt, RunOutcome, attempt_config
from deerflow.runtime.runs.tool_ledger import RunLedger

MODEL_NODE = "model"
"""LangChain's name of the node that calls the model."""
CANCELLED = MappingProxyType(
    {
        "task": "It had not come to its end; check what it may have changed before you give it again.",
        "task_batch": "The newest batch file in /mnt/user-data/outputs has a line for each item that was done by then.",
    }
)
"""Notes for the model about tasks that ended with their run."""
STOPPED = (
    "Error: the user stopped the run before {tool} gave a result. It may have done all, some or nothing of it; check "
    "before you do it again."
)
ENDED = "Error: the run ended before {tool} gave a result. Check what it has done before you do it again."
NOT_DONE = "Error: the server stopped before {tool} gave a result, and nothing was changed by it."


@dataclass(frozen=True, slots=True)
class StateRepair:
    """Repairs thread state with a graph that only updates state."""

    graph: AgentGraph
    questions: Callable[[str], Awaitable[Sequence[Interrupt]]]
    """Returns the interrupts of a thread's paused run."""

    async def keep(self, attempt: Attempt, outcome: RunOutcome) -> None:
        """Add the partial answer and tool results of an unfinished run to the state.

        Results of tools that finished while others were running are kept: a subagent may take an hour. The calls of a
        paused run stay open.
        """
        state, is_stopped = attempt.state, outcome.status is RunStatus.INTERRUPTED
        unheard = [each for each in attempt.job.signals.heard if not (state and state.has(each.id))]
        is_paused = outcome.is_paused or (state is not None and state.is_paused)
        calls = find_open_calls(state.messages) if state is not None and not is_paused else ()
        results = [each for call in calls for each in recorded_results(call, attempt.log.outcomes, is_stopped)]
        messages = [*results, *unheard, *filter(None, [attempt.answer.to_message()])]
        if messages:
            await self._add(attempt, messages)
            attempt.correct(Changes(messages))

    async def publish_state(self, attempt: Attempt) -> None:
        """Publish the state of the thread; a partial answer is discarded."""
        past = attempt.job.past
        partial_id = attempt.answer.message_id or (past.answer.message_id if past else None)
        if partial_id is not None:
            attempt.correct(Changes(removed=[partial_id]))
        await self._tell(attempt)

    async def settle(self, attempt: Attempt, *, keeps_answer: bool) -> None:
        """Repair the state after an attempt whose process died and that is not resumed.

        Open calls get their recorded results or an error. The partial answer is kept if a user cancelled the run.
        """
        past = attempt.job.past
        if past is None:
            return
        answer = past.answer.to_message() if keeps_answer else None
        if answer is None and past.answer.message_id is not None:
            attempt.correct(Changes(removed=[past.answer.message_id]))
        calls = await self._calls_left(attempt)
        results = create_results(calls, RunLedger(attempt.log, past.calls))
        messages = [*results, *past.steered, *filter(None, [answer])]
        if messages:
            await self._add(attempt, messages)
        await self._tell(attempt)

    async def _calls_left(self, attempt: Attempt) -> Sequence[LedgerCall]:
        """Return the calls without a result because the process died; calls that wait for approval are not included."""
        run = attempt.run
        found: StateSnapshot = await self.graph.aget_state(attempt_config(run))
        is_its_own = (found.metadata or {}).get(RUN_KEY) == run.run_id
        if not is_its_own or await self.questions(run.thread_id):
            return ()
        return find_open_calls(found.values.get("messages", ()))

    async def _add(self, attempt: Attempt, messages: Sequence[BaseMessage]) -> None:
        await self.graph.aupdate_state(attempt_config(attempt.run), {"messages": messages}, as_node=MODEL_NODE)

    async def _tell(self, attempt: Attempt) -> None:
        """Publish the current state."""
        past, state = attempt.job.past, attempt.state
        values = (await self.graph.aget_state(attempt_config(attempt.run))).values
        if state is None and past is not None:
            state = StateDiff.from_log(past.known, values)
        if state is not None:
            attempt.correct(state.against(values))


def recorded_results(
    call: LedgerCall, outcomes: Mapping[tuple[str | None, str], object], is_stopped: bool
) -> list[BaseMessage]:
    """Return the result of a call of an unfinished run, or a note that there is none: no call stays without result."""
    outcome = outcomes.get((call.message_id, call.id))
    if isinstance(outcome, ToolMessage):
        return [outcome]
    if isinstance(outcome, Command) and isinstance(outcome.update, dict):
        return list(outcome.update.get("messages", ()))
    if call.tool not in CANCELLED:
        text = (STOPPED if is_stopped else ENDED).format(tool=call.tool)
        return [ToolMessage(text, name=call.tool, tool_call_id=call.id, status="error")]
    text = f"Task cancelled{' by user' if is_stopped else ', for the run has ended'}. {CANCELLED[call.tool]}"
    known = {"subagent_status": "cancelled"}
    return [ToolMessage(text, name=call.tool, tool_call_id=call.id, status="error", additional_kwargs=known)]


def find_open_calls(messages: Sequence[BaseMessage]) -> list[LedgerCall]:
    """Return the calls of the latest reply without a result; empty if a later message exists."""
    answered = set()
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
        elif isinstance(message, AIMessage):
            calls = [LedgerCall(call["id"] or "", message.id, call["name"]) for call in message.tool_calls]
            return [call for call in calls if call.id not in answered]
        else:
            break
    return []


def create_results(calls: Sequence[LedgerCall], ledger: RunLedger) -> Iterator[BaseMessage]:
    """Yield a result for each call: the recorded one, or an error."""
    for call in calls:
        try:
            outcome = ledger.find_outcome(call)
        except OutcomeUnknown:
            outcome, text = None, UNKNOWN
        else:
            text = NOT_DONE
        if isinstance(outcome, ToolMessage):
            yield outcome
        elif isinstance(outcome, Command) and isinstance(outcome.update, dict):
            yield from outcome.update.get("messages", ())
        else:
            yield ToolMessage(text.format(tool=call.tool), name=call.tool, tool_call_id=call.id, status="error")
