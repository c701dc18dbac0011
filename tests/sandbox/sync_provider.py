"""Sandbox providers with synchronous methods, as people write them against the founding contract."""

from pathlib import Path

from deerflow.sandbox.sandbox import GrepMatch, Sandbox
from deerflow.sandbox.sandbox_provider import SandboxProvider


class FolderSandbox(Sandbox):
    """Sandbox that keeps text files in a dictionary and answers one command."""

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.files: dict[str, str] = {}

    def execute_command(self, command: str) -> str:  # type: ignore[override]  # the contract is synchronous
        return f"ran: {command}"

    def read_file(self, path: str) -> str:  # type: ignore[override]
        if path not in self.files:
            raise FileNotFoundError(f"there is no {path}")
        return self.files[path]

    def write_file(self, path: str, content: str, append: bool = False) -> None:  # type: ignore[override]
        self.files[path] = self.files.get(path, "") * append + content

    def update_file(self, path: str, content: bytes) -> None:  # type: ignore[override]
        self.files[path] = content.decode()

    def list_dir(self, path: str, max_depth: int = 2) -> list[str]:  # type: ignore[override]
        return sorted(self.files)

    def glob(  # type: ignore[override]
        self, path: str, pattern: str, *, include_dirs: bool = False, max_results: int = 200
    ) -> tuple[list[str], bool]:
        return [name for name in sorted(self.files) if Path(name).match(pattern)][:max_results], False

    def grep(  # type: ignore[override]
        self, path: str, pattern: str, *, max_results: int = 100, **options: object
    ) -> tuple[list[GrepMatch], bool]:
        found = [GrepMatch(name, 1, text) for name, text in self.files.items() if pattern in text]
        return found[:max_results], False


class MySandboxProvider(SandboxProvider):
    """Provider with one sandbox per thread."""

    def __init__(self) -> None:
        self.sandboxes: dict[str, FolderSandbox] = {}

    def acquire(self, thread_id: str | None) -> str:  # type: ignore[override]
        sandbox_id = f"my-{thread_id}"
        self.sandboxes.setdefault(sandbox_id, FolderSandbox(sandbox_id))
        return sandbox_id

    def get(self, sandbox_id: str) -> Sandbox | None:  # type: ignore[override]
        return self.sandboxes.get(sandbox_id)

    def release(self, sandbox_id: str) -> None:  # type: ignore[override]
        pass


class ForgetfulProvider(SandboxProvider):
    """Provider without `release`."""

    def acquire(self, thread_id: str | None) -> str:  # type: ignore[override]
        return "one"

    def get(self, sandbox_id: str) -> Sandbox | None:  # type: ignore[override]
        return None


class BareSandbox:
    """Sandbox that only runs commands."""

    def execute_command(self, command: str) -> str:
        return command


class BareProvider(MySandboxProvider):
    """Provider of sandboxes that lack most methods."""

    def get(self, sandbox_id: str) -> BareSandbox:  # type: ignore[override]
        return BareSandbox()
