"""`uploads:` — which files people may give to a thread, and how documents among them become text."""

from pydantic import Field

from deerflow.config.section import Section

MIB = 1024 * 1024


class ConversionConfig(Section):
    """Documents are turned into Markdown inside the sandbox; the file itself always stays as it is."""

    enabled: bool = Field(default=True, description="Whether documents are converted to Markdown.")
    seconds: float = Field(default=60.0, gt=0, description="So long may converting one file take.")
    memory_mb: int = Field(default=1024, ge=128, description="So much memory may it take.")
    answer_seconds: float = Field(default=5.0, ge=0, description="So long an upload is not answered for its sake.")
    run_seconds: float = Field(default=30.0, ge=0, description="So long a run waits for its files at most.")


class UploadsConfig(Section):
    """How much may be uploaded, and what happens to it."""

    max_files: int = Field(default=10, ge=1, le=1000, description="So many files may come with one request.")
    max_file_size: int = Field(default=50 * MIB, ge=1, description="So many bytes may one file have.")
    max_total_size: int = Field(default=100 * MIB, ge=1, description="So many bytes may they have together.")
    stall_seconds: float = Field(default=30.0, gt=0, description="So long may a sender be silent.")
    timeout_seconds: float = Field(default=1800.0, gt=0, description="So long may one upload take in all.")
    conversion: ConversionConfig = Field(default=ConversionConfig(), description="How documents become text.")
