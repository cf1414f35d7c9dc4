"""`python -m benchmarks.scale [--check]`: writes the tables and plots of docs/explanation/scale.md from the model.

`--jobs N --params NAME` prints a month's price of infra/bicep/NAME.bicepparam instead.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from benchmarks.scale.deployment import NAMES, read
from benchmarks.scale.month import month
from benchmarks.scale.prices import READ, REGION
from benchmarks.scale.tables import TABLES

DOCS = Path(__file__).parents[2] / "docs" / "explanation"


def written(text: str) -> str:
    """Returns the page with each table between `<!-- scale: NAME -->` and `<!-- end -->` regenerated."""
    for name, table in TABLES.items():
        pattern = re.compile(rf"(<!-- scale: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text, found = pattern.subn(lambda match, table=table: f"{match[1]}{table()}\n{match[2]}", text)
        if not found:
            raise SystemExit(f"benchmarks.scale: docs/explanation/scale.md has no <!-- scale: {name} -->")
    return text


def _count(text: str) -> int:
    number = int(text.replace(",", "").replace("_", ""))
    if number < 0:
        raise argparse.ArgumentTypeError("must be 0 or more")
    return number


def _priced(name: str, jobs: int, steps: int) -> str:
    """Returns the rows of a month, their sum, the rows without a price, and the limits that the rate exceeds."""
    if name not in NAMES:
        raise SystemExit(f"benchmarks.scale: parameter file not found: {name}; choose one of {', '.join(NAMES)}")
    found = month(read(name), jobs, steps=steps)
    lines = [f"{name}.bicepparam, {jobs:,} jobs of {steps} steps a month, USD, list prices of {REGION}, {READ}"]
    rows = [(row.what, "not read" if row.usd is None else f"{row.usd:,.2f}") for row in found.rows]
    rows.append(("sum" + (" of the known prices" if found.unpriced else ""), f"{found.usd:,.2f}"))
    lines += [f"  {what:<58}{usd:>12}" for what, usd in rows]
    lines += [f"  too much for: {thing}" for thing in found.beyond]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only check that the tables are up to date")
    parser.add_argument("--params", metavar="NAME", help="print the price of this parameter file: minimal, dev, prod")
    parser.add_argument(
        "--jobs", type=_count, default=1_000_000, metavar="N", help="number of jobs a month (default: 1000000)"
    )
    parser.add_argument("--steps", type=int, choices=(1, 2, 3), default=3, help="number of steps of a job (default: 3)")
    arguments = parser.parse_args()
    if arguments.params is not None:
        print(_priced(arguments.params, arguments.jobs, arguments.steps))
        return
    page = DOCS / "scale.md"
    now = page.read_text()
    then = written(now)
    if arguments.check:
        if then != now:
            raise SystemExit("docs/explanation/scale.md is out of date; run `python -m benchmarks.scale`")
        return
    page.write_text(then)
    from benchmarks.scale.plots import draw

    draw(DOCS / "scale")


if __name__ == "__main__":
    main()
