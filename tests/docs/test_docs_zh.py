"""Chinese pages match the English pages."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(path for path in (DOCS / "zh").glob("*.md") if path.name != "README.md")
TRANSLATED = [*PAGES, DOCS.parent / "README.zh.md"]


def english_page(page: Path) -> Path:
    if page.name == "README.zh.md":
        return page.with_name("README.md")
    return next(path for folder in ("tutorial", "guides") if (path := DOCS / folder / page.name).exists())


def code_blocks(page: Path) -> list[str]:
    """Return code without comments, which may be translated."""
    blocks = re.findall(r"^```\w+\n.*?^```$", page.read_text(encoding="utf-8"), re.S | re.M)
    return [re.sub(r"\s*#.*", "", block) for block in blocks]


def code_spans(page: Path) -> set[str]:
    """Return the code in the text."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    return {" ".join(span.split()) for span in re.findall(r"`([^`]+)`", text)}


def table_rows(page: Path) -> list[list[str]]:
    """Return the code in the first cell of every row; headers and texts are translated."""
    rows = re.findall(r"^\| (.*?)(?<!\\) \|.*\|$", page.read_text(encoding="utf-8"), re.M)
    return [re.findall(r"`[^`]+`", cell) for cell in rows]


@pytest.mark.parametrize("page", TRANSLATED, ids=lambda page: page.stem)
def test_a_chinese_page_has_the_code_and_sections_of_the_english_one(page: Path) -> None:
    assert code_blocks(page) == code_blocks(english_page(page))
    headings = [re.findall(r"^(#+) ", path.read_text(encoding="utf-8"), re.M) for path in (page, english_page(page))]
    assert headings[0] == headings[1]


@pytest.mark.parametrize("page", TRANSLATED, ids=lambda page: page.stem)
def test_a_chinese_page_has_the_table_rows_of_the_english_one(page: Path) -> None:
    assert table_rows(page) == table_rows(english_page(page))


@pytest.mark.parametrize("page", TRANSLATED, ids=lambda page: page.stem)
def test_a_chinese_page_names_every_key_command_and_path_of_the_english_one(page: Path) -> None:
    assert code_spans(page) == code_spans(english_page(page))


def test_the_ten_most_used_pages_are_translated_and_listed() -> None:
    assert len(PAGES) >= 10
    listed = (DOCS / "zh/README.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES if f"({page.name})" not in listed] == []
