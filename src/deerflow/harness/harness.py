"""Builds every part from the configuration, bottom up, and closes them top down."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import BaseChatModel

from deerflow.agents.custom_agents import CustomAgents
from deerflow.agents.features import RuntimeFeatures
from deerflow.agents.plan import AgentPlan
from deerflow.agents.pool import AgentPool
from deerflow.config.source import ConfigSource
from deerflow.domain.memory import MemoryScope
from deerflow.domain.threads import ThreadRecord
from deerflow.harness.ground import open_ground
from deerflow.harness.learning import learning, make_lessons
from deerflow.harness.running import carrying_out_runs, copy_belongings
from deerflow.mcp.lazy_servers import LazyServers
from deerflow.memory.queue import LessonQueue
from deerflow.runtime.deletion import Deletions
from deerflow.runtime.features import Features, describe, enabled_features
from deerflow.runtime.late import Late, Recipe
from deerflow.runtime.resources import Resources
from deerflow.runtime.retention import Retention
from deerflow.runtime.runs.manager import RunManager
from deerflow.runtime.runs.timeline import Timeline
from deerflow.runtime.search import catching_up
from deerflow.runtime.store import Store
from deerflow.runtime.threads import Threads
from deerflow.runtime.upkeep import keeping_up
from deerflow.runtime.vitals import Vitals
from deerflow.sandbox.files import LocalThreadFiles, thread_files
from deerflow.sandbox.places import user_data_folder
from deerflow.sandbox.sandbox_provider import SandboxProvider, SandboxReport
from deerflow.skills.catalog import Skills
from deerflow.subagents.kinds import SubagentConfig
from deerflow.uploads.uploads import Uploads

if TYPE_CHECKING:
    from deerflow.runtime.artifacts import Artifacts


@dataclass(frozen=True)
class Harness:
    """Everything a way in needs."""

    source: ConfigSource
    agents: AgentPool
    custom_agents: CustomAgents
    skills: Skills
    threads: Threads
    deletions: Deletions
    retention: Retention
    runs: RunManager
    timeline: Timeline
    store: Store
    mcp: LazyServers
    sandboxes: SandboxProvider
    sandbox_report: SandboxReport
    resources: Resources
    uploads: Uploads
    lessons: LessonQueue
    vitals: Vitals
    artifacts: Late["Artifacts"] = Late()
    """The files that threads have made."""

    def files_of(self, thread: ThreadRecord) -> LocalThreadFiles:
        """The files of a thread."""
        return thread_files(user_data_folder(self.source.current.home, thread.owner, thread.thread_id))

    async def delete_agent(self, user_id: str, name: str) -> None:
        """Remove a custom agent, with what it knows about its user; raises what `CustomAgents.delete` does."""
        await asyncio.to_thread(self.custom_agents.delete, user_id, name)
        await self.resources.memory.clear(MemoryScope(user_id, name))

    def features(self) -> Features:
        """What is on."""
        config = self.source.refresh().config
        sections = (
            "suggestions",
            "input_polish",
            "title",
            "summarization",
            "guardrails",
            "loop_detection",
            "sharing",
            "memory",
        )
        parts = [field.name for part in (Harness, Resources) for field in fields(part)]
        enabled = enabled_features(parts, {name: getattr(config, name).enabled for name in sections})
        sandbox = config.sandbox
        cards = self.agents.model_cards()
        return describe(enabled, self.sandbox_report, sandbox.network, sandbox.allow_host_bash, cards)


@asynccontextmanager
async def open_harness(
    source: ConfigSource,
    model: BaseChatModel | None = None,
    *,
    features: RuntimeFeatures | None = None,
    extra_middleware: Sequence[AgentMiddleware[Any, Any, Any]] = (),
    subagents: Sequence[SubagentConfig] = (),
) -> AsyncIterator[Harness]:
    """Open everything `source` asks for. `model`, when given, answers in place of every configured one."""
    plan = AgentPlan(model, features, extra_middleware, subagents)
    async with AsyncExitStack() as stack:
        ground = await stack.enter_async_context(open_ground(source, plan))
        loaded, database, agents = ground.loaded, ground.database, ground.agents
        lessons = make_lessons(ground)
        await stack.enter_async_context(learning(lessons))
        runs, deletions = await stack.enter_async_context(carrying_out_runs(ground, lessons))
        retention = Retention(database, deletions, lambda: source.refresh().config.retention)
        await stack.enter_async_context(keeping_up(deletions, retention))
        await stack.enter_async_context(catching_up(database))
        copy = partial(copy_belongings, ground)
        threads = Threads(database, ground.checkpointer, agents, copy, deletions)
        disk_mb = loaded.config.gateway.min_free_disk_mb
        yield Harness(
            source=source,
            agents=agents,
            custom_agents=ground.custom_agents,
            skills=ground.skills,
            threads=threads,
            deletions=deletions,
            retention=retention,
            runs=runs,
            timeline=Timeline(database),
            store=Store(database),
            mcp=ground.mcp,
            sandboxes=ground.sandboxes,
            sandbox_report=ground.report,
            resources=ground.resources,
            uploads=ground.uploads,
            lessons=lessons,
            vitals=Vitals(database, ground.sandboxes, ground.report, loaded.home, ground.metrics, disk_mb),
            artifacts=Recipe("deerflow.harness.artifacts:make_artifacts", ground, threads),
        )
