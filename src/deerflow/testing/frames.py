"""Answers in the wire format of the OpenAI chat completions API."""

from typing import Any

import orjson

from deerflow.testing.turns import Answer, Piece, Usage

DONE = b"data: [DONE]\n\n"
CREATED = 1_700_000_000


def stream_frames(answer: Answer, *, completion_id: str, model: str, with_usage: bool) -> list[bytes]:
    """The answer as server-sent events, one per piece; the last one is `[DONE]`."""
    head = {"id": completion_id, "object": "chat.completion.chunk", "created": CREATED, "model": model}

    def choice(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        choices = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}]
        return _event({**head, "choices": choices})

    frames = [choice({"role": "assistant", "content": ""})]
    frames += [choice(_delta(piece)) for piece in answer.pieces()]
    frames.append(choice({}, answer.reason_to_stop))
    if with_usage:
        frames.append(_event({**head, "choices": [], "usage": _usage(answer.cost)}))
    return [*frames, DONE]


def completion(answer: Answer, *, completion_id: str, model: str) -> dict[str, Any]:
    """The answer as one response body."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.whole_text or None}
    if answer.reasoning:
        message["reasoning_content"] = answer.whole_reasoning
    if answer.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in answer.calls
        ]
    return {
        "id": completion_id,
        "object": "chat.completion",
        "created": CREATED,
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": answer.reason_to_stop}],
        "usage": _usage(answer.cost),
    }


def _delta(piece: Piece) -> dict[str, Any]:
    if piece.kind == "text":
        return {"content": piece.text}
    if piece.kind == "reasoning":
        return {"reasoning_content": piece.text}
    call: dict[str, Any] = {"index": piece.index, "function": {"arguments": piece.text}}
    if piece.name is not None:
        call |= {"id": piece.call_id, "type": "function", "function": {"name": piece.name, "arguments": piece.text}}
    return {"tool_calls": [call]}


def _usage(cost: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": cost.input_tokens,
        "completion_tokens": cost.output_tokens,
        "total_tokens": cost.input_tokens + cost.output_tokens,
        "prompt_tokens_details": {"cached_tokens": cost.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": cost.reasoning_tokens},
    }


def _event(payload: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(payload) + b"\n\n"
