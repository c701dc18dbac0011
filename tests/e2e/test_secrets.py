"""Secrets of the server are in no sandbox, event, response, file or log line."""

import asyncio
from pathlib import Path

import httpx

from deerflow.testing import ScriptedServer, ServerFault, calling
from tests.canary import files_with
from tests.e2e.server_process import serve

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


async def test_secrets_are_in_no_sandbox_event_response_file_or_log(tmp_path: Path) -> None:
    script = [
        calling("bash", description="look for secrets", command=SEARCH),
        "Nothing.",
        ServerFault(401, f"Incorrect API key provided: {KEY}; token {TOKEN}"),
    ]
    async with ScriptedServer(script) as model, asyncio.timeout(LIMIT_S):
        (tmp_path / ".env").write_text(f"MODEL_KEY={KEY}\n")
        config = tmp_path / "config.yaml"
        config.write_text(CONFIG.format(base_url=model.base_url, token=TOKEN))
        with serve(tmp_path, config=config) as server:
            async with httpx.AsyncClient(base_url=server.url, timeout=LIMIT_S) as http:
                answers = [await stream_run(http, "Find it"), await stream_run(http, "Again")]
                answers += [await fetch(http, path) for path in await readable_paths(http)]

        sent = [request.headers for request in model.requests]
    assert all(KEY in headers["authorization"] and headers["x-access-token"] == TOKEN for headers in sent)
    assert "********" in answers[1] and "401" in answers[1]  # the error is reported without the quoted secret
    for secret in (KEY, TOKEN):
        assert not [excerpt(answer, secret) for answer in answers if secret in answer]
        written = {Path(name).name for name in files_with(secret, tmp_path)}
        assert written <= {".env", "config.yaml"}


async def stream_run(http: httpx.AsyncClient, text: str) -> str:
    """Start a run and return its whole stream."""
    body = {"input": {"messages": [{"type": "human", "content": text}]}, "stream_mode": ["values", "custom", "debug"]}
    return (await http.post("/api/threads/t/runs/stream", json=body)).text


async def readable_paths(http: httpx.AsyncClient) -> list[str]:
    """Return all GET paths whose parameters are at most the thread and its runs."""
    paths = (await http.get("/api/openapi.json")).json()["paths"]
    runs = [run["run_id"] for run in (await http.get("/api/threads/t/runs")).json()]
    open_paths = [path.replace("{thread_id}", "t") for path, verbs in paths.items() if "get" in verbs]
    open_paths.remove("/api/threads/t/stream")  # waits for future runs
    return [
        path.replace("{run_id}", run) for run in runs for path in open_paths if "{" not in path.replace("{run_id}", "")
    ]


async def fetch(http: httpx.AsyncClient, path: str) -> str:
    response = await http.get(path)
    return f"{response.headers} {response.text}"


def excerpt(answer: str, secret: str) -> str:
    """Return the text around a secret."""
    start = answer.index(secret)
    return answer[max(0, start - 300) : start + 100]
