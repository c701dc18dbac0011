"""Turns a document into Markdown, inside the sandbox of its thread."""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deerflow.config.uploads import ConversionConfig
from deerflow.domain.errors import SandboxError
from deerflow.domain.files import UPLOADS
from deerflow.domain.uploads import Outline
from deerflow.sandbox.chores import Chore, ChoreResult, Chores

SCRIPT = Path(__file__).with_name("convert_document.py").read_text(encoding="utf-8")
KINDS = MappingProxyType(
    {
        ".pdf": "PDF",
        ".docx": "Word document",
        ".pptx": "PowerPoint presentation",
        ".xlsx": "Excel workbook",
        ".xls": "Excel workbook",
        ".html": "HTML page",
        ".htm": "HTML page",
        ".csv": "CSV table",
        ".epub": "EPUB book",
        ".ipynb": "Jupyter notebook",
    }
)
"""What can be converted, in the words of people."""
OLD = MappingProxyType({".doc": ".docx", ".ppt": ".pptx"})
"""Formats nobody converts, and what people can save them as."""
TEXT_MB = 64


@dataclass(frozen=True, slots=True)
class Converted:
    """The Markdown is in the staged file."""

    outline: Outline


@dataclass(frozen=True, slots=True)
class Unconverted:
    """There is no Markdown, and why. What `can_change` may go better another time."""

    reason: str
    can_change: bool = False


class Told(BaseModel):
    """What the script says of a document; it may have been talked into anything."""

    model_config = ConfigDict(extra="forbid")

    problem: str | None = Field(default=None, max_length=500)
    outline: Outline | None = None


def is_convertible(filename: str) -> bool:
    """Whether there is something to do for a file, if only to say why it cannot be done."""
    suffix = PurePosixPath(filename).suffix.lower()
    return suffix in KINDS or suffix in OLD


@dataclass(frozen=True, slots=True)
class Converter:
    """Converts the uploads of all threads."""

    chores: Chores

    async def convert(
        self, thread_id: str, user_id: str, filename: str, staged: str, settings: ConversionConfig
    ) -> Converted | Unconverted:
        """Write the Markdown of an upload to the file called `staged` beside it."""
        suffix = PurePosixPath(filename).suffix.lower()
        if better := OLD.get(suffix):
            return Unconverted(f"old {suffix} files cannot be converted; save it as {better} and upload that")
        chore = Chore(
            SCRIPT,
            ("markitdown", "pypdfium2"),
            seconds=settings.seconds,
            memory_mb=settings.memory_mb,
            file_mb=TEXT_MB,
        )
        limits = [str(settings.memory_mb), str(settings.seconds)]
        arguments = [f"{UPLOADS}/{filename}", f"{UPLOADS}/{staged}", suffix, *limits]
        try:
            result = await self.chores.run(thread_id, user_id, chore, arguments)
        except SandboxError as problem:
            return Unconverted(f"not converted: {problem}", can_change=True)
        return judge(result, KINDS[suffix], settings)


def judge(result: ChoreResult, kind: str, settings: ConversionConfig) -> Converted | Unconverted:
    """How a conversion went, in words for whoever uploaded the file."""
    if result.timed_out:
        return Unconverted(f"converting it took longer than {settings.seconds:g} s")
    if result.out_of_memory:
        return Unconverted(f"converting it needs more than {settings.memory_mb} MB of memory")
    if result.complaint is not None:
        return Unconverted(f"not converted: {result.complaint}", can_change=True)
    if result.exit_code == 0 and not result.truncated:
        return read_told(result.output, kind)
    if "File too large" in result.output:
        return Unconverted(f"its text has more than {TEXT_MB} MB")
    return Unconverted(unreadable(kind))


def read_told(output: str, kind: str) -> Converted | Unconverted:
    """What the script said, if it is what it should say."""
    try:
        told = Told.model_validate_json(output)
    except ValidationError:
        return Unconverted(unreadable(kind))
    return Converted(told.outline) if told.outline else Unconverted(told.problem or unreadable(kind))


def unreadable(kind: str) -> str:
    """What is said when nobody knows better."""
    article = "an" if kind.startswith(("E", "HTML")) else "a"
    return f"it cannot be read as {article} {kind}; it may be damaged, or something else under this name"
