"""Host programs that are mounted in sandboxes."""

from pathlib import Path

import pytest

from deerflow.sandbox.local.launcher.bubblewrap import NODE, find_host_programs


def install_node(folder: Path) -> Path:
    """Install a fake Node in `folder` and return the folder of its program."""
    (folder / "bin").mkdir(parents=True)
    (folder / "include" / "node").mkdir(parents=True)
    (folder / "bin" / "node").write_text("#!/bin/sh\n")
    (folder / "bin" / "node").chmod(0o755)
    return folder / "bin"


@pytest.mark.parametrize("name", ["v20.1.0", "22.11.0", "node-v20.1.0-linux-x64", "node"])
def test_mounts_the_install_folder_of_node(tmp_path: Path, name: str) -> None:
    programs = install_node(tmp_path / name)
    assert find_host_programs(str(programs))[NODE] == tmp_path / name


@pytest.mark.parametrize("name", ["alice", ".local", "opt"])
def test_mounts_only_the_program_of_a_node_in_a_home_folder(tmp_path: Path, name: str) -> None:
    programs = install_node(tmp_path / name)
    found = find_host_programs(str(programs))
    assert found[f"{NODE}/bin/node"] == programs / "node"
    assert tmp_path / name not in found.values()


def test_mounts_only_the_program_of_a_node_in_a_shared_folder(tmp_path: Path) -> None:
    programs = install_node(tmp_path / "v20.1.0").rename(tmp_path / "v20.1.0" / "program")
    (tmp_path / "v20.1.0" / "include" / "node").rmdir()
    assert tmp_path / "v20.1.0" not in find_host_programs(str(programs)).values()


def test_mounts_nothing_without_node(tmp_path: Path) -> None:
    assert not any(path.startswith(NODE) for path in find_host_programs(str(tmp_path)))
