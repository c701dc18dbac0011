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
from deerflow.client import (
    agents,
    approvals,
    artifacts,
    custom_skills,
    feedback,
    helps,
    mcp,
    memory,
    models,
    runs,
    sharing,
    skills,
    threads,
    uploads,
    usage,
)
from deerflow.client.faces import Session, faces, streams
from deerflow.client.loop import HarnessLoop
from deerflow.config.source import open_source
from deerflow.domain.budget import SpendingLimit
from deerflow.domain.principal import LOCAL_USER
from deerflow.domain.runs import AgentSpec, ReasoningEffort
from deerflow.harness import open_harness
from deerflow.subagents.kinds import SubagentConfig


class DeerFlowClient:
    """DeerFlow inside a Python program.

    `config` is laid over `config.yaml`, which need not exist. Every method has a plain and an async face; both enter at
    the same run manager as the web page. Close it, or use it in a `with` block.
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
        """Open everything the configuration asks for.

        Args:
            config: Settings in the shape of `config.yaml`; they win over the file.
            config_path: The file to read instead of the one that would be found.
            features: Which built-in middlewares are on, off or replaced; None leaves that to the configuration.
            extra_middleware: Middlewares of your own, placed by `@Next` and `@Prev`.
            model: Answers in place of every configured model.
            model_name: Which configured model answers.
            thinking_enabled: Whether it thinks first; None: if it can.
            reasoning_effort: How hard it thinks, where it takes that.
            plan_mode: Whether the agent keeps a list of what is to be done.
            subagent_enabled: Whether the agent may hand work to others.
            subagents: Kinds of others, besides those of the configuration.
            agent_name: The custom agent that answers.
            available_skills: The only skills it may use; None: all that are switched on.
            budget: What the models of one run may take in all, if less than the configuration allows.
        """
        source = open_source(Path(config_path) if config_path else None, overrides=config)
        skills_given = None if available_skills is None else tuple(sorted(available_skills))
        agent = AgentSpec(
            *(model_name, thinking_enabled, reasoning_effort, plan_mode, subagent_enabled),
            agent_name=agent_name,
            owner=LOCAL_USER.user_id if agent_name else None,
            available_skills=skills_given,
        )
        harness = partial(
            open_harness, source, model, features=features, extra_middleware=extra_middleware, subagents=subagents
        )
        self._session = Session(HarnessLoop(harness), agent, budget)
        if extra_middleware:
            self._check_places()

    chat, achat = faces(runs.chat)
    stream, astream = streams(runs.stream)

    pending, apending = faces(approvals.pending)
    approve, aapprove = faces(approvals.approve)
    reject, areject = faces(approvals.reject)
    edit, aedit = faces(approvals.edit)
    resume, aresume = faces(approvals.resume)
    stream_resume, astream_resume = streams(approvals.stream_resume)

    list_threads, alist_threads = faces(threads.list_threads)
    get_thread, aget_thread = faces(threads.get_thread)
    rename_thread, arename_thread = faces(threads.rename_thread)
    delete_thread, adelete_thread = faces(threads.delete_thread)
    delete_threads, adelete_threads = faces(threads.delete_threads)

    share_thread, ashare_thread = faces(sharing.share_thread)
    list_shares, alist_shares = faces(sharing.list_shares)
    revoke_share, arevoke_share = faces(sharing.revoke_share)
    read_shared, aread_shared = faces(sharing.read_shared)

    get_artifact, aget_artifact = faces(artifacts.get_artifact)
    get_thumbnail, aget_thumbnail = faces(artifacts.get_thumbnail)
    stream_artifact, astream_artifact = streams(artifacts.stream_artifact)
    download_artifact, adownload_artifact = faces(artifacts.download_artifact)
    download_artifacts, adownload_artifacts = faces(artifacts.download_artifacts)
    edit_artifact, aedit_artifact = faces(artifacts.edit_artifact)
    get_workspace_changes, aget_workspace_changes = faces(artifacts.get_workspace_changes)

    upload_files, aupload_files = faces(uploads.upload_files)
    list_uploads, alist_uploads = faces(uploads.list_uploads)
    delete_upload, adelete_upload = faces(uploads.delete_upload)
    list_files, alist_files = faces(threads.list_files)

    list_models, alist_models = faces(models.list_models)
    get_model, aget_model = faces(models.get_model)

    list_agents, alist_agents = faces(agents.list_agents)
    get_agent, aget_agent = faces(agents.get_agent)
    create_agent, acreate_agent = faces(agents.create_agent)
    update_agent, aupdate_agent = faces(agents.update_agent)
    delete_agent, adelete_agent = faces(agents.delete_agent)

    list_skills, alist_skills = faces(skills.list_skills)
    get_skill, aget_skill = faces(skills.get_skill)
    update_skill, aupdate_skill = faces(skills.update_skill)
    reload_skills, areload_skills = faces(skills.reload_skills)
    install_skill, ainstall_skill = faces(custom_skills.install_skill)
    list_custom_skills, alist_custom_skills = faces(custom_skills.list_custom_skills)
    get_custom_skill, aget_custom_skill = faces(custom_skills.get_custom_skill)
    get_custom_skill_file, aget_custom_skill_file = faces(custom_skills.get_custom_skill_file)
    create_custom_skill, acreate_custom_skill = faces(custom_skills.create_custom_skill)
    edit_custom_skill, aedit_custom_skill = faces(custom_skills.edit_custom_skill)
    delete_custom_skill, adelete_custom_skill = faces(custom_skills.delete_custom_skill)
    get_skill_history, aget_skill_history = faces(custom_skills.get_skill_history)
    clear_skill_history, aclear_skill_history = faces(custom_skills.clear_skill_history)
    rollback_skill, arollback_skill = faces(custom_skills.rollback_skill)

    get_features, aget_features = faces(helps.get_features)
    search, asearch = faces(helps.search)
    export_thread, aexport_thread = faces(helps.export_thread)
    suggest, asuggest = faces(helps.suggest)
    polish, apolish = faces(helps.polish)
    get_user_profile, aget_user_profile = faces(helps.get_user_profile)
    update_user_profile, aupdate_user_profile = faces(helps.update_user_profile)

    get_memory, aget_memory = faces(memory.get_memory)
    reload_memory, areload_memory = faces(memory.reload_memory)
    export_memory, aexport_memory = faces(memory.export_memory)
    import_memory, aimport_memory = faces(memory.import_memory)
    clear_memory, aclear_memory = faces(memory.clear_memory)
    create_memory_fact, acreate_memory_fact = faces(memory.create_memory_fact)
    update_memory_fact, aupdate_memory_fact = faces(memory.update_memory_fact)
    delete_memory_fact, adelete_memory_fact = faces(memory.delete_memory_fact)
    erase_thread_memory, aerase_thread_memory = faces(memory.erase_thread_memory)
    search_memory, asearch_memory = faces(memory.search_memory)
    get_memory_history, aget_memory_history = faces(memory.get_memory_history)
    undo_memory_change, aundo_memory_change = faces(memory.undo_memory_change)
    explain_memory_fact, aexplain_memory_fact = faces(memory.explain_memory_fact)
    get_memory_config, aget_memory_config = faces(memory.get_memory_config)
    switch_memory, aswitch_memory = faces(memory.switch_memory)
    get_memory_status, aget_memory_status = faces(memory.get_memory_status)

    get_mcp_config, aget_mcp_config = faces(mcp.get_mcp_config)
    update_mcp_config, aupdate_mcp_config = faces(mcp.update_mcp_config)
    switch_mcp_server, aswitch_mcp_server = faces(mcp.switch_mcp_server)
    reset_mcp_cache, areset_mcp_cache = faces(mcp.reset_mcp_cache)
    list_mcp_servers, alist_mcp_servers = faces(mcp.list_mcp_servers)
    get_mcp_server, aget_mcp_server = faces(mcp.get_mcp_server)
    put_mcp_server, aput_mcp_server = faces(mcp.put_mcp_server)
    remove_mcp_server, aremove_mcp_server = faces(mcp.remove_mcp_server)
    reconnect_mcp_server, areconnect_mcp_server = faces(mcp.reconnect_mcp_server)
    get_mcp_pins, aget_mcp_pins = faces(mcp.get_mcp_pins)
    accept_mcp_tools, aaccept_mcp_tools = faces(mcp.accept_mcp_tools)
    start_mcp_login, astart_mcp_login = faces(mcp.start_mcp_login)
    finish_mcp_login, afinish_mcp_login = faces(mcp.finish_mcp_login)
    get_mcp_login, aget_mcp_login = faces(mcp.get_mcp_login)
    forget_mcp_login, aforget_mcp_login = faces(mcp.forget_mcp_login)

    give_feedback, agive_feedback = faces(feedback.give_feedback)
    list_feedback, alist_feedback = faces(feedback.list_feedback)
    get_feedback_stats, aget_feedback_stats = faces(feedback.get_feedback_stats)
    delete_feedback, adelete_feedback = faces(feedback.delete_feedback)

    get_token_usage, aget_token_usage = faces(usage.get_token_usage)
    get_run_usage, aget_run_usage = faces(usage.get_run_usage)
    get_usage, aget_usage = faces(usage.get_usage)
    get_stats, aget_stats = faces(usage.get_stats)
    list_all_runs, alist_all_runs = faces(usage.list_all_runs)

    def close(self) -> None:
        """Stop what is under way and let go of everything."""
        self._session.loop.close()

    async def aclose(self) -> None:
        """Stop what is under way and let go of everything."""
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

    def _check_places(self) -> None:
        """Build an agent now, so that middlewares without a place are told of where they are given."""
        anybody = replace(self._session.agent, agent_name=None, owner=None)
        try:
            self._session.harness.agents.graph_for(anybody)
        except BaseException:
            self.close()
            raise
