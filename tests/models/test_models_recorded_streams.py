"""Recorded streams of vendors yield the same messages as `ChatOpenAI`."""

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

import openai
import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk
from langchain_core.messages.utils import message_chunk_to_message

from deerflow.config.sections.models import ModelConfig
from deerflow.domain.errors import ModelStreamCut, ModelUnavailable
from deerflow.models.factory import ModelCatalog
from deerflow.models.openai_compatible.client import OpenAICompatibleChatModel
from deerflow.testing import Raw, ScriptedServer

RECORDINGS = Path(__file__).parent / "wire"
METADATA = ("finish_reason", "model_name", "system_fingerprint", "service_tier")
COMPARED = ("content", "tool_calls", "invalid_tool_calls", "usage_metadata", *METADATA)


class Difference(NamedTuple):
    """A justified difference to `ChatOpenAI`."""

    ours: Any
    reason: str


def build_call(name: str, call_id: str, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": call_id, "type": "tool_call"}


def build_usage(input_tokens: int, output_tokens: int, total_tokens: int, **details: Any) -> dict[str, Any]:
    counts = {"input_tokens": input_tokens, "output_tokens": output_tokens, "total_tokens": total_tokens}
    return counts | {"input_token_details": details, "output_token_details": {}}


DIFFERENCES = {
    ("gemini_parallel_tools", "usage_metadata"): Difference(
        build_usage(60, 24, 102), "Gemini counts up with every event and ChatOpenAI adds the counts"
    ),
    ("kimi_tools", "usage_metadata"): Difference(
        build_usage(150, 40, 190, cache_read=128),
        "Kimi reports usage inside the choice, where ChatOpenAI does not look",
    ),
    ("mistral_thinking", "content"): Difference(
        "It is four.", "Mistral reasons in content blocks, which ChatOpenAI leaves in the answer"
    ),
    ("local_think_tags", "content"): Difference(
        "Yes; <think> is a tag.", "ChatOpenAI leaves the reasoning of local servers in the answer"
    ),
    ("no_end_mark", "finish_reason"): Difference(
        "stop", "ChatOpenAI does not read a last event without a blank line after it"
    ),
    ("no_end_mark", "model_name"): Difference("tiny", "ChatOpenAI reads the name of the model in the last event"),
    ("repeated_names_one_index", "tool_calls"): Difference(
        [build_call("grep", "call_a", pattern="x"), build_call("glob", "call_b", pattern="*")],
        "ChatOpenAI joins a name that is repeated with every piece, and calls that share an index",
    ),
    ("repeated_names_one_index", "invalid_tool_calls"): Difference([], "the calls joined by mistake are not JSON"),
}

# Fields `ChatOpenAI` does not know.
REASONING = {
    "deepseek_reasoning": "9.11 has fewer tenths.",
    "deepseek_reasoning_between_tools": "Look first. And the date.",
    "glm_tools": "查一下。",
    "groq_tools": "Need the tool.",
    "kimi_tools": "Search, then answer.",
    "local_think_tags": "\nIs 1 < 2? Yes.",
    "mistral_thinking": "Two plus two.",
    "ollama_tools": "Okay, files.",
    "openrouter_reasoning_details": "The user greets.",
    "qwen_tools": "用户要天气。",
    "vllm_reasoning": "Let me see.",
}

# Our client raises for an incomplete answer; ChatOpenAI returns the part that arrived as if it were complete,
# except where the stream itself reports an error.
BROKEN = {
    "cut_between_events": (ModelStreamCut, None),
    "cut_inside_event": (ModelStreamCut, None),
    "error_in_stream": (ModelUnavailable, openai.APIError),
}

WHOLE = sorted(path.stem for path in RECORDINGS.glob("*.sse") if path.stem not in BROKEN)


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # ChatOpenAI, about content in blocks
@pytest.mark.parametrize("coalesce_ms", [0, 20])
@pytest.mark.parametrize("name", WHOLE)
async def test_returns_the_same_message_as_chat_openai(name: str, coalesce_ms: int) -> None:
    async with serve_recording(name, times=2) as server:
        ours = await read_answer(create_openai_compatible(server, stream_coalesce_ms=coalesce_ms))
        theirs = await read_by_entry(server, native=False)

    check_same_message(name, ours, theirs)


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # ChatOpenAI, about content in blocks
@pytest.mark.parametrize("name", WHOLE)
async def test_an_entry_of_chat_openai_returns_the_same_message_with_our_client(name: str) -> None:
    async with serve_recording(name, times=2) as server:
        ours, theirs = await read_by_entry(server), await read_by_entry(server, native=False)

    check_same_message(name, ours, theirs)
    first, second = (request.body for request in server.requests)
    assert first == second


@pytest.mark.parametrize("name", WHOLE)
async def test_returns_the_same_message_for_any_split_of_the_stream(name: str) -> None:
    body = (RECORDINGS / f"{name}.sse").read_bytes()
    pieces = tuple(body[at : at + 7] for at in range(0, len(body), 7))
    async with ScriptedServer([Raw((body,)), Raw(pieces)]) as server:
        model = create_openai_compatible(server, stream_coalesce_ms=0)
        whole, cut = await read_answer(model), await read_answer(model)

    assert cut.model_copy(update={"id": None}) == whole.model_copy(update={"id": None})


@pytest.mark.parametrize("name", BROKEN)
async def test_raises_for_a_broken_stream(name: str) -> None:
    our_error, their_error = BROKEN[name]
    async with serve_recording(name, times=3) as server:
        with pytest.raises(our_error):
            await read_answer(create_openai_compatible(server))
        with pytest.raises(our_error):
            await read_by_entry(server)
        if their_error is None:
            assert (await read_by_entry(server, native=False)).response_metadata.get("finish_reason") is None
        else:
            with pytest.raises(their_error):
                await read_by_entry(server, native=False)


async def test_joins_reasoning_details() -> None:
    async with serve_recording("openrouter_reasoning_details") as server:
        message = await read_answer(create_openai_compatible(server))

    assert message.additional_kwargs["reasoning_details"] == [
        {
            "type": "reasoning.text",
            "text": "The user greets.",
            "format": "anthropic-claude-v1",
            "index": 0,
            "signature": "EqkBsig==",
        }
    ]


async def test_keeps_the_thought_signature_by_call_id() -> None:
    async with serve_recording("gemini_parallel_tools") as server:
        message = await read_answer(create_openai_compatible(server))

    signature = {"google": {"thought_signature": "CsUBsig"}}
    assert message.additional_kwargs["tool_call_extras"] == {"function-call-1": signature}


def test_every_expectation_has_a_recording() -> None:
    recorded = {path.stem for path in RECORDINGS.glob("*.sse")}

    assert {name for name, _ in DIFFERENCES} | REASONING.keys() | BROKEN.keys() <= recorded


def check_same_message(name: str, ours: Any, theirs: Any) -> None:
    """Compare the messages for a recording, with regard to justified differences."""
    for field in COMPARED:
        difference = DIFFERENCES.get((name, field))
        assert get_field(ours, field) == (difference.ours if difference else get_field(theirs, field)), field
        assert not difference or get_field(theirs, field) != difference.ours, f"{field} does not differ any more"
    assert ours.additional_kwargs.get("reasoning_content") == REASONING.get(name)
    assert {message.id.partition("--")[0] for message in (ours, theirs)} == {"lc_run"}


def serve_recording(name: str, times: int = 1) -> ScriptedServer:
    return ScriptedServer([Raw(((RECORDINGS / f"{name}.sse").read_bytes(),))] * times)


async def read_by_entry(server: ScriptedServer, native: bool | None = None) -> Any:
    """Return the answer of the model for an entry that names `ChatOpenAI`, as most configurations do."""
    entry = {"name": "recorded", "use": "langchain_openai:ChatOpenAI", "model": "recorded", "max_retries": 0}
    settings = {"base_url": server.base_url, "api_key": "key", "stream_usage": True, "native": native}
    catalog = ModelCatalog([ModelConfig.model_validate({**entry, **settings})])
    model = catalog.create()
    assert type(model).__name__ == ("OpenAICompatibleChatModel" if native is None else "ChatOpenAI")
    try:
        return await read_answer(model)
    finally:
        await catalog.aclose()


def create_openai_compatible(server: ScriptedServer, **settings: Any) -> OpenAICompatibleChatModel:
    return OpenAICompatibleChatModel(model="recorded", base_url=server.base_url, api_key="key", **settings)


async def read_answer(model: BaseChatModel) -> Any:
    """Return the sum of the chunks of a stream."""
    whole: AIMessageChunk | None = None
    async with asyncio.timeout(10):
        async for chunk in model.astream("hello"):
            whole = chunk if whole is None else whole + chunk
    assert whole is not None
    return message_chunk_to_message(whole)


def get_field(message: Any, field: str) -> Any:
    return message.response_metadata.get(field) if field in METADATA else getattr(message, field)
