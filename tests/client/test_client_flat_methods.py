"""Flat names of the client's methods, e.g. `client.list_threads`."""

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deerflow.client import DeerFlowClient
from deerflow.client.session import Resource
from deerflow.testing import ScriptedModel

ROOT = Path(__file__).parents[2]
WITHOUT_FLAT_NAMES = {
    "projects": {
        *("create", "list", "get", "update", "delete", "add_thread", "remove_thread", "add_files", "list_files"),
        *("delete_file", "retry_file", "search", "get_memory"),
    },
    "approvals": {"approve_in_thread", "list_permissions", "revoke_permission"},
}
"""Resources that are newer than the flat names, with their methods."""
FLAT_NAMES = {
    "pending": "approvals.list",
    "approve": "approvals.approve",
    "reject": "approvals.reject",
    "edit": "approvals.edit",
    "resume": "runs.resume",
    "stream_resume": "runs.stream_resume",
    "list_all_runs": "runs.list",
    "get_workspace_changes": "runs.get_changes",
    "give_feedback": "feedback.put",
    "list_feedback": "feedback.list",
    "get_feedback_stats": "feedback.get_stats",
    "delete_feedback": "feedback.delete",
    "list_threads": "threads.list",
    "get_thread": "threads.get",
    "rename_thread": "threads.rename",
    "delete_thread": "threads.delete",
    "delete_threads": "threads.delete_many",
    "search": "threads.search",
    "export_thread": "threads.export",
    "share_thread": "shares.create",
    "list_shares": "shares.list",
    "read_shared": "shares.get",
    "revoke_share": "shares.revoke",
    "suggest": "prompts.suggest",
    "polish": "prompts.polish",
    "list_files": "artifacts.list",
    "get_artifact": "artifacts.get",
    "get_thumbnail": "artifacts.get_thumbnail",
    "stream_artifact": "artifacts.stream",
    "download_artifact": "artifacts.download",
    "download_artifacts": "artifacts.download_zip",
    "edit_artifact": "artifacts.edit",
    "upload_files": "uploads.create",
    "list_uploads": "uploads.list",
    "delete_upload": "uploads.delete",
    "list_web_pages": "web_pages.list",
    "get_web_page": "web_pages.get",
    "list_agents": "agents.list",
    "get_agent": "agents.get",
    "create_agent": "agents.create",
    "update_agent": "agents.update",
    "delete_agent": "agents.delete",
    "list_models": "models.list",
    "get_model": "models.get",
    "list_tools": "tools.list",
    "get_policy": "tools.get_policy",
    "get_features": "features.get",
    "get_user_profile": "profile.get",
    "update_user_profile": "profile.update",
    "list_skills": "skills.list",
    "get_skill": "skills.get",
    "update_skill": "skills.update",
    "reload_skills": "skills.reload",
    "install_skill": "skills.install",
    "list_custom_skills": "custom_skills.list",
    "get_custom_skill": "custom_skills.get",
    "get_custom_skill_file": "custom_skills.get_file",
    "create_custom_skill": "custom_skills.create",
    "edit_custom_skill": "custom_skills.edit",
    "delete_custom_skill": "custom_skills.delete",
    "get_skill_history": "custom_skills.get_history",
    "clear_skill_history": "custom_skills.clear_history",
    "rollback_skill": "custom_skills.rollback",
    "check_skill_update": "custom_skills.check_update",
    "update_custom_skill": "custom_skills.update",
    "get_memory": "memory.get",
    "reload_memory": "memory.reload",
    "export_memory": "memory.export",
    "import_memory": "memory.import_",
    "clear_memory": "memory.clear",
    "create_memory_fact": "memory.create_fact",
    "update_memory_fact": "memory.update_fact",
    "write_memory_summary": "memory.update_summary",
    "delete_memory_fact": "memory.delete_fact",
    "erase_thread_memory": "memory.erase_thread",
    "search_memory": "memory.search",
    "get_memory_history": "memory.get_history",
    "undo_memory_change": "memory.undo",
    "explain_memory_fact": "memory.explain_fact",
    "get_memory_config": "memory.get_config",
    "switch_memory": "memory.set_enabled",
    "get_memory_status": "memory.get_status",
    "get_mcp_config": "mcp.get_config",
    "update_mcp_config": "mcp.update_config",
    "switch_mcp_server": "mcp.set_enabled",
    "reset_mcp_cache": "mcp.reset_cache",
    "list_mcp_servers": "mcp.list",
    "get_mcp_server": "mcp.get",
    "put_mcp_server": "mcp.put",
    "remove_mcp_server": "mcp.delete",
    "reconnect_mcp_server": "mcp.reconnect",
    "get_mcp_pins": "mcp.get_pins",
    "accept_mcp_tools": "mcp.accept_tools",
    "start_mcp_login": "mcp.start_login",
    "import_mcp_servers": "mcp.import_text",
    "finish_mcp_login": "mcp.finish_login",
    "get_mcp_login": "mcp.get_login",
    "forget_mcp_login": "mcp.delete_login",
    "get_usage": "usage.get",
    "get_token_usage": "usage.get_thread",
    "get_run_usage": "usage.get_run",
    "get_stats": "usage.get_stats",
}
PROGRAM = """
from collections.abc import Iterator
from typing import Any, assert_type

from deerflow.client import DeerFlowClient, StreamEvent

client = DeerFlowClient()
assert_type(client.chat("Hi", thread_id="t"), str)
assert_type(client.stream("Hi"), Iterator[StreamEvent])
assert_type(client.threads.list(limit=3), list[dict[str, Any]])
assert_type(client.list_threads(limit=3), list[dict[str, Any]])
assert_type(client.artifacts.get("t", "/mnt/user-data/outputs/a"), tuple[bytes, str])
client.threads.list(limit="3")  # type: ignore[arg-type]
client.list_threads(limit="3")  # type: ignore[arg-type]


async def program() -> None:
    assert_type(await client.threads.alist(), list[dict[str, Any]])
    assert_type(await client.memory.asearch("tea", limit=3), dict[str, Any])
"""


@pytest.fixture
def client() -> Any:
    with DeerFlowClient(model=ScriptedModel.saying("One.")) as client:
        client.chat("1", thread_id="t")
        yield client


def test_each_flat_name_is_the_method_of_a_resource(client: DeerFlowClient) -> None:
    for flat, target in FLAT_NAMES.items():
        resource, method = target.split(".")
        owner = type(getattr(client, resource))
        name = "aimport" if method == "import_" else f"a{method}"
        assert getattr(DeerFlowClient, flat) is getattr(owner, method), flat
        assert getattr(DeerFlowClient, f"a{flat}") is getattr(owner, name), flat


def test_flat_names_and_resource_methods_return_the_same(client: DeerFlowClient) -> None:
    assert client.list_threads() == client.threads.list() != []
    assert client.get_thread("t") == client.threads.get("t")
    assert client.pending("t") == client.approvals.list("t")
    assert client.list_all_runs() == client.runs.list()
    assert client.get_memory() == client.memory.get()
    assert client.list_mcp_servers() == client.mcp.list()
    assert client.get_token_usage("t") == client.usage.get_thread("t")


def test_each_resource_method_has_a_flat_name_or_is_newer_two_forms_and_a_docstring(client: DeerFlowClient) -> None:
    resources = {name: value for name, value in vars(client).items() if isinstance(value, Resource)}
    assert {target.split(".")[0] for target in list_methods()} == resources.keys()
    for name, resource in resources.items():
        methods = {key: value for key, value in vars(type(resource)).items() if not key.startswith("_")}
        sync = {key for key in methods if f"a{key.rstrip('_')}" in methods}
        assert {f"{name}.{key}" for key in sync} == {each for each in list_methods() if each.split(".")[0] == name}
        assert sync | {f"a{key.rstrip('_')}" for key in sync} == methods.keys()
        assert all(inspect.getdoc(method) for method in methods.values())


def test_the_guide_lists_all_resources_and_methods() -> None:
    guide = (ROOT / "docs/guides/python.md").read_text()
    rows = re.findall(r"^\| `client\.(\w+)` \| (.*) \|$", guide, re.M)
    listed = {f"{resource}.{method}" for resource, methods in rows for method in re.findall(r"`(\w+)`", methods)}
    assert listed == list_methods()


def list_methods() -> set[str]:
    """Return all methods of resources as `resource.method`."""
    newer = {f"{name}.{method}" for name, methods in WITHOUT_FLAT_NAMES.items() for method in methods}
    return newer | set(FLAT_NAMES.values())


@pytest.mark.slow
def test_type_checkers_see_arguments_and_results(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", str(program)],
        cwd=ROOT, capture_output=True, text=True, timeout=110,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout
