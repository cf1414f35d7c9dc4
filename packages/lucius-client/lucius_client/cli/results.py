"""The result of an ended job: the answers of SIS, with their places in the document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lucius_client.cli.rendering import coloured

if TYPE_CHECKING:  # importing the blob SDK takes longer than most commands
    from lucius_client.cli.documents import Documents

Json = dict[str, Any]


def show_result(screen: Console, label: str, job: Json, documents: Documents) -> None:
    """Prints the answers of a job if it has any that can be read here, or else the URI of its output, or its error."""
    screen.print(Text.assemble((label, "bold"), "  ", coloured(job["status"]), f"  {job['jobId']}"))
    if job.get("error_code"):
        screen.print(Text(f"  {job['error_code']}: {job.get('error_message') or ''}"))
    output = (job.get("final_output") or {}).get("uri")
    if job["status"] != "SUCCEEDED" or not output:
        return
    answers = sis_answers(documents.read_json(output))
    screen.print(_table(answers) if answers else Text(f"  output: {output}"))


def sis_answers(result: Any) -> list[Json]:
    """The answers in a result of SIS (`lucius.answers/1`); [] where `result` is something else."""
    answers = result.get("answers") if isinstance(result, dict) else None
    return [answer for answer in answers or [] if isinstance(answer, dict)]


def _table(answers: list[Json]) -> Table:
    table = Table(box=box.SIMPLE, pad_edge=False, expand=False)
    table.add_column("question", overflow="fold", max_width=40)
    table.add_column("answer", overflow="fold", style="green", max_width=60)
    table.add_column("page", justify="right")
    table.add_column("quote", overflow="fold", style="italic", max_width=60)
    table.add_column("score", justify="right")
    for item in answers:
        citation = item.get("citation") or {}
        answer, quote = item.get("answer"), citation.get("quote") or ""
        table.add_row(
            Text(str(item.get("prompt", ""))),
            Text(str(answer)) if answer is not None else Text("not in the document", style="dim"),
            str(citation.get("page", "")),
            Text("= answer" if quote == answer else quote),
            f"{item['score']:.2f}" if isinstance(item.get("score"), int | float) else "",
        )
    return table
