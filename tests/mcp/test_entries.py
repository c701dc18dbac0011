"""Tests of masked entries and of checks of new entries."""

import pytest

from deerflow.config.loader.validation import MASK
from deerflow.domain.errors import InvalidRequest
from deerflow.mcp.entries import allowed_commands, check_entry, mask_entry, restore_entry

STORED = {
    "type": "http",
    "url": "https://user:canary1@mcp.example/mcp?api_key=canary2&page=1",
    "headers": {"X-Team": "canary3", "Authorization": "Bearer ${NOTES_TOKEN}"},
    "env": {"DEBUG": "canary4", "GITHUB_TOKEN": "$GITHUB_TOKEN"},
    "args": ["-y", "@x/server", "--api-key=canary5", "--token", "canary6", "--verbose", "https://a:canary7@b/"],
    "oauth": {
        "token_url": "https://login.example/token",
        "client_id": "me",
        "client_secret": "canary8",
        "refresh_token": "canary9",
        "extra_token_params": {"pin": "canary10"},
    },
    "tool_call_timeout": 5.0,
}


def test_masks_secrets_only() -> None:
    shown = mask_entry(STORED)
    assert "canary" not in str(shown)
    assert shown["headers"] == {"X-Team": MASK, "Authorization": "Bearer ${NOTES_TOKEN}"}
    assert shown["env"] == {"DEBUG": MASK, "GITHUB_TOKEN": "$GITHUB_TOKEN"}
    assert shown["url"] == f"https://{MASK}@mcp.example/mcp?api_key={MASK}&page=1"
    assert shown["oauth"]["client_id"] == "me" and shown["tool_call_timeout"] == 5.0


def test_restores_masked_values() -> None:
    assert restore_entry("x", mask_entry(STORED), STORED) == STORED
    shown = mask_entry(STORED)
    edited = {**shown, "args": ["--new", *shown["args"]], "env": {"DEBUG": MASK, "OTHER": "1"}, "description": "New."}
    back = restore_entry("x", edited, STORED)
    assert back["args"] == ["--new", *STORED["args"]]  # type: ignore[misc]
    assert back["env"] == {"DEBUG": "canary4", "OTHER": "1"}
    assert back["headers"] == STORED["headers"] and back["description"] == "New."


@pytest.mark.parametrize(
    ("entry", "where"),
    [
        ({"env": {"NEW": MASK}}, "x.env.NEW"),
        ({"headers": {"X-Team": f"{MASK}!"}}, "x.headers.X-Team"),
        ({"args": [f"--secret={MASK}"]}, r"x.args.\*"),
        ({"url": f"https://{MASK}@elsewhere.example/"}, "x.url"),
    ],
)
def test_refuses_masked_value_without_stored_value(entry: dict[str, object], where: str) -> None:
    with pytest.raises(InvalidRequest, match=f"{where} is masked"):
        restore_entry("x", entry, STORED)


def test_does_not_restore_secrets_of_another_server() -> None:
    with pytest.raises(InvalidRequest, match=r"y\.oauth\.client_secret is masked"):
        restore_entry("y", {"oauth": {"client_secret": MASK}}, None)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"command": "bash"}, "is not one of bunx, npx, pipx, uvx"),
        ({"command": "/usr/bin/npx"}, "is not one of"),
        ({"command": "npx", "args": ["-c", "touch /tmp/x"]}, "runs or loads a text"),
        ({"command": "npx", "args": ["-ctouch /tmp/x"]}, "runs or loads a text"),
        ({"command": "npx", "args": ["--call=touch /tmp/x"]}, "runs or loads a text"),
        ({"command": "npx", "args": ["--node-options", "--require=/tmp/x"]}, "runs or loads a text"),
        ({"command": "npx", "env": {"NODE_OPTIONS": "-r /tmp/x"}}, "decides which programs"),
        ({"command": "npx", "env": {"npm_config_script_shell": "/tmp/x"}}, "decides which programs"),
        ({"command": "uvx", "env": {"LD_PRELOAD": "/tmp/x"}}, "decides which programs"),
        ({"command": "uvx", "env": {"PYTHONPATH": "/tmp/x"}}, "decides which programs"),
        ({"command": "uvx", "paths": ["/etc"]}, "in extensions_config.json alone"),
        ({"command": "uvx", "cwd": "/srv"}, "in extensions_config.json alone"),
        ({"command": "uvx", "args": ["-v", "/srv:/srv"]}, "is a path of this machine"),
        ({"command": "uvx", "env": {"KEY": "$OPENAI_API_KEY"}}, "refers to OPENAI_API_KEY"),
        ({"type": "http", "url": "https://x.example/${HOME}"}, "refers to HOME"),
        ({"type": "http", "url": "file:///etc/passwd"}, "begins with https"),
    ],
)
def test_refuses_entries_that_run_code_or_reveal_variables(entry: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        check_entry("x", entry, None, allowed_commands({}))


def test_accepts_usual_entries_and_unchanged_operator_entries() -> None:
    allowed = allowed_commands({"DEER_FLOW_MCP_STDIO_COMMAND_ALLOWLIST": "docker, node"})
    usual = {"command": "npx", "args": ["-y", "@x/server@1.2", "/data"], "env": {"TOKEN": "abc"}}
    check_entry("x", usual, None, allowed)
    check_entry("x", {"command": "docker", "args": ["run", "image"]}, None, allowed)
    by_hand = {"command": "bash", "args": ["-c", "serve"], "env": {"KEY": "$KEY"}, "paths": ["/srv"]}
    check_entry("x", {**by_hand, "enabled": False, "description": "New."}, by_hand, allowed)
    with pytest.raises(InvalidRequest):
        check_entry("x", {**by_hand, "args": ["-c", "other"]}, by_hand, allowed)
    with pytest.raises(InvalidRequest, match="is no name for a server"):
        check_entry("../x", usual, None, allowed)


def test_refuses_deeply_nested_entries() -> None:
    deep: dict[str, object] = {}
    for _ in range(500):
        deep = {"a": deep}
    with pytest.raises(InvalidRequest, match="nested too deeply"):
        restore_entry("x", deep, None)
