"""`lucius audit verify`, with the histories and the tamperings of the app's own verification."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from lucius_client.cli.audit import verify
from shared.api.audit import bundle
from shared.core.canonical import jcs_digest
from shared.core.jobs.history import event_hash
from tests.lucius_client.cli.command import run_main
from tests.operations.conftest import World, world
from tests.operations.support import TALES, TAMPERINGS, MakeJob, eventful, failed_at_embedding, history, leaves

__all__ = ["world"]  # a fixture of the operations' tests


async def written(world: World, tale: MakeJob) -> str:
    record, events = await history(world, await tale(world))
    return json.dumps(bundle(record, events, world.clock.now()))


def chained(document: dict) -> dict:  # type: ignore[type-arg]
    """The document with every hash and digest computed again."""
    previous = ""
    for event in document["events"]:
        event["prev_hash"] = previous
        event["hash"] = previous = event_hash(event | {"at": datetime.fromisoformat(event["at"])})
    document["job"]["event_hash"] = previous
    return with_digest(document)


def with_digest(document: dict) -> dict:  # type: ignore[type-arg]
    rest = {name: value for name, value in document.items() if name != "digest"}
    return {**rest, "digest": f"sha256:{jcs_digest(rest)}"}


@TALES
async def test_what_the_app_wrote_is_proved(world: World, tale: MakeJob) -> None:
    """A bundle of each history is proved; a head that was noted elsewhere is compared."""
    document = json.loads(await written(world, tale))
    assert verify(document) == []
    assert verify(document, head=document["job"]["event_hash"]) == []
    assert verify(document, head="another") == ["the head is not the one that was noted"]


@pytest.mark.parametrize("tampering", TAMPERINGS)
async def test_every_tampering_is_found(world: World, tampering: str) -> None:
    """Each tampering is found with the old digest and with a corrected one."""
    document = json.loads(await written(world, eventful))
    TAMPERINGS[tampering](document)
    assert "the digest is not that of the content" in verify(document)
    assert verify(with_digest(document)) not in ([], ["the digest is not that of the content"])


async def test_every_value_counts(world: World) -> None:
    """Each changed value is found, although the digest is corrected."""
    text = await written(world, eventful)
    free = {"taken_at", "digest", "updated_at", "suppressed"}
    paths = [path for path in leaves(json.loads(text)) if not free & set(path)]
    assert len(paths) > 100
    for number, path in enumerate(paths):
        document = json.loads(text)
        place = document
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = ["tampered", 1e300, {"x": [None]}][number % 3]
        assert verify(with_digest(document)), path


@TALES
async def test_a_step_that_was_slipped_in_is_found(world: World, tale: MakeJob) -> None:
    """A forged copy before or behind the real one, or another order, is not proved, whatever the digest."""
    document = json.loads(await written(world, tale))
    forged = {**document["steps"][0], "result_ref": {"uri": "https://evil.example/x"}, "status": "SUCCEEDED"}
    steps = document["steps"]
    for given in ([forged, *steps], [*steps, forged], [*steps[1:], steps[0], forged]):
        assert verify(with_digest({**document, "steps": given})) == ["a step is missing, repeated or out of order"]


async def test_a_member_that_stands_twice_is_refused(world: World, tmp_path: Path) -> None:
    """Readers differ in which of the two they show."""
    file = tmp_path / "bundle.json"
    file.write_text((await written(world, eventful)).replace('"job": {', '"job": {"status": "FAILED_FINAL", ', 1))
    assert run_main("audit", "verify", str(file)).returncode == 2


async def test_a_column_of_a_later_release_changes_nothing(world: World) -> None:
    """A column that an event set and another set back is proved, though this verifier does not know it."""
    document = json.loads(await written(world, failed_at_embedding))
    changes = document["events"][1]["data"]["changes"]["steps"]["ocr"]
    changes["colour"] = "red"
    document["events"][2]["data"]["changes"]["steps"]["ocr"]["colour"] = None
    assert verify(chained(document)) == []
    del document["events"][2]["data"]["changes"]["steps"]["ocr"]["colour"]
    assert verify(chained(document)) == ["the rows are not what the events made of them"]


@pytest.mark.parametrize(
    "document", [None, [], {}, {"format": "lucius-audit/3"}, {"format": "lucius-audit/2"}, {"format": "lucius-audit/1"}]
)
def test_anything_else_is_not_proved(document: object) -> None:
    """A value that is not a bundle has faults and raises no exception."""
    assert verify(document)


async def test_the_command_has_an_exit_code_for_each_verdict(world: World, tmp_path: Path) -> None:
    """0: proved, 1: not proved, 2: not JSON; --json prints the verdict."""
    file = tmp_path / "bundle.json"
    file.write_text(await written(world, eventful))
    proved = run_main("audit", "verify", str(file))
    assert (proved.returncode, proved.stdout.split()[0]) == (0, "proved:")
    file.write_text(file.read_text().replace("SUCCEEDED", "CANCELLED"))
    refused = run_main("audit", "verify", str(file), "--json")
    assert refused.returncode == 1
    assert json.loads(refused.stdout)["proved"] is False
    file.write_text("{")
    assert run_main("audit", "verify", str(file)).returncode == 2
