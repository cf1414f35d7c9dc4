"""Writes generated files, such as parts of the docs, API documents, client models, Bicep parts and Config.json.

`python -m scripts.generate` rewrites the files. With `--check`, exits with 1 if a file is out of date. `make generate`
also writes the snapshots of the templates and the plots of docs/explanation/scale, by other commands.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from emulator import topology
from scripts.generate import (
    api_documents,
    api_tables,
    bicep,
    client_filters,
    client_models,
    comparisons,
    dashboard_vendor,
    error_classes,
    job_life,
    operator_tables,
    performance,
    protocol_schema,
    template_checks,
    transitions,
)

DOCS = Path(__file__).resolve().parents[2] / "docs"

PARTS = {
    **transitions.PARTS,
    **operator_tables.PARTS,
    **api_tables.PARTS,
    **error_classes.PARTS,
    **comparisons.PARTS,
    **performance.PARTS,
}


def render(text: str) -> str:
    """Returns the document with the current text in each `<!-- generated: NAME -->` ... `<!-- end -->`."""

    def fill(match: re.Match[str]) -> str:
        return f"{match[1]}\n{PARTS[match[2]]()}\n<!-- end -->"

    return re.sub(r"(<!-- generated: ([a-z-]+) -->)\n.*?<!-- end -->", fill, text, flags=re.DOTALL)


def generated() -> dict[Path, str]:
    """Returns every generated file, or file with generated parts, with its text."""
    texts = {path: render(path.read_text(encoding="utf-8")) for path in sorted(DOCS.rglob("*.md"))}
    api = api_documents.files()
    texts |= {DOCS / name: text for name, text in {**api, **transitions.files()}.items()}
    texts |= {protocol_schema.FILE: protocol_schema.text(), topology.CONFIG: topology.render()}
    texts |= bicep.files()
    texts |= template_checks.files()
    texts |= {job_life.FILE: job_life.text()}
    texts |= dashboard_vendor.files()
    texts |= {each.FILE: each.text(api["openapi.json"]) for each in (client_filters, client_models)}
    return texts


def main() -> int:
    """Writes the files, or checks them. Returns 1 if `--check` found a file that is out of date, else 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a file is out of date")
    check = parser.parse_args().check
    stale = []
    for path, text in generated().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path.relative_to(DOCS.parent).as_posix())
            if not check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
    if check and stale:
        print(f"out of date: {', '.join(stale)}; run python -m scripts.generate", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
