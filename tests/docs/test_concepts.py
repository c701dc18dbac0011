"""The concept pages and decision records match the code, and pages are easy to read."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONCEPTS = sorted((ROOT / "docs/concepts").glob("*.md"))
DECISIONS = sorted((ROOT / "docs/decisions").glob("*.md"))
PACKAGES = {path.name for path in (ROOT / "src/deerflow").iterdir() if path.is_dir()}


def test_every_path_in_where_is_exists() -> None:
    text = (ROOT / "docs/concepts/where-is.md").read_text(encoding="utf-8")
    paths = re.findall(r"^\| [^|]+\? \| `([\w/]+\.py)` \|$", text, re.MULTILINE)

    assert len(paths) >= 30
    assert [path for path in paths if not (ROOT / "src/deerflow" / path).is_file()] == []


def test_where_is_names_each_module_once() -> None:
    text = (ROOT / "docs/concepts/where-is.md").read_text(encoding="utf-8")
    paths = re.findall(r"`([\w/]+\.py)`", text)

    assert len(paths) == len(set(paths))


def test_the_glossary_explains_every_term_once() -> None:
    text = (ROOT / "docs/concepts/glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^\| \*\*(.+?)\*\* \| .+ \|$", text, re.MULTILINE)

    assert len(terms) >= 40
    assert len(terms) == len(set(terms))


def test_every_module_named_in_concepts_and_decisions_exists() -> None:
    named = [
        (page.name, path)
        for page in [*CONCEPTS, *DECISIONS]
        for path in re.findall(r"`([a-z_]+/[\w/]*(?:\.py)?)`", page.read_text(encoding="utf-8"))
        if path.split("/")[0] in PACKAGES
    ]
    assert len(named) > 80
    assert [pair for pair in named if not (ROOT / "src/deerflow" / pair[1]).exists()] == []


def test_concept_pages_are_short() -> None:
    assert [page.name for page in CONCEPTS if page.read_text(encoding="utf-8").count("\n") > 80] == []


def test_lines_of_prose_fit_into_120_characters() -> None:
    names = ("README.md", "README.zh.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md")
    pages = [*(ROOT / name for name in names), *(ROOT / "docs").rglob("*.md")]
    long = [
        f"{page.relative_to(ROOT)}:{number}"
        for page in pages
        if "reference" not in page.parts
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1)
        if len(line) > 120 and not line.startswith("|")
    ]
    assert long == []


def test_the_index_links_every_page() -> None:
    index = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    pages = [*CONCEPTS, *(ROOT / "docs/guides").glob("*.md"), *(ROOT / "docs/tutorial").glob("*.md")]
    assert [page.name for page in pages if f"({page.relative_to(ROOT / 'docs')})" not in index] == []
