"""The program: options, transports, tokens, the clock, its start and its end."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pytest
from azure.core.credentials import AzureSasCredential
from azure.servicebus import ServiceBusClient, ServiceBusMessage, TransportType
from azure.servicebus.aio import ServiceBusClient as AioClient
from azure.servicebus.exceptions import ServiceBusAuthenticationError, ServiceBusQuotaExceededError

from emulator.up.ports import find_free
from servicebus_emulator.broker.errors import Unauthorized
from servicebus_emulator.sas import SasKey, check_token
from tests.servicebus_emulator.process import ROOT, Bus, fails, start_bus
from tests.waiting import wait_until

WAIT_S = 60


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bus, Path]]:
    """A bus with TLS and a SAS key."""
    data = tmp_path_factory.mktemp("secured")
    bus = start_bus("--queue", "q", "--tls", "--data", data, "--ws-port", "0", "--sas-key", "Owner=c2VjcmV0==")
    yield bus, data / "bus-certificate.pem"
    assert bus.stop() == 0


def secured_string(bus: Bus, key: str = "c2VjcmV0==", *, emulator: bool = True) -> str:
    text = bus.connection_string.replace("RootManageSharedAccessKey", "Owner").replace("SAS_KEY_VALUE", key)
    return text if emulator else text.replace("UseDevelopmentEmulator=true;", "")


def test_tls_with_a_checked_token(secured: tuple[Bus, Path]) -> None:
    """Without the emulator flag the SDK speaks TLS and verifies the certificate; its key is accepted."""
    bus, certificate = secured
    with ServiceBusClient.from_connection_string(
        secured_string(bus, emulator=False),
        custom_endpoint_address=f"sb://127.0.0.1:{bus.port}",
        transport_type=TransportType.Amqp,
        connection_verify=str(certificate),
    ) as client:
        with client.get_queue_sender("q") as sender, client.get_queue_receiver("q") as receiver:
            sender.send_messages(ServiceBusMessage(bytes(100_000)))
            [message] = receiver.receive_messages(max_wait_time=WAIT_S)
            receiver.complete_message(message)
    assert len(b"".join(message.body)) == 100_000


async def test_websockets(secured: tuple[Bus, Path]) -> None:
    """The asynchronous SDK sends and receives by AMQP over WebSockets, on a separate port without TLS."""
    bus, _ = secured
    async with AioClient.from_connection_string(
        secured_string(bus),
        transport_type=TransportType.AmqpOverWebsocket,
        custom_endpoint_address=f"ws://127.0.0.1:{bus.ws_port}",
    ) as client:
        async with client.get_queue_sender("q") as sender, client.get_queue_receiver("q") as receiver:
            await sender.send_messages(ServiceBusMessage(bytes(100_000)))
            [message] = await receiver.receive_messages(max_wait_time=WAIT_S)
            await receiver.complete_message(message)
    assert len(b"".join(message.body)) == 100_000


def test_websockets_of_the_synchronous_sdk(secured: tuple[Bus, Path]) -> None:
    """The synchronous SDK sends and receives by AMQP over WebSockets with TLS, on the admin port."""
    bus, certificate = secured
    with ServiceBusClient.from_connection_string(
        secured_string(bus, emulator=False),
        transport_type=TransportType.AmqpOverWebsocket,
        custom_endpoint_address=f"sb://127.0.0.1:{bus.admin_port}",
        connection_verify=str(certificate),
    ) as client:
        with client.get_queue_sender("q") as sender, client.get_queue_receiver("q") as receiver:
            sender.send_messages(ServiceBusMessage(bytes(100_000)))
            [message] = receiver.receive_messages(max_wait_time=WAIT_S)
            receiver.complete_message(message)
    assert len(b"".join(message.body)) == 100_000


def test_wrong_and_expired_tokens_are_refused(secured: tuple[Bus, Path]) -> None:
    """A wrong key, an expired token and an entity without a token are refused as Azure refuses them."""
    bus, _ = secured
    with ServiceBusClient.from_connection_string(secured_string(bus, "wrong"), retry_total=0) as client:
        with pytest.raises(ServiceBusAuthenticationError), client.get_queue_sender("q") as sender:
            sender.send_messages(ServiceBusMessage("x"))
    expired = "SharedAccessSignature sr=sb%3A%2F%2F127.0.0.1&sig=AAAA&se=1000000000&skn=Owner"
    with ServiceBusClient(f"127.0.0.1:{bus.port}", AzureSasCredential(expired), retry_total=0, use_tls=False) as client:
        with pytest.raises(ServiceBusAuthenticationError), client.get_queue_sender("q") as sender:
            sender.send_messages(ServiceBusMessage("x"))
    request = urllib.request.Request(f"{bus.admin_url}/q?api-version=2021-05", headers={"Authorization": expired})
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(request)


@pytest.mark.parametrize("until", ["inf", "nan", "x", ""])
def test_a_token_without_a_time_is_refused(until: str) -> None:
    """Also with a valid signature."""
    key = SasKey("Owner", "secret")
    signature = base64.b64encode(hmac.new(b"secret", f"q\n{until}".encode(), hashlib.sha256).digest()).decode()
    with pytest.raises(Unauthorized, match="se is not a number"):
        check_token(f"SharedAccessSignature sr=q&sig={quote(signature, safe='')}&se={until}&skn=Owner", key, 0)


def test_the_clock_can_be_advanced(own_bus: Bus) -> None:
    """Schedules, expiries and locks follow the clock in order."""
    with ServiceBusClient.from_connection_string(own_bus.connection_string) as client:
        with client.get_queue_sender("q") as sender:
            sender.schedule_messages(ServiceBusMessage("later"), datetime.now(UTC) + timedelta(hours=1))
            sender.send_messages(ServiceBusMessage("short", time_to_live=timedelta(minutes=30)))
            own_bus.post("/clock/advance", {"seconds": 1700})
            assert own_bus.get("/entities")["q"]["active"] == 1
            own_bus.post("/clock/advance", {"seconds": 2000})
        with client.get_queue_receiver("q") as receiver:
            [message] = receiver.receive_messages(max_wait_time=WAIT_S)
            assert str(message) == "later"
            own_bus.post("/clock/advance", {"seconds": 60})
            [message] = receiver.receive_messages(max_wait_time=WAIT_S)
            assert message.delivery_count == 1


def test_a_full_entity_refuses_until_it_is_read(own_bus: Bus) -> None:
    """The sender of a full entity gets the quota error; once messages are received, it can send again."""
    with ServiceBusClient.from_connection_string(own_bus.connection_string, retry_total=0) as client:
        with client.get_queue_sender("q") as sender, client.get_queue_receiver("q") as receiver:
            sender.send_messages(ServiceBusMessage(bytes(90_000)))
            with pytest.raises(ServiceBusQuotaExceededError, match="maximum entity size"):
                sender.send_messages(ServiceBusMessage(bytes(20_000)))
            with pytest.raises(ServiceBusQuotaExceededError):
                sender.send_messages([ServiceBusMessage(bytes(6_000)), ServiceBusMessage(bytes(6_000))])
            assert own_bus.get("/entities")["q"]["active"] == 1
            [message] = receiver.receive_messages(max_wait_time=WAIT_S)
            receiver.complete_message(message)
            # the SDK does not wait until the bus has read that
            wait_until(lambda: own_bus.get("/entities")["q"]["active"] == 0, "the message is not completed")
            sender.send_messages(ServiceBusMessage(bytes(20_000)))


def test_messages_above_the_standard_size() -> None:
    """The limit can be raised to that of Premium."""
    bus = start_bus("--queue", "q", "--max-message-bytes", str(100 * 1024 * 1024))
    try:
        body = bytes(range(256)) * 12_000
        with ServiceBusClient.from_connection_string(bus.connection_string) as client:
            with client.get_queue_sender("q") as sender, client.get_queue_receiver("q") as receiver:
                sender.send_messages(ServiceBusMessage(body))
                [message] = receiver.receive_messages(max_wait_time=WAIT_S)
                receiver.complete_message(message)
        assert b"".join(message.body) == body
    finally:
        assert bus.stop() == 0


def test_clients_that_misbehave_harm_nobody(own_bus: Bus) -> None:
    """Half-open, silent and invalid connections do not disturb another client."""
    address = ("127.0.0.1", own_bus.port)
    wild = [socket.create_connection(address) for _ in range(5)]
    try:
        wild[0].sendall(b"AMQP\x03\x01")
        wild[1].sendall(b"\xff" * 5000)
        wild[2].sendall(b"AMQP\x03\x01\x00\x00" + b"\xff\xff\xff\xff\x02\x01\x00\x00")
        wild[3].close()
        with ServiceBusClient.from_connection_string(own_bus.connection_string) as client:
            with client.get_queue_sender("q") as sender:
                sender.send_messages(ServiceBusMessage("x"))
        assert own_bus.get("/entities")["q"]["active"] == 1
        wild[1].settimeout(WAIT_S)
        while wild[1].recv(1000):
            pass  # until the broker closes
    except ConnectionResetError:
        pass  # closed as well, with bytes unread
    finally:
        for connection in wild:
            connection.close()


def test_bad_starts_end_with_one_line(tmp_path: Path, bus: Bus) -> None:
    """An unusable option ends the program with one line that names it, without a stack trace."""
    assert "No such file" in fails("--config", tmp_path / "none.json")
    bad = tmp_path / "bad.json"
    bad.write_text(
        '{"UserConfig": {"Namespaces": [{"Name": "n", "Queues": [{"Name": "q", "Propertis": {}}], "Topics": []}]}}'
    )
    assert "Queues[0] has the unknown property 'Propertis'" in fails("--config", bad)
    assert "TOPIC/SUBSCRIPTION expected" in fails("--topic", "t")
    assert f"127.0.0.1:{bus.port}: Address already in use" in fails("--queue", "q", "--port", str(bus.port))
    assert "give both --tls-cert and --tls-key" in fails("--queue", "q", "--tls-cert", bad)
    assert "cannot use the certificate" in fails("--queue", "q", "--tls-cert", bad, "--tls-key", bad)
    blocked = tmp_path / "file"
    blocked.touch()
    assert "bus: cannot use" in fails("--queue", "q", "--data", blocked)


def test_the_commands_of_the_documentation(tmp_path: Path, config_path: Path) -> None:
    """Each line of the documentation starts the bus, in the reader's own folder."""
    page = (ROOT / "docs" / "contributing" / "emulators" / "service-bus.md").read_text(encoding="utf-8")
    starts = ("python -m emulator", "servicebus-emulator --")
    commands = [line.partition("#")[0].split() for line in page.splitlines() if line.startswith(starts)]
    assert [command[0] for command in commands] == ["python"] * 3 + ["servicebus-emulator"]
    (tmp_path / "my").mkdir()
    (tmp_path / "my" / "Config.json").write_bytes(config_path.read_bytes())
    modules = (ROOT, ROOT / "packages" / "servicebus-emulator")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(folder) for folder in modules)}
    started = [
        subprocess.Popen(
            [sys.executable, *_arguments(command), "--port", "0", "--admin-port", "0"],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for command in commands
    ]
    for process in started:
        with process:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("ready sb://127.0.0.1:")
            process.terminate()
        assert process.returncode == 0
    assert (tmp_path / "state" / "bus.sqlite3").exists()


def _arguments(command: list[str]) -> list[str]:
    """The arguments of Python for a documented command, which may not be installed here."""
    return ["-m", "servicebus_emulator", *command[1:]] if command[0] == "servicebus-emulator" else command[1:]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(number: signal.Signals) -> None:
    """Connections are closed, and the exit code is 0."""
    bus = start_bus("--queue", "q")
    with socket.create_connection(("127.0.0.1", bus.port)) as idle:
        bus.process.send_signal(number)
        assert bus.process.wait(timeout=WAIT_S) == 0
        assert idle.recv(10) == b""
    assert bus.process.stdout is not None
    bus.process.stdout.close()


def test_senders_survive_a_restart(tmp_path: Path) -> None:
    """An SDK client reconnects when the bus is stopped and started again on its port."""
    # below the ports of outgoing connections, so that no process takes it while the bus is stopped
    bus = start_bus("--queue", "q", "--data", tmp_path, port=find_free())
    try:
        with ServiceBusClient.from_connection_string(bus.connection_string) as client:
            with client.get_queue_sender("q") as sender:
                sender.send_messages(ServiceBusMessage("1"))
                assert bus.stop() == 0
                bus = start_bus("--queue", "q", "--data", tmp_path, port=bus.port)
                sender.send_messages(ServiceBusMessage("2"))
        assert bus.get("/entities")["q"]["active"] == 2
    finally:
        bus.kill()
