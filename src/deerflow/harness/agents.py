"""What agents are built from: models, sandboxes and the rest of the configuration."""

from collections.abc import Sequence

from deerflow.agents.middlewares.guardrail_facts import Reach
from deerflow.agents.settings import AgentSettings, ChainSettings, Computer
from deerflow.config.imports import load_class
from deerflow.config.load import Loaded
from deerflow.config.models import ModelConfig
from deerflow.config.policy import PolicyConfig
from deerflow.config.root import Config
from deerflow.config.sandbox import LOCAL_PROVIDER, SandboxConfig
from deerflow.domain.errors import ConfigError
from deerflow.models.detection import detect_models, find_local_servers
from deerflow.sandbox.sandbox_provider import SandboxPlaces, SandboxProvider, SandboxReport
from deerflow.skills.view import SkillViews
from deerflow.subagents.files import FiledKind, KindFiles

DEMO_MODEL = ModelConfig(
    name="demo",
    use="deerflow.models.demo:DemoChatModel",
    model="demo",
    display_name="Demo (scripted)",
    description="Plays scripts; needs no key and no network.",
    supports_thinking=True,
)


async def find_fallback_models(loaded: Loaded) -> Sequence[ModelConfig]:
    """What answers when no model is configured: keys in the environment, then local servers, then the demo model."""
    detected = detect_models(loaded.environment)
    if detected or loaded.config.models:
        return detected or [DEMO_MODEL]
    return await find_local_servers(loaded.environment) or [DEMO_MODEL]


def create_sandboxes(loaded: Loaded, skills: SkillViews | None = None) -> SandboxProvider:
    """Whoever the configuration names as the provider of sandboxes.

    Raises:
        ConfigError: The name leads to no provider.
    """
    config = loaded.config.sandbox
    try:
        make = load_class(config.use, SandboxProvider)  # type: ignore[type-abstract]
    except ConfigError as problem:
        raise ConfigError(f"sandbox.use: {problem}") from problem
    shown = skills.folder_for if skills else None
    return make(config, SandboxPlaces(loaded.home, loaded.cache, shown, loaded.environment))


def describe_computer(config: SandboxConfig, report: SandboxReport) -> Computer:
    """What agents can do with their sandboxes."""
    return Computer(
        report.runs_commands,
        is_isolated=report.tier != "host",
        network=config.network,
        has_toolbox=config.use == LOCAL_PROVIDER and config.toolbox.enabled,
    )


def kind_files(loaded: Loaded) -> KindFiles:
    """The files that describe kinds of subagents: beside the configuration, and in the state directory."""
    project = [loaded.config_file.parent / "agents"] if loaded.config_file is not None else []
    return KindFiles([*project, loaded.home / "agents"])


def agent_settings(
    config: Config,
    fallback: Sequence[ModelConfig],
    computer: Computer | None = None,
    filed: Sequence[FiledKind] = (),
    policy: PolicyConfig = PolicyConfig(),
    reach: Reach = Reach(commands=True),
) -> AgentSettings:
    """What agents are built from."""
    return AgentSettings(
        models=tuple(config.models or fallback),
        tools=config.tools,
        tool_search=config.tool_search,
        chain=ChainSettings(
            llm_call=config.llm_call,
            loop_detection=config.loop_detection,
            summarization=config.summarization,
            guardrails=config.guardrails,
            policy=policy,
            reach=reach,
            tool_output=config.tool_output,
            read_before_write=config.read_before_write,
            title=config.title,
        ),
        computer=computer,
        subagents=config.subagents,
        acp_agents=config.acp_agents,
        skills=config.skills,
        skill_evolution=config.skill_evolution,
        memory=config.memory,
        filed_kinds=tuple(kind.to_kind(config.subagents.timeout_seconds) for kind in filed),
    )
