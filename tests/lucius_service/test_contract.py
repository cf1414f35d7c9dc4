"""The contract kit: it passes right services, and each wrong one is caught by exactly its check."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from lucius_client.cli.main import app
from lucius_service.contract import checks
from lucius_service.contract.bench import LONGEST_LOCK_S, Bench, Options
from lucius_service.contract.blobs import Blobs
from lucius_service.contract.replies import Json, Replies, Reply
from lucius_service.contract.report import CONTRACT_VERSION, Outcome, Report, kit_digest, verify
from servicebus_emulator.durations import parse_duration
from tests.lucius_service.blob_account import BlobAccount
from tests.lucius_service.fixtures import LANES
from tests.lucius_service.service_process import ROOT, launch
from tests.servicebus_emulator.process import Bus

NODE = Path(__file__).with_name("node_service.mjs")
FAST = {each.__name__ for each in checks.FAST}
ALL = [each.__name__ for each in (*checks.FAST, *checks.SLOW, *checks.LISTENING, *checks.STOPPED, *checks.LAST)]


@pytest.fixture
def options(quiet_bus: Bus, account: BlobAccount) -> dict[str, Any]:
    uri = account.upload("verify.txt", b"some text")
    return {
        "bus": quiet_bus.connection_string,
        "blob": account.connection,
        "sample": {"input_ref": {"uri": uri}, "payload": {"work_s": 0}},
        "cadence_s": 0.6,
        "ack_s": 20,
        "result_s": 40,
        "again_s": 40,
        "settle_s": 0.7,
    }


def settings(quiet_bus: Bus, account: BlobAccount, **more: str) -> dict[str, str]:
    return {
        "LUCIUS_SERVICEBUS_CONNECTION": quiet_bus.connection_string,
        "LUCIUS_BLOB_CONNECTION": account.connection,
        "LUCIUS_SERVICEBUS_LANES": str(LANES),
        "LUCIUS_SERVICE_HEARTBEAT_SECONDS": "0.3",
        "LUCIUS_SERVICE_WORKERS": "4",
        "NODE_SERVICE_MODULES": f"{ROOT}/",
        **more,
    }


def command(values: dict[str, str], *words: str | Path) -> str:
    """Returns a command line that sets the environment of a service and starts it."""
    return shlex.join(["env", *(f"{name}={value}" for name, value in values.items()), *map(str, words)])


def slow(options: dict[str, Any], work_s: float) -> dict[str, Any]:
    return {"slow": options["sample"] | {"payload": {"work_s": work_s}}}


def failed(report: Report) -> dict[str, str]:
    return {each.check: each.reason for each in report.checks if each.outcome == "failed"}


async def test_a_running_service_is_judged(options: dict[str, Any], quiet_probe: Bus) -> None:
    """Without slow samples and a command the other checks are made and passed; those are skipped, with the reason."""
    report = await verify(Options("PROBE", **options), "probe 1")
    made = FAST | {each.__name__ for each in (*checks.LISTENING, *checks.LAST)}
    assert {each.check for each in report.checks if each.outcome == "passed"} == made, failed(report)
    reasons = {each.check: each.reason for each in report.checks if each.outcome == "skipped"}
    assert set(reasons) == set(ALL) - made
    assert "--slow" in reasons["heartbeats"]
    assert "--command" in reasons["killed"]


@pytest.mark.long
@pytest.mark.parametrize("by", ["bus", "http"])
async def test_a_service_on_the_kit_is_right(
    by: str, options: dict[str, Any], quiet_bus: Bus, account: BlobAccount, health_port: int
) -> None:
    """Every check is made, and passed, whichever way the replies take."""
    # its own step type: the probe of other tests must not take the directives
    words = (sys.executable, "-m", "tests.lucius_service.killed_service", "none")
    started = command(settings(quiet_bus, account, LUCIUS_SERVICE_REPLIES=by), *words)
    options |= {"callback": f"http://127.0.0.1:{health_port}"} if by == "http" else {}
    report = await verify(Options("KILLED", **options, **slow(options, 1.6), command=started), "probe 1")
    assert {each.check: (each.outcome, each.reason) for each in report.checks} == dict.fromkeys(ALL, ("passed", ""))


@pytest.mark.long
@pytest.mark.parametrize("fault", ALL)
async def test_a_wrong_service_on_the_kit_is_caught(
    fault: str, options: dict[str, Any], quiet_bus: Bus, account: BlobAccount
) -> None:
    """A kit that breaks a rule is caught by the check of that rule alone."""
    words = (sys.executable, "-m", "tests.lucius_service.wrong_service", fault)
    started = command(settings(quiet_bus, account), *words)
    report = await verify(Options("WRONG", **options, **slow(options, 1.6), command=started), "wrong 1")
    assert list(failed(report)) == [fault], failed(report)


@pytest.mark.parametrize("faults", [["identity", "final_result"], ["lanes", "heartbeats_end", "stray_blobs"]])
async def test_a_wrong_service_is_caught_in_little_time(
    faults: list[str], options: dict[str, Any], quiet_bus: Bus, account: BlobAccount, tmp_path: Path
) -> None:
    """The same for some of them, without slow work and restarts.

    It starts a service, and a wrong heartbeat comes a second after its RESULT.
    """
    words = ("-m", "tests.lucius_service.wrong_service", *faults)
    service = launch(words, tmp_path / "wrong.log", settings(quiet_bus, account))
    # without slow work the interval between heartbeats is not measured: `cadence_s` bounds it
    options |= {"cadence_s": 8.0} if "heartbeats_end" in faults else {}
    try:
        service.wait_ready("wrong")
        report = await verify(Options("WRONG", **options), "wrong 1")
    finally:
        service.close()
    assert sorted(failed(report)) == sorted(faults), failed(report)


@pytest.mark.long
@pytest.mark.parametrize("fault", ["", *ALL])
async def test_services_in_node(fault: str, options: dict[str, Any], quiet_bus: Bus, account: BlobAccount) -> None:
    """A service without the kit is right; one that breaks a rule is caught by the check of that rule alone."""
    started = command(settings(quiet_bus, account, FAULT=fault), "node", NODE)
    report = await verify(Options("NODE", **options, **slow(options, 1.6), command=started), "node 1")
    assert list(failed(report)) == ([fault] if fault else []), failed(report)
    skipped = [each.check for each in report.checks if each.outcome == "skipped"]
    # an ACK at the end of the work leaves no work to kill
    assert skipped == (["killed"] if fault == "acknowledges" else [])


REPORT = Report(
    *("words 1.2", "WORDS", CONTRACT_VERSION, "0.1.0", kit_digest()),
    [
        Outcome("identity", "passed", "", 0.1),
        Outcome("trace", "failed", "ACK: no <id>", 1),
        Outcome("killed", "skipped", "-", 0),
    ],
)


def test_a_report_has_three_forms() -> None:
    """Each names service, contract, kit and its digest, and every check with its reason."""
    assert REPORT.table().splitlines()[0] == (
        f"words 1.2 (WORDS), contract {CONTRACT_VERSION}, by lucius-service 0.1.0, checks {kit_digest()[:19]}"
    )
    assert REPORT.table().splitlines()[-1] == "1 passed, 1 failed, 1 skipped"
    assert json.loads(REPORT.json())["kit_digest"] == kit_digest()
    suite = ElementTree.fromstring(REPORT.junit())
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    assert [each.get("message") for each in suite.iter("failure")] == ["ACK: no <id>"]


def test_the_contract_has_the_major_version_of_its_document() -> None:
    """docs/asyncapi.json describes the messages."""
    document = json.loads((ROOT / "docs" / "asyncapi.json").read_text())
    assert document["info"]["version"] == f"API v{CONTRACT_VERSION.partition('.')[0]}"


class Deaf(Bench):
    """The bus of LUCIUS, to a service that acknowledges and sends nothing after that."""

    def __init__(self, again_s: float) -> None:
        super().__init__(Options("PROBE", "bus", "blob", {}, again_s=again_s))
        self.waited: list[float] = []

    def directive(self, **_: Any) -> Json:
        return {"jobId": "j"}

    async def send(self, directive: Json | bytes, message_id: str = "") -> None: ...

    async def reply(
        self, directive: Json, kind: str, *, attempt: int | None = None, within_s: float = 0
    ) -> Reply | None:
        self.waited.append(within_s)
        return Reply({}, 0.0) if kind == "ACK" else None


async def test_a_message_comes_again_when_its_lock_ends() -> None:
    """`killed` waits longer than any lock; if an option shortens the wait, a failure names that as a possible cause."""
    for again_s, hinted in ((Options("X", "", "", {}).again_s, False), (120.0, True)):
        bench = Deaf(again_s)
        with pytest.raises(checks.Wrong) as wrong:
            await checks.killed(bench)
        assert bench.waited == [0, again_s]
        assert ("--wait" in str(wrong.value)) is hinted
    topology = json.loads((ROOT / "infra" / "bicep" / "topology.json").read_text())
    lock_ms = parse_duration(topology["directives"]["lockDuration"])
    assert lock_ms is not None
    assert lock_ms / 1000 <= LONGEST_LOCK_S < Options("X", "", "", {}).again_s


class Fixed(Bench):
    """LUCIUS with given replies of a service, on lane 3 and a second one."""

    def __init__(
        self, *replies: tuple[str, float, int | None], other_lane: int | None = 4, settled: bool = False
    ) -> None:
        options = Options("PROBE", "bus", "blob", {}, lane=3, ack_s=0.1, result_s=0.1, cadence_s=30, settle_s=2)
        super().__init__(options)
        self.other, self.settled = other_lane, settled
        now = time.monotonic()
        self.replies += [
            Reply({"type": kind, "jobId": "j", "attempt_no": 1, "status": "SUCCEEDED"}, now - ago_s, lane)
            for kind, ago_s, lane in replies
        ]
        #: whether the condition held at once, of each wait
        self.at_once: list[bool] = []

    @property
    def other_lane(self) -> int | None:
        return self.other

    def directive(self, *, slow: bool = False, **changes: Any) -> Json:
        return {"jobId": "j", "attempt_no": 1, **changes}

    async def send(
        self, directive: Json | bytes, message_id: str = "", time_to_live_s: float | None = None
    ) -> None: ...

    async def is_settled(self, directive: Json, within_s: float) -> bool:
        return self.settled

    def of_attempts(self) -> list[list[Reply]]:
        return [self.replies]

    async def until(self, condition: Callable[[], bool], within_s: float) -> bool:
        self.at_once.append(condition())
        return self.at_once[-1]


@pytest.mark.parametrize(
    ("bench", "outcome", "reason"),
    [
        (Fixed(("ACK", 2, 4), ("RESULT", 1, 4)), None, ""),
        (Fixed(("ACK", 2, None), ("RESULT", 1, None)), None, ""),
        (Fixed(("ACK", 2, 4), ("RESULT", 1, 3)), checks.Wrong, "RESULT of a directive on lane 4 came on lane 3"),
        (Fixed(settled=True), checks.Wrong, "no reply came on lane 4 or 3"),
        (Fixed(), checks.Skipped, "does not receive on lane 4"),
        (Fixed(other_lane=None), checks.Skipped, "the bus has no lane next to 3"),
    ],
)
async def test_replies_come_on_their_lane(bench: Fixed, outcome: type[Exception] | None, reason: str) -> None:
    """Or over HTTP. A service that does not receive on a second lane is not put to the test."""
    with pytest.raises(outcome, match=reason) if outcome else nullcontext():
        await checks.lanes(bench)


def test_replies_have_the_order_of_the_bus() -> None:
    """A message that the SDK gave back arrives after later ones, or twice. Replies over HTTP have no number."""
    replies = Replies()
    for kind, lane, number in (
        *(("ACK", 0, 1), ("RESULT", 0, 4), ("ACK", 1, 2), ("HTTP", None, 0), ("HEARTBEAT", 0, 3), ("HEARTBEAT", 0, 2)),
        *(("RESULT", 0, 4), ("HTTP", None, 0), ("HEARTBEAT", 0, 5)),
    ):
        replies.take(json.dumps({"type": kind, "jobId": "j"}).encode(), lane, number)
    replies.take(b"[]", 0, 9)
    replies.take(b"no JSON", 0, 9)
    assert [each.number for each in replies if each.lane == 0] == [1, 2, 3, 4, 5]
    assert [each.body["type"] for each in replies] == [
        *("ACK", "HEARTBEAT", "HEARTBEAT", "RESULT", "ACK", "HTTP", "HTTP", "HEARTBEAT"),
    ]


BEATS = (("ACK", 60, 3), ("HEARTBEAT", 50, 3), ("HEARTBEAT", 45, 3))


@pytest.mark.parametrize(
    ("replies", "outcome", "at_once"),
    [
        # every 5 s: 9.5 s of silence are enough
        ((*BEATS, ("RESULT", 10, 3)), None, True),
        ((*BEATS, ("RESULT", 3, 3)), None, False),
        ((*BEATS, ("RESULT", 40, 3), ("HEARTBEAT", 35, 3)), checks.Wrong, True),
        # its message was delivered again
        ((*BEATS, ("RESULT", 40, 3), ("ACK", 36, 3), ("HEARTBEAT", 35, 3), ("RESULT", 34, 3)), None, True),
        # no interval was measured: the cadence of 30 s bounds it
        ((("ACK", 40, 3), ("RESULT", 20, 3)), None, False),
        ((("ACK", 40, 3), ("RESULT", 33, 3)), None, True),
        ((), checks.Skipped, None),
    ],
)
async def test_heartbeats_end_with_the_result(
    replies: tuple[tuple[str, float, int]], outcome: type[Exception] | None, at_once: bool | None
) -> None:
    """The wait depends on the service's own interval, and includes the time that has passed."""
    bench = Fixed(*replies)
    with pytest.raises(outcome) if outcome else nullcontext():
        await checks.heartbeats_end(bench)
    assert bench.at_once == ([] if at_once is None else [at_once])


async def test_stray_blobs_are_looked_for_everywhere(
    options: dict[str, Any], quiet_bus: Bus, account: BlobAccount
) -> None:
    """The check searches each container, also beside an older blob of the same second, and reports a missing right."""
    async with Bench(Options("PROBE", **options)) as bench:
        await bench.look_around()
        await checks.stray_blobs(bench)
        account.write(account.uri("stray", bench.run_id), b"x")
        with pytest.raises(checks.Wrong, match=f"stray/{bench.run_id} was written"):
            await checks.stray_blobs(bench)
    limited = options | {"blob": account.limited("workspace", "rwlc")}
    blobs = Blobs(limited["blob"])
    assert not blobs.lists_containers
    blobs.close()


def run(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["service", "verify", "--step-type", "PROBE", *words])
    return done.exit_code, done.stdout, done.stderr


def test_what_is_not_there_is_one_line(tmp_path: Path, quiet_bus: Bus, account: BlobAccount) -> None:
    """A bus, an account, a subscription or a sample that is missing: the exit code is 2, and one line names it."""
    sample = tmp_path / "sample.json"
    sample.write_text('{"input_ref": {"uri": "x"}}')
    (tmp_path / "wrong.json").write_text("[]")
    bus, blob = ("--bus", quiet_bus.connection_string), ("--blob", account.connection)
    gone = "Endpoint=sb://127.0.0.1:9;SharedAccessKeyName=n;SharedAccessKey=k;UseDevelopmentEmulator=true;"
    for words, named in (
        (("--bus", gone, *blob, "--sample", str(sample)), "cannot use the topics and subscriptions of --bus"),
        (("--bus", "nonsense-s3cret", *blob, "--sample", str(sample)), "cannot use the topics and subscriptions"),
        ((*bus, "--blob", "nonsense-s3cret", "--sample", str(sample)), "cannot use the blob account of --blob"),
        (
            (*bus, *blob, "--sample", str(sample), "--subscription", "missing"),
            "check --bus and --subscription",
        ),
        ((*bus, *blob, "--sample", str(tmp_path / "missing.json")), "missing.json"),
        ((*bus, *blob, "--sample", str(tmp_path / "wrong.json")), "must be a JSON object"),
        ((*bus, *blob, "--sample", str(sample), "-o", "xml"), "must be table, json or junit"),
    ):
        code, out, err = run(*words)
        assert (code, out, len(err.splitlines())) == (2, "", 1), err
        assert named in err
        assert "s3cret" not in err
