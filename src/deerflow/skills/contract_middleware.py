"""Middleware that enforces skill contracts: hosts, writable folders, variables and budgets."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeAlias, runtime_checkable

import httpx
from langchain.agents.middleware import AgentMiddleware
from langchain.tools import ToolRuntime
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from deerflow.agent_support.replies import AsyncToolHandler, ToolHandler
from deerflow.agent_support.thread_state import ThreadState
from deerflow.domain.context import RunContext, find_run_context
from deerflow.domain.errors import SandboxError
from deerflow.domain.skills import SkillTerms, merge_terms
from deerflow.sandbox.egress import AllowedHosts, EgressRefused, canonical_host
from deerflow.sandbox.jobs.jobs import describe_missing_packages, find_missing_packages
from deerflow.sandbox.lease import ConfinedLease
from deerflow.skills.middleware import find_active_skills

Result: TypeAlias = ToolMessage | Command[Any]

UNMETERED_TOOLS = frozenset({"read_file", "ls", "present_files", "ask_clarification", "write_todos"})
"""Tools that are allowed after the budget is exhausted, so that the agent can report its results."""
SEARCH_TOOLS = frozenset({"web_search", "image_search"})
BASH = "bash"
BUDGET_ADVICE = "Finish with what you have, and tell the user what is missing."
HOST_ADVICE = "Do not try another way; tell the user that the skill's contract (skill.toml) does not allow it."


@runtime_checkable
class HostRestrictable(Protocol):
    """A tool that can be restricted to a set of hosts, including redirects."""

    def restrict_hosts(self, hosts: Iterable[str]) -> BaseTool: ...


class SkillContractMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Enforces the contracts of the active skills on every tool call. It only restricts, never extends."""

    def __init__(self, only: Collection[str] | None = None) -> None:
        super().__init__()
        self._only = only

    def wrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler[Result]) -> Result:
        if (enforcement := find_enforcement(request, self._only)) is None:
            return handler(request)
        return enforcement.check(request) or handler(enforcement.confine(request))

    async def awrap_tool_call(self, request: ToolCallRequest, handler: AsyncToolHandler[Result]) -> Result:
        if (enforcement := find_enforcement(request, self._only)) is None:
            return await handler(request)
        if refusal := enforcement.check(request):
            return refusal
        limit = asyncio.timeout(enforcement.get_time_limit(request))
        try:
            async with limit:
                result = await handler(enforcement.confine(request))
        except TimeoutError:
            if not limit.expired():
                raise
            reason = enforcement.run.skill_meter.find_exceeded_budget(enforcement.active)
            return build_refusal(request, f"{request.tool_call['name']} was ended: {reason}", BUDGET_ADVICE)
        return await enforcement.process_result(request, result)


class ContractEnforcement:
    """The contracts that apply to one tool call."""

    def __init__(self, run: RunContext, active: Mapping[str, SkillTerms]) -> None:
        self.run = run
        self.active = active
        self.terms = merge_terms(active.values())

    def check(self, request: ToolCallRequest) -> ToolMessage | None:
        """Return a refusal, or None if the call is allowed. An allowed call is counted."""
        name, meter = request.tool_call["name"], self.run.skill_meter
        meter.begin(self.active)
        if name not in UNMETERED_TOOLS and (reason := meter.find_exceeded_budget(self.active)):
            return build_refusal(request, f"{name} was not called: {reason}", BUDGET_ADVICE)
        if reason := self._check_hosts(name, request.tool_call["args"]):
            return build_refusal(request, f"{name} was not called: {reason}", HOST_ADVICE)
        meter.count(self.active)
        return None

    def _check_hosts(self, name: str, arguments: Mapping[str, Any]) -> str | None:
        hosts = self.terms.confinement.allowed_hosts
        if hosts is None:
            return None
        if not hosts and (name in SEARCH_TOOLS or "url" in arguments):
            return f"the active skill ({', '.join(self.active)}) declares no host, so it has no network"
        url = arguments.get("url")
        if isinstance(url, str) and not is_allowed_host(hosts, url):
            return f"the active skill ({', '.join(self.active)}) may reach only {', '.join(hosts)}"
        return None

    def get_time_limit(self, request: ToolCallRequest) -> float | None:
        """Return the time limit of a call in seconds, or None."""
        return None if request.tool_call["name"] in UNMETERED_TOOLS else self.run.skill_meter.seconds_left(self.active)

    def confine(self, request: ToolCallRequest) -> ToolCallRequest:
        """Return the request with a confined sandbox and a restricted tool."""
        confinement, lease = self.terms.confinement, self.run.sandbox
        run = self.run if lease is None else replace(self.run, sandbox=ConfinedLease(lease, confinement))
        runtime: ToolRuntime[Any, Any] = request.runtime
        if self._exposes_variables:
            runtime = replace(runtime, stream_writer=self._build_redacting_writer(runtime.stream_writer))
        request = replace(request, runtime=replace(runtime, context=run))
        hosts, tool = confinement.allowed_hosts, request.tool
        if hosts is not None and isinstance(tool, HostRestrictable):
            return request.override(tool=tool.restrict_hosts(hosts))
        return request

    async def process_result(self, request: ToolCallRequest, result: Result) -> Result:
        """Redact secrets from the result, and append missing packages once."""
        if not isinstance(result, ToolMessage) or not isinstance(result.content, str):
            return result
        text = self.run.redact(result.content) if self._exposes_variables else result.content
        notes = [note for name in self.active if (note := await self._find_missing_packages(request, name))]
        return result.model_copy(update={"content": "\n".join([text, *notes])})

    @property
    def _exposes_variables(self) -> bool:
        return bool(self.terms.confinement.environment)

    def _build_redacting_writer(self, write: Callable[[Any], None]) -> Callable[[Any], None]:
        """Return a writer that redacts command output. A secret that is split over two events is not detected."""

        def write_redacted(event: Any) -> None:
            has_output = isinstance(event, dict) and isinstance(event.get("output"), str)
            write({**event, "output": self.run.redact(event["output"])} if has_output else event)

        return write_redacted

    async def _find_missing_packages(self, request: ToolCallRequest, name: str) -> str | None:
        meter, packages = self.run.skill_meter, self.active[name].packages
        if (
            request.tool_call["name"] != BASH
            or not packages
            or name in meter.missing_packages
            or self.run.sandbox is None
        ):
            return None
        try:
            meter.missing_packages[name] = await find_missing_packages(await self.run.sandbox.sandbox(), packages)
        except SandboxError:
            return None
        missing = meter.missing_packages[name]
        return f"[{describe_missing_packages(name, missing)}]" if missing else None


def find_enforcement(request: ToolCallRequest, only: Collection[str] | None) -> ContractEnforcement | None:
    """Return the contracts that apply to a call, or None."""
    run = find_run_context(request.runtime.context)
    if run is None:
        return None
    skills = find_active_skills(run, request.state, request.state["messages"], only)
    active = {skill.name: skill.terms for skill in skills if skill.terms is not None}
    return ContractEnforcement(run, active) if active else None


def is_allowed_host(hosts: Iterable[str], url: str) -> bool:
    """Return True if the host of a URL is allowed."""
    try:
        return AllowedHosts.from_patterns(hosts).allows(canonical_host(httpx.URL(url).host))
    except (httpx.InvalidURL, EgressRefused):
        return False


def build_refusal(request: ToolCallRequest, reason: str, advice: str) -> ToolMessage:
    """Return the tool message for a refused call."""
    name, id_ = request.tool_call["name"], request.tool_call["id"]
    return ToolMessage(f"Error: {reason}. {advice}", name=name, tool_call_id=id_, status="error")
