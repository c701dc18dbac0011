"""Services of a harness. Those that most servers never use are imported and created on first use."""

import asyncio
import time
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_core.messages import HumanMessage, SystemMessage

from deerflow.config.load import LoadedConfig
from deerflow.config.sections.agents import SkillEvolutionConfig
from deerflow.config.sections.base import Settings
from deerflow.config.source import ConfigSource
from deerflow.domain.files import OUTPUTS, UPLOADS, WORKSPACE, FileEntry
from deerflow.domain.identity import Principal
from deerflow.domain.threads import ThreadRecord
from deerflow.domain.usage import SKILL_REVIEW
from deerflow.harness.core import Core, thread_snapshots
from deerflow.harness.memory import create_daily_budgets, create_memories, create_projects
from deerflow.runtime.side_calls import SideCalls, SideRequest
from deerflow.sandbox.files.files import thread_files
from deerflow.sandbox.files.mounts import thread_folder, user_data_folder
from deerflow.services.audit import AuditLog
from deerflow.services.saved_models import SavedModels
from deerflow.services.search import SearchService
from deerflow.services.usage import UsageService
from deerflow.services.user_data import FeedbackService, KeyValueStore, PermissionService, ProfileService

if TYPE_CHECKING:
    from deerflow.accounts.accounts import Accounts
    from deerflow.accounts.logins import Logins, Passwords
    from deerflow.accounts.passkeys import Passkeys
    from deerflow.accounts.single_sign_on import SingleSignOn
    from deerflow.mcp.servers import McpServerManager
    from deerflow.runtime.threads.threads import Threads
    from deerflow.services.artifacts import ArtifactService, ThreadArtifacts, WebPageService
    from deerflow.services.embedding_model import EmbeddingConnection
    from deerflow.services.export import ThreadExporter
    from deerflow.services.manual_tests import SkillTestService, ToolTestService
    from deerflow.services.model_connections import ModelConnections
    from deerflow.services.prompt_assistance import CompactionService, InputPolisher, SuggestionService
    from deerflow.services.sharing import SharingService
    from deerflow.skills.authoring.custom_skills import CustomSkillService, ReviewPolicy
    from deerflow.skills.authoring.download import SkillDownloader
    from deerflow.skills.authoring.review import ReviewReply, ReviewRequest
    from deerflow.skills.authoring.test_runner import SkillTestProcess
    from deerflow.teams.service import GrantService, TeamService

HEAD_INTERVAL_S = 24 * 3600.0
"""Time between two heads of the audit log in the log of the server."""


class Resources:
    """One attribute for each resource of the API."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.usage = UsageService(core.database, core.agents.prices, core.agents.window)
        self.search = SearchService(core.database)
        self.profiles = ProfileService(core.database)
        self.memory = create_memories(core.database, core.source)
        self.projects = create_projects(core)
        self._head_logged_at: float | None = None
        self.authenticator, self.quotas = core.quotas.authenticator, core.quotas
        self.daily_budgets = create_daily_budgets(core, self.quotas)
        self.side_calls = SideCalls(core.database, core.agents.side_model, self.usage.record, self.daily_budgets.wrap)

    @cached_property
    def accounts(self) -> "Accounts":
        """Accounts of people."""
        from deerflow.accounts.accounts import Accounts

        return Accounts(self._core.database, self._passwords, self.authenticator)

    @cached_property
    def teams(self) -> "TeamService":
        """Teams of people."""
        from deerflow.teams.service import TeamService

        settings = self._core.source.settings(lambda loaded: loaded.config.users)
        return TeamService(self._core.database, settings, self.authenticator.apply_changes)

    @cached_property
    def grants(self) -> "GrantService":
        """Things that people share with people and teams."""
        from deerflow.teams.service import GrantService

        return GrantService(self._core.database, self.authenticator.apply_changes)

    @cached_property
    def audit(self) -> AuditLog:
        """The audit log."""
        return AuditLog(self._core.database, self.authenticator.needs_login)

    async def log_audit_head(self) -> bool:
        """Write the head of the audit log to the log of the server: at the start, and once a day. Return True."""
        now = time.monotonic()
        is_due = self._head_logged_at is None or now - self._head_logged_at >= HEAD_INTERVAL_S
        if is_due and await self.authenticator.needs_login():
            self._head_logged_at = now
            await self.audit.log_head()
        return True

    @cached_property
    def logins(self) -> "Logins":
        """Sessions and API tokens."""
        from deerflow.accounts.logins import Logins

        return Logins(self._core.database, self._passwords, self.authenticator)

    @cached_property
    def single_sign_on(self) -> "SingleSignOn":
        """Logins at OpenID providers."""
        from deerflow.accounts.single_sign_on import SingleSignOn

        return SingleSignOn(self._core.database, self.authenticator)

    @cached_property
    def passkeys(self) -> "Passkeys":
        """Passkeys of accounts."""
        from deerflow.accounts.passkeys import Passkeys

        return Passkeys(self._core.database)

    @cached_property
    def _passwords(self) -> "Passwords":
        from deerflow.accounts.logins import Passwords

        return Passwords()

    @cached_property
    def feedback(self) -> FeedbackService:
        """Ratings of answers."""
        return FeedbackService(self._core.database)

    @cached_property
    def permissions(self) -> PermissionService:
        """Tool calls that users have allowed in a thread."""
        return PermissionService(self._core.database)

    @cached_property
    def exporter(self) -> "ThreadExporter":
        """Export of threads."""
        from deerflow.services.export import ThreadExporter

        return ThreadExporter(self._core.database, partial(list_thread_files, self._core.home))

    @cached_property
    def suggestions(self) -> "SuggestionService":
        """Follow-up questions."""
        from deerflow.services.prompt_assistance import SuggestionService

        source = self._core.source
        return SuggestionService(
            self.side_calls, self._core.agents.state_graph, source.settings(lambda loaded: loaded.config.suggestions)
        )

    @cached_property
    def input_polish(self) -> "InputPolisher":
        """Rewriting of prompts before they are sent."""
        from deerflow.services.prompt_assistance import InputPolisher

        return InputPolisher(self.side_calls, self._core.source.settings(lambda loaded: loaded.config.input_polish))

    @cached_property
    def sharing(self) -> "SharingService":
        """Public share links."""
        from deerflow.services.sharing import SharingService

        source = self._core.source
        return SharingService(self._core.database, source.settings(lambda loaded: loaded.config.sharing), source.redact)

    @cached_property
    def web_pages(self) -> "WebPageService":
        """Web pages that threads have read."""
        from deerflow.services.artifacts import WebPageService

        return WebPageService(self._core.database)

    @cached_property
    def store(self) -> KeyValueStore:
        """Key-value store of clients."""
        return KeyValueStore(self._core.database)

    @cached_property
    def custom_skills(self) -> "CustomSkillService":
        """Custom skills."""
        from deerflow.skills.authoring.custom_skills import CustomSkillService
        from deerflow.skills.authoring.review import SkillReviewer
        from deerflow.skills.authoring.store import SkillStore
        from deerflow.skills.scanner.scanner import SkillScanner

        core, loaded = self._core, self._core.source.current
        store = SkillStore(loaded.home, lambda owner: core.skill_index.read(owner).own)
        settings = core.source.settings(lambda loaded: loaded.config.skill_evolution)
        reviewer = SkillReviewer(partial(review_skill, settings, self.side_calls))
        return CustomSkillService(
            store, SkillScanner(), reviewer, core.source.settings(review_rules), self._skill_tests, self._end_shares
        )

    async def _end_shares(self, owner: str, name: str) -> None:
        await self._core.shares.end(owner, "skill", name)

    @cached_property
    def _skill_tests(self) -> "SkillTestProcess":
        from deerflow.skills.authoring.test_runner import SkillTestProcess

        loaded = self._core.source.current
        return SkillTestProcess(loaded.config.sandbox.toolbox, loaded.environment)

    async def load_skill_tests(self) -> "SkillTestService":
        """Return the service that runs tests of skills for people."""
        await asyncio.to_thread(preload_manual_tests)
        from deerflow.services.manual_tests import SkillTestService

        return SkillTestService(self._core.skills, self._skill_tests)

    async def load_tool_tests(self) -> "ToolTestService":
        """Return the service that calls MCP tools for people."""
        await asyncio.to_thread(preload_manual_tests)
        from deerflow.services.manual_tests import ToolTestService

        return ToolTestService(self.mcp_servers, self._core.agents.chain_settings, self._core.source.redact)

    @cached_property
    def skill_downloader(self) -> "SkillDownloader":
        """Downloads of skills from the web."""
        from deerflow.skills.authoring.download import SkillDownloader

        return SkillDownloader(certificates=self._core.source.current.environment.get("SSL_CERT_FILE"))

    @cached_property
    def model_connections(self) -> "ModelConnections":
        """Connections to model providers that users save."""
        return create_model_connections(self._core.source, self._core.saved_models)

    @cached_property
    def embedding_connection(self) -> "EmbeddingConnection":
        """Connection to the embedding model of the server."""
        core = self._core
        return create_embedding_connection(
            core.source, core.saved_models, self.model_connections, self.projects.wakeup.set
        )

    @property
    def mcp_servers(self) -> "McpServerManager":
        """MCP servers, for those who manage them."""
        return self._core.mcp.servers

    def create_compaction(self, threads: "Threads") -> "CompactionService":
        """Create the service that summarizes threads on request."""
        from deerflow.services.prompt_assistance import CompactionService

        settings = self._core.source.settings(lambda loaded: loaded.config.summarization)
        return CompactionService(threads, self._core.agents.state_graph, self.side_calls, settings)

    def create_artifacts(self, threads: "Threads") -> "ArtifactService":
        """Create the service for files of threads."""
        from deerflow.services.artifacts import ArtifactService

        core = self._core
        return ArtifactService(threads, self._thread_files, core.file_locks, core.file_changes, core.disk_quota)

    def _thread_files(self, thread: ThreadRecord) -> "ThreadArtifacts":
        from deerflow.sandbox.previews.previews import Previews
        from deerflow.sandbox.thumbnails import Thumbnails
        from deerflow.services.artifacts import ThreadArtifacts

        home, owner, thread_id = self._core.home, thread.owner, thread.thread_id
        folder, core = thread_folder(home, owner, thread_id), self._core
        return ThreadArtifacts(
            thread_files(user_data_folder(home, owner, thread_id)),
            thread_snapshots(home, thread),
            Thumbnails(folder / "thumbnails", core.sandbox_jobs, thread_id, owner),
            Previews(folder / "previews", core.sandbox_jobs, core.file_locks, thread_id, owner),
        )


async def list_thread_files(home: Path, thread: ThreadRecord) -> list[FileEntry]:
    """Return all files of a thread."""
    files = thread_files(user_data_folder(home, thread.owner, thread.thread_id))
    return [file for area in (UPLOADS, WORKSPACE, OUTPUTS) for file in await files.list(area)]


def create_model_connections(source: ConfigSource, saved: SavedModels) -> "ModelConnections":
    """Create the service for connections to model providers."""
    from deerflow.services.model_connections import ModelConnections

    return ModelConnections(
        saved.database,
        saved.cipher,
        saved.publish,
        source.current.environment,
        source.settings(lambda loaded: frozenset(model.name for model in loaded.config.models)),
    )


def create_embedding_connection(
    source: ConfigSource, saved: SavedModels, connections: "ModelConnections", on_change: Callable[[], None]
) -> "EmbeddingConnection":
    """Create the service for the embedding model of the server."""
    from deerflow.services.embedding_model import EmbeddingConnection

    configured = source.settings(lambda loaded: loaded.config.knowledge.embedding)
    return EmbeddingConnection(connections, configured, lambda: saved.embedding, on_change)


def review_rules(loaded: LoadedConfig) -> "ReviewPolicy":
    """Return the configured review rules for custom skills."""
    from deerflow.skills.authoring.custom_skills import ReviewPolicy

    config = loaded.config
    return ReviewPolicy(scans=config.skill_scan.enabled, fails_closed=config.skill_evolution.security_fail_closed)


async def review_skill(
    settings: Settings[SkillEvolutionConfig], calls: SideCalls, question: "ReviewRequest"
) -> "ReviewReply":
    """Ask the model that reviews skills."""
    from deerflow.skills.authoring.review import ReviewReply

    current = settings.current
    answer = await calls.ask(
        SideRequest(
            SKILL_REVIEW,
            [SystemMessage(question.instructions), HumanMessage(question.skill)],
            current.moderation_model_name,
            current.timeout_seconds,
            Principal(question.owner),
            question.thread_id,
            budget=question.budget,
        )
    )
    return ReviewReply(answer.text, answer.reason)


def preload_manual_tests() -> None:
    """Import the tester with the parts of agents they need, which takes long; call it in a thread."""
    import deerflow.services.manual_tests  # noqa: F401
