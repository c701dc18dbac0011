"""Routers, one module per resource, and functions that import them with the first request."""

from fastapi import APIRouter


def load_threads() -> APIRouter:
    """Import the router of /threads."""
    from deerflow.gateway.routers.threads.threads import router

    return router


def load_deletion() -> APIRouter:
    """Import the router that deletes threads."""
    from deerflow.gateway.routers.threads.deletion import router

    return router


def load_models() -> APIRouter:
    """Import the router of /models and /starters."""
    from deerflow.gateway.routers.features import models_router

    return models_router


def load_channels() -> APIRouter:
    """Import the router of /channels and /hooks."""
    from deerflow.gateway.routers.channels import router

    return router


def load_sandbox() -> APIRouter:
    """Import the router of /sandbox."""
    from deerflow.gateway.routers.features import sandbox_router

    return sandbox_router


def load_features() -> APIRouter:
    """Import the router of /features."""
    from deerflow.gateway.routers.features import features_router

    return features_router


def load_messages() -> APIRouter:
    """Import the router of /threads/*/messages."""
    from deerflow.gateway.routers.threads.messages import router

    return router


def load_runs() -> APIRouter:
    """Import the router of /runs."""
    from deerflow.gateway.routers.threads.runs import router

    return router


def load_run_events() -> APIRouter:
    """Import the router of /threads/*/runs/*/events."""
    from deerflow.gateway.routers.threads.runs import events_router

    return events_router


def load_workspace_changes() -> APIRouter:
    """Import the router of /threads/*/runs/*/workspace-changes."""
    from deerflow.gateway.routers.threads.files import changes_router

    return changes_router


def load_assistants() -> APIRouter:
    """Import the router of /assistants."""
    from deerflow.gateway.routers.assistants import router

    return router


def load_store() -> APIRouter:
    """Import the router of /store."""
    from deerflow.gateway.routers.store import router

    return router


def load_agents() -> APIRouter:
    """Import the router of /agents."""
    from deerflow.gateway.routers.agents import router

    return router


def load_custom_skills() -> APIRouter:
    """Import the router of /skills/custom."""
    from deerflow.gateway.routers.skills import custom_router

    return custom_router


def load_skills() -> APIRouter:
    """Import the router of /skills."""
    from deerflow.gateway.routers.skills import router

    return router


def load_artifacts() -> APIRouter:
    """Import the router of /threads/*/artifacts."""
    from deerflow.gateway.routers.threads.artifacts import router

    return router


def load_files() -> APIRouter:
    """Import the router of /threads/*/files."""
    from deerflow.gateway.routers.threads.files import router

    return router


def load_previews() -> APIRouter:
    """Import the router of /threads/*/previews."""
    from deerflow.gateway.routers.threads.artifacts import preview_router

    return preview_router


def load_uploads() -> APIRouter:
    """Import the router of /threads/*/uploads."""
    from deerflow.gateway.routers.threads.uploads import router

    return router


def load_upload_limits() -> APIRouter:
    """Import the router of /uploads."""
    from deerflow.gateway.routers.threads.uploads import limits_router

    return limits_router


def load_search() -> APIRouter:
    """Import the router of /search."""
    from deerflow.gateway.routers.threads.messages import search_router

    return search_router


def load_usage() -> APIRouter:
    """Import the router of /threads/*/token-usage."""
    from deerflow.gateway.routers.usage import router

    return router


def load_feedback() -> APIRouter:
    """Import the router of /threads/*/runs/*/feedback."""
    from deerflow.gateway.routers.threads.feedback import router

    return router


def load_export() -> APIRouter:
    """Import the router of /threads/*/export."""
    from deerflow.gateway.routers.threads.messages import export_router

    return export_router


def load_permissions() -> APIRouter:
    """Import the router of /threads/*/permissions."""
    from deerflow.gateway.routers.threads.feedback import permissions_router

    return permissions_router


def load_sharing() -> APIRouter:
    """Import the router of /threads/*/shares."""
    from deerflow.gateway.routers.threads.sharing import router

    return router


def load_shared() -> APIRouter:
    """Import the router of /shared."""
    from deerflow.gateway.routers.threads.sharing import shared_router

    return shared_router


def load_suggestions() -> APIRouter:
    """Import the router of /threads/*/suggestions."""
    from deerflow.gateway.routers.threads.suggestions import router

    return router


def load_user_profile() -> APIRouter:
    """Import the router of /user-profile."""
    from deerflow.gateway.routers.agents import profile_router

    return profile_router


def load_memory() -> APIRouter:
    """Import the router of /memory."""
    from deerflow.gateway.routers.memory import router

    return router


def load_mcp() -> APIRouter:
    """Import the router of /mcp."""
    from deerflow.gateway.routers.mcp import router

    return router


def load_web_pages() -> APIRouter:
    """Import the router of /threads/*/web-pages."""
    from deerflow.gateway.routers.threads.files import web_pages_router

    return web_pages_router


def load_tools() -> APIRouter:
    """Import the router of /tools and /policy."""
    from deerflow.gateway.routers.features import tools_router

    return tools_router


def load_projects() -> APIRouter:
    """Import the router of /projects."""
    from deerflow.gateway.routers.projects import router

    return router


def load_embedding_model() -> APIRouter:
    """Import the router of /embedding-model."""
    from deerflow.gateway.routers.projects import embedding_router

    return embedding_router


def load_accounts() -> APIRouter:
    """Import the router of /v1/auth."""
    from deerflow.gateway.routers.accounts import router

    return router


def load_login_methods() -> APIRouter:
    """Import the router of single sign-on and passkeys."""
    from deerflow.gateway.routers.login_methods import router

    return router


def load_account_admin() -> APIRouter:
    """Import the router of /v1/auth/users and /v1/auth/invitations."""
    from deerflow.gateway.routers.accounts import admin_router

    return admin_router


def load_audit() -> APIRouter:
    """Import the router of /audit."""
    from deerflow.gateway.routers.audit import router

    return router


def load_admin_messages() -> APIRouter:
    """Import the router of /admin/threads/*/messages."""
    from deerflow.gateway.routers.threads.messages import admin_router

    return admin_router


def load_teams() -> APIRouter:
    """Import the router of /teams, /shared-with-me and /grants of threads, agents and skills."""
    from deerflow.gateway.routers.teams import router

    return router


def load_model_connections() -> APIRouter:
    """Import the router of /model-connections."""
    from deerflow.gateway.routers.model_connections import router

    return router
