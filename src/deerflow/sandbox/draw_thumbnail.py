"""Makes a small picture of a large one.

A program of the sandbox: it is handed over as text, and nothing here imports it. It is given the path of the picture
and the longest side wanted, and prints the small one as base64 behind a mark, or why there is none.
"""

import base64
import io
import sys
import warnings

from PIL import Image, ImageOps  # the sandbox has it

MOST_PIXELS = 40_000_000


def draw(path: str, side: int) -> str:
    """The small picture, or what is wrong with the large one."""
    Image.MAX_IMAGE_PIXELS = MOST_PIXELS
    warnings.simplefilter("error", Image.DecompressionBombWarning)
    try:
        with Image.open(path, formats=["PNG", "JPEG", "GIF", "WEBP"]) as picture:
            picture.draft("RGB", (side, side))
            small = ImageOps.exif_transpose(picture)
            small.thumbnail((side, side))
            target = io.BytesIO()
            small.convert("RGBA").save(target, "WEBP", quality=80)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        return "problem:it has more than 40 million pixels"
    except (OSError, ValueError, SyntaxError, EOFError):
        return "problem:it is broken, or not a picture at all"
    return f"picture:{base64.b64encode(target.getvalue()).decode()}"


sys.stdout.write(draw(sys.argv[1], int(sys.argv[2])))
