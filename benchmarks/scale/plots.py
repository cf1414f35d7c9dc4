"""The plots of docs/explanation/scale.md, as SVG."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams.update({"svg.hashsalt": "lucius", "svg.fonttype": "none", "font.size": 9})

import matplotlib.pyplot as plt  # noqa: E402  (the backend comes first)

from benchmarks.scale.cost import needs, per_million  # noqa: E402
from benchmarks.scale.job import Job  # noqa: E402
from benchmarks.scale.lanes import busiest, drain  # noqa: E402
from benchmarks.scale.tables import BURST, CALLS, HANDLING_S, STEPS, TENANTS  # noqa: E402


def draw(folder: Path) -> None:
    """Writes `cost.svg`, `limits.svg`, `skew.svg` and `drain.svg`."""
    folder.mkdir(exist_ok=True)
    _cost(folder / "cost.svg")
    _limits(folder / "limits.svg")
    _skew(folder / "skew.svg")
    _drain(folder / "drain.svg")


def _cost(path: Path) -> None:
    figure, axes = plt.subplots(figsize=(7, 3.2))
    bottoms = [0.0] * len(STEPS)
    columns = [per_million(Job(n)) for n in STEPS]
    for name in columns[0]:
        heights = [column[name] for column in columns]
        axes.bar([str(n) for n in STEPS], heights, bottom=bottoms, label=name, width=0.5)
        bottoms = [bottom + height for bottom, height in zip(bottoms, heights, strict=True)]
    axes.set(xlabel="steps of a job", ylabel="USD a million jobs")
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
    _save(figure, path)


def _limits(path: Path) -> None:
    figure, axes = plt.subplots(figsize=(7, 2.6))
    found = [need for need in reversed(needs(Job(3))) if need.ends_at is not None]
    axes.barh([need.thing for need in found], [need.ends_at for need in found])
    axes.set(xscale="log", xlabel="3-step jobs a second at which one deployment ends")
    _save(figure, path)


def _skew(path: Path) -> None:
    figure, axes = plt.subplots(figsize=(6, 2.8))
    exponents = [number / 10 for number in range(13)]
    for tenants in TENANTS:
        axes.plot(
            exponents,
            [busiest(tenants, each, "DEFAULT", jobs=20_000) for each in exponents],
            label=f"DEFAULT, {tenants:,} tenants",
        )
    burst = [busiest(TENANTS[0], each, "BURST", jobs=20_000) for each in exponents]
    axes.plot(exponents, burst, linestyle="--", label="BURST, any number")
    axes.set(xlabel="skew of tenant sizes (Zipf exponent)", ylabel="busiest lane over an even share")
    axes.legend(fontsize=7)
    _save(figure, path)


def _drain(path: Path) -> None:
    figure, axes = plt.subplots(figsize=(6, 2.8))
    for mode in ("DEFAULT", "BURST"):
        measured = [
            drain(mode, burst=BURST, calls_a_lane=calls, handling_s=HANDLING_S, neighbour_every_s=1) for calls in CALLS
        ]
        axes.plot(CALLS, [each.drained_s for each in measured], marker="o", label=mode)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="concurrent replies on a lane",
        ylabel=f"seconds to drain {BURST:,} replies",
    )
    axes.legend(fontsize=8)
    _save(figure, path)


def _save(figure: plt.Figure, path: Path) -> None:
    figure.savefig(path, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
