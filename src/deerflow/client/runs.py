"""Runs: chat with the agent and its events, and tool calls that need approval."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import Any, Literal

import orjson
from pydantic_core import to_jsonable_python

from deerflow.client.agents import list_all_runs
from deerflow.client.artifacts import get_workspace_changes
from deerflow.client.session import (
    ClientSession,
    HarnessSession,
    RemoteSession,
    Resource,
    remotely,
    route,
    sync_and_async,
    sync_and_async_iterator,
)
from deerflow.domain.errors import Conflict, InvalidRequest, RunFailed
from deerflow.domain.identity import LOCAL_USER, new_id
from deerflow.domain.runs import Resume, RunEvent, RunRequest
from deerflow.runtime.journal.serialization import CLARIFICATION_TOOL, extract_text, has_action_requests
from deerflow.runtime.journal.state_diff import DerivedState
from deerflow.services.user_data import GrantedPermission

MESSAGE_TYPES = {"AIMessageChunk": "ai"}


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """Event of a run.

    `messages-tuple`: a chunk of an answer, or a whole tool result. `values`: the thread state after a step
    (`messages`, `title`, `artifacts` …). `custom`: a report of a tool or middleware. `end`: the run has ended;
    `data["usage"]` counts its tokens.
    """

    type: Literal["messages-tuple", "values", "custom", "end"]
    data: Mapping[str, Any]


class RunEventReader:
    """Converts the logged events of one run to events of the client, and collects the answer."""

    def __init__(self) -> None:
        self.answer = ""
        self._state = DerivedState()
        self._earlier_ids: frozenset[str] = frozenset()
        self._usage: dict[str, Mapping[str, int]] = {}
        self._failure: str | None = None

    def begin(self, before: DerivedState) -> None:
        """Start from `before`, the thread state when the run began."""
        self._state = before
        self._earlier_ids = frozenset(before.message_ids)

    def read(self, logged: RunEvent) -> StreamEvent | None:
        """Return the event of the client for a logged event, or None if there is none.

        Raises:
            RunFailed: the run has failed.
        """
        match logged.event:
            case "messages":
                chunk = orjson.loads(logged.data)[0]
                return StreamEvent("messages-tuple", {**chunk, "type": MESSAGE_TYPES.get(chunk["type"], chunk["type"])})
            case "changes":
                self._collect(orjson.loads(logged.data)["messages"])
                self._state.apply(logged.data)
                return StreamEvent("values", orjson.loads(self._state.to_json()))
            case "custom":
                return StreamEvent("custom", orjson.loads(logged.data))
            case "error":
                self._failure = orjson.loads(logged.data)["message"]
                return None
            case "end" if self._failure is not None:
                raise RunFailed(self._failure)
            case "end":
                return StreamEvent("end", {"usage": self._total_usage()})
            case _:
                return None

    def read_state(self, values: Mapping[str, Any]) -> StreamEvent:
        """Return the event for a whole thread state after a step."""
        self._collect(values.get("messages", ()))
        return StreamEvent("values", values)

    def skip(self, message_ids: Iterable[str]) -> None:
        """Leave out messages that the thread had before the run."""
        self._earlier_ids = frozenset(message_ids)

    def _collect(self, messages: Sequence[dict[str, Any]]) -> None:
        for message in messages:
            if message["id"] in self._earlier_ids:
                continue
            if usage := message.get("usage_metadata"):
                self._usage[message["id"]] = usage
            if message["content"] and (message["type"] == "ai" or message["name"] == CLARIFICATION_TOOL):
                self.answer = extract_text(message["content"])

    def _total_usage(self) -> dict[str, int]:
        kinds = ("input_tokens", "output_tokens", "total_tokens")
        return {kind: sum(usage.get(kind, 0) for usage in self._usage.values()) for kind in kinds}


async def send_message(session: ClientSession, message: str, *, thread_id: str | None = None) -> str:
    """Send `message` and return the answer.

    When a tool call needs approval, the answer so far is returned; see `approvals.list`.

    Raises:
        RunFailed: the run ended without an answer.
        Conflict: the thread has an active run.
    """
    return await read_answer(session, build_request(session, message, thread_id))


def stream_message(
    session: ClientSession, message: str, *, thread_id: str | None = None
) -> AsyncGenerator[StreamEvent]:
    """Send `message` and iterate over the events of the run. Leaving the loop early cancels the run."""
    return session.iterate(follow_run, build_request(session, message, thread_id), RunEventReader())


@route("GET /threads/{thread_id}/state", pick="interrupts")
async def list_pending(session: HarnessSession, thread_id: str) -> list[dict[str, Any]]:
    """Return the `interrupts` of a paused thread; its tool calls are in `value["action_requests"]`.

    Raises:
        NotFound: the thread does not exist.
    """
    state = await session.harness.threads.state(thread_id, LOCAL_USER)
    interrupts: list[dict[str, Any]] = orjson.loads(state.interrupts)
    return interrupts


async def approve_calls(session: ClientSession, thread_id: str) -> str:
    """Approve the pending tool calls and return the answer.

    Raises:
        Conflict: the thread has no pending tool call.
    """
    return await decide_all(session, thread_id, {"type": "approve"})


async def approve_in_thread(session: ClientSession, thread_id: str) -> str:
    """Approve the pending tool calls and others like them in this thread, and return the answer.

    Raises:
        Conflict: the thread has no pending tool call.
    """
    return await decide_all(session, thread_id, {"type": "approve", "scope": "thread"})


@route("GET /threads/{thread_id}/permissions", pick="permissions")
async def list_permissions(session: HarnessSession, thread_id: str) -> list[dict[str, Any]]:
    """Return the tool calls that are allowed in a thread without asking, oldest first.

    Raises:
        NotFound: the thread does not exist.
    """
    found = await session.harness.resources.permissions.list(thread_id, LOCAL_USER)
    return [serialize_permission(given) for given in found]


@route("DELETE /threads/{thread_id}/permissions/{permission_id}")
async def revoke_permission(session: HarnessSession, thread_id: str, permission_id: str) -> None:
    """Revoke a permission; the next such call needs approval again.

    Raises:
        NotFound: the thread or the permission does not exist.
    """
    await session.harness.resources.permissions.revoke(thread_id, LOCAL_USER, permission_id)


async def reject_calls(session: ClientSession, thread_id: str, reason: str | None = None) -> str:
    """Reject the pending tool calls, pass the reason to the agent and return its answer.

    Raises:
        Conflict: the thread has no pending tool call.
    """
    return await decide_all(session, thread_id, {"type": "reject", **({"message": reason} if reason else {})})


async def edit_call(session: ClientSession, thread_id: str, args: Mapping[str, object]) -> str:
    """Approve the pending tool call with `args` instead of its own arguments, and return the answer.

    Raises:
        Conflict: the thread has no pending tool call.
        InvalidRequest: several calls are pending; decide each with `resume`.
    """
    calls = [call for each in await require_pending(session, thread_id) for call in get_action_requests(each)]
    if len(calls) != 1:
        names = ", ".join(call["name"] for call in calls)
        raise InvalidRequest(
            f"thread {thread_id!r} has {len(calls)} pending calls ({names}); decide each with resume()"
        )
    return await decide_all(
        session, thread_id, {"type": "edit", "edited_action": {"name": calls[0]["name"], "args": dict(args)}}
    )


async def resume_thread(session: ClientSession, thread_id: str, answer: object) -> str:
    """Resume a paused thread with `answer` and return the agent's answer.

    Args:
        thread_id: The paused thread.
        answer: For tool calls `{"decisions": [...]}`, one for each call, in order: `{"type": "approve"}` (with
            `"scope": "thread"` for the rest of the thread),
            `{"type": "reject", "message": ...}` or `{"type": "edit", "edited_action": {"name": ..., "args": ...}}`.

    Raises:
        Conflict: the thread is not paused.
        InvalidRequest: the answer does not fit the pending calls.
    """
    return await read_answer(session, await build_resume(session, thread_id, answer))


async def stream_resumed(session: ClientSession, thread_id: str, answer: object) -> AsyncGenerator[StreamEvent]:
    """Resume a paused thread with `answer`, as for `resume`, and iterate over the events of the run."""
    async with aclosing(
        session.iterate(follow_run, await build_resume(session, thread_id, answer), RunEventReader())
    ) as events:
        async for event in events:
            yield event


class RunsClient(Resource):
    """Runs of all threads."""

    list, alist = sync_and_async(list_all_runs)
    resume, aresume = sync_and_async(resume_thread)
    stream_resume, astream_resume = sync_and_async_iterator(stream_resumed)
    get_changes, aget_changes = sync_and_async(get_workspace_changes)


class ApprovalsClient(Resource):
    """Tool calls that need approval."""

    list, alist = sync_and_async(list_pending)
    approve, aapprove = sync_and_async(approve_calls)
    approve_in_thread, aapprove_in_thread = sync_and_async(approve_in_thread)
    list_permissions, alist_permissions = sync_and_async(list_permissions)
    revoke_permission, arevoke_permission = sync_and_async(revoke_permission)
    reject, areject = sync_and_async(reject_calls)
    edit, aedit = sync_and_async(edit_call)


def build_request(session: ClientSession, message: str, thread_id: str | None) -> RunRequest:
    """Return a run request with `message` as input, in a new thread unless one is given."""
    messages = [{"type": "human", "content": message}]
    return RunRequest(thread_id or new_id(), messages, session.agent, budget=session.budget)


async def build_resume(session: ClientSession, thread_id: str, answer: object) -> RunRequest:
    """Return a run request that resumes a paused thread with `answer`."""
    await require_pending(session, thread_id)
    return RunRequest(thread_id, agent=session.agent, resume=Resume(answer), create_thread=False, budget=session.budget)


async def read_answer(session: ClientSession, request: RunRequest) -> str:
    """Start a run and return its final answer."""
    reader = RunEventReader()
    async with aclosing(session.iterate(follow_run, request, reader)) as events:
        async for _event in events:
            pass
    return reader.answer


async def follow_remote_run(
    session: RemoteSession, request: RunRequest, reader: RunEventReader
) -> AsyncGenerator[StreamEvent]:
    """Start a run on a server and yield its events; cancel it when the generator is closed early."""
    reader.skip(await session.list_message_ids(request.thread_id))
    async with aclosing(session.stream_run(request)) as events:
        async for each in events:
            event = reader.read_state(orjson.loads(each.data)) if each.event == "changes" else reader.read(each)
            if event is not None:
                yield event


@remotely(follow_remote_run)
async def follow_run(
    session: HarnessSession, request: RunRequest, reader: RunEventReader
) -> AsyncGenerator[StreamEvent]:
    """Start a run and yield its events; cancel it when the generator is closed early."""
    runs = session.harness.runs
    run = await runs.create_or_reject(request, LOCAL_USER)
    reader.begin(await runs.state_before(run, after=0))
    is_over = False
    try:
        async with aclosing(runs.listen(run)) as groups:
            async for group in groups:
                for event in filter(None, map(reader.read, group)):
                    yield event
        is_over = True
    finally:
        if not is_over:
            await runs.stop(run.run_id)


async def decide_all(session: ClientSession, thread_id: str, decision: Mapping[str, object]) -> str:
    """Apply the same decision to all pending tool calls and return the answer."""
    interrupts = await require_pending(session, thread_id)
    answers = {each["id"]: {"decisions": [decision] * len(get_action_requests(each))} for each in interrupts}
    return await resume_thread(session, thread_id, answers)


async def require_pending(session: ClientSession, thread_id: str) -> list[dict[str, Any]]:
    """Return the interrupts of a thread, or raise `Conflict` if there are none."""
    interrupts = await session.run(list_pending, thread_id)
    if not interrupts:
        raise Conflict(f"thread {thread_id!r} has nothing pending")
    return interrupts


def get_action_requests(interrupt: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the tool calls of an interrupt."""
    if not has_action_requests(interrupt):
        raise InvalidRequest(f"the interrupt {interrupt['value']!r} is not a tool call; answer it with resume()")
    calls: Sequence[Mapping[str, Any]] = interrupt["value"]["action_requests"]
    return calls


def serialize_permission(given: GrantedPermission) -> dict[str, Any]:
    """Return a permission in the shape of the HTTP API."""
    fields: dict[str, Any] = to_jsonable_python(asdict(given.permission))
    created_at = to_jsonable_python(given.created_at)
    return {"permission_id": given.permission_id, **fields, "created_at": created_at}
