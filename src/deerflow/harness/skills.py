"""The skills of everybody, as the configuration has them."""

from functools import partial
from pathlib import Path

from deerflow.config.extensions_file import change_extensions, with_skill
from deerflow.config.files import starting_in
from deerflow.config.source import ConfigSource
from deerflow.skills.index import SkillIndex
from deerflow.skills.lock import LockWatch
from deerflow.skills.notices import open_notices
from deerflow.skills.roots import shipped_root


def open_skill_index(source: ConfigSource) -> SkillIndex:
    """What knows the skills; close it in the end."""
    loaded = source.current
    named = loaded.config.skills.path
    around = (loaded.config_file or loaded.extensions_file).parent
    shipped = starting_in(around, Path(named)) / "public" if named else shipped_root()

    def switches() -> dict[str, bool]:
        return {name: switch.enabled for name, switch in source.refresh().extensions.skills.items()}

    return SkillIndex(shipped, loaded.home, switches, open_notices(), LockWatch().look)


def switch_skill(source: ConfigSource, name: str, enabled: bool) -> None:
    """Write down whether a skill of everybody is on.

    Raises:
        ConfigError: `extensions_config.json` is wrong or cannot be written.
    """
    loaded = source.current
    change = partial(with_skill, name=name, enabled=enabled)
    change_extensions(loaded.extensions_file, change, loaded.environment)
