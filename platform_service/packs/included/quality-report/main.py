"""Quality report over the text of an OCR job (`lucius.text/1`).

The input `min_confidence` (default 0.8) is the confidence below which a line counts as doubtful. The artifacts are
`report.json` and `report.md`.
"""

import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any


def main() -> int:
    inputs = json.loads(Path(os.environ["LUCIUS_INPUTS"]).read_text("utf-8"))
    threshold = float(inputs.get("min_confidence", 0.8))
    try:
        document = json.loads(Path(os.environ["LUCIUS_INPUT"]).read_text("utf-8"))
        pages = document["pages"] if document["format"] == "lucius.text/1" else None
    except (ValueError, KeyError, TypeError):
        pages = None
    if pages is None:
        print("the input is not the text of OCR: name the result of an OCR job as input_ref")
        return 2
    rows = [row(page, threshold) for page in pages]
    for each in rows:
        print(f"page {each['page']}: {each['characters']} characters, {each['doubtful_lines']} doubtful lines")
    report = {
        "pages": rows,
        "empty_pages": [each["page"] for each in rows if not each["characters"]],
        "characters": sum(each["characters"] for each in rows),
        "doubtful_lines": sum(each["doubtful_lines"] for each in rows),
        "min_confidence": threshold,
    }
    folder = Path(os.environ["LUCIUS_ARTIFACTS"])
    (folder / "report.json").write_text(json.dumps(report, indent=2), "utf-8")
    (folder / "report.md").write_text(markdown(report), "utf-8")
    print(f"{len(rows)} pages, {len(report['empty_pages'])} empty, {report['doubtful_lines']} doubtful lines")
    return 0


def row(page: dict[str, Any], threshold: float) -> dict[str, Any]:
    """Returns the figures of one page."""
    lines = page.get("lines", [])
    confidences = [float(line["confidence"]) for line in lines if line.get("confidence") is not None]
    text = page.get("text", "")
    odd = sum(not (each.isprintable() or each.isspace()) or each == "\N{REPLACEMENT CHARACTER}" for each in text)
    return {
        "page": page["page"],
        "characters": len(text.strip()),
        "lines": len(lines),
        "mean_confidence": round(statistics.fmean(confidences), 3) if confidences else None,
        "doubtful_lines": sum(each < threshold for each in confidences),
        "odd_characters": odd,
    }


def markdown(report: dict[str, Any]) -> str:
    head = (
        "| page | characters | lines | mean confidence | doubtful lines | odd characters |\n|---|---|---|---|---|---|\n"
    )
    body = "".join("| " + " | ".join(str(value) for value in each.values()) + " |\n" for each in report["pages"])
    empty = ", ".join(map(str, report["empty_pages"])) or "none"
    return f"# Quality report\n\nEmpty pages: {empty}.\n\n{head}{body}"


if __name__ == "__main__":
    sys.exit(main())
