"""Each package of `packages/` is independent: in an empty environment its wheel runs its command and does its work."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from tests.lucius_verify.mutations import IMPOSSIBLE, fresh
from tests.running_stack import ROOT

pytestmark = pytest.mark.long

START_TIMEOUT_S = 60
#: without the folders of the checkout on Python's path
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
APP = """
import azure.functions as func
app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)
@app.route("hello")
def hello(req: func.HttpRequest) -> str:
    return "Hello " + req.params["name"]
"""
HOST = {
    "version": "2.0",
    "extensionBundle": {"id": "Microsoft.Azure.Functions.ExtensionBundle", "version": "[4.*, 5.0.0)"},
}
READ_JOBS = """
import sys
from lucius_client import Client
with Client(sys.argv[1]) as lucius:
    print([job.jobId for job in lucius.jobs(tenant_id="acme")])
"""
STEP = """
from lucius_service.step import Outcome, Task
class Shout:
    step_type = "SHOUT"
    def prepare(self): ...
    def validate(self, payload): return payload
    def execute(self, task: Task) -> Outcome: return Outcome(task.write("shout.txt", b"", "text/plain"))
"""
PAGE = {
    "jobs": [
        {
            "jobId": "job_1",
            "tenant_id": "acme",
            "request_type": "OCR",
            "status": "SUCCEEDED",
            "current_step_id": None,
            "seq": 9,
            "labels": {},
            "created_at": "2026-01-02T03:04:05Z",
            "links": dict.fromkeys(("self", "steps", "events", "cancel"), "/v1/jobs/job_1"),
        }
    ],
    "next": None,
}


def run(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False, env=ENVIRONMENT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")


def wheel_of(folder: Path, package: str) -> Path:
    """The package's wheel, built in a copy of the parts of the checkout that it has."""
    checkout, wheels = folder / "checkout", folder / "wheels" / package
    # setuptools writes into the folder that it builds from
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "packages" / package, checkout / "packages" / package, ignore=ignored)
    if not (checkout / "shared").exists():
        (checkout / "shared").symlink_to(ROOT / "shared")
    run(*PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", wheels, checkout / "packages" / package)
    (wheel,) = wheels.iterdir()
    return wheel


def install(folder: Path, package: str, extras: str = "", *others: str) -> Path:
    """Returns the `bin` folder of an environment with the wheels of the packages and their dependencies, and nothing
    else.
    """
    environment = folder / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    wheels = [f"{wheel_of(folder, package)}{extras}", *(wheel_of(folder, other) for other in others)]
    run(
        *(*PIP, "--python", environment / "bin" / "python", "install", "--no-compile"),
        *(*wheels, "-c", ROOT / "constraints.txt"),
    )
    return environment / "bin"


@contextmanager
def serving(*command: str | Path, cwd: Path) -> Iterator[list[str]]:
    """Yields the words of the command's ready line."""
    process = subprocess.Popen(
        list(map(str, command)), cwd=cwd, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    timer = threading.Timer(START_TIMEOUT_S, process.kill)
    timer.start()
    line = process.stdout.readline()
    timer.cancel()
    try:
        assert line.startswith("ready "), line
        yield line.split()
    finally:
        process.terminate()
        _, stderr = process.communicate(timeout=START_TIMEOUT_S)
    assert process.returncode == 0, stderr


@contextmanager
def api(page: object) -> Iterator[str]:
    """The address of an HTTP server that sends the page for GET /v1/jobs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(page).encode()
            self.send_response(200 if self.path.startswith("/v1/jobs?") else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_the_servicebus_emulator(tmp_path: Path) -> None:
    """A queue carries a message of Microsoft's SDK."""
    command = install(tmp_path, "servicebus-emulator") / "servicebus-emulator"
    assert "--queue NAME" in run(command, "--help", cwd=tmp_path)
    with serving(command, "--queue", "orders", "--port", "0", "--admin-port", "0", cwd=tmp_path) as words:
        connection = (
            f"Endpoint={words[1]};SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;"
            "UseDevelopmentEmulator=true;"
        )
        with ServiceBusClient.from_connection_string(connection) as client:
            with client.get_queue_sender("orders") as sender:
                sender.send_messages(ServiceBusMessage("one"))
            with client.get_queue_receiver("orders", max_wait_time=START_TIMEOUT_S) as receiver:
                message = next(iter(receiver))
                receiver.complete_message(message)
        assert str(message) == "one"


@pytest.mark.parametrize("extras", ["", "[azure]"])
def test_the_functions_emulator(tmp_path: Path, extras: str) -> None:
    """An HTTP function of three lines responds; the extra `azure` is for other triggers."""
    command = install(tmp_path, "functions-emulator", extras) / "functions-emulator"
    assert "--app DIR" in run(command, "--help", cwd=tmp_path)
    app = tmp_path / "app"
    app.mkdir()
    (app / "function_app.py").write_text(APP)
    (app / "host.json").write_text(json.dumps(HOST))
    with serving(command, "--app", app, "--port", "0", cwd=tmp_path) as words:
        with urllib.request.urlopen(f"{words[1]}/api/hello?name=wheel", timeout=START_TIMEOUT_S) as response:
            assert response.read() == b"Hello wheel"


def test_the_client(tmp_path: Path) -> None:
    """The library lists jobs with its own dependencies alone."""
    python = install(tmp_path, "lucius-client") / "python"
    with api(PAGE) as url:
        assert run(python, "-c", READ_JOBS, url, cwd=tmp_path) == "['job_1']\n"


def test_the_command_line(tmp_path: Path) -> None:
    """With the extra `cli` there is the command `lucius`."""
    lucius = install(tmp_path, "lucius-client", "[cli]", "lucius-verify") / "lucius"
    shown = run(lucius, "--help", cwd=tmp_path)
    assert "Submit documents to LUCIUS" in shown
    # the groups of other packages come with them
    for group in ("service", "faults", "up"):
        assert not re.search(rf"^\W*{group} ", shown, re.MULTILINE)
        done = subprocess.run([lucius, group], capture_output=True, text=True, check=False, env=ENVIRONMENT)
        assert (done.returncode, f"no such command '{group}'" in done.stderr) == (2, True)
    with api(PAGE) as url:
        assert run(lucius, "jobs", "--api", url, "-o", "ids", cwd=tmp_path) == "job_1\n"


def test_the_verifier(tmp_path: Path) -> None:
    """It contains the app's rules under its own name, beside another `shared`; they find a forged event."""
    program = install(tmp_path, "lucius-verify") / "lucius-verify"
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "__init__.py").write_text("raise RuntimeError('another program')")
    assert "pip install ./packages/lucius-verify\n" in (ROOT / "docs" / "guides" / "audit.md").read_text()
    recorded = ROOT / "tests" / "lucius_verify" / "recorded" / "rules.1.tar.gz"
    for command in ([program], [program.with_name("python"), "-m", "lucius_verify"]):
        shown = run(*command, recorded, cwd=tmp_path)
        assert re.search(r"3 possible +holds +\d{4} events executed again", shown)
        assert "verified at levels 1, 2, 3: tenant_a" in shown
    forged = tmp_path / "forged.json"
    forged.write_text(json.dumps(IMPOSSIBLE["PENDING to SUCCEEDED"](fresh())))
    done = subprocess.run([program, forged], capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert (done.returncode, "3 possible  broken" in done.stdout) == (2, True)
    files = run(program.with_name("python"), "-c", "import importlib.metadata as m; print(*m.files('lucius-verify'))")
    assert {each.partition("/")[0] for each in files.split()} & {"shared", "tests"} == set()


@pytest.mark.parametrize("extras", ["", "[telemetry]"])
def test_the_kit_of_services(tmp_path: Path, extras: str) -> None:
    """The command finds a team's step, and then requires the settings of its bus."""
    command = install(tmp_path, "lucius-service", extras) / "lucius-service"
    assert "MODULE:CLASS" in run(command, "run", "--help", cwd=tmp_path)
    (tmp_path / "my_step.py").write_text(STEP)
    done = subprocess.run(
        [command, "run", "my_step:Shout"], cwd=tmp_path, capture_output=True, text=True, check=False, env={}
    )
    assert done.returncode == 1
    assert done.stderr.startswith("shout: ")
    assert "LUCIUS_SERVICEBUS_CONNECTION" in done.stderr
