"""The children of a stack, with the start parameters of each."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from emulator import topology
from emulator.up.child import ChildSpec
from emulator.up.environment import AUDIENCE
from emulator.up.errors import UpError
from emulator.up.ports import Ports

#: the checkout: the function app, the samples, Azurite under `node_modules`
ROOT = Path(__file__).resolve().parents[2]
#: maximum seconds for running functions of the host at a stop
_DRAIN_S = "0.5"


def service_names() -> list[str]:
    """Returns the services of the topology that have a package in `platform_service`."""
    services = json.loads(topology.TOPOLOGY.read_text(encoding="utf-8"))["services"]
    return [each["name"] for each in services if (ROOT / "platform_service" / each["name"]).is_dir()]


def azurite(ports: Ports, data: Path, environment: Mapping[str, str]) -> ChildSpec:
    """Returns the start parameters of Azurite. Its access log goes to `logs/azurite.log`, where the demo counts storage
    requests.

    Raises UpError if Azurite or Node.js is not installed.
    """
    program = ROOT / "node_modules" / ".bin" / "azurite"
    if not program.exists():
        raise UpError("Azurite is not installed; run `make setup`")
    if not shutil.which("node", path=environment.get("PATH")):
        raise UpError("Azurite needs Node.js 18 or newer on PATH; install Node.js")
    argv = (
        str(program),
        *("--blobPort", str(ports.blob), "--queuePort", str(ports.queue), "--tablePort", str(ports.table)),
        *("--location", str(data / "azurite"), "--disableTelemetry", "--skipApiVersionCheck"),
        # its default keep-alive of 5 s is shorter than its clients': one would send on a closing connection
        *(word for store in ("blob", "queue", "table") for word in (f"--{store}KeepAliveTimeout", "60")),
    )
    return ChildSpec(
        name="azurite",
        argv=argv,
        environment=environment,
        cwd=ROOT,
        stop_rank=3,
        ready_ports=(ports.blob, ports.queue, ports.table),
        orphan_signal=signal.SIGTERM,
    )


def bus(ports: Ports, data: Path, environment: Mapping[str, str]) -> ChildSpec:
    # The topology is read at the start, so that a new service can be tried without generated files.
    config = data / "bus.json"
    shared = environment.get("LUCIUS_REPLIES") == "shared"
    config.write_text(topology.render(shared_replies=shared), encoding="utf-8")
    options = ("--config", str(config), "--port", str(ports.bus), "--admin-port", str(ports.admin))
    return _python("bus", 2, ("emulator", "bus", *options, "--data", str(data)), environment)


def traces(ports: Ports, environment: Mapping[str, str]) -> ChildSpec:
    """Returns the start parameters of the trace collector. The collector ends last, together with Azurite, so that it
    receives the last spans of the other children.
    """
    return _python("traces", 3, ("emulator", "traces", "--port", str(ports.traces)), environment)


def issuer(ports: Ports, data: Path, environment: Mapping[str, str]) -> ChildSpec:
    options = ("--port", str(ports.issuer), "--data", str(data), "--audience", AUDIENCE)
    return _python("issuer", 2, ("emulator", "issuer", *options), environment)


def host(ports: Ports, data: Path, environment: Mapping[str, str]) -> ChildSpec:
    """Returns the start parameters of the host without access keys. Its page, `/admin` and the durable API are open to
    all local users.

    A stop waits at most 0.5 s for running functions, since the requests of readers can last 20 s. Interrupted
    activities and messages are repeated.
    """
    options = ("--app", str(ROOT), "--port", str(ports.api), "--data", str(data), "--no-keys", "--drain", _DRAIN_S)
    return _python("host", 1, ("emulator", "host", *options), environment)


def service(name: str, environment: Mapping[str, str]) -> ChildSpec:
    return _python(name, 0, ("platform_service", name), environment)


def _python(name: str, stop_rank: int, arguments: tuple[str, ...], environment: Mapping[str, str]) -> ChildSpec:
    argv = (sys.executable, "-m", *arguments)
    return ChildSpec(name, argv, environment, cwd=ROOT, stop_rank=stop_rank)
