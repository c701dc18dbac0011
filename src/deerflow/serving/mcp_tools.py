"""What other programs can do here over MCP, as one person: the tools and what each of them takes."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from deerflow.domain.files import OUTPUTS

MOST_THREADS, MOST_MESSAGES, MOST_FILES = 100, 200, 1000
MOST_BYTES = 512 * 1024
ThreadId = Annotated[str, Field(min_length=1, max_length=64, description="The id of a thread.")]


class Arguments(BaseModel):
    """What a tool is called with; a key that means nothing is refused, for its sender meant something by it."""

    model_config = ConfigDict(extra="forbid")


class Ask(Arguments):
    """Give the DeerFlow agent a task or a question and wait for its answer.

    The agent has a computer of its own, searches the web, writes files and code, and may work for many minutes;
    progress notifications tell what it does. Name a thread to go on in it. The result says how the turn ended:
    `answered`, `asks` (the agent asks back: call `ask` again with the same thread_id and the answer as prompt),
    `needs_approval` (tool calls wait for a person's word: call `decide`), `failed` or `stopped`.
    """

    prompt: Annotated[str, Field(min_length=1, description="What to do or answer.")]
    thread_id: Annotated[ThreadId | None, Field(description="The thread to go on in; left out: a new one.")] = None
    agent: Annotated[str | None, Field(description="A custom agent of yours; left out: the lead agent.")] = None
    model: Annotated[str | None, Field(description="A configured model; left out: the default.")] = None
    plan: Annotated[bool, Field(description="Whether the agent keeps a list of what is to be done.")] = False


class Decide(Arguments):
    """Say whether the tool calls that a thread waits for may be made, and wait for what comes of it, as with `ask`.

    Only a person may decide: show them what waits, and pass on what they say.
    """

    thread_id: ThreadId
    decision: Annotated[Literal["approve", "reject"], Field(description="What the person said, for all that waits.")]
    reason: Annotated[str | None, Field(description="Why not; the agent is told.")] = None
    agent: Annotated[str | None, Field(description="The custom agent the thread was begun with, if any.")] = None
    model: Annotated[str | None, Field(description="A configured model; left out: the default.")] = None


class ListThreads(Arguments):
    """Your conversations with the agent, latest activity first."""

    limit: Annotated[int, Field(ge=1, le=MOST_THREADS, description="So many at most.")] = 20
    offset: Annotated[int, Field(ge=0, le=10**6, description="So many are passed over.")] = 0


class ReadThread(Arguments):
    """What was said in a thread, oldest first, without what only the agent sees."""

    thread_id: ThreadId
    limit: Annotated[int, Field(ge=1, le=MOST_MESSAGES, description="So many of the latest messages at most.")] = 50


class ListArtifacts(Arguments):
    """The files a thread has made."""

    thread_id: ThreadId
    folder: Annotated[str, Field(description="Where to look.")] = OUTPUTS


class ReadArtifact(Arguments):
    """A file of a thread: text as text, pictures as pictures, anything else as base64."""

    thread_id: ThreadId
    path: Annotated[str, Field(min_length=1, description=f"As it is listed, e.g. {OUTPUTS}/report.md.")]
    offset: Annotated[int, Field(ge=0, le=2**53, description="The first byte wanted.")] = 0
    length: Annotated[int, Field(ge=1, le=MOST_BYTES, description="So many bytes at most.")] = MOST_BYTES
