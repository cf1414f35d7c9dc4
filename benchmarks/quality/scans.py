"""Makes scans of documents: grey pictures with noise, skew and turned pages, as a PDF without a text layer."""

from __future__ import annotations

import random
from dataclasses import dataclass
from io import BytesIO

import numpy as np
import pypdfium2
from fpdf import FPDF
from PIL import Image, ImageFilter

#: resolution of an office scanner by default
DPI = 150


@dataclass(frozen=True)
class Condition:
    """Parameters of a scan."""

    name: str
    #: standard deviation of a pixel's brightness, of 255
    noise: float
    #: radius of the blur in pixels
    blur: float
    #: share of pixels with a speck
    specks: float
    #: JPEG quality
    quality: int
    #: rotation in degrees, counterclockwise
    turned: int = 0
    #: maximum skew in degrees
    skew: float = 0.5
    #: brightness of the paper at the darker edge, of 255
    shade: int = 250


_LIGHT = (6.0, 0.4, 0.0005, 75)
CONDITIONS = (
    Condition("clean", 0.0, 0.0, 0.0, 90, skew=0.0),
    Condition("light noise", *_LIGHT),
    Condition("medium noise", 14.0, 0.7, 0.002, 55, shade=225),
    Condition("heavy noise", 26.0, 1.0, 0.005, 35, shade=195),
    Condition("skewed", *_LIGHT, skew=4.0),
    Condition("turned 90", *_LIGHT, turned=90),
    Condition("turned 180", *_LIGHT, turned=180),
    Condition("turned 270", *_LIGHT, turned=270),
)


def scan(pdf: bytes, condition: Condition, seed: str, pages: int | None = None) -> bytes:
    """Returns the PDF as a scanner does. `pages` is the number of first pages. None means all pages."""
    chance = random.Random(f"{seed}:{condition.name}")
    source = pypdfium2.PdfDocument(pdf)
    target = FPDF(unit="pt")
    for number in range(min(len(source), pages or len(source))):
        picture = _spoil(source[number].render(scale=DPI / 72).to_pil().convert("L"), condition, chance)
        size = (picture.width * 72 / DPI, picture.height * 72 / DPI)
        packed = BytesIO()
        picture.save(packed, "JPEG", quality=condition.quality)
        # fpdf turns a page that is wider than high unless it gets an orientation
        target.add_page(format=(min(size), max(size)), orientation="L" if size[0] > size[1] else "P")
        target.image(packed, 0, 0, *size)
    return bytes(target.output())


def _spoil(page: Image.Image, condition: Condition, chance: random.Random) -> Image.Image:
    angle = chance.uniform(-condition.skew, condition.skew)
    if condition.skew > 1:
        angle = chance.choice([-1, 1]) * chance.uniform(condition.skew / 2, condition.skew)
    if angle:
        page = page.rotate(angle, resample=Image.Resampling.BICUBIC, fillcolor=255)
    if condition.blur:
        page = page.filter(ImageFilter.GaussianBlur(condition.blur))
    noise = np.random.default_rng(chance.getrandbits(32))
    light = np.asarray(page, np.float32)
    if condition.noise:
        # toner is not black, and paper is darker towards one edge
        paper = np.linspace(252, condition.shade, light.shape[1], dtype=np.float32)
        light = 35 + light / 255 * (paper[None, :] - 35)
        light += noise.normal(0, condition.noise, light.shape)
        specks = noise.random(light.shape) < condition.specks
        light[specks] = noise.integers(60, 220, int(specks.sum()))
    page = Image.fromarray(np.clip(light, 0, 255).astype(np.uint8))
    return page.rotate(condition.turned, expand=True)
