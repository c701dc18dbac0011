"""Makes the files the tests of this skill work on: a report with table and picture, and a form."""

import io
import sys
from pathlib import Path

from PIL import Image
from reportlab.lib.pagesizes import A4
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import SimpleDocTemplate, Table


def main(folder: Path) -> None:
    """Write report.pdf, table.pdf and form.pdf."""
    canvas = Canvas(str(folder / "report.pdf"), A4)
    for number in range(1, 5):
        canvas.drawString(72, 760, f"Page number {number} of the report")
        if number == 2:
            picture = io.BytesIO()
            Image.new("RGB", (60, 40), (0, 114, 178)).save(picture, "PNG")
            canvas.drawImage(ImageReader(picture), 72, 600, 120, 80)
        canvas.showPage()
    canvas.save()
    table = Table(
        [["Region", "Revenue"], ["North", "21,187.80"], ["South", "2,189.30"]],
        style=[("GRID", (0, 0), (-1, -1), 1, "black")],
    )
    SimpleDocTemplate(str(folder / "table.pdf"), pagesize=A4).build([table])
    canvas = Canvas(str(folder / "form.pdf"), A4)
    canvas.drawString(72, 740, "Order form")
    canvas.acroForm.textfield(name="name", x=72, y=700, width=200, height=20)
    canvas.acroForm.checkbox(name="agree", x=72, y=660, size=16)
    canvas.acroForm.choice(name="plan", options=["Small", "Large"], value="Small", x=72, y=620, width=100, height=20)
    canvas.showPage()
    canvas.save()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
