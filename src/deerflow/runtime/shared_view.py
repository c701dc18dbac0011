"""What a stranger sees of a message: its words, its calls of tools and what came of them. Nothing else leaves."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from deerflow.agents.middlewares.replies import HIDDEN
from deerflow.persistence.said import Said
from deerflow.runtime.said import text_in

Hide = Callable[[str], str]
"""A text without the secrets of the configuration."""
Message = dict[str, Any]

SPEAKERS = ("human", "ai", "tool")
QUESTION = "human_input"
"""Where the result of a tool that asks the user keeps what it asked."""


def shown_message(said: Said, hide: Hide) -> Message | None:
    """A message as others see it; None when it is not for others."""
    fields = said.fields
    extra = fields.get("additional_kwargs") or {}
    # What was asked again, or said in other words, is no longer what its owner wants to have said.
    if fields["type"] not in SPEAKERS or extra.get(HIDDEN) or said.left_behind_by is not None:
        return None
    message = {
        "type": fields["type"],
        "id": fields["id"],
        "content": text_of(fields["content"]),
        **{name: fields[name] for name in ("name", "status", "tool_call_id") if fields.get(name) is not None},
        **{name: list(calls_in(fields[name])) for name in ("tool_calls", "invalid_tool_calls") if fields.get(name)},
    }
    artifact = fields.get("artifact")
    if isinstance(artifact, Mapping) and QUESTION in artifact:
        message["artifact"] = {QUESTION: artifact[QUESTION]}
    if files := list(files_in(extra.get("files"))):
        message["additional_kwargs"] = {"files": files}
    masked: Message = without_secrets(message, hide)
    return masked


def text_of(content: object) -> str:
    """The words of a message, without pictures and without what the model thought."""
    return content if isinstance(content, str) else text_in(content)


def calls_in(calls: Any) -> Iterator[Message]:
    """What tools were asked for."""
    for call in calls:
        yield {"id": call.get("id"), "name": call.get("name") or "", "args": call.get("args")}


def files_in(files: object) -> Iterator[Message]:
    """The names of files that came with a message; the files themselves stay where they are."""
    for file in files if isinstance(files, list) else ():
        if isinstance(file, Mapping) and isinstance(file.get("filename"), str):
            size = file.get("size")
            yield {"filename": file["filename"], "path": "", "size": size if isinstance(size, int) else 0}


def without_secrets(value: Any, hide: Hide) -> Any:
    """The same without secrets of the configuration, also where a person or a tool has said them."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, Mapping):
        return {hide(str(key)): without_secrets(item, hide) for key, item in value.items()}
    return [without_secrets(item, hide) for item in value] if isinstance(value, list) else value
