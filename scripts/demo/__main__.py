"""`make demo`: starts the whole system, submits documents, prints the answers, and removes everything.

The environment variable DOCS names the documents, separated by spaces, with quotes around names that contain a space.
Default: the samples. ASK is a question that replaces all questions about each document.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from lucius_client.cli.exits import CliError, Exit
from scripts.demo.documents import Document, chosen_documents

if TYPE_CHECKING:  # imported late, so that Ctrl-C is handled from the start
    from lucius_client import Client
    from lucius_client.cli.documents import Documents
    from scripts.demo.stack import LocalStack

_PROTOCOL = "OCR_EMBEDDING_SIS"
_TENANT = "demo"
#: more jobs would only wait, since each of the three services works on one document at a time
_MAX_IN_FLIGHT = 3


def main() -> int:
    argparse.ArgumentParser(prog="python -m scripts.demo", description=__doc__).parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        return run(chosen_documents(os.environ.get("DOCS", ""), os.environ.get("ASK", "")))
    except CliError as error:
        print(f"demo: {error}", file=sys.stderr)
        return error.exit
    except KeyboardInterrupt:
        print("demo: interrupted", file=sys.stderr)
        return Exit.INTERRUPTED


def run(documents: list[Document]) -> int:
    """Runs the demo. Returns 0 if every job SUCCEEDED, else 1."""
    from lucius_client import Client
    from lucius_client.cli import rendering
    from lucius_client.cli.board import Board, follow
    from lucius_client.cli.documents import Documents
    from lucius_client.cli.results import show_result
    from lucius_client.cli.session import WATCH_RETRIES
    from scripts.demo.stack import LocalStack

    screen = rendering.console()
    began = time.monotonic()

    def report(line: str) -> None:
        screen.print(line, markup=False, highlight=False, soft_wrap=True)

    report("starting Azurite, the bus, the host with function_app.py, and the platform services")
    with LocalStack(report) as stack:
        store, api = Documents.of_azurite(stack.blob), Client(stack.api, retries=WATCH_RETRIES)
        protocol = api.protocol(_PROTOCOL).plain()
        pending = [(document.label, partial(_submit, api, store, protocol, document)) for document in documents]
        report(f"\n{len(documents)} documents through OCR, EMBEDDING and SIS, at most {_MAX_IN_FLIGHT} at once:\n")
        with Board(screen) as board:
            ended = follow(api, board, {}, pending, _MAX_IN_FLIGHT)
        report("")
        for label, job in ended.items():
            show_result(screen, label, job, store)
            report("")
        _show_operations(report, stack, len(ended))
        report("\nstopping")
    good = sum(job["status"] == "SUCCEEDED" for job in ended.values())
    report(f"{good} of {len(documents)} jobs SUCCEEDED; {time.monotonic() - began:.0f} s in all, nothing left running")
    return Exit.OK if good == len(documents) else Exit.NOT_WELL


def _submit(api: Client, store: Documents, protocol: dict[str, Any], document: Document) -> str:
    from lucius_client.cli.envelope import envelope, payload_for

    payload = payload_for(protocol, None, document.prompt_set)
    uri = store.upload(document.path)
    return api.submit(envelope(_TENANT, protocol, uri, store.results_uri, payload, None)).job.jobId


def _show_operations(report: Callable[[str], None], stack: LocalStack, jobs: int) -> None:
    from scripts.demo.operations import bus_operations, storage_operations

    storage, bus = storage_operations(stack.data / "logs" / "azurite.log"), bus_operations(stack.admin)
    report(f"operations of {jobs} jobs, as Azurite and the bus counted them:")
    report(
        f"  Service Bus: {bus['directives']} directives, {bus['replies']} replies, {bus['lucius-hints']} messages "
        f"about events, {bus['dead letters']} dead letters"
    )
    report(
        f"  Tables: {storage['table transactions']} transactions, {storage['table writes']} single writes, "
        f"{storage['table reads']} reads, including those of this progress display"
    )
    report(f"  Blobs: {storage['blob writes']} writes, {storage['blob reads']} reads")


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
