"""`deerflow policy`: test a policy for tool calls before it is used."""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.messages.utils import convert_to_messages

from deerflow.cli.runs import ConfigOption, open_timeline
from deerflow.config.load import LoadedConfig, load
from deerflow.config.sections.extensions import McpServerConfig
from deerflow.config.sections.guardrails import Outcome, PolicyConfig, read_policy
from deerflow.config.sections.tools import ToolConfig
from deerflow.domain.identity import LOCAL_USER, Principal
from deerflow.domain.runs import RunRecord
from deerflow.domain.taint import UNTRUSTED_MARK
from deerflow.guardrails.call_context import EgressCapability, ThreadCallContext, ToolTraits
from deerflow.guardrails.policy import (
    CaseResult,
    PolicyFile,
    PolicyProvider,
    decision_outcome,
    is_isolated,
    read_cases,
    run_cases,
)
from deerflow.guardrails.providers import GuardrailRequest
from deerflow.harness.core import create_sandboxes
from deerflow.runtime.runs.job import Timeline

WEB_TOOLS = frozenset({"web_search", "web_fetch", "image_search", "web_capture"})
COMMAND = "bash"


@dataclass(frozen=True, slots=True)
class PastCall:
    """Past tool call and the decision of the policy."""

    thread_id: str
    run_id: str
    at: datetime
    tool: str
    arguments: Mapping[str, Any]
    outcome: Outcome
    rule: str
    reason: str


@dataclass(slots=True)
class ThreadReplay:
    """Thread as it grew, message by message."""

    tools: "ToolKindIndex"
    provider: PolicyProvider
    messages: dict[str, AnyMessage] = field(default_factory=dict)

    async def add_message(self, fields: Mapping[str, Any], run: RunRecord, at: datetime) -> AsyncIterator[PastCall]:
        """Yield the decisions about the calls of a message, based on the messages before it, then add it."""
        message = convert_to_messages([dict(fields)])[0]
        if isinstance(message, AIMessage) and message.id not in self.messages:
            for call in message.tool_calls:
                yield await self._evaluate(call, run, at)
        self.messages[message.id or str(len(self.messages))] = self._marked(message)

    async def _evaluate(self, call: ToolCall, run: RunRecord, at: datetime) -> PastCall:
        kind = self.tools.find_traits(call["name"])
        messages = list(self.messages.values())
        noted = {mark for each in messages if (mark := each.additional_kwargs.get(UNTRUSTED_MARK))}
        request = GuardrailRequest(
            tool_name=call["name"],
            tool_input=call["args"],
            tool_call_id=call["id"],
            timestamp=at,
            thread_id=run.thread_id,
            run_id=run.run_id,
            user_id=run.owner,
            tool=kind,
            context=ThreadCallContext(messages, noted, None, kind),
        )
        decision = await self.provider.aevaluate(request)
        reason = "; ".join(each.message for each in decision.reasons)
        outcome = decision_outcome(decision)
        return PastCall(
            run.thread_id, run.run_id, at, call["name"], call["args"], outcome, decision.policy_id or "", reason
        )

    def _marked(self, message: BaseMessage) -> Any:
        """Return the message marked as untrusted, also if it was stored before marks existed."""
        if not isinstance(message, ToolMessage) or message.additional_kwargs.get(UNTRUSTED_MARK):
            return message
        kind = self.tools.find_traits(message.name or "")
        if not kind.brings_untrusted:
            return message
        extras = {**message.additional_kwargs, UNTRUSTED_MARK: kind.taint_source or message.name}
        return message.model_copy(update={"additional_kwargs": extras})


@dataclass(frozen=True, slots=True)
class ToolKindIndex:
    """Traits of tools by name alone: the tools themselves may no longer exist."""

    servers: Mapping[str, bool]
    """MCP servers, and whether they are confined."""
    configured: frozenset[str]
    reach: EgressCapability

    @classmethod
    def from_config(
        cls, servers: Mapping[str, McpServerConfig], tools: Sequence[ToolConfig], network: str, *, can_isolate: bool
    ) -> "ToolKindIndex":
        """Return the kinds of the configured tools, for commands with that network and isolation."""
        own = (tool.name for tool in tools if not tool.use.startswith("deerflow."))
        isolated = {name: is_isolated(server, can_isolate=can_isolate) for name, server in servers.items()}
        return cls(isolated, frozenset(own), EgressCapability(network != "none" or not can_isolate))

    def find_traits(self, name: str) -> ToolTraits:
        """Return the traits of the tool of that name."""
        if name in WEB_TOOLS:
            return ToolTraits("web", None, brings_untrusted=True)
        if name in self.configured:
            return ToolTraits("configured", None)
        # The longest name: that of another server may begin with it.
        server = max((each for each in self.servers if name.startswith(f"{each}_")), key=len, default=None)
        if server is not None:
            return ToolTraits("mcp", server, not self.servers[server], brings_untrusted=True)
        return ToolTraits("builtin", None, reaches_out=self.reach.commands and name == COMMAND)


async def replay_runs(
    timeline: Timeline, who: Principal, tools: ToolKindIndex, policy: PolicyConfig, limit: int
) -> AsyncIterator[PastCall]:
    """Yield the decisions about the calls in the latest runs of a user, oldest first."""
    provider = PolicyProvider(policy)
    threads: dict[str, ThreadReplay] = {}
    runs: Sequence[RunRecord] = await timeline.latest(who, limit)
    for run in reversed(runs):
        thread = threads.setdefault(run.thread_id, ThreadReplay(tools, provider))
        async for fields, at in logged_messages(timeline, run):
            async for call in thread.add_message(fields, run, at):
                yield call


async def logged_messages(timeline: Timeline, run: RunRecord) -> AsyncIterator[tuple[Mapping[str, Any], datetime]]:
    """Yield the messages of a run and their times."""
    async for logged in timeline.events(run):
        if logged.event.event == "changes":
            for fields in orjson.loads(logged.event.data)["messages"]:
                yield fields, logged.created_at


app = typer.Typer(help="Test the policy for tool calls.", no_args_is_help=True)
PolicyOption = Annotated[Path | None, typer.Option("--policy", help="Policy file; default: the configured policy.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]
MAX_ARGUMENTS = 80


@app.command()
def test(
    cases: Annotated[
        Path | None, typer.Argument(help="File of test cases; default: cases of the built-in rules.")
    ] = None,
    policy: PolicyOption = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Evaluate test cases; exit with code 1 if one does not have the expected outcome."""
    sys.exit(asyncio.run(run_tests(cases, policy, config, as_json)))


@app.command("dry-run")
def dry_run(
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Number of latest runs to replay.")] = 200,
    policy: PolicyOption = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Print the calls of past runs that a policy would have denied or asked about. No tool is called."""
    asyncio.run(run_dry(limit, policy, config, as_json))


async def run_tests(cases: Path | None, policy: Path | None, config: Path | None, as_json: bool) -> int:
    """Evaluate test cases, print the results and return the exit code."""
    # The built-in cases test the built-in rules, independent of the configured policy.
    chosen = PolicyConfig() if cases is None and policy is None else read_chosen_policy(policy, config)
    results = await run_cases(chosen, read_cases(cases))
    failed = [each for each in results if not each.passed]
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in results], ensure_ascii=False))
    else:
        for each in results:
            typer.echo(format_result(each))
        typer.echo(f"{len(results) - len(failed)} of {len(results)} cases passed")
    return int(bool(failed))


async def run_dry(limit: int, policy: Path | None, config: Path | None, as_json: bool) -> None:
    """Print the outcomes of past calls under a policy."""
    chosen, tools = read_chosen_policy(policy, config), await read_tool_kinds(load(config))
    async with open_timeline(config) as timeline:
        calls = [call async for call in replay_runs(timeline, LOCAL_USER, tools, chosen, limit)]
    stopped = [call for call in calls if call.outcome != "allow"]
    if as_json:
        typer.echo(json.dumps([serialize_call(call) for call in stopped], ensure_ascii=False))
        return
    for line in format_table(stopped):
        typer.echo(line)
    counts = Counter(call.outcome for call in calls)
    typer.echo(f"{len(calls)} calls: {counts['allow']} allowed, {counts['ask']} need approval, {counts['deny']} denied")


def read_chosen_policy(policy: Path | None, config: Path | None) -> PolicyConfig:
    """Return the policy in a file, or the configured policy.

    Raises:
        ConfigError: the policy is invalid or cannot be read.
    """
    if policy is not None:
        return read_policy(policy)
    loaded = load(config)
    return PolicyFile(loaded.folder).read(loaded.config.guardrails)


async def read_tool_kinds(loaded: LoadedConfig) -> ToolKindIndex:
    """Return the kinds of the configured tools."""
    config = loaded.config
    can_isolate = not config.sandbox.allow_host_bash or await is_sandbox_isolated(loaded)
    return ToolKindIndex.from_config(
        loaded.extensions.mcp_servers, config.tools, config.sandbox.network, can_isolate=can_isolate
    )


async def is_sandbox_isolated(loaded: LoadedConfig) -> bool:
    """Return whether the configured sandbox isolates commands on this machine."""
    sandboxes = create_sandboxes(loaded)
    try:
        return (await sandboxes.open()).tier != "host"
    finally:
        await sandboxes.aclose()


def format_result(result: CaseResult) -> str:
    """Return the line of a test case."""
    if result.passed:
        return f"✓ {result.case}"
    return f"✗ {result.case}: expected {result.expected}, got {result.outcome} by {result.rule}"


def format_table(calls: Sequence[PastCall]) -> list[str]:
    """Return one line per call, in columns."""
    rows = [
        (f"{call.at.astimezone():%Y-%m-%d %H:%M:%S}", call.outcome, call.tool, call.rule, format_arguments(call))
        for call in calls
    ]
    widths = [max((len(row[at]) for row in rows), default=0) for at in range(4)]
    return ["  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]) for row in rows]


def format_arguments(call: PastCall) -> str:
    """Return the arguments of a call, clipped."""
    text = json.dumps(call.arguments, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_ARGUMENTS else f"{text[:MAX_ARGUMENTS]}…"


def serialize_call(call: PastCall) -> dict[str, object]:
    """Return a call as JSON values."""
    return {**asdict(call), "at": call.at.isoformat()}
