"""MCP servers: configured, looked at, accepted and logged in at by a program."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pydantic_core import to_jsonable_python

from deerflow.client.faces import Session
from deerflow.domain.principal import LOCAL_USER
from deerflow.mcp.login_words import CameBack, LoginStatus
from deerflow.mcp.servers import McpServers, ServerView, ShownConfig, says_read_only
from deerflow.persistence.mcp_pins import Pin, ToolVersion

USER = LOCAL_USER.user_id


async def get_mcp_config(session: Session) -> dict[str, Any]:
    """The entries of all servers as they are written, without secrets."""
    return show_config(await servers_of(session).config())


async def update_mcp_config(session: Session, servers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Have these servers and no others, from the next run on. A secret that reads `********` stays as it is stored.

    Raises:
        InvalidRequest: an entry is wrong, or may only be written into the file itself.
    """
    return show_config(await servers_of(session).replace(servers))


async def switch_mcp_server(session: Session, name: str, *, enabled: bool) -> dict[str, Any]:
    """Switch a server on or off, from the next run on.

    Raises:
        NotFound: there is no such server.
    """
    return show_config(await servers_of(session).switch(name, enabled=enabled))


async def list_mcp_servers(session: Session) -> dict[str, Any]:
    """All servers, how things stand with each, and what it offers."""
    return {"servers": [show_server(view) for view in await servers_of(session).list(USER)]}


async def get_mcp_server(session: Session, name: str) -> dict[str, Any]:
    """One server.

    Raises:
        NotFound: there is no such server.
    """
    return show_server(await servers_of(session).get(name, USER))


async def put_mcp_server(session: Session, name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Add a server, or replace its entry.

    Raises:
        InvalidRequest: the entry is wrong, or may only be written into the file itself.
    """
    return show_server(await servers_of(session).put(name, entry, USER))


async def remove_mcp_server(session: Session, name: str) -> None:
    """Remove a server, with all logins there and what was accepted of its tools.

    Raises:
        NotFound: there is no such server.
    """
    await servers_of(session).remove(name)


async def reconnect_mcp_server(session: Session, name: str) -> dict[str, Any]:
    """Ask a server again what it offers, and wait a moment for the answer.

    Raises:
        NotFound: there is no such server.
    """
    return show_server(await servers_of(session).reconnect(name, USER))


async def reset_mcp_cache(session: Session) -> dict[str, Any]:
    """Forget what servers offered; each is asked again when it is next needed."""
    servers_of(session).reset()
    return {"success": True, "message": "all MCP servers are asked again when they are next needed"}


async def get_mcp_pins(session: Session, name: str) -> dict[str, Any]:
    """The tools of a server as they were accepted, and as they are now.

    Raises:
        NotFound: there is no such server.
    """
    return show_pins(name, await servers_of(session).pinned(name))


async def accept_mcp_tools(session: Session, name: str, tools: Mapping[str, str]) -> dict[str, Any]:
    """Accept tools as they are offered, all or none.

    Args:
        name: The server.
        tools: The hash of what each of them offers, as it was read.

    Raises:
        NotFound: there is nothing to accept.
        Conflict: one of them has changed again.
    """
    return show_pins(name, await servers_of(session).accept(name, tools, USER))


async def start_mcp_login(session: Session, name: str, redirect_uri: str) -> dict[str, Any]:
    """Begin a login at a server: have somebody open the address, and hand on what comes to `redirect_uri`.

    Raises:
        NotFound: there is no such server.
        InvalidRequest: nobody logs in there.
        McpLoginFailed: it cannot be found out where to log in.
    """
    started = await servers_of(session).start_login(name, USER, redirect_uri, None)
    return {"authorization_url": started.authorization_url, "expires_at": to_jsonable_python(started.expires_at)}


async def finish_mcp_login(session: Session, state: str, code: str) -> dict[str, Any]:
    """Keep what came back from a login; how it stands then.

    Raises:
        McpLoginFailed: it did not work.
    """
    servers = servers_of(session)
    return show_login(await servers.login(await servers.logged_in(USER, CameBack(state, code)), USER))


async def get_mcp_login(session: Session, name: str) -> dict[str, Any]:
    """How things stand with the login at a server.

    Raises:
        NotFound: there is no such server.
    """
    return show_login(await servers_of(session).login(name, USER))


async def forget_mcp_login(session: Session, name: str) -> None:
    """Forget the login at a server.

    Raises:
        NotFound: there is no such server.
    """
    await servers_of(session).forget_login(name, USER)


def servers_of(session: Session) -> McpServers:
    """What manages the servers."""
    return session.harness.resources.mcp_servers


def show_config(shown: ShownConfig) -> dict[str, Any]:
    """Entries in the shape of the HTTP API."""
    return {"mcp_servers": dict(shown.servers), "problem": shown.problem}


def show_server(view: ServerView) -> dict[str, Any]:
    """A server in the shape of the HTTP API."""
    status = view.status
    return {
        "name": view.name,
        "type": view.config.type,
        "description": view.config.description,
        "enabled": view.config.enabled,
        "state": status.state,
        "error": status.error,
        "notes": view.notes,
        "since": to_jsonable_python(status.since),
        "tools": [
            {
                "name": card.name,
                "title": card.title,
                "description": card.description,
                "input_schema": dict(card.input_schema),
                "read_only": says_read_only(card),
            }
            for card in status.tools
        ],
        "changed_tools": list(status.changed_tools),
        "resources": [asdict(each) for each in status.resources],
        "prompts": [{**asdict(each), "arguments": list(each.arguments)} for each in status.prompts],
        "login": show_login(view.login),
    }


def show_login(login: LoginStatus) -> dict[str, Any]:
    """A login in the shape of the HTTP API."""
    return {
        **asdict(login),
        "expires_at": to_jsonable_python(login.expires_at),
        "since": to_jsonable_python(login.since),
    }


def show_pins(server: str, pins: Sequence[Pin]) -> dict[str, Any]:
    """Tools and how they differ, in the shape of the HTTP API."""
    shown = [
        {
            "tool": pin.tool,
            "state": pin.state,
            "accepted": show_version(pin.accepted),
            "offered": show_version(pin.offered),
            "accepted_at": to_jsonable_python(pin.accepted_at),
            "accepted_by": pin.accepted_by,
            "offered_at": to_jsonable_python(pin.offered_at),
        }
        for pin in pins
    ]
    return {"server": server, "tools": shown}


def show_version(version: ToolVersion | None) -> dict[str, Any] | None:
    """A tool as it was at some time."""
    return {"hash": version.hash, **version.shown} if version is not None else None
