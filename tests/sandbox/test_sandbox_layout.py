"""What of this machine is shown to commands."""

from pathlib import Path

import pytest

from deerflow.sandbox.local.layout import NODE, find_programs


def install_node(folder: Path) -> Path:
    """A Node in `folder`, with what comes along; the folder of its program."""
    (folder / "bin").mkdir(parents=True)
    (folder / "include" / "node").mkdir(parents=True)
    (folder / "bin" / "node").write_text("#!/bin/sh\n")
    (folder / "bin" / "node").chmod(0o755)
    return folder / "bin"


@pytest.mark.parametrize("name", ["v20.1.0", "22.11.0", "node-v20.1.0-linux-x64", "node"])
def test_a_node_in_a_folder_of_its_own_is_shown_with_its_packages(tmp_path: Path, name: str) -> None:
    programs = install_node(tmp_path / name)
    assert find_programs(str(programs))[NODE] == tmp_path / name


@pytest.mark.parametrize("name", ["alice", ".local", "opt"])
def test_a_node_in_somebodys_home_is_shown_without_the_home(tmp_path: Path, name: str) -> None:
    programs = install_node(tmp_path / name)
    found = find_programs(str(programs))
    assert found[f"{NODE}/bin/node"] == programs / "node"
    assert tmp_path / name not in found.values()


def test_a_node_beside_other_things_is_shown_alone(tmp_path: Path) -> None:
    programs = install_node(tmp_path / "v20.1.0").rename(tmp_path / "v20.1.0" / "program")
    (tmp_path / "v20.1.0" / "include" / "node").rmdir()
    assert tmp_path / "v20.1.0" not in find_programs(str(programs)).values()


def test_a_node_that_is_not_there_is_not_shown(tmp_path: Path) -> None:
    assert not any(path.startswith(NODE) for path in find_programs(str(tmp_path)))
