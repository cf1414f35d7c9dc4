"""`lucius audit verify`: a second implementation, held to the first one's tales and tamperings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lucius_client.cli.audit_bundle import verify
from shared.core.canonical import canonical_json, digest
from shared.views.audit import bundle
from tests.lucius_client.cli.lucius import lucius_here
from tests.operations.conftest import World, world
from tests.operations.support import TALES, TAMPERINGS, MakeJob, eventful, history, leaves

__all__ = ["world"]  # a fixture of the operations' tests


async def written(world: World, tale: MakeJob) -> str:
    record, events = await history(world, await tale(world))
    return json.dumps(bundle(record, events, world.clock.now()))


def redigested(given: dict) -> dict:  # type: ignore[type-arg]
    rest = {name: value for name, value in given.items() if name != "digest"}
    return {**rest, "digest": "sha256:" + digest(canonical_json(rest))}


@TALES
async def test_what_the_app_wrote_is_proved(world: World, tale: MakeJob) -> None:
    """Without a line of the app's code."""
    given = json.loads(await written(world, tale))
    assert verify(given) == []
    assert verify(given, head=given["job"]["event_hash"]) == []
    assert verify(given, head="another") == ["the head is not the one that was noted"]


@pytest.mark.parametrize("tampering", TAMPERINGS)
async def test_every_tampering_is_found(world: World, tampering: str) -> None:
    """With the old digest, and with one made anew."""
    given = json.loads(await written(world, eventful))
    TAMPERINGS[tampering](given)
    assert "the digest is not that of the content" in verify(given)
    assert verify(redigested(given)) not in ([], ["the digest is not that of the content"])


async def test_every_value_counts(world: World) -> None:
    """Any one value changed, anywhere, and the digest made anew: found."""
    text = await written(world, eventful)
    free = {"taken_at", "digest", "updated_at", "suppressed"}
    paths = [path for path in leaves(json.loads(text)) if not free & set(path)]
    assert len(paths) > 100
    for number, path in enumerate(paths):
        given = json.loads(text)
        place = given
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = ["tampered", 1e300, {"x": [None]}][number % 3]
        assert verify(redigested(given)), path


@pytest.mark.parametrize("given", [None, [], {}, {"format": "lucius-audit/2"}, {"format": "lucius-audit/1"}])
def test_what_is_no_bundle_is_said_so(given: object) -> None:
    """Anything at all gets an answer and no exception."""
    assert verify(given)


async def test_the_command_tells_by_its_exit_code(world: World, tmp_path: Path) -> None:
    """0 proved, 1 not, 2 no JSON; --json for programs."""
    file = tmp_path / "bundle.json"
    file.write_text(await written(world, eventful))
    proved = lucius_here("audit", "verify", str(file))
    assert (proved.returncode, proved.stdout.split()[0]) == (0, "proved:")
    file.write_text(file.read_text().replace("SUCCEEDED", "CANCELLED"))
    told = lucius_here("audit", "verify", str(file), "--json")
    assert told.returncode == 1
    assert json.loads(told.stdout)["proved"] is False
    file.write_text("{")
    assert lucius_here("audit", "verify", str(file)).returncode == 2
