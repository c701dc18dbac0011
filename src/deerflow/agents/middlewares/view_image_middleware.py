"""View image: shows requested images to the model."""

import asyncio
from base64 import b64encode
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, cast

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from deerflow.agent_support.replies import HIDDEN, AsyncModelHandler, ModelHandler, Reply, Request, is_user_message
from deerflow.agent_support.thread_state import ThreadState, read_value
from deerflow.domain.context import RunContext, find_run_context
from deerflow.domain.errors import FileProblem
from deerflow.domain.files import ThreadFiles
from deerflow.models import run_sync
from deerflow.tools.builtins import MAX_IMAGE_BYTES, SIGNATURE_BYTES, detect_image_type

VIEW_IMAGE = "view_image"
Block = dict[str, Any]


class ViewImageMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Adds the images viewed in the last step to the request, for models with vision."""

    state_schema = ThreadState

    def wrap_model_call(self, request: Request, handler: ModelHandler) -> Reply:
        return handler(run_sync(add_images(request)))

    async def awrap_model_call(self, request: Request, handler: AsyncModelHandler) -> Reply:
        return await handler(await add_images(request))


async def add_images(request: Request) -> Request:
    """Return `request` with a hidden message of the images; the same object if there are none."""
    run = find_run_context(request.runtime.context)
    viewed = read_value(cast(Mapping[str, Any], request.state), "viewed_images") or {}
    paths = [path for path in last_viewed_images(request.messages) if path in viewed]
    if run is None or not paths:
        return request
    blocks = await image_blocks(run.files, paths)
    return request.override(messages=[*request.messages, HumanMessage(blocks, additional_kwargs={HIDDEN: True})])


def last_viewed_images(messages: Sequence[AnyMessage]) -> Sequence[str]:
    """Return the paths of the images viewed in the last step, without duplicates."""
    step = list(takewhile(lambda message: not is_user_message(message), reversed(messages)))
    asked = next((message for message in step if isinstance(message, AIMessage)), None)
    if asked is None:
        return []
    done = {
        message.tool_call_id for message in step if isinstance(message, ToolMessage) and message.status == "success"
    }
    calls = [call for call in asked.tool_calls if call["name"] == VIEW_IMAGE and call["id"] in done]
    return list(dict.fromkeys(str(call["args"].get("image_path")) for call in calls))


async def image_blocks(files: ThreadFiles, paths: Sequence[str]) -> list[str | Block]:
    """Return each image after its path, or a note if it cannot be shown."""
    blocks: list[str | Block] = []
    room = MAX_IMAGE_BYTES
    for path in paths:
        try:
            content = await files.read(path, limit=room + 1)
        except FileProblem as problem:
            blocks.append(text_block(str(problem)))
            continue
        mime_type = detect_image_type(content[:SIGNATURE_BYTES])
        if mime_type is None or len(content) > room:
            blocks.append(text_block(f"{path!r} cannot be shown together with the others; view it alone"))
            continue
        room -= len(content)
        encoded = await asyncio.to_thread(b64encode, content)
        blocks += [text_block(f"{path!r}:"), {"type": "image", "base64": encoded.decode(), "mime_type": mime_type}]
    return blocks


def text_block(text: str) -> Block:
    """Return a text block of a message with images."""
    return {"type": "text", "text": text}
