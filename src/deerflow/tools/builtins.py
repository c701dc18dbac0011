"""Built-in tools: files, images, clarification, history, and custom agents created in conversation."""

import asyncio
from dataclasses import replace
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool, tool
from langgraph.types import Command

from deerflow.agent_support.tools import as_tool, escape_line, format_size, require_run_context, respond_with_update
from deerflow.config.sections.agents import CustomAgent, CustomAgentConfig
from deerflow.domain.context import RunContext
from deerflow.domain.errors import FileProblem, InvalidRequest
from deerflow.domain.files import OUTPUTS, ThreadFiles
from deerflow.domain.threads import HistoryMessage
from deerflow.domain.tools import read_only


@runtime_checkable  # LangChain validates the arguments of a tool with isinstance
class AgentStore(Protocol):
    """Storage of custom agents. Its methods block."""

    def load(self, user_id: str, name: str) -> CustomAgent: ...
    def create(self, user_id: str, agent: CustomAgent) -> None: ...
    def update(self, user_id: str, agent: CustomAgent) -> None: ...


def build_setup_agent_tool(store: AgentStore) -> BaseTool:
    """Return the tool that creates a custom agent."""
    return as_tool(setup_agent, store=store)


def build_update_agent_tool(store: AgentStore) -> BaseTool:
    """Return the tool with which a custom agent changes itself."""
    return as_tool(update_agent, store=store)


async def setup_agent(
    store: AgentStore,
    soul: str,
    description: str,
    runtime: ToolRuntime[RunContext],
    name: str | None = None,
    skills: list[str] | None = None,
) -> str:
    """Create the custom agent this conversation is about, after the user has agreed to its soul.

    Args:
        soul: The whole SOUL.md in Markdown: who the agent is, how it speaks and works, what it never does.
        description: What the agent is for, in one line.
        name: Letters, digits and '-'. Leave it out when a name was chosen before the conversation.
        skills: The skills it may use; leave it out for all, give [] for none.
    """
    run = require_run_context(runtime)
    agent_name = run.agent_name or name
    if not agent_name:
        raise InvalidRequest("the agent has no name yet; ask the user for one and give it as `name`")
    if not soul.strip():
        raise InvalidRequest("`soul` is empty; write down who the agent is")
    config = CustomAgentConfig(description=description, skills=None if skills is None else tuple(skills))
    await asyncio.to_thread(store.create, run.user_id, CustomAgent(agent_name, config, soul))
    return f"The agent {agent_name!r} is ready. Tell the user that a new conversation with it can begin."


async def update_agent(
    store: AgentStore,
    runtime: ToolRuntime[RunContext],
    soul: str | None = None,
    description: str | None = None,
    skills: list[str] | None = None,
    tool_groups: list[str] | None = None,
    model: str | None = None,
) -> str:
    """Change who you are for future conversations, when the user asks for it. What is left out stays as it is.

    Args:
        soul: The whole new SOUL.md; it replaces the old one, so keep what is still true.
        description: What you are for, in one line.
        skills: The skills you may use; [] for none.
        tool_groups: The groups of tools you may use.
        model: The name of the model you answer with.
    """
    run = require_run_context(runtime)
    if run.agent_name is None:
        raise InvalidRequest("you are not a custom agent, so there is nothing to change")
    changes = {"description": description, "skills": skills, "tool_groups": tool_groups, "model": model}
    updates = {key: value for key, value in changes.items() if value is not None}
    if not updates and soul is None:
        raise InvalidRequest("say what to change: soul, description, skills, tool_groups or model")
    agent = await asyncio.to_thread(store.load, run.user_id, run.agent_name)
    config = CustomAgentConfig.model_validate({**agent.config.model_dump(), **updates})
    changed = replace(agent, config=config, soul=agent.soul if soul is None else soul)
    await asyncio.to_thread(store.update, run.user_id, changed)
    what = ", ".join([*updates, *(["soul"] if soul is not None else [])])
    return f"Changed: {what}. It takes effect in the next run."


@read_only
async def present_files(filepaths: list[str], runtime: ToolRuntime[RunContext]) -> Command[Any]:
    """Show finished files to the user, who cannot see the file system. Call it once the files are complete.

    Args:
        filepaths: Absolute paths of existing files below /mnt/user-data/outputs, most important first.
    """
    files = require_run_context(runtime).files
    found, refused = [], []
    for path in dict.fromkeys(filepaths):
        try:
            found.append(await find_output(files, path))
        except FileProblem as error:
            refused.append(str(error))
    if not found:
        raise FileProblem("\n".join(refused) or "name at least one file to present")
    lines = [f"Presented: {', '.join(map(escape_line, found))}", *(f"Not presented: {text}" for text in refused)]
    return respond_with_update(runtime, "\n".join(lines), artifacts=found)


async def find_output(files: ThreadFiles, path: str) -> str:
    """Return the canonical path of an existing output file."""
    if not path.startswith(f"{OUTPUTS}/"):
        raise FileProblem(f"{path!r} is not below {OUTPUTS}; copy it there first")
    return (await files.stat(path)).path


MAX_IMAGE_BYTES = 20 * 1024 * 1024
SIGNATURE_BYTES = 12


@read_only
async def view_image(image_path: str, runtime: ToolRuntime[RunContext]) -> Command[Any]:
    """Look at an image file (PNG, JPEG, GIF or WebP, up to 20 MB). You see it in your next step.

    Args:
        image_path: Absolute path below /mnt/user-data.
    """
    files = require_run_context(runtime).files
    size = (await files.stat(image_path)).size
    if size > MAX_IMAGE_BYTES:
        limit = format_size(MAX_IMAGE_BYTES)
        raise FileProblem(
            f"{image_path!r} has {format_size(size)}, more than {limit}; make a smaller copy and view that"
        )
    mime_type = detect_image_type(await files.read(image_path, limit=SIGNATURE_BYTES))
    if mime_type is None:
        raise FileProblem(f"{image_path!r} is not a PNG, JPEG, GIF or WebP image; convert it and view the result")
    viewed = {image_path: {"mime_type": mime_type, "size": size}}
    return respond_with_update(runtime, f"The image ({mime_type}, {format_size(size)}) follows.", viewed_images=viewed)


def detect_image_type(header: bytes) -> str | None:
    """Return the MIME type of an image by its first bytes, or None."""
    if header.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if header.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if header.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if header.startswith(b"RIFF") and header[8:12] == b"WEBP":
        return "image/webp"
    return None


ClarificationType: TypeAlias = Literal[
    "missing_info", "ambiguous_requirement", "approach_choice", "risk_confirmation", "suggestion"
]


@tool("ask_clarification", parse_docstring=True, return_direct=True)
def ask_clarification_tool(
    question: str,
    clarification_type: ClarificationType,
    context: str | None = None,
    options: list[str] | None = None,
) -> str:
    """Ask the user one question before you go on. The run pauses; the answer is the next message.

    Ask when what you need is missing or ambiguous, when there are several ways the user should choose from, or before
    something that cannot be undone. Do not ask what you can find out yourself. Call no other tool beside it; to ask
    several things, call it once for each in the same reply.

    Args:
        question: One clear question.
        clarification_type: Why you ask.
        context: What the user needs to know to answer.
        options: Answers to choose from; the user can always write another one.
    """
    return question


MAX_RESULTS = 8
ROLE_NAMES = {"human": "user", "ai": "you", "tool": "tool result"}


@read_only
async def search_history(query: str, runtime: ToolRuntime[RunContext]) -> str:
    """Find what was said earlier in this conversation, word for word, also what you can no longer see.

    Args:
        query: Words that must all occur in the message, e.g. `invoice 2024`. Fewer words find more.
    """
    found = await require_run_context(runtime).history.search(query, MAX_RESULTS)
    if not found:
        return f"Nothing was said that contains all words of {query!r}. Try fewer or other words."
    return "\n\n".join(map(_format_excerpt, found))


def _format_excerpt(excerpt: HistoryMessage) -> str:
    return f"[{excerpt.sent_at:%Y-%m-%d %H:%M} UTC, {ROLE_NAMES.get(excerpt.role, excerpt.role)}]\n{excerpt.text}"
