"""What python-docx does not offer: fields, links, numbered lists that begin anew, alternative texts."""

from typing import Any

from docx.document import Document
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from docx.shared import Pt, RGBColor
from docx.text.paragraph import Paragraph
from docx.text.run import Run

LINK = RGBColor(0x0B, 0x5C, 0xAD)


def element(name: str, **attributes: str) -> Any:
    """An element of WordprocessingML."""
    made = OxmlElement(f"w:{name}")
    for key, value in attributes.items():
        made.set(qn(f"w:{key}"), value)
    return made


def add_field(paragraph: Paragraph, code: str, shown: str = "", dirty: bool = False) -> None:
    """A field such as PAGE, with what stands there until Word computes it."""
    begin = element("fldChar", fldCharType="begin")
    if dirty:
        begin.set(qn("w:dirty"), "true")
    text = element("instrText")
    text.set(qn("xml:space"), "preserve")
    text.text = f" {code} "
    for part in (begin, text, element("fldChar", fldCharType="separate")):
        paragraph.add_run()._r.append(part)
    paragraph.add_run(shown)
    paragraph.add_run()._r.append(element("fldChar", fldCharType="end"))


def add_contents(document: Document, levels: int, headings: list[tuple[int, str]]) -> None:
    """A contents field that Word fills with page numbers; until then the headings are shown."""
    first = document.add_paragraph()
    begin = element("fldChar", fldCharType="begin", dirty="true")
    code = element("instrText")
    code.set(qn("xml:space"), "preserve")
    code.text = f' TOC \\o "1-{levels}" \\h \\z \\u '
    for part in (begin, code, element("fldChar", fldCharType="separate")):
        first.add_run()._r.append(part)
    shown = [(level, text) for level, text in headings if level <= levels]
    last = first
    for number, (level, text) in enumerate(shown):
        last = first if number == 0 else document.add_paragraph()
        last.paragraph_format.left_indent = Pt(14 * (level - 1))
        last.paragraph_format.space_after = Pt(2)
        last.add_run(text)
    last.add_run()._r.append(element("fldChar", fldCharType="end"))


def add_link(paragraph: Paragraph, address: str, text: str) -> None:
    """A link one can click."""
    relation = paragraph.part.relate_to(address, RELATIONSHIP_TYPE.HYPERLINK, is_external=True)
    link = OxmlElement("w:hyperlink")
    link.set(qn("r:id"), relation)
    run = Run(OxmlElement("w:r"), paragraph)
    run.text = text
    run.font.color.rgb, run.font.underline = LINK, True
    link.append(run._r)
    paragraph._p.append(link)


def new_numbering(document: Document) -> str:
    """The id of a numbering that begins at 1, for `List Number` alone would count on through the document."""
    numbering = document.part.numbering_part.element
    style = document.styles["List Number"].element
    current = style.find(f".//{qn('w:numId')}").get(qn("w:val"))
    model = next(num for num in numbering.findall(qn("w:num")) if num.get(qn("w:numId")) == current)
    abstract = model.find(qn("w:abstractNumId")).get(qn("w:val"))
    number = str(max(int(num.get(qn("w:numId"))) for num in numbering.findall(qn("w:num"))) + 1)
    made = element("num", numId=number)
    made.append(element("abstractNumId", val=abstract))
    override = element("lvlOverride", ilvl="0")
    override.append(element("startOverride", val="1"))
    made.append(override)
    numbering.append(made)
    return number


def number_with(paragraph: Paragraph, numbering: str) -> None:
    """Let a paragraph count in a numbering."""
    properties = paragraph._p.get_or_add_pPr().get_or_add_numPr()
    properties.get_or_add_ilvl().val = 0
    properties.get_or_add_numId().val = int(numbering)


def repeat_head(table: Any) -> None:
    """Show the first row on every page, keep rows whole, and let the first column look like the others."""
    look = table._tbl.tblPr.find(qn("w:tblLook"))
    if look is not None:
        look.set(qn("w:firstColumn"), "0")
        look.attrib.pop(qn("w:val"), None)
    for number, row in enumerate(table.rows):
        properties = row._tr.get_or_add_trPr()
        if number == 0:
            properties.append(element("tblHeader"))
        properties.append(element("cantSplit"))


def shade(paragraph: Paragraph, colour: str) -> None:
    """A ground behind a paragraph."""
    paragraph._p.get_or_add_pPr().append(element("shd", val="clear", color="auto", fill=colour))


def describe(run: Run, text: str) -> None:
    """The alternative text of the picture in a run."""
    for properties in run._r.iter(qn("wp:docPr")):
        properties.set("descr", text)
