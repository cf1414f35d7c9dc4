"""`lucius status`: one screen, its exit code, and the operator's drill."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from lucius_client.cli.status import MAX_SHOWN
from shared.access.caller import ANYONE
from tests.lucius_client.cli.command import run_main
from tests.lucius_client.stub_api import CannedResponse, serving
from tests.operations.conftest import World, world
from tests.operations.support import create_numbered, dispatch, service_sends, swept
from tests.triggers.test_dashboard import a_minute_of_two_tenants, answer_of

__all__ = ["world"]  # a fixture of the operations' tests


def shown(found: Any, *words: str, columns: int | None = None) -> tuple[int, str]:
    """The exit code and the output of `lucius status` for this response of the API; `columns`: in a terminal."""
    environment = {"COLUMNS": str(columns), "TERM": "xterm"} if columns is not None else {}
    with serving(CannedResponse(body=found)) as api:
        ran = run_main("status", *words, api=api.url, terminal=columns is not None, NO_COLOR="1", **environment)
    assert not ran.stderr
    # bold stays where colours are off
    return ran.returncode, re.sub(r"\x1b\[\d*m", "", ran.stdout)


async def test_a_stopped_service(world: World) -> None:
    """The text has the service, the start of its stop, the number of waiting directives, the effect and the command."""
    answering, *others = [(await create_numbered(world, number)).stored.record.job.job_id for number in range(4)]
    await dispatch(world, answering)
    await service_sends(world, answering, "ACK", 1)
    for job_id in others:
        await dispatch(world, job_id)
        world.lanes.waiting_directives.append((f"{job_id}:ocr:1", world.clock.now()))
    world.clock.advance(120)
    await swept(world)
    code, early = shown((await answer_of(world, ANYONE))[1])
    assert (code, early.splitlines()[0]) == (
        1,
        "WARNING  ocr: a directive has waited 2 minutes for its ACK, 3 directives wait.",
    )
    # the note may be a minute older than the last reply
    world.clock.advance(240)
    await swept(world)

    code, screen = shown((await answer_of(world, ANYONE))[1])

    assert code == 1
    assert screen.splitlines()[:4] == [
        "CRITICAL  ocr: no reply for 6 minutes, 3 directives wait.",
        "  Jobs of the service wait until the service replies, or fail at their time limit.",
        "  since 2026-01-27T10:00:00Z",
        "  $ lucius job list --status QUEUED,IN_PROGRESS",
    ]
    # the incident of the silence adds nothing
    assert screen.count("$ lucius") == 1

    world.clock.advance(60)
    for number, job_id in enumerate(others, start=2):
        await service_sends(world, job_id, "ACK", number)
    await swept(world)
    code, screen = shown((await answer_of(world, ANYONE))[1])
    assert (code, screen.splitlines()[0]) == (0, "OK  All good. 4 jobs in progress, waiting or paused.")
    # the counts of all tenants are those of the last sweep
    assert re.search(r"(?m)^Jobs .* \w+, \d+s ago$", screen)


@pytest.mark.parametrize("columns", [80, 40])
async def test_a_terminal_of_any_width(world: World, columns: int) -> None:
    """No line except a command is longer than the terminal; a pipe gets the same words."""
    await a_minute_of_two_tenants(world)
    _, found = await answer_of(world, ANYONE)
    found["problems"] = found["problems"][:MAX_SHOWN]  # a terminal shows no more

    code, screen = shown(found, columns=columns)
    _, piped = shown(found)

    assert code == 1
    assert [line for line in screen.splitlines() if len(line) > columns and "$ lucius" not in line] == []
    above = screen.partition("\nservice")[0]
    assert above.split() == piped.partition("\nservice")[0].split()


async def test_a_terminal_shows_four_problems(world: World) -> None:
    """It names the command that shows the others."""
    await a_minute_of_two_tenants(world)
    _, found = await answer_of(world, ANYONE)
    found["problems"] = [found["problems"][0]] * (MAX_SHOWN + 2)
    _, screen = shown(found, columns=80)
    assert screen.count(found["problems"][0]["sentence"][:30]) == MAX_SHOWN
    assert "\n... and 2 more; `lucius status | cat` shows up to 20" in screen


async def test_programs_get_the_response(world: World) -> None:
    await a_minute_of_two_tenants(world)
    _, found = await answer_of(world, ANYONE)
    code, document = shown(found, "-o", "json")
    assert (code, json.loads(document)["problems"]) == (1, found["problems"])
    assert shown(found, "-o", "ids") == (1, "warning\n")


async def test_hostile_text_stays_on_its_line(world: World) -> None:
    await a_minute_of_two_tenants(world)
    _, found = await answer_of(world, ANYONE)
    found["problems"][0] |= {"sentence": "a\nCRITICAL b\x1b[31m", "command": "lucius quota show\nrm -r \u202e"}
    _, screen = shown(found)
    assert screen.splitlines()[0] == r"WARNING  a\nCRITICAL b\x1b[31m"
    assert r"  $ lucius quota show\nrm -r \u202e" in screen.splitlines()
