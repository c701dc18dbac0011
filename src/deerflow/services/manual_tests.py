"""Tests that people start: one call of an MCP tool under the policy, and the tests of a skill."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from deerflow.agent_support.tools import replace_images, to_content
from deerflow.agents.chain import create_guardrail_provider
from deerflow.agents.spec import ChainSettings
from deerflow.domain.errors import Conflict, DeerFlowError
from deerflow.guardrails.call_context import ThreadCallContext, ToolTraits
from deerflow.guardrails.middleware import decide
from deerflow.guardrails.providers import GuardrailDecision, GuardrailReason, GuardrailRequest
from deerflow.mcp.servers import McpServerManager
from deerflow.mcp.session.calls import McpCallResult, McpToolCall, ServerAddress
from deerflow.mcp.status import McpToolInfo, ToolTestOutcome
from deerflow.mcp.tools import find_escaped, get_timeout, make_tool_name, restore_escaped
from deerflow.skills.authoring.test_runner import SkillTestProcess, SkillTestResults, parse_results
from deerflow.skills.catalog import SkillCatalog
from deerflow.skills.contract import find_tests

MAX_TEST_S = 120.0
MAX_RESULT_CHARS = 100_000


@dataclass(frozen=True, slots=True)
class ToolTestResult:
    """Result of a test call. `ask`: the policy wants approval first; `deny`: it forbids the call."""

    outcome: ToolTestOutcome
    text: str = ""
    """What the tool returned, or why the call failed. It comes from the server."""
    reasons: tuple[GuardrailReason, ...] = ()
    seconds: float = 0.0
    is_truncated: bool = False


class ToolTestService:
    """Calls MCP tools for a person. The policy applies as in a thread that contains no untrusted content."""

    def __init__(
        self, servers: McpServerManager, settings: Callable[[], ChainSettings], redact: Callable[[str], str]
    ) -> None:
        """Store the parts; `settings` blocks."""
        self._servers = servers
        self._settings = settings
        self._redact = redact

    async def run(
        self, user_id: str, server: str, tool: str, arguments: Mapping[str, Any], *, approved: bool = False
    ) -> ToolTestResult:
        """Call a tool, unless the policy denies it or wants an approval that was not given.

        Raises:
            NotFound: There is no such server, or it offers no such tool.
            Conflict: The server is switched off.
        """
        view = await self._servers.get(server, user_id)
        if not view.config.enabled:
            raise Conflict(f"the MCP server {server!r} is switched off")
        address, info = self._servers.catalog.find_tool(server, tool, user_id)
        decision = await self._decide(address, info, arguments)
        if not decision.allow and not (decision.ask and approved):
            return ToolTestResult("ask" if decision.ask else "deny", reasons=decision.reasons)
        return await self._call(address, info, arguments)

    async def _decide(
        self, address: ServerAddress, info: McpToolInfo, arguments: Mapping[str, Any]
    ) -> GuardrailDecision:
        settings = await asyncio.to_thread(self._settings)
        if not settings.guardrails.enabled:
            return GuardrailDecision(allow=True)
        reaches_out = address.server not in settings.reach.confined_servers
        traits = ToolTraits("mcp", address.server, reaches_out, brings_untrusted=True)
        request = GuardrailRequest(
            tool_name=make_tool_name(address.server, info.name, prefixed=address.config.tool_name_prefix),
            tool_input=arguments,
            tool_call_id=None,
            timestamp=datetime.now(UTC),
            user_id=address.user_id,
            undeclared=tuple(name for name in arguments if name not in (info.input_schema.get("properties") or {})),
            tool=traits,
            context=ThreadCallContext((), (), None, traits),
        )
        return await decide(create_guardrail_provider(settings), request, settings.guardrails.fail_closed)

    async def _call(self, address: ServerAddress, info: McpToolInfo, arguments: Mapping[str, Any]) -> ToolTestResult:
        restored = restore_escaped(dict(arguments), dict(find_escaped(info.input_schema)))
        request = McpToolCall(f"test-{uuid4().hex}", info.name, restored, can_ask=False)
        began = time.monotonic()
        try:
            timeout_s = min(get_timeout(address, info), MAX_TEST_S)
            result = await self._servers.catalog.call(address, request, timeout_s)
        except DeerFlowError as problem:
            return ToolTestResult("failed", self._redact(str(problem)), seconds=time.monotonic() - began)
        text = self._redact(format_result(result))
        return ToolTestResult(
            "failed" if result.is_error else "done",
            text[:MAX_RESULT_CHARS],
            seconds=time.monotonic() - began,
            is_truncated=len(text) > MAX_RESULT_CHARS,
        )


def format_result(result: McpCallResult) -> str:
    """Return a result as text; images are named."""
    text = str(to_content(replace_images(result.blocks)))
    if text or result.structured is None:
        return text
    return json.dumps(result.structured, ensure_ascii=False, indent=2)


class SkillTestService:
    """Runs the tests of skills as `deerflow skills test` does: offline, with a scripted model and the real sandbox."""

    def __init__(self, skills: SkillCatalog, process: SkillTestProcess) -> None:
        self._skills = skills
        self._process = process

    async def run(self, user_id: str, name: str) -> SkillTestResults:
        """Run the tests of a skill, one after the other; a skill without tests has no results.

        Raises:
            NotFound: There is no such skill.
            Conflict: Tests are running already.
        """
        skill = await self._skills.find(user_id, name)
        if not await asyncio.to_thread(find_tests, skill.folder):
            return SkillTestResults((), ())
        if self._process.is_busy:
            raise Conflict("tests of a skill are running already; try again when they are done")
        output, problem = await self._process.run_all(skill.folder, is_custom=skill.category != "public")
        return SkillTestResults((), [problem]) if problem else parse_results(output)
