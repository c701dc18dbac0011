"""The policy in force: read when it is first needed and when its file has changed; one that is wrong refuses all."""

import logging
from collections.abc import Mapping
from pathlib import Path

from deerflow.agents.middlewares.guardrail_facts import Reach
from deerflow.agents.settings import Computer
from deerflow.config.extensions import McpServerConfig
from deerflow.config.files import Stamp, starting_in
from deerflow.config.load import Loaded
from deerflow.config.policy import POLICY_NAME, PolicyConfig, read_policy, refusing
from deerflow.domain.errors import ConfigError

logger = logging.getLogger(__name__)


class PolicyFile:
    """Looks at the file whenever it is asked."""

    def __init__(self) -> None:
        self._stamp: Stamp | None = None
        self._policy = PolicyConfig()

    def check(self, loaded: Loaded) -> None:
        """Raise `ConfigError` when the policy cannot be used."""
        if loaded.config.guardrails.enabled:
            read_from(place_of(loaded), loaded)

    def current(self, loaded: Loaded) -> PolicyConfig:
        """The policy as its file is now; while that is wrong, one that refuses every call and says why."""
        if not loaded.config.guardrails.enabled:
            return PolicyConfig()
        place = place_of(loaded)
        stamp = Stamp.of(place)
        if stamp != self._stamp:
            self._policy = self._read(place, loaded)
            self._stamp = stamp
        return self._policy

    def _read(self, place: Path, loaded: Loaded) -> PolicyConfig:
        try:
            return read_from(place, loaded)
        except ConfigError as problem:
            logger.error("the policy is wrong, so no tool is called until it is put right:\n%s", problem)
            return refusing(problem)


def place_of(loaded: Loaded) -> Path:
    """Where the policy is, or would be."""
    folder = (loaded.config_file or loaded.extensions_file).parent
    return starting_in(folder, Path(loaded.config.guardrails.policy or POLICY_NAME))


def read_from(place: Path, loaded: Loaded) -> PolicyConfig:
    """The policy in a file; one that nobody has named may be missing.

    Raises:
        ConfigError: It cannot be read, or says something that is no policy.
    """
    if loaded.config.guardrails.policy is None and Stamp.of(place).state is None:
        return PolicyConfig()
    return read_policy(place)


def reach_of(computer: Computer | None, servers: Mapping[str, McpServerConfig]) -> Reach:
    """What tools can send elsewhere, as the configuration has it."""
    commands = computer is not None and (computer.network != "none" or not computer.is_isolated)
    confined = (name for name, server in servers.items() if is_confined(server))
    return Reach(commands, frozenset(confined))


def is_confined(server: McpServerConfig) -> bool:
    """Whether an MCP server runs in the sandbox, without a network."""
    return server.type == "stdio" and not getattr(server, "network", False)
