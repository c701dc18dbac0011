"""Local sandbox whose network reaches package registries with any address."""

from deerflow.config.sections.sandbox import SandboxConfig
from deerflow.sandbox.egress import Egress
from deerflow.sandbox.local import LocalSandboxProvider
from deerflow.sandbox.sandbox_provider import HostContext


class RegistrySandboxProvider(LocalSandboxProvider):
    """Local provider for machines whose registries are mirrors with addresses that are not public."""

    def __init__(self, config: SandboxConfig, host: HostContext) -> None:
        super().__init__(config, host, Egress(is_allowed=lambda address: not address.is_loopback))
