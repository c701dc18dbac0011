"""While a skill is active, its contract is kept: what tools reach, where they write, how much they use."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeAlias, runtime_checkable

import httpx
from langchain.agents.middleware import AgentMiddleware
from langchain.tools import ToolRuntime
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from deerflow.agents.middlewares.active_skills import active_skills
from deerflow.agents.middlewares.replies import RunTool, RunToolAsync
from deerflow.agents.thread_state import ThreadState
from deerflow.domain.context import RunContext, run_in
from deerflow.domain.errors import SandboxError
from deerflow.domain.skill_terms import SkillTerms, joint_terms
from deerflow.sandbox.confined import ConfinedLease
from deerflow.sandbox.egress import AllowedHosts, EgressRefused, canonical_host
from deerflow.sandbox.packages import find_lacking, lacking_sentence

Result: TypeAlias = ToolMessage | Command[Any]

FREE = frozenset({"read_file", "ls", "present_files", "ask_clarification", "write_todos"})
"""What can be done also when a budget is used up: tell what there is."""
SEARCHES = frozenset({"web_search", "image_search"})
BASH = "bash"
USED_UP = "Finish with what you have, and tell the user what is missing."
ELSEWHERE = "Do not try another way; tell the user that the skill's contract (skill.toml) does not allow it."


@runtime_checkable
class HostBound(Protocol):
    """A tool that can be held to some hosts, also where their pages lead elsewhere."""

    def bound_to(self, hosts: Iterable[str]) -> BaseTool: ...


class SkillContractMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Holds every call of a tool to the contracts of the skills that are active. It only ever narrows."""

    def __init__(self, only: Collection[str] | None = None) -> None:
        super().__init__()
        self._only = only

    def wrap_tool_call(self, request: ToolCallRequest, handler: RunTool[Result]) -> Result:
        if (held := held_to(request, self._only)) is None:
            return handler(request)
        return held.refusal(request) or handler(held.confine(request))

    async def awrap_tool_call(self, request: ToolCallRequest, handler: RunToolAsync[Result]) -> Result:
        if (held := held_to(request, self._only)) is None:
            return await handler(request)
        if refusal := held.refusal(request):
            return refusal
        limit = asyncio.timeout(held.seconds_for(request))
        try:
            async with limit:
                result = await handler(held.confine(request))
        except TimeoutError:
            if not limit.expired():
                raise
            why = held.run.skill_meter.overspent(held.active)
            return refused(request, f"{request.tool_call['name']} was ended: {why}", USED_UP)
        return await held.with_note(request, result)


class Held:
    """The contracts that hold for one call."""

    def __init__(self, run: RunContext, active: Mapping[str, SkillTerms]) -> None:
        self.run = run
        self.active = active
        self.terms = joint_terms(active.values())

    def refusal(self, request: ToolCallRequest) -> ToolMessage | None:
        """Why a call is not made; None: it is, and counts."""
        name, meter = request.tool_call["name"], self.run.skill_meter
        meter.begin(self.active)
        if name not in FREE and (why := meter.overspent(self.active)):
            return refused(request, f"{name} was not called: {why}", USED_UP)
        if why := self._unreachable(name, request.tool_call["args"]):
            return refused(request, f"{name} was not called: {why}", ELSEWHERE)
        meter.count(self.active)
        return None

    def _unreachable(self, name: str, arguments: Mapping[str, Any]) -> str | None:
        hosts = self.terms.confinement.only_hosts
        if hosts is None:
            return None
        if not hosts and (name in SEARCHES or "url" in arguments):
            return f"the active skill ({', '.join(self.active)}) declares no host, so it has no network"
        url = arguments.get("url")
        if isinstance(url, str) and not allows(hosts, url):
            return f"the active skill ({', '.join(self.active)}) may reach only {', '.join(hosts)}"
        return None

    def seconds_for(self, request: ToolCallRequest) -> float | None:
        """How long a call may take; None: as long as ever."""
        return None if request.tool_call["name"] in FREE else self.run.skill_meter.seconds_left(self.active)

    def confine(self, request: ToolCallRequest) -> ToolCallRequest:
        """The same call, with a sandbox and a tool that can do less."""
        confinement, lease = self.terms.confinement, self.run.sandbox
        run = self.run if lease is None else replace(self.run, sandbox=ConfinedLease(lease, confinement))
        runtime: ToolRuntime[Any, Any] = request.runtime
        request = replace(request, runtime=replace(runtime, context=run))
        hosts, tool = confinement.only_hosts, request.tool
        if hosts is not None and isinstance(tool, HostBound):
            return request.override(tool=tool.bound_to(hosts))
        return request

    async def with_note(self, request: ToolCallRequest, result: Result) -> Result:
        """What a command said, and once that packages are missing which the skill needs."""
        if request.tool_call["name"] != BASH or not isinstance(result, ToolMessage):
            return result
        notes = [note for name in self.active if (note := await self._lacking(name))]
        return result.model_copy(update={"content": "\n".join([result.text, *notes])}) if notes else result

    async def _lacking(self, name: str) -> str | None:
        meter, packages = self.run.skill_meter, self.active[name].packages
        if not packages or name in meter.lacking or self.run.sandbox is None:
            return None
        try:
            meter.lacking[name] = await find_lacking(await self.run.sandbox.sandbox(), packages)
        except SandboxError:
            return None
        lacking = meter.lacking[name]
        return f"[{lacking_sentence(name, lacking)}]" if lacking else None


def held_to(request: ToolCallRequest, only: Collection[str] | None) -> Held | None:
    """The contracts that hold for a call; None where none does."""
    run = run_in(request.runtime.context)
    if run is None:
        return None
    cards = active_skills(run, request.state, request.state["messages"], only)
    active = {card.name: card.terms for card in cards if card.terms is not None}
    return Held(run, active) if active else None


def allows(hosts: Iterable[str], url: str) -> bool:
    """Whether an address leads to one of the hosts."""
    try:
        return AllowedHosts.of(hosts).allow(canonical_host(httpx.URL(url).host))
    except (httpx.InvalidURL, EgressRefused):
        return False


def refused(request: ToolCallRequest, why: str, advice: str) -> ToolMessage:
    """What the model is told about a call that is not made."""
    name, id_ = request.tool_call["name"], request.tool_call["id"]
    return ToolMessage(f"Error: {why}. {advice}", name=name, tool_call_id=id_, status="error")
