"""Composition root: opens all parts bottom up, closes them top down, and alone decides on their implementations."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from deerflow.agents.features import RuntimeFeatures
from deerflow.agents.spec import AgentPlan
from deerflow.config.sections.agents import CustomAgent
from deerflow.config.source import ConfigSource
from deerflow.domain.identity import LOCAL_USER, split_address
from deerflow.domain.memory import MemoryScope
from deerflow.domain.threads import ThreadRecord
from deerflow.harness.core import Core, open_core
from deerflow.harness.memory import create_extraction_queue, create_indexer, extract_in_background
from deerflow.harness.resources import Resources
from deerflow.harness.runs import copy_thread_resources, create_user_deletions, open_runs
from deerflow.memory.queue import ExtractionQueue
from deerflow.projects.indexer import index_in_background
from deerflow.runtime.background import log_task_exception
from deerflow.runtime.health import HealthChecks
from deerflow.runtime.runs.job import Timeline
from deerflow.runtime.runs.manager import RunManager
from deerflow.runtime.threads.deletion import Deletions, Retention, upkeep_in_background
from deerflow.runtime.threads.threads import Threads
from deerflow.sandbox.files.files import LocalThreadFiles, thread_files
from deerflow.sandbox.files.mounts import user_data_folder
from deerflow.services.features import SWITCHED_SECTIONS, ServerFeatures, describe_features, enabled_features
from deerflow.services.search import index_backlog_in_background
from deerflow.services.user_deletion import UserDeletions
from deerflow.subagents.types import SubagentConfig

if TYPE_CHECKING:
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.language_models import BaseChatModel

    from deerflow.services.artifacts import ArtifactService
    from deerflow.services.prompt_assistance import CompactionService


@dataclass(frozen=True)
class Harness:
    """An open harness. Every way in uses it: HTTP, terminal, Python and protocols."""

    core: Core
    resources: Resources
    runs: RunManager
    threads: Threads
    deletions: Deletions
    user_deletions: UserDeletions
    retention: Retention
    timeline: Timeline
    extraction: ExtractionQueue
    health: HealthChecks

    @cached_property
    def artifacts(self) -> "ArtifactService":
        """Files of threads."""
        return self.resources.create_artifacts(self.threads)

    @cached_property
    def compaction(self) -> "CompactionService":
        """Summaries of threads on request."""
        return self.resources.create_compaction(self.threads)

    def files_of(self, thread: ThreadRecord) -> LocalThreadFiles:
        """Return the files of a thread."""
        return thread_files(user_data_folder(self.core.home, thread.owner, thread.thread_id))

    async def load_agent(self, user_id: str, name: str) -> CustomAgent:
        """Return a custom agent of a user, or one that is shared with them; raises what `CustomAgents.load` does."""
        await self.core.shares.refresh(user_id)
        return await asyncio.to_thread(self.core.custom_agents.load, user_id, name)

    async def delete_agent(self, user_id: str, name: str) -> None:
        """Delete a custom agent and its memory of the user; raises what `CustomAgents.delete` does."""
        await asyncio.to_thread(self.core.custom_agents.delete, user_id, name)
        name = split_address(name, user_id)[1]
        await self.core.shares.end(user_id, "agent", name)
        await self.resources.memory.clear(MemoryScope(user_id, name))

    def features(self, user_id: str = LOCAL_USER.user_id) -> ServerFeatures:
        """Return the enabled features of this server for a user."""
        config = self.core.source.refresh().config
        switches = {name: getattr(config, name).enabled for name in SWITCHED_SECTIONS}
        switches["channels"] = config.channels.is_used
        sandbox = config.sandbox
        cards = self.core.agents.model_cards(user_id)
        report = self.core.sandbox_report
        return describe_features(enabled_features(switches), report, sandbox.network, sandbox.allow_host_bash, cards)


@asynccontextmanager
async def open_harness(
    source: ConfigSource,
    model: "BaseChatModel | None" = None,
    *,
    features: RuntimeFeatures | None = None,
    extra_middleware: "Sequence[AgentMiddleware[Any, Any, Any]]" = (),
    subagents: Sequence[SubagentConfig] = (),
    on_import: Callable[[], object] = lambda: None,
) -> AsyncIterator[Harness]:
    """Open a harness for `source`, and close it in reverse order. `model` replaces every configured model.

    `on_import` is called when everything that runs need has been imported, which happens with the first run.
    """
    plan = AgentPlan(model, features, extra_middleware, subagents)
    async with AsyncExitStack() as stack:
        core = await stack.enter_async_context(open_core(source, plan))
        resources = Resources(core)
        stack.push_async_callback(resources.daily_budgets.aclose)
        extraction = create_extraction_queue(core, resources.memory, resources.side_calls)
        await stack.enter_async_context(extract_in_background(extraction))
        runs, deletions = await stack.enter_async_context(open_runs(core, resources, extraction, on_import))
        retention = Retention(core.database, deletions, source.settings(lambda loaded: loaded.config.retention))
        indexer = create_indexer(core, resources.projects, resources.memory)
        user_deletions = create_user_deletions(core, resources, runs, deletions, indexer.delete_projects)
        steps = (user_deletions.finish, resources.log_audit_head)
        await stack.enter_async_context(upkeep_in_background(deletions, retention, steps))
        stack.push_async_callback(user_deletions.aclose)
        await stack.enter_async_context(index_backlog_in_background(core.database))
        await stack.enter_async_context(index_in_background(indexer, log_task_exception))
        copy = partial(copy_thread_resources, core, resources)
        yield Harness(
            core=core,
            resources=resources,
            runs=runs,
            threads=Threads(core.database, core.checkpointer, core.agents, copy, deletions),
            deletions=deletions,
            user_deletions=user_deletions,
            retention=retention,
            timeline=Timeline(core.database),
            extraction=extraction,
            health=create_health_checks(core),
        )


def create_health_checks(core: Core) -> HealthChecks:
    """Create the health checks."""
    min_free_mb = core.source.current.config.gateway.min_free_disk_mb
    return HealthChecks(
        core.database, core.checkpointer, core.sandboxes, core.sandbox_report, core.home, core.metrics, min_free_mb
    )


__all__ = ["Harness", "open_harness"]
