"""Lets the model see the images it has just asked for.

The pictures are in the next request only: afterwards the model's own words stand for them, and a thread does not carry
megabytes along.
"""

import asyncio
from base64 import b64encode
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, cast

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from deerflow.agents.middlewares.replies import HIDDEN, AskModel, AskModelAsync, Reply, Request, is_from_a_person
from deerflow.agents.thread_state import ThreadState
from deerflow.domain.context import RunContext, run_in
from deerflow.domain.errors import FileProblem
from deerflow.domain.files import ThreadFiles
from deerflow.models import sync_face
from deerflow.tools.builtins.view_image_tool import LONGEST_SIGNATURE, MAX_IMAGE_BYTES, recognise

VIEW_IMAGE = "view_image"
Block = dict[str, Any]


class ViewImageMiddleware(AgentMiddleware[ThreadState, RunContext, Any]):
    """Adds the images viewed in the last step to the request; for models that read images."""

    state_schema = ThreadState

    def wrap_model_call(self, request: Request, handler: AskModel) -> Reply:
        return handler(sync_face.run(with_images(request)))

    async def awrap_model_call(self, request: Request, handler: AskModelAsync) -> Reply:
        return await handler(await with_images(request))


async def with_images(request: Request) -> Request:
    """`request` with a hidden message of the images; the same object when there are none."""
    run = run_in(request.runtime.context)
    viewed = cast(ThreadState, request.state).get("viewed_images", {})
    paths = [path for path in just_viewed(request.messages) if path in viewed]
    if run is None or not paths:
        return request
    blocks = await show(run.files, paths)
    return request.override(messages=[*request.messages, HumanMessage(blocks, additional_kwargs={HIDDEN: True})])


def just_viewed(messages: Sequence[AnyMessage]) -> Sequence[str]:
    """The paths of the images that the last step of the agent was about, each once."""
    step = list(takewhile(lambda message: not is_from_a_person(message), reversed(messages)))
    asked = next((message for message in step if isinstance(message, AIMessage)), None)
    if asked is None:
        return []
    done = {
        message.tool_call_id for message in step if isinstance(message, ToolMessage) and message.status == "success"
    }
    calls = [call for call in asked.tool_calls if call["name"] == VIEW_IMAGE and call["id"] in done]
    return list(dict.fromkeys(str(call["args"].get("image_path")) for call in calls))


async def show(files: ThreadFiles, paths: Sequence[str]) -> list[str | Block]:
    """Each image after its path; what cannot be shown is said."""
    blocks: list[str | Block] = []
    room = MAX_IMAGE_BYTES
    for path in paths:
        try:
            content = await files.read(path, limit=room + 1)
        except FileProblem as problem:
            blocks.append(text_block(str(problem)))
            continue
        mime_type = recognise(content[:LONGEST_SIGNATURE])
        if mime_type is None or len(content) > room:
            blocks.append(text_block(f"{path!r} cannot be shown together with the others; view it alone"))
            continue
        room -= len(content)
        encoded = await asyncio.to_thread(b64encode, content)
        blocks += [text_block(f"{path!r}:"), {"type": "image", "base64": encoded.decode(), "mime_type": mime_type}]
    return blocks


def text_block(text: str) -> Block:
    """A piece of text in a message that also has pictures."""
    return {"type": "text", "text": text}
