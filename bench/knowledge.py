"""Indexing of project files and search in them, while runs stream.

python bench/knowledge.py [--documents 1000] [--pages 5] [--seed 7] [--questions FILE]

There are two corpora in one project. The first are documents as people write them, with natural questions: those of
`knowledge_questions.jsonl`, or of another file of the same form. The second is generated: documents are PDF, Markdown,
Word, Excel, PowerPoint and Python files. For each question one sentence answers it, and 32 other sentences, elsewhere,
are about the same subject; ten of these are facts of another kind. Sentence and question are chosen at random from
several wordings each, so about a third of the questions share nothing but the name with their answer. The embedding
model is the one that people install, `knowledge.embedding.provider: minilm`. The bars are for English; German and
Chinese are reported. A citation is right if file and page are, and in files without pages, the line.
"""

import argparse
import asyncio
import io
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from _knowledge_corpus import Corpus, Document, PlantedQuestion, generate
from _knowledge_questions import PAGED_FORMATS, FileQuestion, QuestionFile, begins_at, has_words, read_questions
from _table import Row, record
from docx import Document as WordDocument
from docx.enum.text import WD_BREAK
from openpyxl import Workbook
from pptx import Presentation
from pptx.util import Inches
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfbase.pdfmetrics import registerFont
from reportlab.pdfgen.canvas import Canvas

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.domain.projects import PassageHit
from deerflow.domain.runs import RunRequest
from deerflow.harness import Harness, open_harness
from deerflow.projects.queries import passages as passage_rows
from deerflow.testing import ScriptedServer

QUESTIONS = 300
TOP = 5
MIN_PAGES_PER_S = 20.0
MAX_DELAY_MS = 100.0
MIN_WITH, MIN_WITHOUT = 0.95, 0.85
LOADED_S = 60.0
LINE_FORMATS = ("md", "py")
FONT = "STSong-Light"
"""Font of the PDF files: one that every reader has, with Chinese."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Shares of questions that were answered, by language, and of right citations among these."""

    found: dict[str, float]
    right_place: float
    search_ms: float


def main() -> int:
    """Run the benchmark; return 1 if a bar is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--pages", type=int, default=5)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--questions", type=Path, default=Path(__file__).with_name("knowledge_questions.jsonl"))
    options = parser.parse_args()
    corpus = generate(options.documents, options.pages, QUESTIONS, options.seed)
    with tempfile.TemporaryDirectory() as home:
        return asyncio.run(measure(Path(home), corpus, read_questions(options.questions)))


async def measure(home: Path, corpus: Corpus, written: Sequence[QuestionFile]) -> int:
    """Index, ask, print and compare with the bars."""
    files = [(f"doc{number:05}.{each.format}", render(each)) for number, each in enumerate(corpus.documents)]
    files += [(each.name, each.content) for each in written]
    pages = sum(len(each.pages) for each in corpus.documents) + sum(each.pages for each in written)
    async with ScriptedServer(["word " * 40], endless=True) as model:
        entry = model.model_config().model_dump(mode="json", exclude_unset=True)
        base = {"models": [entry], "memory": {"enabled": False}, "title": {"enabled": False}}
        async with open_harness(open_source(directory=home, overrides=base)) as harness:
            await harness.core.sandboxes.prepare()
            idle = await measure_delays(harness, "idle", seconds=5.0)
            project_id, pages_per_s, indexing = await index(harness, files, pages)
            words = await ask_all(harness, project_id, corpus)
            natural_words = await ask_written(harness, project_id, written)
        local = {"knowledge": {"embedding": {"provider": "minilm"}}}
        async with open_harness(open_source(directory=home, overrides={**base, **local})) as harness:
            passages_per_s, embedding = await embed(harness, project_id)
            both = await ask_all(harness, project_id, corpus)
            natural = await ask_written(harness, project_id, written)
    higher: dict[str, Any] = {"kind": "figure", "better": "higher"}
    rows = [
        Row("pages indexed per second", value=pages_per_s, bar=MIN_PAGES_PER_S, **higher),
        Row("passages embedded per second", value=passages_per_s, **higher),
        Row("event delay p95 while indexing", "figure", percentile(indexing), "ms", bar=MAX_DELAY_MS),
        Row("event delay p95 while embedding", "figure", percentile(embedding), "ms", bar=MAX_DELAY_MS),
        Row("event delay p95 without either", "figure", percentile(idle), "ms"),
        Row("written: right passage in the first 5, with embeddings", value=natural[0], bar=MIN_WITH, **higher),
        Row("written: right passage in the first 5, words only", value=natural_words[0], bar=MIN_WITHOUT, **higher),
        Row("written: right page or line of these", value=min(natural[1], natural_words[1]), bar=1.0, **higher),
        Row("right passage in the first 5, with embeddings", value=both.found["English"], bar=MIN_WITH, **higher),
        Row("right passage in the first 5, words only", value=words.found["English"], bar=MIN_WITHOUT, **higher),
        Row("right page or line of these", value=min(words.right_place, both.right_place), bar=1.0, **higher),
        *(
            Row(f"right passage in the first 5, {how}, {language}", value=answers.found[language], **higher)
            for language in ("German", "Chinese")
            for how, answers in (("with embeddings", both), ("words only", words))
        ),
        Row("search with embeddings", "figure", both.search_ms, "ms"),
        Row("search by words only", "figure", words.search_ms, "ms"),
    ]
    record(rows)
    for row in rows:
        bar = "" if row.bar is None else f"bar {row.bar:g}"
        print(f"{row.name:58} {row.value:10.3f} {row.unit:3} {bar}")
    return 0 if all(is_met(row) for row in rows) else 1


def is_met(row: Row) -> bool:
    """Return whether a row reaches its bar."""
    if row.bar is None:
        return True
    return row.value >= row.bar if row.better == "higher" else row.value <= row.bar


async def index(harness: Harness, files: Sequence[tuple[str, bytes]], pages: int) -> tuple[str, float, list[float]]:
    """Upload the documents, and measure the delays of runs from the first upload until all are indexed."""
    projects = harness.resources.projects
    project = await projects.create(LOCAL_USER, "Bench")
    stop = asyncio.Event()
    delays = asyncio.create_task(measure_delays(harness, "indexing", stop=stop))
    begun = time.perf_counter()
    for start in range(0, len(files), 10):
        async with projects.receive(project.project_id, LOCAL_USER) as reception:
            for name, content in files[start : start + 10]:
                await reception.begin(name)
                await reception.write(content)
                await reception.end()
            await projects.complete(project.project_id, LOCAL_USER, reception)
    while (states := await projects.count_states(project.project_id, LOCAL_USER)).get("ready", 0) < len(files):
        if states.get("failed"):
            raise SystemExit(f"files failed: {states}")
        await asyncio.sleep(0.2)
    took = time.perf_counter() - begun
    stop.set()
    return project.project_id, pages / took, await delays


async def embed(harness: Harness, project_id: str) -> tuple[float, list[float]]:
    """Wait until all passages have vectors, and measure the delays of runs in the first minute of that.

    Runs that follow each other without a pause leave the model little time, and there are thousands of passages.
    """
    projects = harness.resources.projects
    delays = asyncio.create_task(measure_delays(harness, "embedding", seconds=LOADED_S))
    begun = time.perf_counter()
    rest = partial(passage_rows.list_unembedded, model=projects.embedding_model or "", limit=1)
    while await harness.core.database.read(rest):  # noqa: ASYNC110 - the indexer tells nobody
        await asyncio.sleep(0.2)
    took = time.perf_counter() - begun
    files = await projects.list_files(project_id, LOCAL_USER, 100_000)
    return sum(file.passages for file in files) / took, await delays


async def measure_delays(
    harness: Harness, name: str, seconds: float = 0.0, stop: asyncio.Event | None = None
) -> list[float]:
    """Return the delays of the events of runs in milliseconds: the time since the event before, without any model time.

    The model answers at once, so that each of them is the time that the server needs, and waits.
    """
    delays, number = [], 0
    until = time.perf_counter() + seconds
    while not stop.is_set() if stop else time.perf_counter() < until:
        number += 1
        request = RunRequest(f"bench-{name}-{number}", [{"role": "user", "content": "go on"}])
        last = time.perf_counter()
        run = await harness.runs.create_or_reject(request, LOCAL_USER)
        async for _ in harness.runs.listen(run):
            now = time.perf_counter()
            delays.append((now - last) * 1000)
            last = now
    return delays[20:]  # without the first run, which imports the agent


async def ask_all(harness: Harness, project_id: str, corpus: Corpus) -> Answers:
    """Ask all questions."""
    hits: dict[str, list[bool]] = {}
    places: list[bool] = []
    begun = time.perf_counter()
    for question in corpus.questions:
        found = await harness.resources.projects.search(project_id, LOCAL_USER, question.text, TOP)
        answer = next((hit for hit in found if contains(hit, question)), None)
        hits.setdefault(question.language, []).append(answer is not None)
        if answer is not None:
            places.append(is_right_place(answer, question, corpus.documents[question.document]))
    took = time.perf_counter() - begun
    shares = {language: statistics.mean(values) for language, values in hits.items()}
    return Answers(shares, statistics.mean(places), took / len(corpus.questions) * 1000)


async def ask_written(harness: Harness, project_id: str, written: Sequence[QuestionFile]) -> tuple[float, float]:
    """Ask the questions of a file; return the share that was answered, and of right pages or lines among these."""
    found: list[bool] = []
    places: list[bool] = []
    for file in written:
        for question in file.questions:
            hits = await harness.resources.projects.search(project_id, LOCAL_USER, question.text, TOP)
            answers = (hit for hit in hits if hit.file_name == file.name and has_words(hit.text, question.fact))
            answer = next(answers, None)
            found.append(answer is not None)
            if answer is None:
                print(f"not found: {file.name}: {question.text}")
            else:
                places.append(is_right_page(answer, question, file))
    return statistics.mean(found), statistics.mean(places)


def is_right_page(hit: PassageHit, question: FileQuestion, file: QuestionFile) -> bool:
    """Return whether a hit names the page of the fact, or the line at which its passage begins.

    Lines of HTML files are those of their text, which only the index knows.
    """
    suffix = file.name.rsplit(".", 1)[-1]
    if suffix in PAGED_FORMATS:
        return hit.position == question.page
    return suffix == "html" or begins_at(file.content, hit.text, hit.position)


def contains(hit: PassageHit, question: PlantedQuestion) -> bool:
    """Return whether a passage contains the fact; a PDF may break lines elsewhere."""
    return " ".join(question.fact.split()) in " ".join(hit.text.split())


def is_right_place(hit: PassageHit, question: PlantedQuestion, document: Document) -> bool:
    """Return whether a hit names the document and the page of the fact, or the line at which its passage begins."""
    if not hit.file_name.startswith(f"doc{question.document:05}."):
        return False
    if document.format not in LINE_FORMATS:
        return hit.position == question.page
    lines = write_lines(document)
    passage = hit.text.split("\n")
    before = next(at for at, line in enumerate(passage) if question.fact in line)
    begins = passage[0].strip() in lines[hit.position - 1]
    return begins and question.fact in lines[hit.position - 1 + before]


def render(document: Document) -> bytes:
    """Return the content of a file."""
    if document.format in LINE_FORMATS:
        return "\n".join(write_lines(document)).encode()
    file = io.BytesIO()
    writers = {"pdf": write_pdf, "docx": write_docx, "xlsx": write_xlsx, "pptx": write_pptx}
    writers[document.format](document.pages, file)
    return file.getvalue()


def write_lines(document: Document) -> list[str]:
    """Return the lines of a Markdown or Python file."""
    if document.format == "md":
        return [
            line for number, page in enumerate(document.pages, 1) for line in (f"## Section {number}", "", *page, "")
        ]
    lines = ['"""Tables of the plant."""', "", "import math", ""]
    for number, page in enumerate(document.pages, 1):
        lines += ["", f"def compute_part_{number}(value: float, factor: float = {number}.0) -> float:"]
        for at, line in enumerate(page):
            lines += [f"    # {line}", f"    value = math.sqrt(value * factor + {at})"]
        lines += ["    return value", ""]
    return lines


def write_pdf(pages: Sequence[Sequence[str]], file: io.BytesIO) -> None:
    """Write a PDF file."""
    registerFont(UnicodeCIDFont(FONT))
    canvas = Canvas(file)
    for page in pages:
        canvas.setFont(FONT, 10)
        for row, line in enumerate(page):
            canvas.drawString(40, 810 - 18 * row, line)
        canvas.showPage()
    canvas.save()


def write_docx(pages: Sequence[Sequence[str]], file: io.BytesIO) -> None:
    """Write a Word file with page breaks."""
    document = WordDocument()
    for number, page in enumerate(pages):
        if number:
            document.paragraphs[-1].add_run().add_break(WD_BREAK.PAGE)
        for line in page:
            document.add_paragraph(line)
    document.save(file)


def write_xlsx(pages: Sequence[Sequence[str]], file: io.BytesIO) -> None:
    """Write an Excel file with a sheet for each page."""
    book = Workbook(write_only=True)
    for number, page in enumerate(pages, 1):
        sheet = book.create_sheet(f"Part {number}")
        sheet.append(["No.", "Note", "State"])
        for row, line in enumerate(page, 1):
            sheet.append([row, line, "open" if row % 3 else "done"])
    book.save(file)


def write_pptx(pages: Sequence[Sequence[str]], file: io.BytesIO) -> None:
    """Write a PowerPoint file with a slide for each page."""
    deck = Presentation()
    for number, page in enumerate(pages, 1):
        slide = deck.slides.add_slide(deck.slide_layouts[5])
        slide.shapes.title.text = f"Part {number}"
        slide.shapes.add_textbox(Inches(1), Inches(1), Inches(8), Inches(5)).text_frame.text = "\n".join(page)
    deck.save(file)


def percentile(values: list[float]) -> float:
    """Return the 95th percentile."""
    return statistics.quantiles(values, n=20)[-1] if len(values) > 1 else 0.0


if __name__ == "__main__":
    sys.exit(main())
