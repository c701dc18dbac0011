"""Creation of a custom agent by conversation."""

from pathlib import Path

from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver

from deerflow.agent_support.thread_state import ThreadState
from deerflow.agents.custom_agents import CustomAgents
from deerflow.agents.lead_agent.prompt import PromptParts, apply_prompt_template
from deerflow.domain.context import RunContext
from deerflow.testing import ScriptedModel, calling
from deerflow.tools.assembly import builtin_tools, get_available_tools
from deerflow.tools.builtins import build_setup_agent_tool, build_update_agent_tool
from tests.runs_alone import run_in


async def test_a_bootstrap_conversation_creates_an_agent_that_answers_and_updates_itself(tmp_path: Path) -> None:
    agents = CustomAgents(tmp_path)
    bootstrap_model = ScriptedModel.saying(
        "What should ada do?",
        calling("setup_agent", soul="You are Ada. You count.", description="Counts things"),
        "Ada is ready.",
    )
    bootstrap_agent = create_agent(
        bootstrap_model,
        list(get_available_tools(builtin=[*builtin_tools(), build_setup_agent_tool(agents)]).tools),
        system_prompt=apply_prompt_template(PromptParts(is_bootstrap=True, new_agent="ada")),
        state_schema=ThreadState,
        context_schema=RunContext,
        checkpointer=InMemorySaver(),
    )
    for text in ("Make me an agent", "It counts. Go on."):
        await bootstrap_agent.ainvoke(
            {"messages": [("user", text)]}, {"configurable": {"thread_id": "t1"}}, context=run_in(tmp_path, "ada")
        )
    assert "<bootstrap>" in bootstrap_model.requests[0].messages[0].text
    assert "setup_agent" in bootstrap_model.requests[0].tool_names

    ada = agents.load("local", "ada")
    model = ScriptedModel.saying(calling("update_agent", soul="You are Ada. You add."), "I add now.")
    agent = create_agent(
        model,
        [*builtin_tools(), build_update_agent_tool(agents)],
        system_prompt=apply_prompt_template(PromptParts(name=ada.name, soul=ada.soul, updates_itself=True)),
        state_schema=ThreadState,
        context_schema=RunContext,
    )
    await agent.ainvoke({"messages": [("user", "Add from now on")]}, context=run_in(tmp_path, "ada"))
    assert "<soul>\nYou are Ada. You count.\n</soul>" in model.requests[0].messages[0].text
    assert agents.load("local", "ada").soul == "You are Ada. You add."
