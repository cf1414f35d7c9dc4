"""Pages of an image file: PNG and JPEG have one, TIFF may have more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BytesIO

from PIL import Image, ImageOps, UnidentifiedImageError

from lucius_service.errors import IMAGE_BROKEN, INPUT_TOO_LARGE, FailedFinal
from platform_service.ocr.page_text import Line, Page

#: an A3 page at 400 dpi has 31 million
MAX_PIXELS = 64_000_000

Recognise = Callable[[Image.Image], tuple[Line, ...]]


def read_pages(data: bytes, recognise: Recognise, *, max_pages: int) -> Iterator[tuple[int, Page]]:
    """Gives (number of pages, page) page by page. Raises FailedFinal for an image that cannot be read."""
    try:
        with Image.open(BytesIO(data), formats=("PNG", "JPEG", "TIFF")) as image:
            count = getattr(image, "n_frames", 1)
            if count > max_pages:
                raise FailedFinal(INPUT_TOO_LARGE, f"the image has {count} pages; max_pages is {max_pages}")
            for index in range(count):
                image.seek(index)
                if image.width * image.height > MAX_PIXELS:
                    raise FailedFinal(
                        INPUT_TOO_LARGE, f"page {index + 1} has {image.width} x {image.height} pixels; scan it smaller"
                    )
                picture = _upright_on_white(image)
                lines = recognise(picture)
                yield count, Page(index + 1, picture.width, picture.height, "pixel", "ocr", lines)
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError, ValueError, EOFError):
        raise FailedFinal(IMAGE_BROKEN, "the image cannot be read: it is damaged or cut off") from None


def _upright_on_white(image: Image.Image) -> Image.Image:
    """Upright as its camera says, and on white: what is transparent would turn black."""
    upright = ImageOps.exif_transpose(image)
    if upright.mode in ("RGBA", "LA", "PA") or "transparency" in upright.info:
        layered = upright.convert("RGBA")
        white = Image.new("RGBA", layered.size, "white")
        return Image.alpha_composite(white, layered).convert("RGB")
    return upright.convert("RGB")
