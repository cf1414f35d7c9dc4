"""Draws docs/images/job-life.svg, with the states of a job as columns, and each transition as an arrow in its own
row.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import NamedTuple

from scripts.generate.transitions import arrows
from shared.core.jobs.states import JobStatus
from shared.core.jobs.transitions import JOB_CREATION, JOB_TABLE

FILE = Path(__file__).resolve().parents[2] / "docs" / "images" / "job-life.svg"

#: the columns, from left to right
_COLUMNS = (
    *(JobStatus.WAITING_FOR_JOBS, JobStatus.THROTTLED),
    *(JobStatus.QUEUED, JobStatus.IN_PROGRESS, JobStatus.SUCCEEDED, JobStatus.FAILED_FINAL),
    *(JobStatus.PAUSING, JobStatus.PAUSED, JobStatus.CANCELLING, JobStatus.CANCELLED),
)
_GOOD = (JobStatus.IN_PROGRESS, JobStatus.SUCCEEDED, JobStatus.QUEUED)

# lengths in SVG user units; the width of a character is 0.6 of the size of the label font
_FONT = 11
_CHAR = 0.6 * _FONT
_LINE = 13
_STEP = 138
_MARGIN = 76
_BOX_WIDTH, _BOX_HEIGHT = 122, 30
_TOP = 20

_STYLE = """
  .back { fill: #ffffff; } .column { stroke: #d0d7de; } .box { fill: #f6f8fa; stroke: #57606a; }
  .end { stroke-width: 3; }
  text { font: 11px ui-monospace, Menlo, Consolas, monospace; fill: #24292f; text-anchor: middle; }
  .label { stroke: #ffffff; stroke-width: 4; paint-order: stroke; } .state { font-weight: bold; }
  .good { stroke: #1a7f37; fill: #1a7f37; } .bad { stroke: #cf222e; fill: #cf222e; }
  .pause { stroke: #9a6700; fill: #9a6700; } .cancel { stroke: #57606a; fill: #57606a; } .line { stroke-width: 1.5; }
  @media (prefers-color-scheme: dark) {
    .back { fill: #0d1117; } .column { stroke: #30363d; } .box { fill: #161b22; stroke: #8b949e; }
    text { fill: #e6edf3; } .label { stroke: #0d1117; }
    .good { stroke: #3fb950; fill: #3fb950; } .bad { stroke: #f85149; fill: #f85149; }
    .pause { stroke: #d29922; fill: #d29922; } .cancel { stroke: #8b949e; fill: #8b949e; }
  }
"""


class _Arrow(NamedTuple):
    """One row of the picture. `start` is None if the transition creates the job."""

    start: JobStatus | None
    end: JobStatus
    triggers: tuple[str, ...]


def text() -> str:
    """Returns the picture, from the tables of `shared.core.jobs.transitions`."""
    lines = _arrows()
    y = _TOP + _BOX_HEIGHT + 8
    drawn: list[str] = []
    for arrow in lines:
        labels = _wrapped(arrow)
        y += 9 + _LINE * len(labels)
        drawn += _drawn(arrow, labels, y)
    width, height = 2 * _MARGIN + _STEP * (len(_COLUMNS) - 1), y + 20
    boxes = [part for state in _COLUMNS for part in _box(state, y + 8)]
    sentences = " ".join(f"{arrow.start or 'Creation'} to {arrow.end}: {', '.join(arrow.triggers)}." for arrow in lines)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
            'aria-labelledby="title desc">',
            '<title id="title">States of a job and their transitions</title>',
            f'<desc id="desc">{escape(sentences)}</desc>',
            f"<style>{_STYLE}</style>",
            f'<rect class="back" width="{width}" height="{height}" rx="8"/>',
            *boxes,
            *drawn,
            "</svg>\n",
        ]
    )


def _arrows() -> list[_Arrow]:
    """Returns the creation first, then the other transitions by the state that they leave."""
    created = [_Arrow(None, JobStatus(row.to), (name,)) for name, row in JOB_CREATION.items()]
    left = [
        _Arrow(JobStatus(start), JobStatus(end), tuple(triggers))
        for (start, end), triggers in arrows(JOB_TABLE).items()
    ]
    left.sort(key=lambda arrow: (_COLUMNS.index(arrow.start or arrow.end), _COLUMNS.index(arrow.end)))
    return created + left


def _x(state: JobStatus) -> int:
    return _MARGIN + _STEP * _COLUMNS.index(state)


def _ends(arrow: _Arrow) -> tuple[int, int]:
    """Returns both ends of the arrow. The arrow of a creation is short, from the left."""
    end = _x(arrow.end)
    return (end - _MARGIN + 8 if arrow.start is None else _x(arrow.start)), end


def _wrapped(arrow: _Arrow) -> list[str]:
    """Returns the triggers in lines that fit over the arrow."""
    start, end = _ends(arrow)
    room = abs(end - start) - 12
    lines: list[str] = []
    for trigger in arrow.triggers:
        if lines and (len(lines[-1]) + len(trigger) + 2) * _CHAR <= room:
            lines[-1] += f", {trigger}"
        else:
            lines.append(trigger)
    return lines


def _drawn(arrow: _Arrow, labels: list[str], y: int) -> list[str]:
    start, end = _ends(arrow)
    back = 8 if end > start else -8
    kind = _kind(arrow.end)
    middle = (start + end) // 2
    parts = [
        f'<line class="line {kind}" x1="{start}" y1="{y}" x2="{end - back}" y2="{y}"/>',
        f'<circle class="{kind}" cx="{start}" cy="{y}" r="3"/>',
        f'<path class="{kind}" d="M{end} {y} l{-back} -4 v8 z"/>',
    ]
    first = y - 5 - _LINE * (len(labels) - 1)
    parts += [
        f'<text class="label" x="{middle}" y="{first + _LINE * number}">{escape(label)}</text>'
        for number, label in enumerate(labels)
    ]
    return parts


def _kind(end: JobStatus) -> str:
    """Returns the colour class of an arrow, by the state that it leads to."""
    if end in _GOOD:
        return "good"
    if end is JobStatus.FAILED_FINAL:
        return "bad"
    return "pause" if end in (JobStatus.PAUSING, JobStatus.PAUSED) else "cancel"


def _box(state: JobStatus, bottom: int) -> list[str]:
    x = _x(state)
    kind = "box end" if state.terminal else "box"
    size = f'width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}"'
    return [
        f'<line class="column" x1="{x}" y1="{_TOP + _BOX_HEIGHT}" x2="{x}" y2="{bottom}"/>',
        f'<rect class="{kind}" x="{x - _BOX_WIDTH // 2}" y="{_TOP}" {size} rx="6"/>',
        f'<text class="state" x="{x}" y="{_TOP + 19}">{state}</text>',
    ]
