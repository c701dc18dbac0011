"""Projects: threads with shared files, instructions and memory, and passages of the files that agents search."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Literal, Protocol, runtime_checkable

from deerflow.domain.memory import MemoryScope

PROJECT_FILES = "/mnt/project"
"""Folder of the project's files in the sandbox of its threads; read-only."""
MAX_NAME_CHARS = 200
MAX_INSTRUCTIONS_CHARS = 20_000
SCOPE_PREFIX = "project:"
"""Prefix of the memory scopes of projects; no name of an agent contains a colon."""

IndexState = Literal["waiting", "indexing", "ready", "failed"]
IndexProblem = Literal[
    "old_format", "not_text", "no_text", "too_long", "encrypted", "damaged", "too_large",
    "too_slow", "crashed", "not_isolated", "no_toolbox",
]  # fmt: skip
INDEX_PROBLEMS: Mapping[str, str] = MappingProxyType(
    {
        "old_format": "old Office files cannot be read; save it as .docx, .pptx or .xlsx",
        "not_text": "it is not text, and no format that can be read",
        "no_text": "no text was found in it; its pages may be pictures",
        "too_long": "its text is too long; split it into several files",
        "encrypted": "it is encrypted with a password; save it without one",
        "damaged": "it cannot be read; it may be damaged, or something else under this name",
        "too_large": "reading it needs more memory than is allowed; split it into several files",
        "too_slow": "reading it takes longer than is allowed; split it into several files",
        "crashed": "reading it has ended the server or its sandbox several times",
        "not_isolated": "files are not read, because commands cannot be isolated on this machine",
        "no_toolbox": "the sandbox lacks the Python packages that read it; run `deerflow doctor` for the reason",
    }
)
"""Sentence of each problem, for models and logs; clients have their own by the code."""
PassageUnit = Literal["page", "slide", "sheet", "line"]
"""What a position in a file counts. Files without pages are cited by the line where the passage begins."""


@dataclass(frozen=True, slots=True)
class ProjectRecord:
    """The stored record of a project."""

    project_id: str
    owner: str
    name: str
    instructions: str
    created_at: datetime
    updated_at: datetime
    threads: int = 0
    files: int = 0


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """A file of a project and the state of its index."""

    file_id: str
    project_id: str
    name: str
    size: int
    state: IndexState
    problem: str | None
    """Code of `INDEX_PROBLEMS`: why it is not searchable. Earlier versions stored a sentence."""
    unit: PassageUnit | None
    pages: int
    """Number of pages, slides or sheets; 1 for files without them."""
    passages: int
    created_at: datetime

    @property
    def problem_text(self) -> str | None:
        """Sentence that says why it is not searchable."""
        return self.problem and INDEX_PROBLEMS.get(self.problem, self.problem)

    @property
    def path(self) -> str:
        """Path in the sandbox of the project's threads."""
        return f"{PROJECT_FILES}/{self.name}"


@dataclass(frozen=True, slots=True)
class ExtractedPassage:
    """A passage as it was found in a file."""

    position: int
    """Page, slide, sheet or line, counted from 1."""
    text: str
    headings: str = ""
    """Headings above the passage, the title first; those inside it are part of the text."""


@dataclass(frozen=True, slots=True)
class ExtractedText:
    """The passages of a file."""

    unit: PassageUnit
    pages: int
    passages: Sequence[ExtractedPassage]


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage of a file, in the order of the file."""

    number: int
    """Position among the passages of the file, counted from 1."""
    position: int
    text: str


@dataclass(frozen=True, slots=True)
class PassageHit:
    """A passage that a search found."""

    passage_id: int
    file_id: str
    file_name: str
    unit: PassageUnit
    number: int
    position: int
    text: str
    headings: str = ""


@dataclass(frozen=True, slots=True)
class RunProject:
    """The project of a run's thread."""

    project_id: str
    instructions: str
    is_searchable: bool
    """True if one of its files is indexed."""


@runtime_checkable  # LangChain validates the run context with isinstance
class ProjectKnowledge(Protocol):
    """The indexed files of the project that a run belongs to."""

    @property
    def project_id(self) -> str: ...

    async def search(self, query: str, limit: int) -> Sequence[PassageHit]:
        """Return the best matching passages."""
        ...


def project_scope(owner: str, project_id: str) -> MemoryScope:
    """Return the memory of a project."""
    return MemoryScope(owner, f"{SCOPE_PREFIX}{project_id}")


def passage_url(project_id: str, hit: PassageHit) -> str:
    """Return the path of the page that shows a passage, by which answers cite it."""
    return f"/projects/{project_id}/files/{hit.file_id}?passage={hit.number}"
