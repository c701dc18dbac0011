"""What to try when the program of a server does not start as people are used to: it runs in a sandbox."""

from pathlib import Path

from deerflow.config.extensions import McpServerConfig

FETCHING = frozenset({"npx", "uvx", "bunx", "pnpx", "uv", "npm", "pnpm", "yarn", "pipx"})
SHOWN = ("/usr", "/bin", "/lib", "/etc", "/tmp", "/mnt/user-data", "/proc", "/dev")


def advice_for(config: McpServerConfig) -> str:
    """What may help, in the words of the configuration; nothing where nothing stands out."""
    if config.type != "stdio":
        return ""
    hints = []
    if fetches(config) and not config.network:
        hints.append(f'{config.command!r} fetches packages, which needs "network": true')
    if hidden := [word for word in config.args if is_hidden(word, config)]:
        hints.append(f"it cannot see {', '.join(map(repr, hidden))} unless 'paths' names it")
    return "".join(f"; {hint}" for hint in hints)


def unheeded_in(config: McpServerConfig) -> list[str]:
    """What an entry asks for in vain, in a sentence each: a setting without effect must not look like one."""
    if not config.task_toolsets:
        return []
    names = ", ".join(repr(toolset.name) for toolset in config.task_toolsets)
    return [
        f"'task_toolsets' ({names}) has no effect: a long task is not followed in the background; the agent calls the "
        "tools that submit, look after and cancel it by itself"
    ]


def fetches(config: McpServerConfig) -> bool:
    """Whether the command fetches the program before it starts it."""
    return Path(config.command or "").name in FETCHING


def is_hidden(word: str, config: McpServerConfig) -> bool:
    """Whether an argument is a path of this machine that the sandbox does not show."""
    path = Path(word)
    if not path.is_absolute() or path == Path("/") or any(path.is_relative_to(place) for place in SHOWN):
        return False
    return not any(path.is_relative_to(Path(shown).expanduser()) for shown in config.paths) and path.exists()
