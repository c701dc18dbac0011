"""Python toolbox, built by the real uv from local wheels without a package index."""

import asyncio
import ensurepip
import os
import re
import stat
import subprocess
from pathlib import Path

import pytest

from deerflow.config.sections.sandbox import ToolboxConfig
from deerflow.domain.errors import SandboxError
from deerflow.sandbox.files.mounts import HOME
from deerflow.sandbox.local.toolbox import (
    LOCK,
    Toolbox,
    ToolboxBuilder,
    ToolboxState,
    choose_interpreter,
    find_uv,
    list_interpreters,
    make_interpreter,
)
from tests.sandbox.wheels import FindUv, ToolboxFixture, build_wheel, make_lock_line
from tests.support import needs

ROOT = Path(__file__).parents[2]


@pytest.fixture
def fixture(tmp_path: Path) -> ToolboxFixture:
    return ToolboxFixture(tmp_path)


async def build_failing(builder: ToolboxBuilder) -> str:
    async with asyncio.timeout(60):
        with pytest.raises(SandboxError) as caught:
            await builder.build()
    return str(caught.value)


async def build_toolbox(builder: ToolboxBuilder) -> Toolbox:
    async with asyncio.timeout(60):
        return await builder.build()


def run_program(toolbox: Toolbox, *arguments: str) -> str:
    """Return the output of a program of the environment, run in place."""
    program = [str(toolbox.mounts["/opt/toolbox"] / "bin" / arguments[0]), *arguments[1:]]
    return subprocess.run(program, env={}, capture_output=True, text=True, check=True, timeout=20).stdout.strip()


async def test_names_an_unknown_package_and_retries_later(fixture: ToolboxFixture) -> None:
    builder = fixture.builder("saw")
    text = await build_failing(builder)
    assert text.startswith("the toolbox cannot be built: ") and "saw" in text
    assert await builder.state() == ToolboxState("failed", text)
    assert await builder.find() is None
    assert fixture.list_cached() == ["failure"]
    build_wheel(fixture.wheels, "saw")
    toolbox = await build_toolbox(builder)
    assert (await builder.state()).status == "ready"
    assert fixture.list_cached() == ["environment"]
    assert [run_program(toolbox, tool) for tool in ("hammer", "saw")] == ["hammer 1.0", "saw 1.0"]


async def test_refuses_a_package_with_another_hash(fixture: ToolboxFixture) -> None:
    fixture.lock.write_text(re.sub("[0-9a-f]{64}", "0" * 64, fixture.lock.read_text()))
    assert "hash" in (await build_failing(fixture.builder())).lower()


async def test_refuses_source_distributions(fixture: ToolboxFixture) -> None:
    source = fixture.root / "anvil"
    source.mkdir()
    (source / "setup.py").write_text(f"open({str(fixture.root / 'ran')!r}, 'w')")
    await build_failing(fixture.builder(f"anvil @ {source.as_uri()}"))
    assert not (fixture.root / "ran").exists()


async def test_reports_how_to_install_uv(fixture: ToolboxFixture) -> None:
    builder = fixture.builder(find_uv=FindUv(None))
    assert "pip install uv" in await build_failing(builder)
    assert (await builder.state()).status == "failed"


async def test_reports_an_unreachable_index(fixture: ToolboxFixture) -> None:
    environment = {**fixture.environment, "UV_DEFAULT_INDEX": "http://127.0.0.1:1/", "UV_HTTP_RETRIES": "0"}
    text = await build_failing(fixture.builder("saw", environment=environment))
    assert "the package index cannot be reached; it is tried again at the next start" in text


async def test_names_a_cache_that_is_not_writable(fixture: ToolboxFixture) -> None:
    (fixture.root / "cache").write_text("no folder")
    assert f"{fixture.root}/cache" in await build_failing(fixture.builder())


async def test_stops_a_build_after_the_timeout(fixture: ToolboxFixture) -> None:
    builder = fixture.builder(find_uv=fixture.instead_of_uv("sleep 1000"), limit_s=0.5)
    assert "took longer" in await build_failing(builder)
    assert fixture.list_cached() == ["failure"]


async def test_cancelled_build_leaves_nothing(fixture: ToolboxFixture) -> None:
    pipe = fixture.root / "pipe"
    os.mkfifo(pipe)
    # The inner sleep holds the output open: the end of the build is seen only when that is gone too.
    hang = f'for place; do :; done; mkdir "$place"; sleep 1000 & echo begun > {pipe}; wait'
    builder = fixture.builder(find_uv=fixture.instead_of_uv(hang))
    building = asyncio.create_task(builder.build())
    async with asyncio.timeout(20):
        assert await asyncio.to_thread(pipe.read_text) == "begun\n"
        assert (await builder.state()).status == "building"
        with pytest.raises(TimeoutError):  # another server waits, and need not wait to the end
            await asyncio.wait_for(builder.build(), timeout=0.5)
        assert fixture.list_cached() == ["unfinished"]
        building.cancel()
        with pytest.raises(asyncio.CancelledError):
            await building
    assert fixture.list_cached() == []
    assert (await builder.state()).status == "missing"


async def test_two_servers_build_once(fixture: ToolboxFixture) -> None:
    program = find_uv(fixture.environment)
    assert program is not None
    log = fixture.root / "log"
    uv = fixture.instead_of_uv(f'echo "$1" >> {log}\nexec {" ".join(program)} "$@"')
    first, second = (fixture.builder(find_uv=uv) for _ in range(2))
    toolboxes = await asyncio.gather(build_toolbox(first), build_toolbox(second))
    assert toolboxes[0] == toolboxes[1] == await first.find() == await build_toolbox(second)
    assert log.read_text().split() == ["venv", "pip"]


async def test_rebuilds_after_a_killed_server(fixture: ToolboxFixture) -> None:
    builder = fixture.builder()
    environment = (await build_toolbox(builder)).mounts["/opt/toolbox"]
    environment.rename(environment.with_name("unfinished"))
    assert await builder.find() is None
    assert run_program(await build_toolbox(builder), "hammer") == "hammer 1.0"
    assert fixture.list_cached() == ["environment"]


async def test_disabled_toolbox_is_not_built_or_found(fixture: ToolboxFixture) -> None:
    built_one = fixture.builder()
    await build_toolbox(built_one)
    builder = ToolboxBuilder(ToolboxConfig(enabled=False), built_one.cache, {}, lock=fixture.lock)
    assert (await builder.state()).status == "off"
    assert await builder.find() is None
    assert "sandbox.toolbox.enabled" in await build_failing(builder)


async def test_each_content_has_its_own_folder(fixture: ToolboxFixture) -> None:
    plain = await build_toolbox(fixture.builder())
    more = fixture.builder("saw")
    assert (await more.state()).status == "missing"
    build_wheel(fixture.wheels, "saw")
    assert (await build_toolbox(more)).mounts["/opt/toolbox"] != plain.mounts["/opt/toolbox"]


async def test_uv_gets_the_index_settings_and_no_secrets(fixture: ToolboxFixture) -> None:
    seen = fixture.root / "seen"
    server = {
        "PATH": "/usr/bin:/bin",
        "OPENAI_API_KEY": "secret",
        "https_proxy": "http://proxy",
        "PIP_INDEX_URL": "http://pip.example",
        "UV_INDEX": "http://uv.example",
        "PIP_EXTRA_INDEX_URL": "http://other.example",
    }
    uv = fixture.instead_of_uv(f"env > {seen}; exit 1")
    await build_failing(fixture.builder(find_uv=uv, environment=server))
    variables = dict(line.split("=", 1) for line in seen.read_text().splitlines())
    assert {name: variables.get(name) for name in ("https_proxy", "UV_DEFAULT_INDEX", "UV_INDEX")} == {
        "https_proxy": "http://proxy",
        "UV_DEFAULT_INDEX": "http://pip.example",
        "UV_INDEX": "http://uv.example",
    }
    assert "secret" not in seen.read_text()


async def test_toolbox_is_readable_by_all_users_and_compiled(fixture: ToolboxFixture) -> None:
    before = os.umask(0o077)
    try:
        environment = (await build_toolbox(fixture.builder())).mounts["/opt/toolbox"]
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [environment, *environment.rglob("*")]}
    assert [path for path, mode in modes.items() if not mode & stat.S_IROTH] == []
    assert list(environment.glob("lib/*/site-packages/__pycache__/hammer.*.pyc"))


async def test_skips_unusable_interpreters(tmp_path: Path) -> None:
    def program(name: str, script: str) -> Path:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    missing, broken = tmp_path / "missing", program("broken", "echo no ssl >&2; exit 1")
    other, old = program("other", "echo hello"), program("old", 'echo \'[[3, 9], "/usr/bin/python3.9", "/usr", []]\'')
    with pytest.raises(SandboxError) as caught:
        await choose_interpreter([missing, broken, other, old])
    for reason in ("missing: ", "broken: no ssl", "other: does not behave", "old: older than Python 3.11"):
        assert reason in str(caught.value)
    found = await choose_interpreter([missing, broken, other, old, *list_interpreters()])
    assert found == await choose_interpreter(list_interpreters())
    builder = ToolboxBuilder(ToolboxConfig(), tmp_path, {}, interpreters=[missing])
    assert (await builder.state()).status == "failed"
    assert await builder.find() is None


def test_mounts_an_interpreter_with_its_libraries_only(tmp_path: Path) -> None:
    for name in ("bin", "lib", "secrets"):
        (tmp_path / name).mkdir()
    program, library = tmp_path / "bin/python3.12", tmp_path / "lib/libpython.so"
    program.touch()
    found = make_interpreter(program, tmp_path, (3, 12), [program, library, Path("/usr/lib/libc.so")])
    assert not isinstance(found, str)
    assert (found.version, found.paths) == ("3.12", (program, tmp_path / "lib"))
    elsewhere = Path("/nix/store/libc.so")
    assert make_interpreter(program, tmp_path, (3, 12), [elsewhere]) == f"depends on {elsewhere}"


@pytest.mark.slow
async def test_pip_adds_replaces_and_removes_packages_in_a_sandbox(fixture: ToolboxFixture) -> None:
    bwrap = needs("bwrap")
    folders = (Path(ensurepip.__file__).parent / "_bundled", Path("/usr/share/python-wheels"))  # Debian's is there
    pip = next(file for folder in folders for file in folder.glob("pip-*.whl"))
    (fixture.wheels / pip.name).write_bytes(pip.read_bytes())
    fixture.lock.write_text(fixture.lock.read_text() + make_lock_line(pip))
    toolbox = await build_toolbox(fixture.builder())
    for version in ("2.0", "3.0"):
        build_wheel(fixture.wheels, "hammer", version)
    build_wheel(fixture.wheels, "saw")
    shown = [word for place, path in toolbox.mounts.items() for word in ("--ro-bind", str(path), place)]
    mounts = ["--ro-bind", "/usr", "/usr", *shown, "--bind", str(fixture.root), "/mnt/user-data/workspace"]
    mounts += [word for name in ("bin", "lib", "lib64") for word in ("--symlink", f"usr/{name}", f"/{name}")]
    sandbox = [bwrap, "--unshare-all", "--die-with-parent", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    variables = {**toolbox.variables, "HOME": HOME, "PATH": ":".join([*toolbox.path, "/usr/bin", "/bin"])}

    def run(script: str) -> str:
        install = 'pip() { python3 -m pip -q --no-cache-dir "$@"; }; cd /mnt/user-data/workspace; mkdir -p .home; '
        command = [*sandbox, *mounts, "--", "/bin/bash", "-ec", install + script]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    install = "pip install --no-index --find-links wheels"
    assert run("hammer") == "hammer 1.0"
    assert run(f"{install} hammer==2.0 saw; hammer; saw") == "hammer 2.0\nsaw 1.0"
    assert run(f"{install} hammer==3.0; hammer; ls -d .home/.local/lib/*/site-packages/hammer-*").count("hammer") == 2
    assert run("pip uninstall -y hammer; hammer; command -v hammer") == "hammer 1.0\n/opt/toolbox/bin/hammer"
    assert run("python3 -c 'import saw; print(saw.__file__)'").startswith(f"{HOME}/.local/")


def test_lock_has_all_packages_with_hashes_and_no_host() -> None:
    wanted = re.findall(r"^[a-z][a-z0-9-]+$", (ROOT / "deploy/sandbox/toolbox.in").read_text(), re.M)
    lock = LOCK.read_text()
    entries = re.split(r"\n(?=\S)", lock.strip())
    assert len(wanted) > 15
    assert set(wanted) <= {entry.split("==")[0] for entry in entries}
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []
    assert "://" not in lock
    assert (ROOT / "deploy/sandbox/toolbox.lock").resolve() == LOCK.resolve()
