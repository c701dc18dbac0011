"""What everything else stands on."""

from dataclasses import dataclass

from langgraph.checkpoint.base import BaseCheckpointSaver

from deerflow.config.load import Loaded
from deerflow.config.source import ConfigSource
from deerflow.persistence.database import Database
from deerflow.runtime.resources import Resources
from deerflow.runtime.runs.file_changes import FileChanges
from deerflow.sandbox.locks import FileLocks
from deerflow.sandbox.sandbox_provider import SandboxProvider
from deerflow.tracing.metrics import Metrics
from deerflow.uploads.uploads import Uploads


@dataclass(frozen=True, slots=True)
class Ground:
    """What everything else stands on."""

    source: ConfigSource
    loaded: Loaded
    database: Database
    checkpointer: BaseCheckpointSaver[str]
    sandboxes: SandboxProvider
    uploads: Uploads
    file_changes: FileChanges
    locks: FileLocks
    resources: Resources
    metrics: Metrics
