"""Recognises text in an image, by rapidocr's models on onnxruntime."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from PIL import Image

from platform_service.ocr.page_text import Line

#: The detector scales the longer side of the image to this. It is enough for 9 point print on a whole page; more costs
#: time and memory by its square.
DETECTOR_SIDE_PX = 960

_MONTH = r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"


@dataclass(frozen=True)
class _TextRun:
    """One run of text. Coordinates are upright, that is turned back by the skew of the page."""

    text: str
    confidence: float
    corners: Any
    left: float
    middle: float
    height: float


class Recogniser:
    """Loads its models on first use. They come in the wheel, so nothing is downloaded."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._engine: Any = None

    def load(self) -> None:
        # set before the import: otherwise onnxruntime reports usage and writes an id into the home folder
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        from rapidocr import RapidOCR

        self._engine = RapidOCR(
            params={
                "Global.log_level": "critical",
                "Global.text_score": 0.0,
                "Det.limit_type": "max",
                "Det.limit_side_len": DETECTOR_SIDE_PX,
                # a batch is padded to its longest line: one by one is faster on a CPU and takes a third less memory
                "Rec.rec_batch_num": 1,
                "EngineConfig.onnxruntime.intra_op_num_threads": self._threads,
                "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            }
        )
        # the models are read with the first image
        self._engine(np.full((64, 256, 3), 255, np.uint8), use_det=False)
        self._engine(np.full((64, 256, 3), 255, np.uint8), use_det=True)

    def lines(self, image: Image.Image, min_confidence: float) -> tuple[Line, ...]:
        """Lines from top to bottom; text runs of one row are one line. Boxes are in pixels."""
        if self._engine is None:
            self.load()
        output = self._engine(np.asarray(image.convert("RGB"))[:, :, ::-1])
        if output.txts is None or output.boxes is None:
            return ()
        runs = [
            (_restore_spaces(text.strip()), float(score), np.asarray(box, float))
            for text, score, box in zip(output.txts, output.scores, output.boxes, strict=True)
            if text.strip() and score >= min_confidence
        ]
        return _rows(runs)


def _rows(runs: list[tuple[str, float, Any]]) -> tuple[Line, ...]:
    """Groups text runs (text, confidence, corners) into rows, by their place on the page turned upright.

    On a skewed page the right end of a line is higher or lower than the left end of the next run in its row.
    """
    angle = _skew([corners for _, _, corners in runs])
    cos, sin = math.cos(-angle), math.sin(-angle)
    turn = np.array([[cos, sin], [-sin, cos]])
    placed = []
    for text, confidence, corners in runs:
        upright = corners @ turn
        top, bottom = upright[:2, 1].mean(), upright[2:, 1].mean()
        placed.append(
            _TextRun(text, confidence, corners, upright[:, 0].min(), (top + bottom) / 2, max(bottom - top, 1.0))
        )
    placed.sort(key=lambda run: run.middle)
    rows: list[list[_TextRun]] = []
    for run in placed:
        row = rows[-1] if rows else None
        if row and abs(run.middle - row[-1].middle) < 0.5 * min(run.height, row[-1].height):
            row.append(run)
        else:
            rows.append([run])
    return tuple(_line(sorted(row, key=lambda run: run.left)) for row in rows)


def _restore_spaces(text: str) -> str:
    """Puts back spaces that print always has: the recogniser often misses narrow ones."""
    text = re.sub(r"(?<=[a-z0-9])([,;:])(?=[A-Z][a-z])", r"\1 ", text)
    text = re.sub(rf"(?<=\d)(?={_MONTH}(?:\d|\b))", " ", text)
    return re.sub(rf"(?<=\d ){_MONTH}(?=\d{{4}}\b)", lambda month: month[0] + " ", text)


def _line(row: list[_TextRun]) -> Line:
    corners = np.concatenate([run.corners for run in row])
    letters = sum(len(run.text) for run in row)
    (left, top), (right, bottom) = corners.min(axis=0), corners.max(axis=0)
    return Line(
        text=" ".join(run.text for run in row),
        confidence=sum(run.confidence * len(run.text) for run in row) / letters,
        box=(float(left), float(top), float(right), float(bottom)),
    )


def _skew(boxes: list[Any]) -> float:
    """The angle of the page's lines in radians, from its long runs of text; 0 where there are none."""
    angles = []
    for corners in boxes:
        across, down = corners[1] - corners[0], corners[3] - corners[0]
        if np.hypot(*across) > 4 * np.hypot(*down):
            angles.append(math.atan2(across[1], across[0]))
    return median(angles) if angles else 0.0
