"""Import rules of the page: every folder has one, and features do not import each other."""

import json
from pathlib import Path
from typing import Any

WEB = Path(__file__).parents[2] / "web"
FREE = {"app", "features", "style", "testing"}
"""Folders without a rule: the application imports everything, and the rules of features are per feature."""


def test_every_feature_may_import_neither_the_app_nor_another_feature() -> None:
    features = [folder.name for folder in sorted((WEB / "src/features").iterdir()) if folder.is_dir()]
    allowed = {name: {"@/app/**", "@/testing/**", "@/features/**", f"!@/features/{name}/**"} for name in features}
    found = {name: forbidden_imports(f"features/{name}") for name in features}
    assert len(features) > 5
    assert found == allowed


def test_every_folder_of_the_page_has_an_import_rule() -> None:
    folders = [folder.name for folder in sorted((WEB / "src").iterdir()) if folder.is_dir() and folder.name not in FREE]
    assert [name for name in folders if "@/features/**" not in forbidden_imports(name)] == []


def forbidden_imports(folder: str) -> set[str]:
    rules: list[dict[str, Any]] = json.loads((WEB / "biome.json").read_text())["overrides"]
    matching = [rule for rule in rules if f"src/{folder}/**" in rule["includes"]]
    settings = [rule["linter"]["rules"]["style"]["noRestrictedImports"] for rule in matching]
    patterns = [pattern for each in settings if each["level"] == "error" for pattern in each["options"]["patterns"]]
    return {name for pattern in patterns for name in pattern["group"]}
