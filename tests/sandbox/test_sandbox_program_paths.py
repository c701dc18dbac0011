"""Tests of the paths that a program needs in the sandbox."""

from pathlib import Path

import pytest

from deerflow.domain.errors import SandboxError
from deerflow.sandbox.local.programs import find_argument_paths, resolve_program


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


def test_arguments_show_packages_files_and_folders(disk_path: Path) -> None:
    home = disk_path / "home"
    package, single, folder = disk_path / "srv" / "weather", disk_path / "data" / "table.db", home / "Documents"
    hoisted = disk_path / "app" / "node_modules" / "server" / "dist" / "index.js"
    for file in (package / "dist" / "index.js", package / "package.json", single, hoisted, folder / "letter.txt"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (hoisted.parent.parent / "package.json").touch()

    def shown(*arguments: str | Path) -> list[Path]:
        return find_argument_paths([str(each) for each in arguments], home)

    assert shown(package / "dist" / "index.js", "--port", "1", "relative.js", disk_path / "missing.js") == [package]
    assert shown(f"--db={single}", package / "dist" / "index.js", package) == [single, package]
    assert shown(hoisted) == [disk_path / "app" / "node_modules"]
    assert shown(folder) == [folder]
    assert shown(folder / "letter.txt") == [folder / "letter.txt"]


def test_arguments_do_not_show_the_home_secrets_and_system_folders(disk_path: Path) -> None:
    home = disk_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id").touch()
    (home / "package.json").touch()  # a stray one does not make the home a package
    (home / "server.js").touch()
    project = home / "project"
    (project / ".deer-flow").mkdir(parents=True)
    (project / ".deer-flow" / "mcp.key").touch()
    (project / "pyproject.toml").touch()
    (home / "link").symlink_to(home / ".ssh")
    (disk_path / "up").symlink_to(disk_path)
    secret = (home / ".ssh", home / ".ssh" / "id", home / "link", project / ".deer-flow" / "mcp.key")
    wide = (home, disk_path, disk_path / "up", "/", "/opt", "/etc/passwd", "/proc/1", "/usr/bin", project / ".." / "..")
    for path in (*secret, *wide):
        assert find_argument_paths([str(path)], home) == [], path
    assert find_argument_paths([str(home / "server.js")], home) == [home / "server.js"]
