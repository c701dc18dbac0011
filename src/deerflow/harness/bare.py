"""The lead agent without the rest of a harness."""

from langchain_core.runnables import RunnableConfig

from deerflow.agents.custom_agents import CustomAgents
from deerflow.agents.graph import AgentGraph
from deerflow.agents.lead_agent.agent import LeadAgent
from deerflow.agents.plan import read_spec
from deerflow.config.source import open_source
from deerflow.domain.principal import LOCAL_USER
from deerflow.harness.agents import DEMO_MODEL, agent_settings
from deerflow.harness.policy import PolicyFile
from deerflow.models.detection import detect_models
from deerflow.models.factory import ModelCatalog


def build_bare_lead_agent(config: RunnableConfig) -> AgentGraph:
    """The lead agent for a server of somebody else's, which remembers and carries out runs in its own way."""
    loaded = open_source().current
    policy = PolicyFile().current(loaded)
    settings = agent_settings(loaded.config, detect_models(loaded.environment) or [DEMO_MODEL], policy=policy)
    shelf, spec = CustomAgents(loaded.home), read_spec(config)
    custom = shelf.load(spec.owner or LOCAL_USER.user_id, spec.agent_name) if spec.agent_name else None
    return LeadAgent(spec, settings, ModelCatalog(settings.models), shelf, custom).build(
        checkpointer=None, is_bare=True
    )
