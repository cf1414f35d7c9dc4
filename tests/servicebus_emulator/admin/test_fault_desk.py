"""`lucius faults` and the fault desk on the wire, with Microsoft's SDK."""

from __future__ import annotations

import json
import time

from azure.servicebus import ServiceBusClient, ServiceBusMessage
from typer.testing import CliRunner

from lucius_client.cli.main import app
from tests.servicebus_emulator.process import Bus

WAIT_S = 60


def faults(bus: Bus, *words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["faults", *words, "--admin", bus.admin_url])
    return done.exit_code, done.stdout, done.stderr


def test_faults_on_the_wire(own_bus: Bus) -> None:
    """Refused, slowed and disconnected messages arrive, dropped ones do not, and all are listed."""
    with ServiceBusClient.from_connection_string(own_bus.connection_string, retry_backoff_factor=0.1) as client:
        with client.get_topic_sender("t") as sender, client.get_subscription_receiver("t", "a") as receiver:
            expected = []
            for fault, ms in (("throttle", 0), ("slow", 300), ("disconnect", 0), ("duplicate", 0), ("drop", 0)):
                assert faults(own_bus, "set", fault, "--entity", "t", "--count", "1", "--ms", str(ms))[0] == 0
                began = time.monotonic()
                sender.send_messages(ServiceBusMessage(fault))
                assert fault != "slow" or time.monotonic() - began >= 0.3
                # the SDK sends messages again that it does not know to be accepted
                expected += [fault] * {"drop": 0, "duplicate": 2, "disconnect": 2}.get(fault, 1)
            assert faults(own_bus, "set", "truncate", "--entity", "t")[0] == 0
            sender.send_messages(ServiceBusMessage("first|second"))
            expected.append("first|")
            received: list[str] = []
            deadline = time.monotonic() + WAIT_S
            while len(received) < len(expected) and time.monotonic() < deadline:
                received += [str(each) for each in receiver.receive_messages(10, max_wait_time=1)]
    assert expected == received
    code, out, _ = faults(own_bus, "list")
    assert code == 0
    struck = [line.split(": ")[1].split(" ")[0] for line in out.splitlines() if line.startswith("t #")]
    assert struck == ["throttle", "slow", "disconnect", "duplicate", "drop", "truncate"]
    desk = json.loads(faults(own_bus, "list", "-o", "json")[1])
    assert [rule["struck"] for rule in desk["rules"]] == [1] * 6
    assert faults(own_bus, "seed", "42")[0] == 0
    assert json.loads(faults(own_bus, "list", "-o", "json")[1])["seed"] == 42
    assert faults(own_bus, "clear", "1")[0] == 0
    for words, named in (
        (("clear", "1"), "rule not found: 1"),
        (("set", "fire"), "fault must be one of"),
        (("set", "drop", "--percent", "0"), "percent"),
        (("list", "--admin", "http://127.0.0.1:9"), "no bus emulator responds"),
    ):
        done = CliRunner().invoke(app, ["faults", words[0], "--admin", own_bus.admin_url, *words[1:]])
        assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
        assert named in done.stderr
    assert faults(own_bus, "clear")[0] == 0
    assert json.loads(faults(own_bus, "list", "-o", "json")[1]) == {"seed": 42, "rules": [], "run": []}
