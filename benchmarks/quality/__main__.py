"""`make quality`: accuracy of the reference services, for the development and the held-out half.

Failures of the held-out half are never shown, so that no change of the services is made for them.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
from pathlib import Path
from typing import Any

from benchmarks.measured import RECORDED, measured, write
from benchmarks.quality.documents import DEVELOPMENT_SEED, HALVES
from benchmarks.quality.measure import Figures, Services, measure
from benchmarks.quality.model_endpoint import serve
from benchmarks.quality.sensitivity import compare


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make quality", description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", default=secrets.token_hex(4), help="seed of the held-out half. Default: a new one")
    parser.add_argument("--half", choices=HALVES, action="append", help="measure this half only")
    parser.add_argument("--failures", action="store_true", help="show failed questions of the development half")
    parser.add_argument(
        "--constants", action="store_true", help="only measure the effect of a change of each constant of the services"
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--record", metavar="PART", help="record the figures for the docs, under this name")
    asked = parser.parse_args(arguments)
    figures: dict[str, Any] = {"seed": asked.seed}
    with serve() as recording:
        services = Services(recording)
        if asked.constants:
            for name, value, rates in compare(services):
                print(f"{name:21} {value:5}", *(f"{text} {rate:.3f} " for text, rate in rates.items()), flush=True)
            return 0
        for half in asked.half or HALVES:
            seed = DEVELOPMENT_SEED if half == "development" else asked.seed
            found = measure(half, seed, services, say=lambda line: print(line, file=sys.stderr))
            figures[half] = found.summary()
            _print(half, seed, figures[half])
            if asked.failures and half == "development":
                _print_failures(found)
    if asked.json:
        write(asked.json, {"quality": measured(figures)})
    if asked.record:
        write(RECORDED / "quality.json", {asked.record: measured(figures)}, keep=True)
    return 0


def _print(half: str, seed: str, summary: dict[str, Any]) -> None:
    print(f"\n{half}, seed {seed}")
    for name, rates in summary.items():
        if name == "questions":
            shown = json.dumps(rates)
        else:
            shown = "  ".join(f"{key} {rate:.3f}" for key, rate in rates.items())
        print(f"  {name:21} {shown}")


def _print_failures(found: Figures) -> None:
    for failure in found.failures:
        question = failure.question
        print(f"  {failure.document} {question.kind} [{failure.rank}] {question.prompt!r}")
        print(f"      expected {list(question.expect)}, got {failure.answer!r}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
