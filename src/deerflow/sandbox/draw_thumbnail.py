"""Thumbnail script.

It runs inside the sandbox: it is passed as text and never imported. Its arguments are the path of the image and the
maximum side; it prints the thumbnail as base64 after a prefix, or the problem.
"""

import base64
import io
import sys
import warnings

from PIL import Image, ImageOps  # installed in the sandbox

MOST_PIXELS = 40_000_000


def draw(path: str, side: int) -> str:
    """Return the encoded thumbnail, or the problem with the image."""
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
