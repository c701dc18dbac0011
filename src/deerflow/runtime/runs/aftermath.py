"""What a run that did not come to its own end leaves in its thread: a state that the next message can follow."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.types import Command, Interrupt, StateSnapshot

from deerflow.agents.graph import AgentGraph
from deerflow.agents.middlewares.tool_ledger_middleware import UNKNOWN
from deerflow.domain.ledger import Call, OutcomeUnknown
from deerflow.persistence.checkpoints import RUN_KEY
from deerflow.runtime.changes import Changes, StateDiff
from deerflow.runtime.runs.attempt import Attempt, config_of
from deerflow.runtime.runs.ledger import RunLedger

MODEL_NODE = "model"
"""What LangChain calls the node that asks the model."""
CANCELLED = MappingProxyType(
    {
        "task": "It had not come to its end; check what it may have changed before you give it again.",
        "task_batch": "The newest batch file in /mnt/user-data/outputs has a line for each item that was done by then.",
    }
)
"""What the next turn is told of work that ended with its run."""
NOT_DONE = "Error: the server stopped before {tool} gave a result, and nothing was changed by it."


@dataclass(frozen=True, slots=True)
class Aftermath:
    """Mends states with a graph that does nothing else."""

    graph: AgentGraph
    questions: Callable[[str], Awaitable[Sequence[Interrupt]]]
    """What a thread's paused run asks."""

    async def keep(self, attempt: Attempt, *, is_stopped: bool) -> None:
        """Put what was streamed of an unfinished answer into the thread's state, behind what it was to answer.

        So is what tools have said while others beside them were still at work: a subagent may have worked for an hour.
        """
        state = attempt.state
        unheard = [each for each in attempt.job.signals.heard if not (state and state.has(each.id))]
        calls = open_calls(state.messages) if state is not None and not state.is_paused else ()
        results = [each for call in calls for each in results_of(call, attempt.log.outcomes, is_stopped)]
        messages = [*results, *unheard, *filter(None, [attempt.answer.to_message()])]
        if messages:
            await self._add(attempt, messages)
            attempt.correct(Changes(messages))

    async def tell_state(self, attempt: Attempt) -> None:
        """Tell readers how the thread stands; what was half said is void."""
        past = attempt.job.past
        half_said = attempt.answer.message_id or (past.answer.message_id if past else None)
        if half_said is not None:
            attempt.correct(Changes(removed=[half_said]))
        await self._tell(attempt)

    async def settle(self, attempt: Attempt, *, keeps_answer: bool) -> None:
        """Have the state be sound after an attempt whose process died, if nobody is to go on with it.

        Calls get the outcomes that the log knows, or are said to have none. What readers saw of an answer is kept
        where somebody wanted it to end there.
        """
        past = attempt.job.past
        if past is None:
            return
        answer = past.answer.to_message() if keeps_answer else None
        if answer is None and past.answer.message_id is not None:
            attempt.correct(Changes(removed=[past.answer.message_id]))
        calls = await self._calls_left(attempt)
        results = answers_to(calls, RunLedger(attempt.log, past.calls))
        messages = [*results, *past.steered, *filter(None, [answer])]
        if messages:
            await self._add(attempt, messages)
        await self._tell(attempt)

    async def _calls_left(self, attempt: Attempt) -> Sequence[Call]:
        """The calls that wait for a result because the process died; others wait for a person."""
        run = attempt.run
        found: StateSnapshot = await self.graph.aget_state(config_of(run))
        is_its_own = (found.metadata or {}).get(RUN_KEY) == run.run_id
        if not is_its_own or await self.questions(run.thread_id):
            return ()
        return open_calls(found.values.get("messages", ()))

    async def _add(self, attempt: Attempt, messages: Sequence[BaseMessage]) -> None:
        await self.graph.aupdate_state(config_of(attempt.run), {"messages": messages}, as_node=MODEL_NODE)

    async def _tell(self, attempt: Attempt) -> None:
        """Have readers know what the state holds."""
        past, state = attempt.job.past, attempt.state
        values = (await self.graph.aget_state(config_of(attempt.run))).values
        if state is None and past is not None:
            state = StateDiff.from_log(past.known, values)
        if state is not None:
            attempt.correct(state.against(values))


def results_of(call: Call, outcomes: Mapping[tuple[str | None, str], object], is_stopped: bool) -> list[BaseMessage]:
    """What there is to say of a call whose run ended before all that were made with it; nothing where nobody knows."""
    outcome = outcomes.get((call.message_id, call.id))
    if isinstance(outcome, ToolMessage):
        return [outcome]
    if isinstance(outcome, Command) and isinstance(outcome.update, dict):
        return list(outcome.update.get("messages", ()))
    if call.tool not in CANCELLED:
        return []
    text = f"Task cancelled{' by user' if is_stopped else ', for the run has ended'}. {CANCELLED[call.tool]}"
    known = {"subagent_status": "cancelled"}
    return [ToolMessage(text, name=call.tool, tool_call_id=call.id, status="error", additional_kwargs=known)]


def open_calls(messages: Sequence[BaseMessage]) -> list[Call]:
    """The calls of the latest reply that have no answer; none when somebody has spoken since."""
    answered = set()
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
        elif isinstance(message, AIMessage):
            calls = [Call(call["id"] or "", message.id, call["name"]) for call in message.tool_calls]
            return [call for call in calls if call.id not in answered]
        else:
            break
    return []


def answers_to(calls: Sequence[Call], ledger: RunLedger) -> Iterator[BaseMessage]:
    """What is known of each call."""
    for call in calls:
        try:
            outcome = ledger.earlier(call)
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
