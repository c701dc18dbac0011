"""LangChain tools for the tools of MCP servers."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langgraph.types import interrupt

from deerflow.agent_support.tools import Artifact, ToolContent, replace_images, to_content
from deerflow.config.sections.extensions import McpToolConfig
from deerflow.domain.context import RunContext, find_run_context
from deerflow.domain.taint import escape_invisible
from deerflow.domain.tools import (
    MCP_SOURCE,
    MCP_TOOL,
    PREFERRED,
    SERVER,
    SOURCE,
    UNTRUSTED,
)
from deerflow.mcp.session.calls import (
    Elicitation,
    ElicitationReply,
    McpCallResult,
    McpToolCall,
    PendingCall,
    ServerAddress,
)
from deerflow.mcp.session.pool import SessionPool
from deerflow.mcp.status import McpServerError, McpToolInfo, describe_restart, escape_tool
from deerflow.sandbox.tools import ToolProgress

SCALARS = (str, int, float, bool)


def build_interrupt(tool: str, question: Elicitation) -> dict[str, Any]:
    """Return the interrupt value of a question: fill the form by `edit`, accept it as it is, or reject it.

    A field without a default is null. A form with such a field that is required cannot be accepted as it is.
    """
    args: dict[str, Any] = {"open": question.url} if question.url else default_form(question.schema)
    decisions = ["approve", "reject"] if question.url else ["approve", "edit", "reject"]
    if any(args.get(name) is None for name in get_required(question.schema)):
        decisions.remove("approve")
    return {
        "action_requests": [{"name": tool, "args": args, "description": escape_invisible(question.message)}],
        "review_configs": [{"action_name": tool, "allowed_decisions": decisions, "args_schema": dict(question.schema)}],
    }


def parse_reply(question: Elicitation, answer: object) -> ElicitationReply:
    """Return the reply to the server for a decision."""
    decision = get_first_decision(answer)
    kind = decision.get("type")
    if kind == "reject":
        return ElicitationReply("decline")
    if kind not in ("approve", "edit"):
        return ElicitationReply("cancel")
    if question.url:
        return ElicitationReply("accept")
    edited = decision.get("edited_action") if kind == "edit" else None
    args = edited.get("args") if isinstance(edited, Mapping) else None
    filled = select_sendable(args) if isinstance(args, Mapping) else {}
    return ElicitationReply("accept", {**select_sendable(default_form(question.schema)), **filled})


def get_first_decision(answer: object) -> Mapping[str, Any]:
    """Return the decision in an answer."""
    decisions = answer.get("decisions") if isinstance(answer, Mapping) else None
    first = decisions[0] if isinstance(decisions, list) and decisions else None
    return first if isinstance(first, Mapping) else {}


def default_form(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the default of each field; None for a field without one."""
    fields = schema.get("properties")
    if not isinstance(fields, Mapping):
        return {}
    return {str(name): field.get("default") if isinstance(field, Mapping) else None for name, field in fields.items()}


def get_required(schema: Mapping[str, Any]) -> Sequence[str]:
    """Return the names of the required fields."""
    required = schema.get("required")
    return [str(name) for name in required] if isinstance(required, list) else []


def select_sendable(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that may be sent: scalars, and lists of strings. Null stands for a field without an answer."""
    return {
        name: value if isinstance(value, SCALARS) else [str(each) for each in value]
        for name, value in args.items()
        if isinstance(value, (*SCALARS, list))
    }


MAX_NAME_CHARS = 64
INVALID_CHARACTERS = re.compile(r"[^A-Za-z0-9_-]")


def make_tool_name(server: str, tool: str, *, prefixed: bool = True) -> str:
    """Return a name that every vendor accepts; names that have to be cut stay distinct."""
    wanted = f"{server}_{tool}" if prefixed else tool
    name = INVALID_CHARACTERS.sub("_", wanted)
    if len(name) <= MAX_NAME_CHARS:
        return name
    return f"{name[: MAX_NAME_CHARS - 9]}_{sha256(wanted.encode()).hexdigest()[:8]}"


DEFAULT_TIMEOUT_S = 300.0
"""Timeout of calls without a configured one."""
RESERVED_ARGUMENTS = frozenset({"self", "config", "run_manager", "runtime"})
RESERVED_SUFFIX = "_"

ToolCallable = Callable[..., Awaitable[tuple[ToolContent, Artifact | None]]]


def make_tools(address: ServerAddress, infos: Iterable[McpToolInfo], sessions: SessionPool) -> tuple[BaseTool, ...]:
    """Return the tools for agents; of two tools with the same name the first is used."""
    tools: dict[str, BaseTool] = {}
    for info in infos:
        name = make_tool_name(address.server, info.name, prefixed=address.config.tool_name_prefix)
        tools.setdefault(name, make_tool(name, address, info, sessions))
    return tuple(tools.values())


def make_tool(name: str, address: ServerAddress, info: McpToolInfo, sessions: SessionPool) -> BaseTool:
    """Return one tool. User and thread come from the run that calls it."""
    shown = escape_tool(info)
    return StructuredTool(
        name=name,
        description=shown.description or shown.title or shown.name,
        args_schema=build_schema(shown),
        coroutine=make_caller(name, address, info, sessions),
        response_format="content_and_artifact",
        handle_tool_error=True,
        metadata={
            SOURCE: MCP_SOURCE,
            SERVER: address.server,
            MCP_TOOL: info.name,
            UNTRUSTED: True,
            "annotations": dict(info.annotations),
            **get_preference(name, address, info),
        },
    )


def get_preference(name: str, address: ServerAddress, info: McpToolInfo) -> dict[str, Any]:
    """Return the configured preference of a tool: of its own entry, or of its server."""
    own = address.config.tools.get(info.name, McpToolConfig()).routing
    routing = own or address.config.routing
    if routing is None or routing.mode == "off":
        return {}
    subject = name if own else f"the tools of {address.server}"
    return {PREFERRED: {"subject": subject, "priority": routing.priority, "keywords": list(routing.keywords)}}


class McpToolError(ToolException):
    """The tool has returned an error result."""


def make_caller(name: str, address: ServerAddress, info: McpToolInfo, sessions: SessionPool) -> ToolCallable:
    """Return the function that calls the tool."""
    timeout_s = get_timeout(address, info)
    originals = dict(find_escaped(info.input_schema))

    async def call(runtime: ToolRuntime[RunContext], **arguments: Any) -> tuple[ToolContent, Artifact | None]:
        run = find_run_context(runtime.context)
        if run is None:
            raise McpServerError(f"{name} can be used in a run of this server only")
        own = address_run(address, run)
        call_id = runtime.tool_call_id or ""
        progress = ToolProgress(runtime.stream_writer, call_id, name)
        restored = restore_escaped(arguments, originals) if originals else arguments
        own_arguments = {to_server_argument(argument): value for argument, value in restored.items()}
        request = McpToolCall(
            call_id, info.name, own_arguments, can_ask=run.inbox is not None, on_progress=progress.add
        )
        try:
            pending = await begin_call(sessions, own, request)
            result = await wait_for_result(pending, name, own, timeout_s)
        finally:
            progress.close()
        content = to_content(result.blocks)
        if result.is_error:
            raise McpToolError(f"Error: {content if isinstance(content, str) else to_content(replace_images(content))}")
        return content, {"structured_content": dict(result.structured)} if result.structured is not None else None

    return call


def address_run(address: ServerAddress, run: RunContext) -> ServerAddress:
    """Return the address of a server for a run.

    Programs work in the folders of the thread. At remote servers, the person who has started the run is logged in.
    """
    person = run.owner if address.config.type == "stdio" else run.user_id
    return replace(address, user_id=person, thread_id=run.thread_id)


async def begin_call(sessions: SessionPool, address: ServerAddress, request: McpToolCall) -> PendingCall:
    """Start a call, or return the one that waited while its run was paused."""
    waiting = sessions.find_open(address)
    if waiting is not None and (found := waiting.find(request)):
        return found
    session = await sessions.acquire(address)
    return session.begin(request)


async def wait_for_result(pending: PendingCall, name: str, address: ServerAddress, timeout_s: float) -> McpCallResult:
    """Wait for the end of a call. Questions on the way interrupt the run."""
    for question in pending.answered:
        interrupt(build_interrupt(name, question))  # answered before: returns the same answer again
    while True:
        try:
            async with asyncio.timeout(timeout_s):
                outcome = await pending.wait()
        except TimeoutError:
            text = f"{name} took longer than {timeout_s:g} s and was stopped; try something smaller"
            if not await pending.time_out():
                restart = describe_restart(address.config)
                text = f"the MCP server {address.server!r} did not answer within {timeout_s:g} s; {restart}"
            raise McpServerError(text) from None
        except asyncio.CancelledError:
            pending.cancel()
            raise
        if isinstance(outcome, McpCallResult):
            return outcome
        pending.answer(parse_reply(outcome, ask_user(name, outcome)))


def ask_user(name: str, question: Elicitation) -> object:
    """Interrupt the run until the user has answered; the call stays open meanwhile."""
    return interrupt(build_interrupt(name, question))


def get_timeout(address: ServerAddress, info: McpToolInfo) -> float:
    """Return the timeout of a call."""
    own = address.config.tools.get(info.name)
    return (own.tool_call_timeout if own else None) or address.config.tool_call_timeout or DEFAULT_TIMEOUT_S


def build_schema(info: McpToolInfo) -> dict[str, Any]:
    """Return the schema of the arguments for the model: always an object."""
    schema = dict(info.input_schema)
    properties = {to_model_argument(name): field for name, field in (schema.get("properties") or {}).items()}
    required = [to_model_argument(name) for name in schema.get("required") or ()]
    return {**schema, "type": "object", "properties": properties, "required": required}


def to_model_argument(argument: str) -> str:
    """Return the name of an argument for the model, which must not collide with parameters of LangChain."""
    return f"{argument}{RESERVED_SUFFIX}" if argument in RESERVED_ARGUMENTS else argument


def to_server_argument(argument: str) -> str:
    """Return the name of an argument at the server."""
    bare = argument.removesuffix(RESERVED_SUFFIX)
    return bare if bare in RESERVED_ARGUMENTS else argument


def find_escaped(schema: Any) -> Iterator[tuple[str, str]]:
    """Yield the texts and keys of a schema that contain invisible characters, each after its form for the model."""
    if isinstance(schema, str):
        if (shown := escape_invisible(schema)) != schema:
            yield shown, schema
    elif isinstance(schema, Mapping | list | tuple):
        for part in (*schema.keys(), *schema.values()) if isinstance(schema, Mapping) else schema:
            yield from find_escaped(part)


def restore_escaped(value: Any, originals: Mapping[str, str]) -> Any:
    """Return arguments of the model with the texts and keys that the server expects."""
    if isinstance(value, str):
        return originals.get(value, value)
    if isinstance(value, Mapping):
        return {originals.get(key, key): restore_escaped(item, originals) for key, item in value.items()}
    return [restore_escaped(item, originals) for item in value] if isinstance(value, list) else value
