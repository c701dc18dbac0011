"""What a policy would have made of calls that were made in the past, as the journal tells of them."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.messages.utils import convert_to_messages

from deerflow.agents.middlewares.guardrail_facts import CallFacts, Reach, ToolFacts
from deerflow.agents.middlewares.guardrail_policy import PolicyProvider
from deerflow.agents.middlewares.guardrails import GuardrailRequest
from deerflow.config.load import Loaded
from deerflow.config.policy import Outcome, PolicyConfig
from deerflow.domain.principal import Principal
from deerflow.domain.reading import UNTRUSTED_MARK
from deerflow.domain.runs import RunRecord
from deerflow.harness.policy import is_confined
from deerflow.harness.policy_trials import outcome_of
from deerflow.runtime.runs.timeline import Timeline

WEB_TOOLS = frozenset({"web_search", "web_fetch", "image_search", "web_capture"})
COMMAND = "bash"


@dataclass(frozen=True, slots=True)
class PastCall:
    """A call that was made, and what would have become of it."""

    thread_id: str
    run_id: str
    at: datetime
    tool: str
    arguments: Mapping[str, Any]
    outcome: Outcome
    rule: str
    reason: str


@dataclass(slots=True)
class Replay:
    """One thread as it grew."""

    tools: "ToolKinds"
    provider: PolicyProvider
    messages: dict[str, AnyMessage] = field(default_factory=dict)

    async def take_in(self, fields: Mapping[str, Any], run: RunRecord, at: datetime) -> AsyncIterator[PastCall]:
        """What would have become of the calls in a message, judged by what came before it."""
        message = convert_to_messages([dict(fields)])[0]
        if isinstance(message, AIMessage) and message.id not in self.messages:
            for call in message.tool_calls:
                yield await self._judge(call, run, at)
        self.messages[message.id or str(len(self.messages))] = self._marked(message)

    async def _judge(self, call: ToolCall, run: RunRecord, at: datetime) -> PastCall:
        kind = self.tools.kind_of(call["name"])
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
            facts=CallFacts(messages, noted, None, kind),
        )
        decision = await self.provider.aevaluate(request)
        reason = "; ".join(each.message for each in decision.reasons)
        outcome = outcome_of(decision)
        return PastCall(
            run.thread_id, run.run_id, at, call["name"], call["args"], outcome, decision.policy_id or "", reason
        )

    def _marked(self, message: BaseMessage) -> Any:
        """A message, with whose words it brings also where that was not noted when it was said."""
        if not isinstance(message, ToolMessage) or message.additional_kwargs.get(UNTRUSTED_MARK):
            return message
        kind = self.tools.kind_of(message.name or "")
        if not kind.brings_untrusted:
            return message
        extras = {**message.additional_kwargs, UNTRUSTED_MARK: kind.voice or message.name}
        return message.model_copy(update={"additional_kwargs": extras})


@dataclass(frozen=True, slots=True)
class ToolKinds:
    """What kinds of tools there are, by their names alone: the tools themselves may be gone."""

    servers: Mapping[str, bool]
    """MCP servers, and whether they are confined."""
    configured: frozenset[str]
    reach: Reach

    @classmethod
    def of(cls, loaded: Loaded) -> "ToolKinds":
        """As a configuration has them."""
        servers = {name: is_confined(server) for name, server in loaded.extensions.mcp_servers.items()}
        own = (tool.name for tool in loaded.config.tools if not tool.use.startswith("deerflow."))
        return cls(servers, frozenset(own), Reach(loaded.config.sandbox.network != "none"))

    def kind_of(self, name: str) -> ToolFacts:
        """What kind of tool has a name."""
        if name in WEB_TOOLS:
            return ToolFacts("web", None, brings_untrusted=True)
        if name in self.configured:
            return ToolFacts("configured", None)
        server = next((server for server in self.servers if name.startswith(f"{server}_")), None)
        if server is not None:
            return ToolFacts("mcp", server, not self.servers[server], brings_untrusted=True)
        return ToolFacts("builtin", None, reaches_out=self.reach.commands and name == COMMAND)


async def replay(
    timeline: Timeline, who: Principal, tools: ToolKinds, policy: PolicyConfig, limit: int
) -> AsyncIterator[PastCall]:
    """What would have become of the calls in somebody's latest runs, oldest first."""
    provider = PolicyProvider(policy)
    threads: dict[str, Replay] = {}
    runs: Sequence[RunRecord] = await timeline.latest(who, limit)
    for run in reversed(runs):
        thread = threads.setdefault(run.thread_id, Replay(tools, provider))
        async for fields, at in messages_of(timeline, run):
            async for call in thread.take_in(fields, run, at):
                yield call


async def messages_of(timeline: Timeline, run: RunRecord) -> AsyncIterator[tuple[Mapping[str, Any], datetime]]:
    """The messages that a run has told of, and when."""
    async for logged in timeline.events(run):
        if logged.event.event == "changes":
            for fields in orjson.loads(logged.event.data)["messages"]:
                yield fields, logged.created_at
