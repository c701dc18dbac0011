"""`deerflow config migrate`: take over the configuration and the data of the public DeerFlow."""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from langchain_core.messages import BaseMessage

from deerflow.agents.custom_agents import CONFIG_FILE, SOUL_FILE
from deerflow.cli.migration import (
    Conversion,
    ConvertedFile,
    convert_config,
    convert_extensions,
    format_config,
    remove_invalid,
)
from deerflow.config.load import EXTENSIONS_NAMES
from deerflow.config.loader.document import InvalidConfig, from_mapping
from deerflow.config.loader.files import parse_json, parse_yaml, read_text, resolve_from
from deerflow.config.loader.validation import validate
from deerflow.config.root import is_public_config
from deerflow.config.sections.agents import CustomAgent, CustomAgentConfig
from deerflow.config.source import open_source
from deerflow.domain.errors import ConfigError, Conflict, DeerFlowError, InvalidRequest, StorageUnavailable
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.memory import MemoryScope
from deerflow.harness import Harness, open_harness
from deerflow.harness.core import DEMO_MODEL
from deerflow.persistence.checkpoints.sqlite import PublicThread, list_public_threads
from deerflow.sandbox.files.mounts import file_owner, user_data_folder
from deerflow.sandbox.snapshots.restore import copy_tree
from deerflow.skills.folders import custom_root, find_skills, write_switch

DATABASE_FILE = "deerflow-migrated.db"
"""The database of the public DeerFlow has the name of ours, so ours gets another."""


@dataclass(frozen=True, slots=True)
class PublicData:
    """The state directory of the public DeerFlow, and the user whose data is taken over."""

    home: Path
    user: str | None
    """Name of a folder in `users`; None for data of a version without users."""
    target: Path
    """Our state directory, which may be the same."""
    databases: tuple[Path, ...] = ()
    """The SQLite files with states of threads."""
    memory: Path | None = None
    """The memory of a version that names its file in the configuration."""
    is_given: bool = False
    """True if the user has named the directory: then data is taken over even if the configuration is ours already."""

    @property
    def folders(self) -> list[Path]:
        """Return the folders that hold the data: of the user, and of versions without users."""
        return [*([self.home / "users" / self.user] if self.user else []), self.home]


def convert_files(file: Path, data: PublicData | None, home: Path) -> list[ConvertedFile]:
    """Return the converted `config.yaml` and, if there is one, `extensions_config.json` next to it. Writes nothing.

    Raises:
        ConfigError: A file cannot be read, or `file` is not a configuration of the public DeerFlow.
    """
    settings = read_settings(file)
    if not is_public_config(settings):
        if data is not None and data.is_given:
            return []
        raise ConfigError(f"{file}: is not a configuration of the public DeerFlow; nothing was changed")
    made = convert_config(settings)
    taken = data is not None and home / "data" / "deerflow.db" in data.databases
    if taken and made.settings.get("database", {}).get("url") is None:
        made.put("database.url", f"sqlite:///data/{DATABASE_FILE}")
        made.changed.append(f"database.url is data/{DATABASE_FILE}, for the old database has the default name")
    converted = [ConvertedFile(file, made, format_config(file, made))]
    for other in (file.parent / name for name in EXTENSIONS_NAMES):
        if other.exists():
            extensions = convert_extensions(parse_json(read_text(other, other.name), other.name).data)
            content = json.dumps(extensions.settings, indent=2, ensure_ascii=False) + "\n"
            return [*converted, ConvertedFile(other, extensions, content)]
    return converted


def read_settings(file: Path) -> dict[str, Any]:
    """Return the settings in a `config.yaml` of either format, as written.

    Raises:
        ConfigError: It cannot be read.
    """
    document = parse_yaml(read_text(file, file.name), file.name)
    if document.problems:
        raise InvalidConfig(document.problems)
    return document.data


def find_user(home: Path, wanted: str | None) -> str | None:
    """Return the user whose data is taken over; None if there are no users.

    Raises:
        ConfigError: The user does not exist, or there are several.
    """
    folder = home / "users"
    names = sorted(each.name for each in folder.iterdir() if each.is_dir()) if folder.is_dir() else []
    if wanted is not None:
        if wanted not in names:
            raise ConfigError(f"there is no user {wanted!r} in {folder}; choose from {', '.join(names) or 'none'}")
        return wanted
    others = [name for name in names if name != LOCAL_USER.user_id]
    if "default" in others or len(others) < 2:
        return "default" if "default" in others else next(iter(others), None)
    raise ConfigError(f"{folder} has several users; choose one with --user: {', '.join(others)}")


async def take_over(
    data: PublicData, settings: Mapping[str, Any], environment: Mapping[str, str]
) -> AsyncIterator[str]:
    """Take over skills, agents, memory and threads; yield a line about each. What is here already is kept.

    Raises:
        ConfigError: The database of `settings` cannot be opened.
    """
    for line in take_over_skills(data):
        yield line
    overrides = {key: settings[key] for key in ("database",) if key in settings}
    model = DEMO_MODEL.model_dump(exclude_none=True, include={"name", "use", "model"})
    source = open_source(
        directory=data.target,
        environment={**find_variables(environment), "DEER_FLOW_HOME": str(data.target)},
        overrides={**overrides, "models": [model], "memory": {"max_facts": 100_000}},
    )
    async with open_harness(source) as harness:
        for line in take_over_agents(data, harness):
            yield line
        async for line in take_over_memory(data, harness):
            yield line
        async for line in take_over_threads(data, harness):
            yield line


def find_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that settings may refer to; those that name files of ours are left out."""
    return {name: value for name, value in environment.items() if not name.startswith("DEER_FLOW_")}


def take_over_skills(data: PublicData) -> Iterator[str]:
    """Copy the custom skills of the user."""
    if data.user is None or data.user == LOCAL_USER.user_id:
        return
    root, target = data.folders[0] / "skills" / "custom", custom_root(data.target, LOCAL_USER.user_id)
    found = find_skills(root, "custom")
    for rejected in found.rejected:
        yield f"skill {rejected.path}: not taken over: {rejected.reason}"
    states = read_mapping(data.folders[0] / "skills" / "_skill_states.json")
    for skill in found.skills:
        folder = target / str(skill.relative)
        if folder.exists():
            yield f"skill {skill.name}: is here already"
            continue
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(skill.folder, folder, symlinks=True)
        state = states.get(skill.name)
        if isinstance(state, Mapping) and state.get("enabled") is False:
            write_switch(target, skill.name, enabled=False)
        yield f"skill {skill.name}: taken over"


def take_over_agents(data: PublicData, harness: Harness) -> Iterator[str]:
    """Create the custom agents of the user, and those of all users."""
    agents = harness.core.custom_agents
    for folder in (each for place in data.folders for each in sorted((place / "agents").glob("*"))):
        if not (folder / CONFIG_FILE).is_file() and not (folder / SOUL_FILE).is_file():
            continue
        try:
            made = read_agent_config(folder / CONFIG_FILE)
            soul = read_text(folder / SOUL_FILE, SOUL_FILE) if (folder / SOUL_FILE).is_file() else ""
            config = validate(CustomAgentConfig, from_mapping(made.settings, CONFIG_FILE))
            agents.create(LOCAL_USER.user_id, CustomAgent(folder.name, config, soul))
        except Conflict:
            yield f"agent {folder.name}: is here already"
        except (ConfigError, InvalidRequest) as problem:
            yield f"agent {folder.name}: not taken over: {problem}"
        else:
            yield f"agent {folder.name}: taken over"
            yield from (f"agent {folder.name}: not taken over: {each.key}: {each.reason}" for each in made.left_out)


def read_agent_config(file: Path) -> Conversion:
    """Return the settings of an agent, without those that ours does not have."""
    document = parse_yaml(read_text(file, file.name), file.name) if file.is_file() else None
    made = Conversion({key: value for key, value in document.data.items() if key != "name"} if document else {})
    remove_invalid(CustomAgentConfig, made)
    return made


async def take_over_memory(data: PublicData, harness: Harness) -> AsyncIterator[str]:
    """Import the memory of the user and of each agent."""
    memory = harness.resources.memory
    for agent, document in find_memories(data).items():
        scope, label = MemoryScope(LOCAL_USER.user_id, agent), f"memory of {agent}" if agent else "memory"
        state = await memory.read(scope)
        if state.facts or state.summaries:
            yield f"{label}: is here already"
            continue
        try:
            changes = await memory.import_document(scope, document)
        except InvalidRequest as problem:
            yield f"{label}: not taken over: {problem}"
        else:
            yield f"{label}: taken over, {len(changes)} entries"


def find_memories(data: PublicData) -> dict[str | None, dict[str, Any]]:
    """Return the documents by agent; None is the memory of all other agents. The user's own come first."""
    found: dict[str | None, dict[str, Any]] = {}
    for place in data.folders:
        folders: dict[str | None, Path] = {None: place}
        folders |= {each.name: each for each in sorted((place / "agents").glob("*")) if each.is_dir()}
        for name, folder in folders.items():
            agent = None if name == "__default__" else name
            document = dict(read_mapping(folder / "memory.json"))
            facts = [*document.get("facts", []), *map(read_fact, sorted((folder / "facts").glob("*/*.md")))]
            if not document and not facts:
                continue
            known = found.setdefault(agent, document)
            known["facts"] = [*known.get("facts", []), *facts] if known is not document else facts
    if None not in found and data.memory is not None:
        found[None] = dict(read_mapping(data.memory))
    return found


def read_fact(file: Path) -> dict[str, Any]:
    """Return a fact that is a Markdown file with front matter, a title and its content."""
    front, _, body = read_text(file, file.name).removeprefix("---\n").partition("\n---\n")
    fields = parse_yaml(front, file.name).data
    lines = body.strip().splitlines()
    text = "\n".join(lines[1:] if len(lines) > 1 and lines[0].startswith("# ") else lines).strip()
    origin = fields.get("source")
    source = origin.get("threadId") if isinstance(origin, Mapping) else origin
    known = {"id", "category", "confidence", "createdAt", "sourceError"}
    kept = {key: value for key, value in fields.items() if key in known}
    return {**kept, "content": text, "source": source}


async def take_over_threads(data: PublicData, harness: Harness) -> AsyncIterator[str]:
    """Create the threads of the user with their messages and files."""
    for file in data.databases:
        try:
            threads = await asyncio.to_thread(list_public_threads, file, data.user)
        except StorageUnavailable as problem:
            yield f"{file.name}: threads are not taken over: {problem}"
            continue
        for thread in threads:
            try:
                messages = await asyncio.to_thread(thread.read_messages)
                await create_thread(thread, messages, data, harness)
            except Conflict:
                yield f"thread {thread.thread_id}: is here already"
            except (DeerFlowError, OSError, ValueError) as problem:
                yield f"thread {thread.thread_id}: not taken over: {problem}"
            else:
                yield f"thread {thread.thread_id}: taken over, {len(messages)} messages"


async def create_thread(
    thread: PublicThread, messages: Sequence[BaseMessage], data: PublicData, harness: Harness
) -> None:
    """Create a thread with its messages and a copy of its files."""
    threads = harness.threads
    title = {"title": thread.title} if thread.title else {}
    await threads.create(LOCAL_USER, thread.thread_id, title, may_exist=False)
    try:
        origins = [place / "threads" / thread.thread_id / "user-data" for place in data.folders]
        target = user_data_folder(data.target, LOCAL_USER.user_id, thread.thread_id)
        if origin := next((each for each in origins if each.is_dir() and each != target), None):
            await asyncio.to_thread(copy_files, origin, target)
        if messages:
            await threads.update_state(thread.thread_id, LOCAL_USER, {"messages": messages})
    except BaseException:  # half a thread is none
        await threads.delete(thread.thread_id, LOCAL_USER)
        raise


def copy_files(origin: Path, target: Path) -> None:
    """Copy the files of a thread; they belong to the user of commands afterwards."""
    owner = file_owner()
    target.parent.mkdir(parents=True, exist_ok=True)
    copy_tree(origin, target, owner)
    if owner is not None:
        for path in target.rglob("*"):
            os.chown(path, owner, owner, follow_symlinks=False)


def find_databases(settings: Mapping[str, Any], project: Path, home: Path) -> tuple[Path, ...]:
    """Return the SQLite files of the public DeerFlow that hold states of threads."""
    database, checkpointer = (settings.get(key) or {} for key in ("database", "checkpointer"))
    folder, file = database.get("sqlite_dir"), checkpointer.get("connection_string")
    candidates = [
        resolve_from(project, Path(folder)) / "deerflow.db" if isinstance(folder, str) else home / "data/deerflow.db",
        *(resolve_from(place, Path(file)) for place in (project, home) if isinstance(file, str) and "://" not in file),
        home / "checkpoints.db",
    ]
    return tuple(file for file in dict.fromkeys(candidates) if file.is_file())


def find_data(file: Path, home: Path, source: Path | None, user: str | None) -> PublicData | None:
    """Return the data next to a configuration of the public DeerFlow, or in `source`; None if there is none.

    Raises:
        ConfigError: `source` or `user` does not exist, or there are several users.
    """
    if source is not None and not source.is_dir():
        raise ConfigError(f"{source}: there is no such folder")
    places = [source] if source is not None else [home, file.parent / "backend" / home.name]
    found = next((place for place in places if place.is_dir()), None)
    if found is None:
        return None
    settings = read_settings(file)
    databases = find_databases(settings, file.parent, found)
    memory = find_memory_file(settings, file.parent, found)
    return PublicData(found.absolute(), find_user(found, user), home, databases, memory, is_given=source is not None)


def find_memory_file(settings: Mapping[str, Any], project: Path, home: Path) -> Path | None:
    """Return the file that `storage_path` of the memory or of its backend names; None if there is none."""
    memory = settings.get("memory") or {}
    paths = [section.get("storage_path") for section in (memory, memory.get("backend_config") or {})]
    named = [Path(path) for path in paths if isinstance(path, str) and path]
    places = [resolve_from(place, path) for path in named for place in (project, home)]
    return next((place for place in places if place.is_file()), None)


def read_mapping(file: Path) -> Mapping[str, Any]:
    """Return the mapping in a JSON file; empty if there is none."""
    try:
        found = orjson.loads(file.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}
