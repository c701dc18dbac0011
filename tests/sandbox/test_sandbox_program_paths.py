"""Tests of the paths that a program needs in the sandbox."""

from pathlib import Path

import pytest

from deerflow.domain.errors import SandboxError
from deerflow.sandbox.local.programs import build_container_command, find_argument_paths, resolve_program


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


RUN = ["docker", "run", "-i", "--rm"]


def test_a_container_gets_a_name_of_its_own_and_a_network_if_it_may(tmp_path: Path) -> None:
    command = [*RUN, "--name", "theirs", "-e", "TOKEN", "-v", "data:/data", "ghcr.io/some/server", "stdio"]
    kept = ["-i", "--rm", "-e", "TOKEN", "-v", "data:/data", "ghcr.io/some/server", "stdio"]
    start = ["docker", "run", "--interactive", "--rm", "--name", "ours"]
    assert build_container_command(command, "ours", tmp_path, has_network=True) == [*start, *kept]
    alone = build_container_command([*RUN, "--name=theirs", "x"], "ours", tmp_path, has_network=False)
    assert alone == [*start, "--network", "none", "-i", "--rm", "x"]
    said = build_container_command([*RUN, "--network=none", "x"], "ours", tmp_path, has_network=False)
    assert said == [*start, "-i", "--rm", "--network=none", "x"]


@pytest.mark.parametrize("option", ["--network=bridge", "--net=office", "--pod=web"])
def test_a_container_without_network_cannot_name_one(tmp_path: Path, option: str) -> None:
    with pytest.raises(SandboxError, match="contradicts 'network': false"):
        build_container_command([*RUN, option, "x"], "ours", tmp_path, has_network=False)
    assert option in build_container_command([*RUN, option, "x"], "ours", tmp_path, has_network=True)


@pytest.mark.parametrize(
    "options",
    [
        ["--privileged"],
        ["--network", "host"],
        ["--net=host"],
        ["--network=ns:/proc/1/ns/net"],
        ["--pid=host"],
        ["--device", "/dev/sda"],
        ["--cap-add=ALL"],
        ["--security-opt", "seccomp=unconfined"],
        ["-v", "/:/host"],
        ["-v", "/etc:/host"],
        ["-v/etc:/host"],
        ["-v=/etc:/host"],
        ["-itv", "/etc:/host"],
        ["-itv/etc:/host"],
        ["--volume=/var/run/docker.sock:/var/run/docker.sock"],
        ["--mount", "type=bind,src=/run/docker.sock,dst=/s"],
        ["-v", "{home}:/home"],
        ["-v", "{home}/.ssh:/keys"],
    ],
    ids=" ".join,
)
def test_a_container_that_is_not_isolated_is_refused(disk_path: Path, options: list[str]) -> None:
    (disk_path / ".ssh").mkdir()
    named = [option.replace("{home}", str(disk_path)) for option in options]
    with pytest.raises(SandboxError, match="lets the container out|must not see"):
        build_container_command([*RUN, *named, "image"], "ours", disk_path, has_network=True)


def test_a_container_mounts_folders_with_files_and_an_engine_does_nothing_else(disk_path: Path) -> None:
    files = disk_path / "files"
    files.mkdir()
    mount = ["--mount", f"type=bind,src={files},dst=/projects"]
    assert mount[1] in build_container_command([*RUN, *mount, "x"], "ours", disk_path, has_network=True)
    with pytest.raises(SandboxError, match="by 'run' alone"):
        build_container_command(["docker", "exec", "x"], "ours", disk_path, has_network=True)
