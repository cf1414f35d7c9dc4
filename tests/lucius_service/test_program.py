"""A service as a program: its start, and errors that prevent it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lucius_service import tracing
from lucius_service.command import main
from lucius_service.settings import SettingsError
from tests.lucius_service.blob_account import BlobAccount
from tests.lucius_service.invoker import Invoker
from tests.lucius_service.service_process import PROBE, ROOT, launch

#: the command `lucius-service` of packages/lucius-service/pyproject.toml
COMMAND = ("-c", "import sys; from lucius_service.command import main; sys.exit(main())")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"LUCIUS_BLOB_CONNECTION": "nonsense-s3cret"},
        {"LUCIUS_BLOB_ENDPOINT": "http://[nonsense-s3cret"},
    ],
)
def test_a_service_that_cannot_start_prints_one_line(settings: dict[str, str]) -> None:
    """The exit code is 1, with one line on stderr that names the setting, no stack trace and no secret."""
    bus = {"LUCIUS_SERVICEBUS_CONNECTION": "nonsense-s3cret"} if settings else {}
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LUCIUS_")}
    done = subprocess.run(
        [sys.executable, *PROBE],
        cwd=ROOT,
        env={**clean, **bus, **settings},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"probe: {next(iter(settings), 'LUCIUS_')}")
    assert "s3cret" not in done.stderr


def test_the_command_serves_the_class_of_the_readme(
    tmp_path: Path, environment: dict[str, str], invoker: Invoker, account: BlobAccount
) -> None:
    """`lucius-service run MODULE:CLASS` serves the example of the kit's README.md from the current folder."""
    readme = (ROOT / "packages" / "lucius-service" / "README.md").read_text("utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    (tmp_path / "shout.py").write_text(example)
    # replies use lane 0; a bus with few connections needs one lane too
    settings = {**environment, "LUCIUS_SERVICE_LANES": "0"}
    service = launch((*COMMAND, "run", "shout:Shout"), tmp_path / "shout.log", settings, cwd=tmp_path)
    try:
        service.wait_ready("shout")
        uri = account.upload("shout.txt", b"quiet")
        directive = invoker.directive("SHOUT", input_ref={"uri": uri})
        invoker.send(directive, "SHOUT")
        result = invoker.result(directive["jobId"])
        assert result["status"] == "SUCCEEDED", result
        assert account.download(result["result_ref"]["uri"]) == b"QUIET"
        assert service.stop() == 0
    finally:
        service.close()


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("no_such_module:Step", "No module named 'no_such_module'"),
        ("lucius_service.errors:NoSuchClass", "has no attribute 'NoSuchClass'"),
        ("lucius_service.errors", "must be MODULE:CLASS"),
        ("lucius_service.errors:FailedFinal", "missing 2 required positional arguments"),
        ("lucius_service.settings:Settings", "has no attribute 'step_type'"),
    ],
)
def test_a_class_that_cannot_be_served_is_one_line(
    path: str, reason: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 2, with one line on stderr that names the argument and the reason."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert main(["run", path]) == 2
    output = capsys.readouterr()
    assert (output.out, len(output.err.splitlines())) == ("", 1)
    assert output.err.startswith(f"lucius-service: {path}: ")
    assert reason in output.err


def test_telemetry_without_its_packages_is_a_settings_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the extra to install."""
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    with pytest.raises(SettingsError, match=r"install lucius-service\[telemetry\]"):
        tracing.configure({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}, "probe")


def test_the_kit_stands_alone() -> None:
    """It imports nothing of LUCIUS, of the emulators and of the reference services, and none of their libraries."""
    script = (
        "import pkgutil, importlib, sys, lucius_service\n"
        "for m in pkgutil.walk_packages(lucius_service.__path__, 'lucius_service.'):\n"
        "    importlib.import_module(m.name)\n"
        "print([n for n in sys.modules if n.split('.')[0] in ('shared', 'triggers', 'emulator', 'platform_service',"
        " 'lucius_client', 'servicebus_emulator', 'functions_emulator', 'numpy', 'PIL', 'pypdfium2', 'rapidocr',"
        " 'onnxruntime', 'wordllama')])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
