"""Core of a harness: database, sandboxes, capabilities and agents."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from langgraph.checkpoint.base import BaseCheckpointSaver

from deerflow.accounts.authenticator import Authenticator
from deerflow.accounts.quotas import Quotas
from deerflow.acp.clients import AcpClients, AcpDependencies
from deerflow.agents.custom_agents import CustomAgents
from deerflow.agents.pool import AgentPool, is_scripted
from deerflow.agents.spec import AgentPlan, AgentSettings, ChainSettings, SandboxCapabilities
from deerflow.budget.model_calls import SentRequests
from deerflow.config.load import LoadedConfig
from deerflow.config.loader.files import resolve_from
from deerflow.config.root import Config
from deerflow.config.sections.extensions import change_extensions, set_skill_enabled
from deerflow.config.sections.guardrails import PolicyConfig
from deerflow.config.sections.models import ModelConfig
from deerflow.config.sections.sandbox import LOCAL_PROVIDER, SandboxConfig
from deerflow.config.source import ConfigSource
from deerflow.domain.errors import ConfigError, SandboxError
from deerflow.domain.identity import FindShared, share_nothing
from deerflow.domain.runs import RunRecord
from deerflow.domain.threads import ThreadRecord
from deerflow.guardrails.call_context import EgressCapability
from deerflow.guardrails.policy import PolicyFile, isolated_servers
from deerflow.mcp.runtime import McpDependencies, McpRuntime, open_mcp
from deerflow.models.detection import detect_local_models, detect_models
from deerflow.models.embeddings import CurrentEmbedder
from deerflow.models.openai_compatible.tool_calls import use_linear_parser
from deerflow.persistence.checkpoints.sqlite import open_checkpointer
from deerflow.persistence.encryption import KEY_FILE, KEY_VARIABLE, TokenCipher
from deerflow.persistence.engine import open_database
from deerflow.persistence.engine.database import Database
from deerflow.runtime.background import DaemonThreadPool
from deerflow.runtime.health import MeasuredDatabase
from deerflow.runtime.runs.file_changes import FileChanges
from deerflow.sandbox.file_access import FileLocks
from deerflow.sandbox.files.mounts import thread_folder, user_data_folder, user_folder
from deerflow.sandbox.jobs.jobs import SandboxJobs
from deerflow.sandbox.jobs.services import Service, ServiceProvider, ServiceSpec
from deerflow.sandbox.local.usage import MB, DiskQuota, measure_disk
from deerflow.sandbox.sandbox_provider import HostContext, SandboxProvider, SandboxReport, StorageLimit
from deerflow.sandbox.snapshots.snapshots import Snapshots
from deerflow.sandbox.sync_provider import load_provider
from deerflow.services.saved_models import SavedModels
from deerflow.skills.authoring.lock import LockMonitor
from deerflow.skills.catalog import SkillCatalog, SkillViews
from deerflow.skills.folders import builtin_root
from deerflow.skills.index import SkillIndex, open_folder_watcher
from deerflow.subagents.types import SubagentFile, SubagentFiles
from deerflow.teams.shares import SharedThings
from deerflow.tracing.logs import Metrics
from deerflow.uploads.uploads import UploadService

DEMO_MODEL = ModelConfig(
    name="demo",
    use="deerflow.models.demo:DemoChatModel",
    model="demo",
    display_name="Demo (scripted)",
    description="Plays scripts; needs no key and no network.",
    supports_thinking=True,
)

TOOL_THREADS = 32
"""Maximum number of synchronous tools that run at the same time; others wait for a free thread."""


@dataclass(frozen=True, slots=True)
class Core:
    """Infrastructure and capabilities that everything else is built on."""

    source: ConfigSource
    database: Database
    checkpointer: BaseCheckpointSaver[str]
    metrics: Metrics
    sandboxes: SandboxProvider
    sandbox_report: SandboxReport
    sandbox_jobs: SandboxJobs
    file_locks: FileLocks
    file_changes: FileChanges
    uploads: UploadService
    skill_index: SkillIndex
    shares: SharedThings
    skills: SkillCatalog
    mcp: McpRuntime
    acp: AcpClients
    custom_agents: CustomAgents
    agents: AgentPool
    saved_models: SavedModels
    embedder: CurrentEmbedder
    tool_threads: DaemonThreadPool
    """Threads for tools that block. Everything else uses the default executor of the event loop."""
    disk_quota: DiskQuota
    quotas: Quotas
    sent_requests: SentRequests

    @property
    def home(self) -> Path:
        """The state directory."""
        return self.source.current.home


@asynccontextmanager
async def open_core(source: ConfigSource, plan: AgentPlan) -> AsyncIterator[Core]:
    """Open the core, and close it in reverse order."""
    use_linear_parser()
    loaded, metrics = source.current, Metrics()
    policy = open_policy(loaded)
    async with AsyncExitStack() as stack:
        database, checkpointer = await open_storage(stack, loaded, metrics)
        fallback, saved = await find_other_models(source, database)
        quotas, shares = create_quotas(source, database)
        index = stack.enter_context(closing(open_skill_index(source, shares.get_known)))
        sandboxes = create_sandboxes(loaded, SkillViews(loaded.home, index), quotas.find_storage_limit)
        stack.push_async_callback(sandboxes.aclose)
        report = await sandboxes.open()
        jobs = SandboxJobs(sandboxes, report)
        quota = DiskQuota(loaded.home, loaded.config.sandbox.limits.disk_mb * MB, quotas.find_storage_limit)
        uploads = UploadService(loaded.home, source.settings(lambda loaded: loaded.config.uploads), jobs, quota)
        stack.push_async_callback(uploads.aclose)
        mcp = await stack.enter_async_context(open_mcp(mcp_dependencies(source, sandboxes, database)))
        acp = create_acp_clients(source, sandboxes)
        stack.push_async_callback(acp.aclose)
        computer = sandbox_capabilities(loaded.config.sandbox, report)
        settings = partial(current_settings, source, (fallback, saved), computer, subagent_files(loaded), policy)
        custom_agents = CustomAgents(loaded.home, shares.get_known)
        agents = AgentPool(settings, checkpointer, custom_agents, plan, index, loaded.environment, mcp)
        stack.push_async_callback(agents.aclose)
        yield Core(
            source=source,
            database=database,
            checkpointer=checkpointer,
            metrics=metrics,
            sandboxes=sandboxes,
            sandbox_report=report,
            sandbox_jobs=jobs,
            file_locks=FileLocks(),
            file_changes=FileChanges(database, partial(thread_snapshots, loaded.home)),
            uploads=uploads,
            skill_index=index,
            shares=shares,
            skills=SkillCatalog(index, loaded.home, partial(switch_skill, source), shares),
            mcp=mcp,
            acp=acp,
            custom_agents=custom_agents,
            agents=agents,
            saved_models=saved,
            embedder=open_embedder(stack, source, saved),
            tool_threads=open_tool_threads(stack),
            disk_quota=quota,
            quotas=quotas,
            sent_requests=SentRequests(),
        )


async def open_storage(
    stack: AsyncExitStack, loaded: LoadedConfig, metrics: Metrics
) -> tuple[Database, BaseCheckpointSaver[str]]:
    """Open the database and the checkpoints that belong to it."""
    # Threads and files are private, whatever other accounts this machine has.
    loaded.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    location = loaded.config.database.get_location(loaded.home)
    database = await stack.enter_async_context(open_database(location, loaded.home))
    checkpointer = await stack.enter_async_context(open_checkpointer(location, database))
    return MeasuredDatabase(database, metrics), checkpointer


def open_policy(loaded: LoadedConfig) -> PolicyFile:
    """Return the policy file. An invalid one is an error at start."""
    policy = PolicyFile(loaded.folder)
    policy.read(loaded.config.guardrails)
    return policy


def open_tool_threads(stack: AsyncExitStack) -> DaemonThreadPool:
    """Return the threads for tools that block. Closing does not wait for them, for they may block forever."""
    threads = DaemonThreadPool(TOOL_THREADS, "tool")
    stack.callback(threads.shutdown, wait=False, cancel_futures=True)
    return threads


def open_embedder(stack: AsyncExitStack, source: ConfigSource, saved: SavedModels) -> CurrentEmbedder:
    """Return the embedding model of the configuration, or the saved one."""
    embedder = CurrentEmbedder(source.settings(lambda loaded: loaded.config.knowledge.embedding or saved.embedding))
    stack.push_async_callback(embedder.aclose)
    if source.current.config.knowledge.embedding is not None:
        embedder.open()  # a mistake in the configuration is an error at start
    return embedder


async def find_other_models(source: ConfigSource, database: Database) -> tuple[Sequence[ModelConfig], SavedModels]:
    """Return the models besides those of the configuration: the fallback, and those that users have saved."""
    saved = open_saved_models(source, database)
    await saved.refresh()
    return await find_fallback_models(source.current), saved


def open_saved_models(source: ConfigSource, database: Database) -> SavedModels:
    """Return the models that users have saved, not read yet."""
    loaded = source.current
    place = loaded.config.database.get_location(loaded.home)
    folder = place.parent if isinstance(place, Path) else loaded.home / "data"
    cipher = TokenCipher(loaded.home / KEY_FILE, loaded.environment.get(KEY_VARIABLE))
    is_shared = not isinstance(place, Path)
    stamp = folder / "models.stamp"
    return SavedModels(database, cipher, stamp, is_shared, loaded.environment, source.remember_secrets)


def merge_models(
    configured: Sequence[ModelConfig], saved: Sequence[ModelConfig], fallback: Sequence[ModelConfig]
) -> tuple[ModelConfig, ...]:
    """Return the models of a user, the default first.

    Those of the configuration win over saved ones of the same name, and saved ones over those that were detected. The
    demo model is left out if there is any other.
    """
    detected = () if configured else [model for model in fallback if not (saved and is_scripted(model))]
    by_name: dict[str, ModelConfig] = {}
    for model in (*configured, *saved, *detected):
        by_name.setdefault(model.name, model)
    return tuple(by_name.values())


def current_settings(
    source: ConfigSource,
    others: tuple[Sequence[ModelConfig], SavedModels],
    computer: SandboxCapabilities | None,
    files: SubagentFiles,
    policy: PolicyFile,
    user_id: str,
) -> AgentSettings:
    """Return the settings of agents of a user as the configuration and the saved models are now."""
    loaded = source.refresh()
    models = merge_models(loaded.config.models, others[1].get(user_id), others[0])
    can_isolate = computer is not None and computer.is_isolated
    has_egress = computer is not None and (computer.network != "none" or not can_isolate)
    reach = EgressCapability(has_egress, isolated_servers(loaded.extensions.mcp_servers, can_isolate=can_isolate))
    return agent_settings(
        loaded.config, models, computer, files.load(), policy.current(loaded.config.guardrails), reach
    )


def open_skill_index(source: ConfigSource, find_shared: FindShared = share_nothing) -> SkillIndex:
    """Return the index of skills; the caller closes it."""
    loaded = source.current
    named = loaded.config.skills.path
    around = (loaded.config_file or loaded.extensions_file).parent
    shipped = resolve_from(around, Path(named)) / "public" if named else builtin_root()
    switches = source.settings(lambda loaded: {name: each.enabled for name, each in loaded.extensions.skills.items()})
    # The project's skills are next to the built-in ones, or in `skills` next to the configuration.
    project = shipped.parent if named else around / "skills"
    return SkillIndex(shipped, loaded.home, switches, open_folder_watcher(), LockMonitor().check, project, find_shared)


def switch_skill(source: ConfigSource, name: str, enabled: bool) -> None:
    """Enable or disable a shared skill.

    Raises:
        ConfigError: `extensions_config.json` is invalid or cannot be written.
    """
    loaded = source.current
    change = partial(set_skill_enabled, name=name, enabled=enabled)
    change_extensions(loaded.extensions_file, change, loaded.environment)


async def find_fallback_models(loaded: LoadedConfig) -> Sequence[ModelConfig]:
    """Return the models to use if none is configured: by keys in the environment, local servers, or the demo model."""
    detected = detect_models(loaded.environment)
    if detected or loaded.config.models:
        return detected or [DEMO_MODEL]
    return await detect_local_models(loaded.environment) or [DEMO_MODEL]


def create_quotas(source: ConfigSource, database: Database) -> tuple[Quotas, SharedThings]:
    """Create the quotas of people, with what knows who they are, and what knows what they share with each other."""
    users = source.settings(lambda loaded: loaded.config.users)
    people = Authenticator(database, users)
    quotas = Quotas(database, users, people, partial(measure_user_folder, source.current.home))
    return quotas, SharedThings(database, lambda: people.is_login_required)


async def measure_user_folder(home: Path, owner: str) -> int:
    """Return the bytes that the files of a person take, in all threads and projects."""
    return await asyncio.to_thread(measure_disk, user_folder(home, owner))


def create_sandboxes(
    loaded: LoadedConfig, skills: SkillViews | None = None, storage_limit: StorageLimit | None = None
) -> SandboxProvider:
    """Create the configured sandbox provider.

    Raises:
        ConfigError: `sandbox.use` is not a sandbox provider.
    """
    config = loaded.config.sandbox
    try:
        make = load_provider(config.use)
    except ConfigError as problem:
        raise ConfigError(f"sandbox.use: {problem}") from problem
    shown = skills.prepare if skills else None
    return make(config, HostContext(loaded.home, loaded.cache, shown, loaded.environment, storage_limit))


def sandbox_capabilities(config: SandboxConfig, report: SandboxReport) -> SandboxCapabilities | None:
    """Return the capabilities of the sandbox, None if there is none on this system."""
    if not report.has_files:
        return None
    has_toolbox = config.use == LOCAL_PROVIDER and config.toolbox.enabled and report.has_mounts
    is_isolated = report.tier != "host"
    return SandboxCapabilities(
        report.runs_commands, is_isolated=is_isolated, network=config.network, has_toolbox=has_toolbox
    )


def subagent_files(loaded: LoadedConfig) -> SubagentFiles:
    """Return the files of subagent types: next to the configuration, and in the state directory."""
    project = [loaded.config_file.parent / "agents"] if loaded.config_file is not None else []
    return SubagentFiles([*project, loaded.home / "agents"])


def agent_settings(
    config: Config,
    models: Sequence[ModelConfig],
    computer: SandboxCapabilities | None = None,
    filed: Sequence[SubagentFile] = (),
    policy: PolicyConfig = PolicyConfig(),
    reach: EgressCapability = EgressCapability(commands=True),
) -> AgentSettings:
    """Return the settings of agents."""
    return AgentSettings(
        models=tuple(models),
        tools=config.tools,
        tool_search=config.tool_search,
        chain=ChainSettings(
            llm_call=config.llm_call,
            loop_detection=config.loop_detection,
            summarization=config.summarization,
            guardrails=config.guardrails,
            policy=policy,
            reach=reach,
            tool_output=config.tool_output,
            read_before_write=config.read_before_write,
            title=config.title,
        ),
        computer=computer,
        subagents=config.subagents,
        acp_agents=config.acp_agents,
        skills=config.skills,
        skill_evolution=config.skill_evolution,
        memory=config.memory,
        filed_kinds=tuple(kind.to_config(config.subagents.timeout_seconds) for kind in filed),
    )


def mcp_dependencies(source: ConfigSource, sandboxes: SandboxProvider, database: Database) -> McpDependencies:
    """Return the settings and the infrastructure of MCP servers."""
    loaded = source.current
    return McpDependencies(
        source.settings(lambda loaded: loaded.extensions),
        source.settings(lambda loaded: loaded.extensions_file),
        lambda: source.redact(source.problem) if source.problem else None,
        loaded.config.sandbox,
        HostContext(loaded.home, loaded.cache, None, loaded.environment),
        sandboxes,
        database,
        source.redact,
    )


def create_acp_clients(source: ConfigSource, sandboxes: SandboxProvider) -> AcpClients:
    """Create the clients of external ACP agents."""

    async def start(order: ServiceSpec) -> Service:
        if not isinstance(sandboxes, ServiceProvider):
            raise SandboxError("the configured sandbox provider cannot run ACP agents; use the local one")
        return await sandboxes.start_service(order)

    return AcpClients(
        AcpDependencies(
            source.current.home,
            source.settings(lambda loaded: loaded.config.acp_agents),
            source.settings(lambda loaded: loaded.extensions.mcp_servers),
            start,
            source.redact,
        )
    )


def thread_snapshots(home: Path, record: RunRecord | ThreadRecord) -> Snapshots:
    """Return the snapshots of the files of a thread, or of a run's thread."""
    folder = thread_folder(home, record.owner, record.thread_id) / "snapshots"
    return Snapshots(folder, user_data_folder(home, record.owner, record.thread_id))
