"""Custom agents: one folder each, with `config.yaml`, `SOUL.md` and the metadata of clients."""

import errno
import logging
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError
from pydantic.types import JsonValue

from deerflow.config.loader.document import make_empty_document
from deerflow.config.loader.files import FileStamp, parse_yaml, read_text, replace_file, to_yaml
from deerflow.config.loader.validation import validate
from deerflow.config.sections.agents import AGENT_NAME, CustomAgent, CustomAgentConfig, check_agent_name
from deerflow.domain.errors import ConfigError, Conflict, NotFound
from deerflow.domain.identity import (
    FindShared,
    Need,
    SharedThing,
    check_user_id,
    require_share,
    share_nothing,
    split_address,
)

logger = logging.getLogger(__name__)

CONFIG_FILE = "config.yaml"
SOUL_FILE = "SOUL.md"
METADATA_FILE = "metadata.json"
METADATA = TypeAdapter(dict[str, JsonValue])


@dataclass(frozen=True, slots=True)
class CachedAgent:
    """Custom agent with the file stamps from when it was read."""

    agent: CustomAgent
    stamps: tuple[FileStamp, ...]


class CustomAgents:
    """Custom agents below `home`. Reads and writes files, so it blocks; unchanged agents are cached.

    Agents of other people have an address, `name@owner`, and are found while `find_shared` returns them.
    """

    def __init__(self, home: Path, find_shared: FindShared = share_nothing) -> None:
        self._home = home
        self._find_shared = find_shared
        self._readings: dict[Path, CachedAgent] = {}

    def load(self, user_id: str, name: str) -> CustomAgent:
        """Return the agent that `user_id` calls `name`.

        Raises:
            InvalidRequest: The name is invalid.
            NotFound: The agent does not exist.
            ConfigError: Its files are invalid; the text names file, line and key.
        """
        if (share := self._find_share(user_id, name, "read")) is not None:
            return replace(self._read(self._shared_folder(share)), name=share.address, share=share)
        name = check_agent_name(split_address(name, user_id)[1])
        for folder in (self._own(user_id) / name, self._shared / name):
            if folder.is_dir():
                return self._read(folder)
        raise NotFound(f"there is no agent {name!r}")

    def list(self, user_id: str) -> Sequence[CustomAgent]:
        """Return all agents of a user by name, then those of others; invalid ones are logged and left out."""
        names = {name for place in (self._own(user_id), self._shared) for name in list_agent_folders(place)}
        addresses = [share.address for share in self._find_shared(user_id) if share.kind == "agent"]
        return tuple(self._readable(user_id, [*sorted(names), *addresses]))

    def check_own(self, user_id: str, name: str) -> None:
        """Check that an agent exists and belongs to a user; raises what `delete` does."""
        self._changeable(user_id, name, "own")

    def create(self, user_id: str, agent: CustomAgent) -> None:
        """Create an agent.

        Raises:
            InvalidRequest: The name is invalid.
            Conflict: The user already has an agent of that name.
        """
        folder = self._own(user_id) / check_agent_name(agent.name)
        if folder.exists():
            raise Conflict(f"there is already an agent {agent.name!r}; choose another name")
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = folder.with_name(f".{uuid4().hex}")
        unfinished.mkdir()
        try:
            write_agent(unfinished, agent)
            unfinished.rename(folder)  # readers see the whole agent or none
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            raise Conflict(f"there is already an agent {agent.name!r}; choose another name") from None
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)

    def update(self, user_id: str, agent: CustomAgent) -> None:
        """Replace the user's agent of that name.

        Raises:
            NotFound: The agent does not exist.
            Conflict: The agent is shared by all users.
            Forbidden: The agent belongs to another person, who shares it for reading.
        """
        write_agent(self._changeable(user_id, agent.name, "write"), agent)

    def delete(self, user_id: str, name: str) -> None:
        """Delete the user's agent of that name.

        Raises:
            NotFound: The agent does not exist.
            Conflict: The agent is shared by all users.
            Forbidden: The agent belongs to another person.
        """
        folder = self._changeable(user_id, name, "own")
        gone = folder.with_name(f".{uuid4().hex}")
        folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
        self._readings.pop(folder, None)

    @property
    def _shared(self) -> Path:
        return self._home / "agents"

    def _own(self, user_id: str) -> Path:
        return self._home / "users" / check_user_id(user_id) / "agents"

    def _find_share(self, user_id: str, address: str, need: Need) -> SharedThing | None:
        """Return the share of another person's agent; None if the address is that of an own one."""
        if split_address(address, user_id)[0] == user_id:
            return None
        return require_share(self._find_shared(user_id), "agent", address, need)

    def _shared_folder(self, share: SharedThing) -> Path:
        folder = self._own(share.owner) / check_agent_name(share.name)
        if not folder.is_dir():
            raise NotFound(f"there is no agent {share.name!r} of {share.shared_by} any more")
        return folder

    def _changeable(self, user_id: str, name: str, need: Need) -> Path:
        if (share := self._find_share(user_id, name, need)) is not None:
            return self._shared_folder(share)
        name = check_agent_name(split_address(name, user_id)[1])
        folder = self._own(user_id) / name
        if folder.is_dir():
            return folder
        if (self._shared / name).is_dir():
            raise Conflict(f"the agent {name!r} is shared by all users and cannot be changed here")
        raise NotFound(f"there is no agent {name!r}")

    def _read(self, folder: Path) -> CustomAgent:
        stamps = tuple(FileStamp.read(folder / name) for name in (CONFIG_FILE, SOUL_FILE, METADATA_FILE))
        known = self._readings.get(folder)
        if known is None or known.stamps != stamps:
            known = self._readings[folder] = CachedAgent(read_agent(folder, self._home), stamps)
        return known.agent

    def _readable(self, user_id: str, names: Sequence[str]) -> Iterator[CustomAgent]:
        for name in names:
            try:
                yield self.load(user_id, name)
            except NotFound:
                continue  # it was there a moment ago
            except ConfigError as error:
                logger.warning("agent %r is left out: %s", name, error)


def list_agent_folders(place: Path) -> Iterator[str]:
    """Return the names of folders that can be agents."""
    if place.is_dir():
        yield from (path.name for path in place.iterdir() if AGENT_NAME.fullmatch(path.name) and path.is_dir())


def read_agent(folder: Path, home: Path) -> CustomAgent:
    """Read the agent in `folder`; all files are optional. Errors show paths relative to `home`."""
    file, soul = folder / CONFIG_FILE, folder / SOUL_FILE
    name = str(file.relative_to(home))
    document = parse_yaml(read_text(file, name), name) if file.exists() else make_empty_document(name)
    return CustomAgent(
        name=folder.name,
        config=validate(CustomAgentConfig, document),
        soul=read_text(soul, str(soul.relative_to(home))) if soul.exists() else "",
        metadata=read_metadata(folder / METADATA_FILE, home),
    )


def read_metadata(file: Path, home: Path) -> dict[str, JsonValue]:
    """Read the metadata of an agent.

    Raises:
        ConfigError: The file is not a JSON object.
    """
    if not file.exists():
        return {}
    name = str(file.relative_to(home))
    try:
        return METADATA.validate_json(read_text(file, name))
    except ValidationError:
        raise ConfigError(f"{name}: must be a JSON object; correct it, or delete it") from None


def write_agent(folder: Path, agent: CustomAgent) -> None:
    """Write `agent` to `folder`, replacing each file atomically."""
    replace_file(folder / CONFIG_FILE, to_yaml(agent.config.model_dump(mode="json", exclude_defaults=True)).encode())
    replace_file(folder / SOUL_FILE, agent.soul.lstrip("\ufeff").encode(errors="replace"))
    if agent.metadata:
        replace_file(folder / METADATA_FILE, METADATA.dump_json(dict(agent.metadata), indent=2) + b"\n")
    else:
        (folder / METADATA_FILE).unlink(missing_ok=True)
