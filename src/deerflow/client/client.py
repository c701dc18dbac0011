"""DeerFlow inside a Python program."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import BaseChatModel

from deerflow.agents.features import RuntimeFeatures
from deerflow.client.agents import AgentsClient, FeaturesClient, ModelsClient, ProfileClient, ToolsClient
from deerflow.client.artifacts import ArtifactsClient, UploadsClient, WebPagesClient
from deerflow.client.flat_methods import FlatMethods
from deerflow.client.mcp import McpClient
from deerflow.client.memory import MemoryClient
from deerflow.client.runs import ApprovalsClient, FeedbackClient, RunsClient, send_message, stream_message
from deerflow.client.session import HarnessLoop, HarnessSession, sync_and_async, sync_and_async_iterator
from deerflow.client.skills import CustomSkillsClient, SkillsClient
from deerflow.client.threads import PromptsClient, SharesClient, ThreadsClient
from deerflow.client.usage import UsageClient
from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import AgentSpec, ReasoningEffort
from deerflow.domain.usage import SpendingLimit
from deerflow.harness import open_harness
from deerflow.subagents.types import SubagentConfig


class DeerFlowClient(FlatMethods):
    """DeerFlow inside a Python program.

    Methods are grouped by resource, e.g. `client.threads.list()`. Each has an async form with the prefix `a`, e.g.
    `await client.threads.alist()`. Runs are started by the same run manager as on the server. Close the client, or
    use it in a `with` block.
    """

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        *,
        config_path: str | Path | None = None,
        features: RuntimeFeatures | None = None,
        extra_middleware: Sequence[AgentMiddleware[Any, Any, Any]] = (),
        model: BaseChatModel | None = None,
        model_name: str | None = None,
        thinking_enabled: bool | None = None,
        reasoning_effort: ReasoningEffort | None = None,
        plan_mode: bool = False,
        subagent_enabled: bool = False,
        subagents: Sequence[SubagentConfig] = (),
        agent_name: str | None = None,
        available_skills: Collection[str] | None = None,
        budget: SpendingLimit | None = None,
    ) -> None:
        """Load the configuration and open a harness.

        Args:
            config: Settings in the shape of `config.yaml`; they override the file, which is optional.
            config_path: Path of the configuration file; None uses the default search.
            features: Built-in middlewares to enable, disable or replace; None uses the configuration.
            extra_middleware: Custom middlewares, placed by `@Next` and `@Prev`.
            model: Model used in place of all configured models.
            model_name: Configured model to use.
            thinking_enabled: Enable thinking; None enables it if the model supports it.
            reasoning_effort: Reasoning effort, for models that support it.
            plan_mode: Let the agent keep a to-do list.
            subagent_enabled: Let the agent delegate tasks to subagents.
            subagents: Subagent types in addition to the configured ones.
            agent_name: Custom agent to use.
            available_skills: The only skills the agent may use; None allows all enabled skills.
            budget: Spending limit of each run; the configured limit applies as well.
        """
        source = open_source(Path(config_path) if config_path else None, overrides=config)
        agent = AgentSpec(
            *(model_name, thinking_enabled, reasoning_effort, plan_mode, subagent_enabled),
            agent_name=agent_name,
            owner=LOCAL_USER.user_id if agent_name else None,
            available_skills=None if available_skills is None else tuple(sorted(available_skills)),
        )
        harness = partial(
            open_harness, source, model, features=features, extra_middleware=extra_middleware, subagents=subagents
        )
        self._session = HarnessSession(HarnessLoop(harness), agent, budget)
        self._open_resources()
        if extra_middleware:
            self._check_middleware_order()

    chat, achat = sync_and_async(send_message)
    stream, astream = sync_and_async_iterator(stream_message)

    def close(self) -> None:
        """Cancel active runs and close the harness."""
        self._session.loop.close()

    async def aclose(self) -> None:
        """Cancel active runs and close the harness."""
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _open_resources(self) -> None:
        session = self._session
        self.threads = ThreadsClient(session)
        self.shares = SharesClient(session)
        self.prompts = PromptsClient(session)
        self.runs = RunsClient(session)
        self.approvals = ApprovalsClient(session)
        self.feedback = FeedbackClient(session)
        self.artifacts = ArtifactsClient(session)
        self.uploads = UploadsClient(session)
        self.web_pages = WebPagesClient(session)
        self.agents = AgentsClient(session)
        self.models = ModelsClient(session)
        self.tools = ToolsClient(session)
        self.features = FeaturesClient(session)
        self.profile = ProfileClient(session)
        self.skills = SkillsClient(session)
        self.custom_skills = CustomSkillsClient(session)
        self.memory = MemoryClient(session)
        self.mcp = McpClient(session)
        self.usage = UsageClient(session)

    def _check_middleware_order(self) -> None:
        """Build an agent, so that misplaced middlewares fail in the constructor and not in the first run."""
        lead_agent = replace(self._session.agent, agent_name=None, owner=None)
        try:
            self._session.harness.core.agents.get_graph(lead_agent)
        except BaseException:
            self.close()
            raise
