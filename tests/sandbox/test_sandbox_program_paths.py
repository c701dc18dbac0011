"""Tests of the paths that a program needs in the sandbox."""

from pathlib import Path

import pytest

from deerflow.domain.errors import SandboxError
from deerflow.sandbox.local.programs import resolve_program


def test_program_is_mounted_with_its_installation_folder(tmp_path: Path) -> None:
    environment = tmp_path / "env"
    (environment / "bin").mkdir(parents=True)
    (environment / "pyvenv.cfg").write_text(f"home = {tmp_path}/python/bin\n")
    (environment / "bin" / "serve").touch(mode=0o755)
    package = tmp_path / "app" / "node_modules" / "pkg" / "index.js"
    package.parent.mkdir(parents=True)
    package.touch()
    (tmp_path / "app" / "node_modules" / ".bin").mkdir()
    linked = tmp_path / "app" / "node_modules" / ".bin" / "serve"
    linked.symlink_to(package)
    data = tmp_path / "data"
    data.mkdir()

    def needed(program: str, *extra: Path) -> list[Path]:
        return resolve_program([program, "--x"], extra, ["/usr/bin"], str(environment / "bin"))[1]

    assert needed(str(environment / "bin" / "serve")) == [environment, tmp_path / "python"]
    assert needed("serve", data) == [data, environment, tmp_path / "python"]
    assert needed(str(linked)) == [tmp_path / "app" / "node_modules"]
    assert needed("env") == []
    with pytest.raises(SandboxError, match="no program"):
        needed("/nowhere/serve")
    with pytest.raises(SandboxError, match="correct 'paths'"):
        needed("env", tmp_path / "missing")
