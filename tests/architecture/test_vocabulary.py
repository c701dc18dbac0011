"""Names and texts use the terms of the field.

`retired_terms.txt` lists words that no name may contain, `retired_phrases.txt` patterns that no text may contain.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = [path for path in sorted((ROOT / "src").rglob("*.py")) if path.parent.name != "versions"]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
TERMS = Path(__file__).with_name("retired_terms.txt").read_text().split()
PHRASES = Path(__file__).with_name("retired_phrases.txt").read_text().splitlines()
TERM = re.compile(rf"(?:^|_)(?:{'|'.join(TERMS)})(?:$|_)")
PHRASE = re.compile(rf"\b(?:{'|'.join(PHRASES)})\b", re.IGNORECASE)
RIDDLE = re.compile(r"^(What|Who|Whoever|Whom|Whose|Where|How|Whether|Which|Have|So (long|many|much))\b")
WEB_NAME = re.compile(
    r"\b(Unshown|StatusVoice|wayThrough|Nowhere|surroundings|Surroundings|patience|[lL]anes?|telling|Telling)\b"
)
LOGGING = {"debug", "info", "warning", "error", "exception", "critical", "log"}
WIRE_NAMES = {"trial": "key in the output of `deerflow skills test --json`"}
MODEL_TEXTS = {
    "src/deerflow/acp/tools.py": "description of a tool",
    "src/deerflow/serving/mcp_handlers.py": "schema of a tool that we serve",
    "src/deerflow/subagents/types.py": "system prompts of subagents",
    "src/deerflow/tools/citations/tool.py": "description of a tool",
    "src/deerflow/agents/middlewares/tool_error_handling_middleware.py": "error message for the model",
}
"""Files whose texts the model reads: they are part of the prompt and kept as they are."""


def test_no_name_contains_a_retired_term() -> None:
    named = [*list_definitions(TESTS), *list_definitions(SOURCES), *list_variables(SOURCES), *list_files()]
    found = [f"{place}: {name}" for place, name in named if TERM.search(to_snake_case(name))]
    assert [each for each in found if each.rpartition(" ")[2] not in WIRE_NAMES] == []


def test_docstrings_open_with_a_verb_or_a_noun() -> None:
    opened = [(place, text.splitlines()[0]) for place, text in list_docstrings()]
    riddles = [f"{place}: {text}" for place, text in opened if RIDDLE.match(text)]
    assert len(riddles) * 100 <= len(opened), riddles[:20]


def test_docstrings_comments_messages_and_help_are_free_of_retired_phrases() -> None:
    assert find_phrases([*list_docstrings(), *list_comments(), *list_messages()]) == []


def test_documentation_is_free_of_retired_phrases() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "examples").rglob("*.md")]
    english = [page for page in sorted(pages) if "zh" not in page.relative_to(ROOT).parts and "zh" not in page.name]
    assert len(english) > 60
    assert find_phrases((f"{page.relative_to(ROOT)}", page.read_text()) for page in english) == []


def test_page_strings_and_the_example_configuration_are_free_of_retired_phrases() -> None:
    dictionaries = [path for path in sorted((ROOT / "web/src/i18n").glob("*.ts")) if ".test." not in path.name]
    strings = [
        (path.name, text)
        for path in dictionaries
        for text in re.findall(r'"((?:[^"\\\n]|\\.)*)"|`([^`]*)`', path.read_text())
    ]
    texts = [(name, " ".join(parts)) for name, parts in strings]
    assert len(texts) > 500
    assert find_phrases([*texts, ("config.example.yaml", (ROOT / "config.example.yaml").read_text())]) == []


def test_the_source_of_the_page_is_free_of_retired_names() -> None:
    files = [path for path in sorted((ROOT / "web/src").rglob("*.ts*")) if path.name != "schema.d.ts"]
    found = [f"{path.relative_to(ROOT)}: {match[0]}" for path in files for match in WEB_NAME.finditer(path.read_text())]
    assert len(files) > 200
    assert found == []
    assert [str(path) for path in files if WEB_NAME.search(path.stem)] == []


def find_phrases(texts: Iterable[tuple[str, str]]) -> list[str]:
    return [
        f"{place}: {match[0]}"
        for place, text in texts
        for match in PHRASE.finditer(" ".join(text.split()))
        if place.partition(":")[0] not in MODEL_TEXTS
    ]


def list_definitions(paths: Iterable[Path]) -> Iterator[tuple[str, str]]:
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.name


def list_variables(paths: Iterable[Path]) -> Iterator[tuple[str, str]]:
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.arg):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.arg
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.id
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.attr


def list_files() -> Iterator[tuple[str, str]]:
    for path in (*SOURCES, *TESTS, *sorted((ROOT / "docs").rglob("*.md"))):
        yield str(path.relative_to(ROOT)), path.stem.replace("-", "_")


def list_docstrings() -> Iterator[tuple[str, str]]:
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text:
                    yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}", text


def list_comments() -> Iterator[tuple[str, str]]:
    for path in SOURCES:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            comment = re.match(r"\s*#(.*)", line) or re.search(r"  # (.*)$", line)
            if comment:
                yield f"{path.relative_to(ROOT)}:{number}", comment[1]


def list_messages() -> Iterator[tuple[str, str]]:
    """Yield the texts of errors, log lines, command-line help and descriptions of settings."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Raise) and not (isinstance(node, ast.Call) and is_message(node)):
                continue
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield f"{path.relative_to(ROOT)}:{part.lineno}", part.value


def is_message(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    is_help = any(keyword.arg in ("help", "description") for keyword in call.keywords)
    return name in LOGGING or name in ("echo", "secho") or is_help


def to_snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
