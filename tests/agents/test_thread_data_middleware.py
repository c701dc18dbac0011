"""Folder paths in the state of a thread."""

from pathlib import Path

from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver

from deerflow.agent_support.thread_state import ThreadState
from deerflow.agents.middlewares.thread_data_middleware import ThreadDataMiddleware
from deerflow.domain.context import RunContext
from deerflow.testing import ScriptedModel
from tests.runs_alone import run_in

PATHS = {
    "workspace_path": "/mnt/user-data/workspace",
    "uploads_path": "/mnt/user-data/uploads",
    "outputs_path": "/mnt/user-data/outputs",
}


async def test_the_state_has_the_folder_paths_without_additional_checkpoints(tmp_path: Path) -> None:
    checkpoint_counts = []
    for middleware in ([], [ThreadDataMiddleware()]):
        saver = InMemorySaver()
        graph = create_agent(
            ScriptedModel.saying("Hello", "Again"),
            middleware=middleware,
            state_schema=ThreadState,
            context_schema=RunContext,
            checkpointer=saver,
        )
        for text in ("hi", "and now?"):
            state = await graph.ainvoke(
                {"messages": [("user", text)]}, {"configurable": {"thread_id": "t"}}, context=run_in(tmp_path)
            )
        checkpoint_counts.append(len(list(saver.list(None))))
    assert state["thread_data"] == PATHS
    assert checkpoint_counts[0] == checkpoint_counts[1]


def test_synchronous_calls_work_without_a_run() -> None:
    graph = create_agent(ScriptedModel.saying("Hello"), middleware=[ThreadDataMiddleware()], state_schema=ThreadState)
    assert graph.invoke({"messages": [("user", "hi")]})["thread_data"] == PATHS
