"""Conversion of documents to Markdown, run in the sandbox of the thread."""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deerflow.config.sections.storage import ConversionConfig
from deerflow.domain.errors import SandboxError
from deerflow.domain.files import UPLOADS, Outline
from deerflow.sandbox.jobs.jobs import SandboxJob, SandboxJobResult, SandboxJobs

SCRIPT = Path(__file__).with_name("convert_document.py").read_text(encoding="utf-8")
FORMAT_NAMES = MappingProxyType(
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
"""Names of the convertible formats, by suffix."""
OUTDATED_FORMATS = MappingProxyType({".doc": ".docx", ".ppt": ".pptx"})
"""Formats that cannot be converted, with their replacement."""
MAX_TEXT_MB = 64


@dataclass(frozen=True, slots=True)
class ConvertedDocument:
    """Successful conversion. The Markdown is in the staged file."""

    outline: Outline


@dataclass(frozen=True, slots=True)
class ConversionFailure:
    """Failed conversion, with the reason."""

    reason: str
    is_retryable: bool = False


class ConverterOutput(BaseModel):
    """Output of the conversion script. It is untrusted, because a document may have manipulated it."""

    model_config = ConfigDict(extra="forbid")

    problem: str | None = Field(default=None, max_length=500)
    outline: Outline | None = None


def is_convertible(filename: str) -> bool:
    """Return True if a file can be converted, or has a format that must be saved as another one."""
    suffix = PurePosixPath(filename).suffix.lower()
    return suffix in FORMAT_NAMES or suffix in OUTDATED_FORMATS


@dataclass(frozen=True, slots=True)
class DocumentConverter:
    """Converter for the uploads of all threads."""

    jobs: SandboxJobs

    async def convert(
        self, thread_id: str, user_id: str, filename: str, staged: str, settings: ConversionConfig
    ) -> ConvertedDocument | ConversionFailure:
        """Convert an upload and write the Markdown to the file `staged` in the same folder."""
        suffix = PurePosixPath(filename).suffix.lower()
        if replacement := OUTDATED_FORMATS.get(suffix):
            return ConversionFailure(
                f"old {suffix} files cannot be converted; save it as {replacement} and upload that"
            )
        job = SandboxJob(
            SCRIPT,
            ("markitdown", "pypdfium2"),
            seconds=settings.seconds,
            memory_mb=settings.memory_mb,
            file_mb=MAX_TEXT_MB,
        )
        limits = [str(settings.memory_mb), str(settings.seconds)]
        arguments = [f"{UPLOADS}/{filename}", f"{UPLOADS}/{staged}", suffix, *limits]
        try:
            result = await self.jobs.run(thread_id, user_id, job, arguments)
        except SandboxError as problem:
            return ConversionFailure(f"not converted: {problem}", is_retryable=True)
        return interpret_result(result, FORMAT_NAMES[suffix], settings)


def interpret_result(
    result: SandboxJobResult, format_name: str, settings: ConversionConfig
) -> ConvertedDocument | ConversionFailure:
    """Return the outcome of a conversion job."""
    if result.timed_out:
        return ConversionFailure(f"converting it took longer than {settings.seconds:g} s")
    if result.out_of_memory:
        return ConversionFailure(f"converting it needs more than {settings.memory_mb} MB of memory")
    if result.kill_reason is not None:
        return ConversionFailure(f"not converted: {result.kill_reason}", is_retryable=True)
    if result.exit_code == 0 and not result.truncated:
        return parse_output(result.output, format_name)
    if "File too large" in result.output:
        return ConversionFailure(f"its text has more than {MAX_TEXT_MB} MB")
    return ConversionFailure(describe_unreadable(format_name))


def parse_output(output: str, format_name: str) -> ConvertedDocument | ConversionFailure:
    """Parse the output of the conversion script."""
    try:
        parsed = ConverterOutput.model_validate_json(output)
    except ValidationError:
        return ConversionFailure(describe_unreadable(format_name))
    return (
        ConvertedDocument(parsed.outline)
        if parsed.outline
        else ConversionFailure(parsed.problem or describe_unreadable(format_name))
    )


def describe_unreadable(format_name: str) -> str:
    """Return the message for a document that cannot be read."""
    article = "an" if format_name.startswith(("E", "HTML")) else "a"
    return f"it cannot be read as {article} {format_name}; it may be damaged, or something else under this name"
