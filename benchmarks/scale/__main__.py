"""`python -m benchmarks.scale [--check]`: writes the tables and plots of docs/explanation/scale.md from the model."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from benchmarks.scale.tables import TABLES

DOCS = Path(__file__).parents[2] / "docs" / "explanation"


def written(text: str) -> str:
    """The page with every table between `<!-- scale: NAME -->` and `<!-- end -->` made anew."""
    for name, table in TABLES.items():
        pattern = re.compile(rf"(<!-- scale: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text, found = pattern.subn(lambda match, table=table: f"{match[1]}{table()}\n{match[2]}", text)
        if not found:
            raise SystemExit(f"benchmarks.scale: docs/explanation/scale.md has no <!-- scale: {name} -->")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say whether the tables are up to date")
    page = DOCS / "scale.md"
    now = page.read_text()
    then = written(now)
    if parser.parse_args().check:
        if then != now:
            raise SystemExit("docs/explanation/scale.md is out of date; run `python -m benchmarks.scale`")
        return
    page.write_text(then)
    # only who draws needs the drawing library
    from benchmarks.scale.plots import draw

    draw(DOCS / "scale")


if __name__ == "__main__":
    main()
