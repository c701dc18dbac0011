"""Differences from the public LangGraph server, with reasons."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """Difference as patterns of `fnmatch`: steps, kind and field."""

    steps: str
    kind: str
    detail: str
    reason: str


NAMED_ERRORS = "an error here has a name beside its sentence, so that programs need not read sentences"
ONE_SHAPE = "a thread and a run always have the same fields, whatever has happened in them"
TITLED = "a thread has a title, which is not part of what the graph holds"
LEAN_PIECES = "every word of an answer carries this: only what says where in the graph it was spoken is sent and stored"
NOT_THEIRS = "facts about their product and its hosting"
FROM_NOW_ON = (
    "following a thread begins with the run under way and tells what that run was asked to tell; "
    "earlier runs are read at their own addresses"
)
WAITS_FOR = "a list of threads tells which of them wait for a person, and for what"
PROJECTS = "a thread can be in a project"
SAYS_MORE = "the answer tells how the run stands, where theirs is empty"

DIFFERENCES: tuple[Difference, ...] = (
    Difference("*", "added", ".error", NAMED_ERRORS),
    Difference("runs.wait, failed", "added", ".__error__.name", NAMED_ERRORS),
    Difference("runs.stream, failed", "added", "error: .name", NAMED_ERRORS),
    Difference("store.put_item, bad label", "added", ".detail", "errors are JSON here, theirs is a bare text"),
    Difference("*", "added", "[[]].error", ONE_SHAPE),
    Difference("threads.*", "added", ".interrupts", ONE_SHAPE),
    Difference("threads.search", "added", "[[]].interrupts", ONE_SHAPE),
    Difference("threads.*", "added", ".waits_for", WAITS_FOR),
    Difference("threads.search", "added", "[[]].waits_for", WAITS_FOR),
    Difference("threads.*", "added", ".project_id", PROJECTS),
    Difference("threads.search", "added", "[[]].project_id", PROJECTS),
    Difference("threads.copy", "added", ".values", ONE_SHAPE),
    Difference("threads.get_state, empty", "added", ".values.messages", "a thread without messages has an empty list"),
    Difference("threads.get_state, checkpoint id", "added", ".checkpoint.checkpoint_ns", ONE_SHAPE),
    Difference("assistants.get_versions", "added", "[[]].updated_at", ONE_SHAPE),
    Difference("threads.get", "added", ".values.messages", "a thread without messages has an empty list"),
    Difference("threads.get, busy", "added", ".values.*", "the values are those of now, also while a run is under way"),
    Difference("threads.get, *", "added", ".values.title", TITLED),
    Difference("*", "added", "*values.title", TITLED),
    Difference("runs.join_stream", "added", "updates: .model.title", TITLED),
    Difference("threads.get, *", "missing", ".config.configurable", "a run's settings are its own, not its thread's"),
    Difference("threads.get, failed", "missing", ".error.*", "what went wrong is at the run, and in its events"),
    Difference("runs.*", "added", "*total_*tokens", "a run says what its model calls took"),
    Difference("runs.*", "missing", "*langsmith_session_name", NOT_THEIRS),
    Difference("info", "missing", "*", NOT_THEIRS),
    Difference("ok", "missing", ".services", NOT_THEIRS),
    Difference("*", "added", "metadata: .thread_id", "a run that made its own thread says which"),
    Difference("*", "missing", "metadata: .attempt", "the first event is written when a run is accepted, not begun"),
    Difference("*", "missing", "messages: [[]].*", LEAN_PIECES),
    Difference("*", "missing", "values: .artifacts", "what is empty and always was is not told"),
    Difference("*", "missing", "values: .skill_context", "what is empty and always was is not told"),
    Difference("*", "missing", "values: .viewed_images", "what is empty and always was is not told"),
    Difference("*", "missing", "values: .promoted", "what is empty and always was is not told"),
    Difference("*", "missing", "values: .untrusted", "what is empty and always was is not told"),
    Difference("*", "missing", "*.response_schema", "a question is shown as its value and its id"),
    Difference("runs.stream*", "events", "* end for *", "readers are told that the log is complete: `end` comes last"),
    Difference("runs.join_stream", "events", "* end for *", "readers are told that the log is complete"),
    Difference("threads.join_stream", "events", "metadata messages for *", FROM_NOW_ON),
    Difference("threads.join_stream", "missing", "*: *", FROM_NOW_ON),
    Difference("runs.cancel, wait", "added", "*", "the answer is the state the run leaves, as with join"),
    Difference("runs.cancel, leave", "added", "*", SAYS_MORE),
    Difference("runs.cancel, roll back", "added", ".__error__", "a run that was undone stays in the list of runs"),
    Difference("runs.cancel, ended", "status", "409 for 404", "the run exists: it is only too late to stop it"),
    Difference("threads.copy, missing", "status", "404 for 409", "what does not exist is not found"),
    Difference("threads.get_state, no such checkpoint", "status", "404 for 200", "what does not exist is not found"),
    Difference(
        "threads.update_state, no such step", "status", "422 for 400", "as with every request that makes no sense"
    ),
)
