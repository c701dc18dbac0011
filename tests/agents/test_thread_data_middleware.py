"""Where the thread's files are, in its state."""

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


async def test_the_state_says_where_files_are_and_no_step_is_added_for_it(tmp_path: Path) -> None:
    steps = []
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
        steps.append(len(list(saver.list(None))))
    assert state["thread_data"] == PATHS
    assert steps[0] == steps[1]


def test_it_works_without_await_and_without_a_run() -> None:
    graph = create_agent(ScriptedModel.saying("Hello"), middleware=[ThreadDataMiddleware()], state_schema=ThreadState)
    assert graph.invoke({"messages": [("user", "hi")]})["thread_data"] == PATHS
