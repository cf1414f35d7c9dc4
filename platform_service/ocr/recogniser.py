"""Recognises text in an image, by rapidocr's models on onnxruntime."""

from __future__ import annotations

import math
import os
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from platform_service.ocr.layout import Run, reading_order, row_text
from platform_service.ocr.page_text import Line

Pixels = NDArray[np.uint8]

#: The detector scales the longer side of the image to this: enough for 9 point print on a whole page. Character errors
#: of six scans, 2026-11-28, commit 300eef6: 11 % with 480, 0.6 % with 960, 0.7 % with 1920 at twice the CPU.
DETECTOR_SIDE_PX = 960
#: Runs of text that are recognised both ways up, to find out whether the page is upside down. With 1 to 12 of them all
#: of 24 pages with heavy noise were judged right. With yet more noise all of 12 pages were judged right by 3 and more
#: (commit 300eef6).
TRIED_RUNS = 5
#: preferred width of these runs over their height: of the 12 pages the squarest run judged 10 right, the 3 longest 11
TRIED_SHAPE = 6.0


class Recogniser:
    """A recogniser, which loads its models on first use. The models come in the wheel, so nothing is downloaded.
    Threads can share a recogniser.
    """

    def __init__(self) -> None:
        self._engine: Any = None

    def load(self) -> None:
        # set before the import: otherwise onnxruntime reports usage and writes an id into the home folder
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        from rapidocr import RapidOCR

        self._engine = RapidOCR(
            params={
                "Global.log_level": "critical",
                "Global.text_score": 0.0,
                # this step squeezes long lines until the result is wrong
                "Global.use_cls": False,
                "Det.limit_type": "max",
                "Det.limit_side_len": DETECTOR_SIDE_PX,
                # a batch is padded to its longest line: one by one is faster on a CPU and takes a third less memory
                "Rec.rec_batch_num": 1,
                # each page has one thread; pages are recognised at the same time
                "EngineConfig.onnxruntime.intra_op_num_threads": 1,
                "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            }
        )
        # the models are read with the first image
        self._engine(np.full((64, 256, 3), 255, np.uint8), use_det=False)
        self._engine(np.full((64, 256, 3), 255, np.uint8), use_det=True)

    def lines(self, image: Image.Image, min_confidence: float) -> tuple[Line, ...]:
        """Returns the lines in reading order. Boxes are in pixels of the original image, also if the image was
        turned.
        """
        if self._engine is None:
            self.load()
        pixels = np.asarray(image.convert("RGB"))[:, :, ::-1]
        turns, boxes, crops = self._upright(pixels)
        if not crops:
            return ()
        read = self._engine.recognize_txt(crops)
        runs = [
            (text.strip(), float(score), np.asarray(box, float))
            for text, score, box in zip(read.txts, read.scores, boxes, strict=True)
            if text.strip() and score >= min_confidence
        ]
        return tuple(_turned_back(line, turns, image.width, image.height) for line in _lines(runs))

    def _upright(self, pixels: Pixels) -> tuple[int, Any, list[Pixels]]:
        """Turns the page until its text is upright. Returns (quarter turns, boxes, pictures of the runs of text)."""
        boxes, crops = self._detect(pixels)
        turns = 0
        if _lies_on_its_side(boxes):
            turns = 1
            boxes, crops = self._detect(np.rot90(pixels, turns))
        if self._is_upside_down(crops):
            turns += 2
            boxes, crops = self._detect(np.rot90(pixels, turns))
        return turns, boxes, crops

    def _detect(self, pixels: Pixels) -> tuple[Any, list[Pixels]]:
        from rapidocr.main import RapidOCRError
        from rapidocr.utils.process_img import map_boxes_to_original

        scaled, record = self._engine.preprocess_img(np.ascontiguousarray(pixels))
        try:
            crops, found = self._engine.detect_and_crop(scaled, record)
        except RapidOCRError:  # no text
            return [], []
        return map_boxes_to_original(found.boxes, record, *pixels.shape[:2]), crops

    def _is_upside_down(self, crops: list[Pixels]) -> bool:
        """Returns True if the sample of runs of text is recognised with more confidence upside down."""
        tried = sorted(crops, key=lambda crop: abs(crop.shape[1] / crop.shape[0] - TRIED_SHAPE))[:TRIED_RUNS]
        if not tried:
            return False
        upright, turned = (
            sum(self._engine.recognize_txt(each).scores) for each in (tried, [np.rot90(crop, 2) for crop in tried])
        )
        return bool(turned > upright)


def _lies_on_its_side(boxes: Any) -> bool:
    """Returns True if most of the text, by its length, is vertical."""
    across = down = 0.0
    for corners in boxes:
        width, height = np.hypot(*(corners[1] - corners[0])), np.hypot(*(corners[3] - corners[0]))
        if height > width:
            down += height
        else:
            across += width
    return down > across


def _turned_back(line: Line, turns: int, width: int, height: int) -> Line:
    """Returns the line with its box on the original page, which has this width and height, before its quarter turns."""
    left, top, right, bottom = line.box
    match turns:
        case 1:
            box = (width - bottom, left, width - top, right)
        case 2:
            box = (width - right, height - bottom, width - left, height - top)
        case 3:
            box = (top, height - right, bottom, height - left)
        case _:
            box = line.box
    return Line(line.text, line.confidence, box)


def _lines(runs: list[tuple[str, float, Any]]) -> list[Line]:
    """Joins runs of text (text, confidence, corners) to lines, by their position on the page without its skew.

    On a skewed page the right end of a line is higher or lower than the left end of the next run in its row.
    """
    angle = _skew([corners for _, _, corners in runs])
    cos, sin = math.cos(-angle), math.sin(-angle)
    turn = np.array([[cos, sin], [-sin, cos]])
    placed = []
    for text, confidence, corners in runs:
        upright = corners @ turn
        top, bottom = upright[:2, 1].mean(), upright[2:, 1].mean()
        left, right = upright[:, 0].min(), upright[:, 0].max()
        placed.append(Run(text, left, top, right, bottom, (confidence, corners)))
    return [_line(row) for row in reading_order(placed)]


def _line(row: list[Run[tuple[float, Any]]]) -> Line:
    corners = np.concatenate([run.source[1] for run in row])
    letters = sum(len(run.text) for run in row)
    (left, top), (right, bottom) = corners.min(axis=0), corners.max(axis=0)
    return Line(
        text=row_text(row),
        confidence=sum(run.source[0] * len(run.text) for run in row) / letters,
        box=(float(left), float(top), float(right), float(bottom)),
    )


def _skew(boxes: list[Any]) -> float:
    """Returns the angle of the page's lines in radians, from its long runs of text, or 0 without long runs.

    The detector gives short runs an angle of 0, and a table has more short runs than long runs.
    """
    angles = []
    for corners in boxes:
        across, down = corners[1] - corners[0], corners[3] - corners[0]
        if np.hypot(*across) > 4 * np.hypot(*down):
            angles.append(math.atan2(across[1], across[0]))
    return median(angles) if angles else 0.0
