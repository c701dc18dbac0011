"""Founding configurations with containers, as they are printed, each used by a run in a container of a local image."""

import asyncio
import json
from pathlib import Path
from uuid import uuid4

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.runs import AgentSpec
from deerflow.harness import Harness, open_harness
from deerflow.sandbox.files.mounts import derive_sandbox_id
from deerflow.testing import ScriptedModel, ScriptedServer, calling
from tests.community.support import ContainerEngine
from tests.community.web_site import json_response, open_site
from tests.harness.founding_documents import CONTAINERS, GUIDE
from tests.harness.support import ask_successfully
from tests.sandbox.support import act

LISTENING = "python3 -c \"import socket; socket.create_connection(('127.0.0.1', 8080)); print('listening')\""
"""The server of the image; nothing else in a sandbox has a port."""


async def test_runs_with_the_configuration_of_the_guide(engine: ContainerEngine, tmp_path: Path) -> None:
    prefix = f"test-{uuid4().hex[:8]}"
    turns = [
        act("bash", command=LISTENING),
        calling("task", description="look", prompt="Look.", subagent_type="general-purpose"),
        "Nothing there.",
        calling("web_search", query="red deer"),
        "Done.",
    ]
    async with ScriptedServer(turns) as server, open_site() as site:
        site.routes["/search"] = json_response({"results": [{"title": "Deer", "url": "https://example.org/deer"}]})
        text = add_keys(GUIDE, "model: gpt-4\n", base_url=server.base_url)
        text = add_keys(text, "tavily_search\n", base_url=site.url)
        local = {"engine_url": f"unix://{engine.socket}", "image": engine.image, "container_prefix": prefix}
        (tmp_path / "config.yaml").write_text(add_keys(text, "AioSandboxProvider\n", **local))
        keys = {"OPENAI_API_KEY": "model-key", "TAVILY_API_KEY": "search-key"}
        try:
            async with open_harness(open_source(directory=tmp_path, environment=keys)) as harness:
                await ask_successfully(harness, agent=AgentSpec(subagent_enabled=True))
                command, subagent, search = await tool_texts(harness, "t")
        finally:
            await asyncio.to_thread(engine.remove_containers, prefix)
    assert command == "listening"
    assert "Nothing there." in subagent
    assert json.loads(search)["results"][0]["title"] == "Deer"
    assert site.asked[0].headers["authorization"] == "Bearer search-key"
    assert {request.model for request in server.requests} == {"gpt-4"}
    assert server.requests[0].headers["authorization"] == "Bearer model-key"


async def test_runs_with_the_printed_settings_of_containers(engine: ContainerEngine, tmp_path: Path) -> None:
    projects, thread = tmp_path / "projects", uuid4().hex
    projects.mkdir()
    projects.chmod(0o777)
    image = "some-registry/all-in-one-sandbox:latest"
    await asyncio.to_thread(engine.podman, "tag", engine.image, f"docker.io/{image}")
    text = CONTAINERS.replace("/home/user/projects", str(projects))
    (tmp_path / "config.yaml").write_text(add_keys(text, "AioSandboxProvider\n", engine_url=f"unix://{engine.socket}"))
    model = ScriptedModel.saying(
        act("bash", command=LISTENING), act("bash", command="echo made > /mnt/projects/a.txt"), "Done."
    )
    name = f"deer-flow-sandbox-{derive_sandbox_id(thread, LOCAL_USER.user_id)}"
    try:
        async with open_harness(open_source(directory=tmp_path, environment={}), model) as harness:
            await ask_successfully(harness, thread=thread)
            assert await tool_texts(harness, thread) == ["listening", "(no output)"]
            # Kept for the next run: one container is less than `replicas`, and `idle_timeout` is not over.
            running = await asyncio.to_thread(engine.podman, "ps", "--format={{.Image}}", f"--filter=name={name}")
            assert running.strip().endswith(image)
    finally:
        await asyncio.to_thread(engine.remove_containers, name)
        await asyncio.to_thread(engine.podman, "untag", engine.image, f"docker.io/{image}")
    assert (projects / "a.txt").read_text() == "made\n"


def add_keys(text: str, line: str, **keys: str) -> str:
    """Return a configuration with further keys after the line that ends with `line`, with its indentation."""
    before, after = text.split(line)
    last = before.rpartition("\n")[2]
    indentation = " " * (len(last) - len(last.lstrip()))
    return before + line + "".join(f"{indentation}{key}: {value}\n" for key, value in keys.items()) + after


async def tool_texts(harness: Harness, thread: str) -> list[str]:
    """Return the tool results of a thread."""
    state = json.loads((await harness.threads.state(thread, LOCAL_USER)).values)
    return [message["content"] for message in state["messages"] if message["type"] == "tool"]
