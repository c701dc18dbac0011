"""Key status of models."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from deerflow.config.sections.models import ModelConfig
from deerflow.config.source import open_source
from deerflow.harness import open_harness
from deerflow.models.detection import OPENAI_COMPATIBLE_CLIENT, get_key_status
from deerflow.testing import ScriptedModel
from tests.support import browse

REMOTE = {"use": OPENAI_COMPATIBLE_CLIENT, "base_url": "https://api.example.com/v1"}
CLAUDE = {"use": "langchain_anthropic:ChatAnthropic"}


@pytest.mark.parametrize(
    ("entry", "environment", "status"),
    [
        ({**REMOTE, "api_key": "k"}, {}, "set"),
        ({**REMOTE, "api_key": SecretStr("k")}, {}, "set"),
        ({**REMOTE, "default_headers": {"X-Api-Key": "k"}}, {}, "set"),
        ({**REMOTE, "api_key": " "}, {}, "missing"),
        ({**REMOTE, "api_key": None}, {"OPENAI_API_KEY": "for another"}, "missing"),
        ({"use": OPENAI_COMPATIBLE_CLIENT, "base_url": "http://[::1"}, {}, "missing"),
        ({"use": OPENAI_COMPATIBLE_CLIENT, "base_url": "http://127.0.0.1:11434/v1"}, {}, "not needed"),
        ({"use": OPENAI_COMPATIBLE_CLIENT, "base_url": "http://[::1]:1234/v1"}, {}, "not needed"),
        ({"use": OPENAI_COMPATIBLE_CLIENT, "base_url": "http://vllm:8000/v1"}, {}, "not needed"),
        ({"use": OPENAI_COMPATIBLE_CLIENT, "base_url": "http://192.168.1.7:8000/v1"}, {}, "not needed"),
        ({"use": "deerflow.models.demo:DemoChatModel"}, {}, "not needed"),
        ({"use": "langchain_ollama:ChatOllama"}, {}, "not needed"),
        (CLAUDE, {"ANTHROPIC_API_KEY": "k"}, "set"),
        (CLAUDE, {"ANTHROPIC_API_KEY": ""}, "missing"),
        ({"use": "own_models:Own"}, {}, "unknown"),
    ],
)
def test_returns_the_key_status_of_a_configured_model(
    entry: dict[str, object], environment: dict[str, str], status: str
) -> None:
    model = ModelConfig.model_validate({"name": "m", "model": "m", **entry})
    assert get_key_status(model, environment) == status


async def test_the_api_returns_the_key_status_and_no_key(tmp_path: Path) -> None:
    models = [
        {"name": "good", "model": "m", **REMOTE, "api_key": "sk-heron-123456", "supports_vision": True},
        {"name": "bare", "model": "m", **REMOTE},
        {"name": "claude", "model": "m", **CLAUDE},
    ]
    variables = {"ANTHROPIC_API_KEY": "sk-stork-123456"}
    source = open_source(directory=tmp_path, environment=variables, overrides={"models": models})
    async with open_harness(source, ScriptedModel.saying()) as harness, browse(harness) as http:
        answer = await http.get("/api/models")
    assert {each["name"]: each["key"] for each in answer.json()["models"]} == {
        "good": "set",
        "bare": "missing",
        "claude": "set",
    }
    assert "heron" not in answer.text and "stork" not in answer.text
