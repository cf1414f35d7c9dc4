"""What SIS answered, and where in the document it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lucius_client.cli.rendering import coloured

if TYPE_CHECKING:  # the blob SDK takes longer to import than most commands run
    from lucius_client.cli.documents import Documents

Json = dict[str, Any]


def show_answers(screen: Console, label: str, job: Json, documents: Documents) -> None:
    """The job's end: its answers if it has any that can be read here, else where its output is, or its error."""
    screen.print(Text.assemble((label, "bold"), "  ", coloured(job["status"]), f"  {job['jobId']}"))
    if job.get("error_code"):
        screen.print(Text(f"  {job['error_code']}: {job.get('error_message') or ''}"))
    output = (job.get("final_output") or {}).get("uri")
    if job["status"] != "SUCCEEDED" or not output:
        return
    found = answers(documents.read_json(output))
    screen.print(_table(found) if found else Text(f"  output: {output}"))


def answers(result: Any) -> list[Json]:
    """The answers of a SIS result (`lucius.answers/1`); [] where it is something else."""
    found = result.get("answers") if isinstance(result, dict) else None
    return [answer for answer in found or [] if isinstance(answer, dict)]


def _table(found: list[Json]) -> Table:
    table = Table(box=box.SIMPLE, pad_edge=False, expand=False)
    table.add_column("question", overflow="fold", max_width=40)
    table.add_column("answer", overflow="fold", style="green", max_width=60)
    table.add_column("page", justify="right")
    table.add_column("quote", overflow="fold", style="italic", max_width=60)
    table.add_column("score", justify="right")
    for answer in found:
        citation = answer.get("citation") or {}
        said, quote = answer.get("answer"), citation.get("quote") or ""
        table.add_row(
            Text(str(answer.get("prompt", ""))),
            Text(str(said)) if said is not None else Text("not in the document", style="dim"),
            str(citation.get("page", "")),
            Text("= answer" if quote == said else quote),
            f"{answer['score']:.2f}" if isinstance(answer.get("score"), int | float) else "",
        )
    return table
