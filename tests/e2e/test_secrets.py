"""A secret of the server is in no sandbox, no event, no answer, no file of its own and no line of its log."""

import asyncio
from pathlib import Path

import httpx

from deerflow.testing import ScriptedServer, ServerFault, calling
from tests.canary import files_with
from tests.e2e.stage import serving

KEY, TOKEN = "sk-canary-a83kd02mfk4", "canary-token-77fj2ks01"
CONFIG = """
log_level: debug
memory: {{debounce_seconds: 3600}}
models:
  - name: scripted
    use: deerflow.models.openai_compatible:OpenAICompatibleChatModel
    model: scripted
    base_url: {base_url}
    api_key: $MODEL_KEY
    default_headers: {{X-Access-Token: {token}}}
sandbox: {{toolbox: {{enabled: false}}}}
title: {{enabled: false}}
llm_call: {{retry_max_attempts: 1}}
"""
SEARCH = (
    "env; set; cat /proc/*/environ /proc/*/cmdline; cat ~/.env /mnt/user-data/../*; "
    f"grep -rls {KEY[3:]} /etc /home /mnt /run /tmp /var"
)
LIMIT_S = 60


async def test_no_secret_is_to_be_found_anywhere(tmp_path: Path) -> None:
    script = [
        calling("bash", description="look for secrets", command=SEARCH),
        "Nothing.",
        ServerFault(401, f"Incorrect API key provided: {KEY}; token {TOKEN}"),
    ]
    async with ScriptedServer(script) as model, asyncio.timeout(LIMIT_S):
        (tmp_path / ".env").write_text(f"MODEL_KEY={KEY}\n")
        config = tmp_path / "config.yaml"
        config.write_text(CONFIG.format(base_url=model.base_url, token=TOKEN))
        with serving(tmp_path, config=config) as server:
            async with httpx.AsyncClient(base_url=server.url, timeout=LIMIT_S) as http:
                answers = [await said(http, "Find it"), await said(http, "Again")]
                answers += [await fetch(http, path) for path in await readable(http)]

        sent = [request.headers for request in model.requests]
    assert all(KEY in headers["authorization"] and headers["x-access-token"] == TOKEN for headers in sent)
    assert "********" in answers[1] and "401" in answers[1]  # the refusal is told, without what it quotes
    for secret in (KEY, TOKEN):
        assert not [around(answer, secret) for answer in answers if secret in answer]
        written = {Path(name).name for name in files_with(secret, tmp_path)}
        assert written <= {".env", "config.yaml"}


async def said(http: httpx.AsyncClient, text: str) -> str:
    """Everything a reader of a run gets."""
    body = {"input": {"messages": [{"type": "human", "content": text}]}, "stream_mode": ["values", "custom", "debug"]}
    return (await http.post("/api/threads/t/runs/stream", json=body)).text


async def readable(http: httpx.AsyncClient) -> list[str]:
    """Every address that can be read without knowing more than the thread and its runs."""
    paths = (await http.get("/api/openapi.json")).json()["paths"]
    runs = [run["run_id"] for run in (await http.get("/api/threads/t/runs")).json()]
    open_paths = [path.replace("{thread_id}", "t") for path, verbs in paths.items() if "get" in verbs]
    open_paths.remove("/api/threads/t/stream")  # waits for runs to come
    return [
        path.replace("{run_id}", run) for run in runs for path in open_paths if "{" not in path.replace("{run_id}", "")
    ]


async def fetch(http: httpx.AsyncClient, path: str) -> str:
    response = await http.get(path)
    return f"{response.headers} {response.text}"


def around(answer: str, secret: str) -> str:
    """Where in an answer a secret was found."""
    at = answer.index(secret)
    return answer[max(0, at - 300) : at + 100]
