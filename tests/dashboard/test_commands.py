"""The `lucius` commands that the page shows and copies: each is one that the CLI accepts."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from lucius_client.cli.main import app
from shared.dashboard_assets import FOLDER, dashboard
from tests.api.live import Live
from tests.dashboard.screen import Screens

JOB = f"job_{'0' * 32}"
FILTER = {"status": "QUEUED,THROTTLED", "request_type": "OCR", "label": "batch:one", "since": "2026-01-27T10:00:00Z"}
KEYS = {"until": "2026-01-28T10:00:00Z", "idempotency_key": "it's a key", "correlation_id": "corr-1"}
BODY = {"tenant_id": "acme", "labels": {"note": "it's \n one"}}
#: arguments of each function of `parts/commands.js`
ARGUMENTS: dict[str, list[list[object]]] = {
    "status": [["acme"], [""]],
    "jobs": [["acme", {**FILTER, **KEYS}], ["", {}]],
    "job": [[JOB, 3], [JOB, None]],
    "audit": [[JOB]],
    "runLog": [[JOB]],
    "submit": [[BODY], [{"tenant_id": ""}]],
    "quotas": [["*"], [""]],
    "quota": [[{"gate": "id", "name": "service:ocr"}], [{"gate": "id", "tenant": "a b", "type": "OCR", "source": "s"}]],
    "incidents": [["acme"]],
    "incident": [["inc_job_bf466207"]],
    "deadletters": [["acme"]],
    "rejected": [["acme"]],
    "webhooks": [["acme"]],
}
#: a command that a view shows
_SHOWN = re.compile(r"<(?:code|pre)[^>]*>(lucius [^<]+)<")


def accepted(text: str) -> set[str]:
    """Passes each `lucius` of a pipe to the CLI, and runs nothing. Returns the values of its options and arguments.

    Raises the CLI's error for wrong usage.
    """
    words, values = shlex.split(text), set()
    while words:
        program, *arguments = list(itertools.takewhile(lambda word: word != "|", words))
        words = words[len(arguments) + 2 :]
        if program != "lucius":
            continue
        command: Any = typer.main.get_command(app)
        while (commands := getattr(command, "commands", None)) is not None:
            command = commands[arguments.pop(0)]
        assert not command.hidden, text
        with command.make_context(program, arguments) as context:
            values |= {str(value) for value in context.params.values()}
    return values


def given_values(arguments: list[Any]) -> Iterator[str]:
    """Yields the values that a command must name: all except the id by which the page itself names a quota."""
    for each in arguments:
        yield from (
            (str(value) for name, value in each.items() if name != "gate") if isinstance(each, dict) else [str(each)]
        )


def test_shown_commands_are_accepted() -> None:
    shown = [text for path in FOLDER.rglob("views/*.js") for text in _SHOWN.findall(path.read_text())]
    assert shown
    for text in shown:
        accepted(text)


@pytest.mark.needs("browser")
def test_copied_commands_are_accepted(screens: Screens, api: Live) -> None:
    """Each function of `commands.js` makes a command that has every value that it was given."""
    module = next(name for name in dashboard().assets if name.startswith("parts-commands-"))
    made: dict[str, list[str]] = screens.open(token="").evaluate(
        """async ([url, given]) => Object.fromEntries(Object.entries(await import(url)).map(
            ([name, build]) => [name, given[name].map((values) => build(...values))]))""",
        [f"{api.stack.api}/v1/dashboard/assets/{module}", ARGUMENTS],
    )
    assert made.keys() == ARGUMENTS.keys()
    for name, texts in made.items():
        for given, text in zip(ARGUMENTS[name], texts, strict=True):
            values = accepted(text)
            if name != "submit":
                assert {value for value in given_values(given) if value not in ("", "None")} <= values, text
    assert json.loads(shlex.split(made["submit"][0])[2]) == BODY
