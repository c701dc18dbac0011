"""Public fakes for tests: a scripted chat model, a scripted OpenAI-compatible server, and an in-memory sandbox.

model = ScriptedModel.saying("Hello", calling("bash", command="ls"), "Done")

async with ScriptedServer(["Hello", RateLimited(retry_after=2), CutAfter(3)]) as server:
    model = OpenAICompatibleChatModel(model="scripted", base_url=server.base_url)
"""

from deerflow.testing.fake_sandbox import FakeSandbox, FakeSandboxProvider
from deerflow.testing.scripted_model import ModelCall, ObedientModel, ScriptedModel
from deerflow.testing.scripted_server import ScriptedServer, ServerRequest
from deerflow.testing.turns import (
    Answer,
    CutAfter,
    RateLimited,
    Raw,
    ServerFault,
    Stall,
    ToolRequest,
    Usage,
    calling,
    in_parallel,
    thinking,
)

__all__ = [
    "Answer",
    "CutAfter",
    "FakeSandbox",
    "FakeSandboxProvider",
    "ModelCall",
    "ObedientModel",
    "RateLimited",
    "Raw",
    "ScriptedModel",
    "ScriptedServer",
    "ServerFault",
    "ServerRequest",
    "Stall",
    "ToolRequest",
    "Usage",
    "calling",
    "in_parallel",
    "thinking",
]
