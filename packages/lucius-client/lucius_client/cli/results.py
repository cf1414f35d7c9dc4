"""The result of an ended job: its content, or the answers of SIS with their places in the document."""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lucius_client.cli import rendering
from lucius_client.cli.exits import UsageError
from lucius_client.cli.rendering import coloured
from lucius_client.models import Job
from lucius_client.results import MAX_IN_MEMORY, OpenResult

if TYPE_CHECKING:  # imported late: the blob SDK takes longer than most commands
    from lucius_client.cli.documents import Documents

Json = dict[str, Any]

#: format of the result of OCR
_TEXT = "lucius.text/1"


def open_result(job: Job) -> OpenResult:
    """Opens the result of `job`. Uses `LUCIUS_BLOB_CONNECTION` for blobs of its account. Raises LuciusError."""
    from lucius_client.cli.documents import configured

    return OpenResult(job, configured())


def print_result(result: OpenResult) -> None:
    """Writes the content to stdout: unchanged to a pipe, in a readable form to a terminal.

    The readable form is a table of SIS answers, the text of OCR pages, indented JSON, or text without characters that
    control a terminal. Raises LuciusError. Raises UsageError for a terminal if the content is not text.
    """
    if not sys.stdout.isatty():
        sys.stdout.flush()
        _copy(result, sys.stdout.buffer)
        return
    document, pieces = json_content(result)
    if document is None:
        _print_text(result, pieces)
    else:
        _print_document(document)


def json_content(result: OpenResult) -> tuple[Any, Iterable[bytes]]:
    """Returns the JSON document of a result and the content in pieces.

    The document is None if the result is not JSON or has more than `MAX_IN_MEMORY` bytes.
    """
    if result.size > MAX_IN_MEMORY:
        return None, result.chunks()
    content = b"".join(result.chunks())
    try:
        return json.loads(content), [content]
    except ValueError:
        return None, [content]


def _print_document(document: Any) -> None:
    pages = document.get("pages") if isinstance(document, dict) and document.get("format") == _TEXT else None
    if answers := sis_answers(document):
        rendering.console().print(_table(answers))
    elif isinstance(pages, list) and all(isinstance(page, dict) for page in pages):
        for page in pages:
            rendering.console().print(Text(f"page {page.get('page')}", style="bold"))
            rendering.write(f"{page.get('text', '')}\n")
    else:
        rendering.write_json(document)


def _print_text(result: OpenResult, pieces: Iterable[bytes]) -> None:
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=True)
    last = "\n"
    for number, piece in enumerate(pieces):
        if number == 0 and not _is_text(piece):
            kind = result.media_type or "not text"
            raise UsageError(
                f"the result is {kind}, {result.size} bytes, and this is a terminal; name a file with "
                "`lucius job result ID --out FILE`"
            )
        text = rendering.visible(decoder.decode(piece))
        sys.stdout.write(text)
        last = text[-1:] or last
    sys.stdout.write("" if last == "\n" else "\n")
    sys.stdout.flush()


def save_result(result: OpenResult, path: Path) -> None:
    """Writes the content to a file, completely or not at all. Writes to a pipe or a device in pieces. Raises
    LuciusError and UsageError.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe or a device is not replaced
            with path.open("wb") as out:
                _copy(result, out)
            return
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with fresh.open("xb") as out:
                _copy(result, out)
            fresh.replace(path)
        finally:
            fresh.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}; name another file with --out") from error


def _copy(result: OpenResult, out: BinaryIO) -> None:
    for piece in result.chunks():
        out.write(piece)
    out.flush()


def _is_text(start: bytes) -> bool:
    """Returns True if the first piece of a content is UTF-8 without NUL. Its last character may be cut."""
    try:
        return "\0" not in codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return False


def show_result(screen: Console, label: str, job: Json, documents: Documents) -> None:
    """Prints the job's status and its error, if any. After success also prints the SIS answers, or the URI of the
    output if `documents` cannot read the answers.
    """
    screen.print(Text.assemble((label, "bold"), "  ", coloured(job["status"]), f"  {job['jobId']}"))
    if job.get("error_code"):
        screen.print(Text(f"  {job['error_code']}: {job.get('error_message') or ''}"))
    output = (job.get("final_output") or {}).get("uri")
    if job["status"] != "SUCCEEDED" or not output:
        return
    answers = sis_answers(documents.read_json(output))
    screen.print(_table(answers) if answers else Text(f"  output: {output}"), soft_wrap=not answers)


def sis_answers(result: Any) -> list[Json]:
    """Returns the `answers` in a result of SIS (`lucius.answers/1`), or [] if `result` has no `answers`."""
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
