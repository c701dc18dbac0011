"""Who answers in a chat: agent, model and mode, chosen in the chat, or configured for the person or the chat app."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, get_args

from deerflow.config.sections.channels import ChatAppConfig, ChatMode
from deerflow.domain.identity import Principal
from deerflow.domain.runs import AgentSpec

AGENT, MODEL, MODE = "agent_name", "model_name", "mode"
"""Settings of a chat."""
BOOTSTRAP = "is_bootstrap"
"""Setting of a chat whose thread creates an agent."""
MODES = get_args(ChatMode)
SPECS: Mapping[str | None, AgentSpec] = MappingProxyType(
    {
        None: AgentSpec(),
        "flash": AgentSpec(thinking_enabled=False),
        "thinking": AgentSpec(thinking_enabled=True),
        "pro": AgentSpec(thinking_enabled=True, is_plan_mode=True),
        "ultra": AgentSpec(thinking_enabled=True, is_plan_mode=True, subagent_enabled=True),
    }
)


@dataclass(frozen=True, slots=True)
class AnswerSettings:
    """Who answers; None is the default of the server."""

    agent: str | None = None
    model: str | None = None
    mode: str | None = None
    is_bootstrap: bool = False

    def to_spec(self, who: Principal) -> AgentSpec:
        """Return the agent of a run of `who`."""
        agent = None if self.is_bootstrap else self.agent
        return replace(
            SPECS[self.mode],
            model_name=self.model,
            agent_name=agent,
            owner=who.user_id if agent else None,
            is_bootstrap=self.is_bootstrap,
        )


def choose_answer(chosen: Mapping[str, Any], app: ChatAppConfig | None, person: str) -> AnswerSettings:
    """Return who answers a person: what was chosen in the chat comes first, then what is configured for the person."""
    configured = [] if app is None else [each for each in (app.users.get(person), app) if each is not None]

    def find(setting: str, name: str) -> str | None:
        return chosen.get(setting) or next(filter(None, (getattr(each, name) for each in configured)), None)

    return AnswerSettings(find(AGENT, "agent"), find(MODEL, "model"), find(MODE, "mode"), bool(chosen.get(BOOTSTRAP)))
