"""DeerFlow inside a Python program, with the flat method names of the founding documents as aliases."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import BaseChatModel

from deerflow.agents.features import RuntimeFeatures
from deerflow.client.agents import AgentsClient, FeaturesClient, ModelsClient, ProfileClient, ToolsClient, UsageClient
from deerflow.client.artifacts import ArtifactsClient, WebPagesClient
from deerflow.client.mcp import McpClient
from deerflow.client.memory import MemoryClient
from deerflow.client.projects import ProjectsClient, UploadsClient
from deerflow.client.runs import ApprovalsClient, RunsClient, send_message, stream_message
from deerflow.client.session import (
    TIMEOUT,
    BackgroundLoop,
    ClientSession,
    HarnessSession,
    RemoteSession,
    sync_and_async,
    sync_and_async_iterator,
)
from deerflow.client.skills import CustomSkillsClient, SkillsClient
from deerflow.client.threads import FeedbackClient, PromptsClient, SharesClient, ThreadsClient
from deerflow.config.source import open_source
from deerflow.domain.errors import InvalidRequest
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import AgentSpec, ReasoningEffort
from deerflow.domain.usage import SpendingLimit
from deerflow.harness import open_harness
from deerflow.subagents.types import SubagentConfig


class FlatMethods:
    """Earlier names of the resource methods: `client.list_threads()` is `client.threads.list()`.

    A method of a resource needs only the session of its owner, so the same function serves the client.
    """

    _session: ClientSession

    pending, apending = ApprovalsClient.list, ApprovalsClient.alist
    approve, aapprove = ApprovalsClient.approve, ApprovalsClient.aapprove
    reject, areject = ApprovalsClient.reject, ApprovalsClient.areject
    edit, aedit = ApprovalsClient.edit, ApprovalsClient.aedit
    resume, aresume = RunsClient.resume, RunsClient.aresume
    stream_resume, astream_resume = RunsClient.stream_resume, RunsClient.astream_resume
    list_all_runs, alist_all_runs = RunsClient.list, RunsClient.alist
    get_workspace_changes, aget_workspace_changes = RunsClient.get_changes, RunsClient.aget_changes
    give_feedback, agive_feedback = FeedbackClient.put, FeedbackClient.aput
    list_feedback, alist_feedback = FeedbackClient.list, FeedbackClient.alist
    get_feedback_stats, aget_feedback_stats = FeedbackClient.get_stats, FeedbackClient.aget_stats
    delete_feedback, adelete_feedback = FeedbackClient.delete, FeedbackClient.adelete

    list_threads, alist_threads = ThreadsClient.list, ThreadsClient.alist
    get_thread, aget_thread = ThreadsClient.get, ThreadsClient.aget
    rename_thread, arename_thread = ThreadsClient.rename, ThreadsClient.arename
    delete_thread, adelete_thread = ThreadsClient.delete, ThreadsClient.adelete
    delete_threads, adelete_threads = ThreadsClient.delete_many, ThreadsClient.adelete_many
    search, asearch = ThreadsClient.search, ThreadsClient.asearch
    export_thread, aexport_thread = ThreadsClient.export, ThreadsClient.aexport
    share_thread, ashare_thread = SharesClient.create, SharesClient.acreate
    list_shares, alist_shares = SharesClient.list, SharesClient.alist
    read_shared, aread_shared = SharesClient.get, SharesClient.aget
    revoke_share, arevoke_share = SharesClient.revoke, SharesClient.arevoke
    suggest, asuggest = PromptsClient.suggest, PromptsClient.asuggest
    polish, apolish = PromptsClient.polish, PromptsClient.apolish

    list_files, alist_files = ArtifactsClient.list, ArtifactsClient.alist
    get_artifact, aget_artifact = ArtifactsClient.get, ArtifactsClient.aget
    get_thumbnail, aget_thumbnail = ArtifactsClient.get_thumbnail, ArtifactsClient.aget_thumbnail
    stream_artifact, astream_artifact = ArtifactsClient.stream, ArtifactsClient.astream
    download_artifact, adownload_artifact = ArtifactsClient.download, ArtifactsClient.adownload
    download_artifacts, adownload_artifacts = ArtifactsClient.download_zip, ArtifactsClient.adownload_zip
    edit_artifact, aedit_artifact = ArtifactsClient.edit, ArtifactsClient.aedit
    upload_files, aupload_files = UploadsClient.create, UploadsClient.acreate
    list_uploads, alist_uploads = UploadsClient.list, UploadsClient.alist
    delete_upload, adelete_upload = UploadsClient.delete, UploadsClient.adelete
    list_web_pages, alist_web_pages = WebPagesClient.list, WebPagesClient.alist
    get_web_page, aget_web_page = WebPagesClient.get, WebPagesClient.aget

    list_agents, alist_agents = AgentsClient.list, AgentsClient.alist
    get_agent, aget_agent = AgentsClient.get, AgentsClient.aget
    create_agent, acreate_agent = AgentsClient.create, AgentsClient.acreate
    update_agent, aupdate_agent = AgentsClient.update, AgentsClient.aupdate
    delete_agent, adelete_agent = AgentsClient.delete, AgentsClient.adelete
    list_models, alist_models = ModelsClient.list, ModelsClient.alist
    get_model, aget_model = ModelsClient.get, ModelsClient.aget
    list_tools, alist_tools = ToolsClient.list, ToolsClient.alist
    get_policy, aget_policy = ToolsClient.get_policy, ToolsClient.aget_policy
    get_features, aget_features = FeaturesClient.get, FeaturesClient.aget
    get_user_profile, aget_user_profile = ProfileClient.get, ProfileClient.aget
    update_user_profile, aupdate_user_profile = ProfileClient.update, ProfileClient.aupdate

    list_skills, alist_skills = SkillsClient.list, SkillsClient.alist
    get_skill, aget_skill = SkillsClient.get, SkillsClient.aget
    update_skill, aupdate_skill = SkillsClient.update, SkillsClient.aupdate
    reload_skills, areload_skills = SkillsClient.reload, SkillsClient.areload
    install_skill, ainstall_skill = SkillsClient.install, SkillsClient.ainstall
    list_custom_skills, alist_custom_skills = CustomSkillsClient.list, CustomSkillsClient.alist
    get_custom_skill, aget_custom_skill = CustomSkillsClient.get, CustomSkillsClient.aget
    get_custom_skill_file, aget_custom_skill_file = CustomSkillsClient.get_file, CustomSkillsClient.aget_file
    create_custom_skill, acreate_custom_skill = CustomSkillsClient.create, CustomSkillsClient.acreate
    edit_custom_skill, aedit_custom_skill = CustomSkillsClient.edit, CustomSkillsClient.aedit
    delete_custom_skill, adelete_custom_skill = CustomSkillsClient.delete, CustomSkillsClient.adelete
    get_skill_history, aget_skill_history = CustomSkillsClient.get_history, CustomSkillsClient.aget_history
    clear_skill_history, aclear_skill_history = CustomSkillsClient.clear_history, CustomSkillsClient.aclear_history
    rollback_skill, arollback_skill = CustomSkillsClient.rollback, CustomSkillsClient.arollback
    check_skill_update, acheck_skill_update = CustomSkillsClient.check_update, CustomSkillsClient.acheck_update
    update_custom_skill, aupdate_custom_skill = CustomSkillsClient.update, CustomSkillsClient.aupdate

    get_memory, aget_memory = MemoryClient.get, MemoryClient.aget
    reload_memory, areload_memory = MemoryClient.reload, MemoryClient.areload
    export_memory, aexport_memory = MemoryClient.export, MemoryClient.aexport
    import_memory, aimport_memory = MemoryClient.import_, MemoryClient.aimport
    clear_memory, aclear_memory = MemoryClient.clear, MemoryClient.aclear
    create_memory_fact, acreate_memory_fact = MemoryClient.create_fact, MemoryClient.acreate_fact
    update_memory_fact, aupdate_memory_fact = MemoryClient.update_fact, MemoryClient.aupdate_fact
    write_memory_summary, awrite_memory_summary = MemoryClient.update_summary, MemoryClient.aupdate_summary
    delete_memory_fact, adelete_memory_fact = MemoryClient.delete_fact, MemoryClient.adelete_fact
    erase_thread_memory, aerase_thread_memory = MemoryClient.erase_thread, MemoryClient.aerase_thread
    search_memory, asearch_memory = MemoryClient.search, MemoryClient.asearch
    get_memory_history, aget_memory_history = MemoryClient.get_history, MemoryClient.aget_history
    undo_memory_change, aundo_memory_change = MemoryClient.undo, MemoryClient.aundo
    explain_memory_fact, aexplain_memory_fact = MemoryClient.explain_fact, MemoryClient.aexplain_fact
    get_memory_config, aget_memory_config = MemoryClient.get_config, MemoryClient.aget_config
    switch_memory, aswitch_memory = MemoryClient.set_enabled, MemoryClient.aset_enabled
    get_memory_status, aget_memory_status = MemoryClient.get_status, MemoryClient.aget_status

    get_mcp_config, aget_mcp_config = McpClient.get_config, McpClient.aget_config
    update_mcp_config, aupdate_mcp_config = McpClient.update_config, McpClient.aupdate_config
    switch_mcp_server, aswitch_mcp_server = McpClient.set_enabled, McpClient.aset_enabled
    reset_mcp_cache, areset_mcp_cache = McpClient.reset_cache, McpClient.areset_cache
    list_mcp_servers, alist_mcp_servers = McpClient.list, McpClient.alist
    get_mcp_server, aget_mcp_server = McpClient.get, McpClient.aget
    put_mcp_server, aput_mcp_server = McpClient.put, McpClient.aput
    remove_mcp_server, aremove_mcp_server = McpClient.delete, McpClient.adelete
    reconnect_mcp_server, areconnect_mcp_server = McpClient.reconnect, McpClient.areconnect
    get_mcp_pins, aget_mcp_pins = McpClient.get_pins, McpClient.aget_pins
    accept_mcp_tools, aaccept_mcp_tools = McpClient.accept_tools, McpClient.aaccept_tools
    import_mcp_servers, aimport_mcp_servers = McpClient.import_text, McpClient.aimport_text
    start_mcp_login, astart_mcp_login = McpClient.start_login, McpClient.astart_login
    finish_mcp_login, afinish_mcp_login = McpClient.finish_login, McpClient.afinish_login
    get_mcp_login, aget_mcp_login = McpClient.get_login, McpClient.aget_login
    forget_mcp_login, aforget_mcp_login = McpClient.delete_login, McpClient.adelete_login

    get_usage, aget_usage = UsageClient.get, UsageClient.aget
    get_token_usage, aget_token_usage = UsageClient.get_thread, UsageClient.aget_thread
    get_run_usage, aget_run_usage = UsageClient.get_run, UsageClient.aget_run
    get_stats, aget_stats = UsageClient.get_stats, UsageClient.aget_stats


class DeerFlowClient(FlatMethods):
    """DeerFlow inside a Python program, or with `url` and `token` on a server.

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
        url: str | None = None,
        token: str | None = None,
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
            url: Address of a server that is used instead of a harness in this process.
            token: API token for that server.
        """
        agent = make_agent(
            model_name, thinking_enabled, reasoning_effort, plan_mode, subagent_enabled, agent_name, available_skills
        )
        own = (config, config_path, model, features, available_skills, *extra_middleware, *subagents)
        if url is None and token is None:
            self._session = embed(config, config_path, agent, budget, model, features, extra_middleware, subagents)
        else:
            self._session = connect(url, token, agent, budget, is_allowed=all(each is None for each in own))
        self._open_resources()

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
        self.projects = ProjectsClient(session)
        self.mcp = McpClient(session)
        self.usage = UsageClient(session)


def make_agent(
    model_name: str | None,
    thinking_enabled: bool | None,
    reasoning_effort: ReasoningEffort | None,
    plan_mode: bool,
    subagent_enabled: bool,
    agent_name: str | None,
    available_skills: Collection[str] | None,
) -> AgentSpec:
    """Return the agent that answers; a custom one belongs to the local user."""
    return AgentSpec(
        *(model_name, thinking_enabled, reasoning_effort, plan_mode, subagent_enabled),
        agent_name=agent_name,
        owner=LOCAL_USER.user_id if agent_name else None,
        available_skills=None if available_skills is None else tuple(sorted(available_skills)),
    )


def connect(
    url: str | None, token: str | None, agent: AgentSpec, budget: SpendingLimit | None, *, is_allowed: bool
) -> RemoteSession:
    """Return a session with a server.

    Raises:
        InvalidRequest: There is no address, or settings of a harness are given.
    """
    if url is None or not url.startswith(("http://", "https://")):
        raise InvalidRequest("url must be the address of a server, such as https://deerflow.example.com")
    if not is_allowed:
        raise InvalidRequest("config, features, models, middlewares, subagents and skills are those of the server")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    http = partial(httpx.AsyncClient, base_url=url.rstrip("/"), headers=headers, timeout=TIMEOUT)
    return RemoteSession(BackgroundLoop(http), agent, budget)


def embed(
    config: Mapping[str, object] | None,
    config_path: str | Path | None,
    agent: AgentSpec,
    budget: SpendingLimit | None,
    model: BaseChatModel | None,
    features: RuntimeFeatures | None,
    extra_middleware: Sequence[AgentMiddleware[Any, Any, Any]],
    subagents: Sequence[SubagentConfig],
) -> HarnessSession:
    """Return a session with a harness in this process; misplaced middlewares fail here and not in the first run."""
    source = open_source(Path(config_path) if config_path else None, overrides=config)
    harness = partial(
        open_harness, source, model, features=features, extra_middleware=extra_middleware, subagents=subagents
    )
    session = HarnessSession(BackgroundLoop(harness), agent, budget)
    if extra_middleware:
        try:
            session.harness.core.agents.get_graph(replace(agent, agent_name=None, owner=None))
        except BaseException:
            session.loop.close()
            raise
    return session
