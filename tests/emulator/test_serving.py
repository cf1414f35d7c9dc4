"""The small programs of a laptop, as processes: issuer, collector, App Configuration."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.foreign_pages import foreign_headers, own_headers, send
from tests.running_stack import ROOT


@pytest.mark.parametrize(
    ("words", "method", "path", "body", "status"),
    [
        (("issuer", "--data", "{folder}"), "POST", "/token", b"grant_type=client_credentials&tenant=a", 200),
        (("traces",), "POST", "/v1/traces", b"", 415),
        (("appconfig", "--file", "{folder}/settings.json"), "GET", "/kv", b"", 401),
    ],
    ids=["issuer", "traces", "appconfig"],
)
def test_a_foreign_page_is_refused(
    words: tuple[str, ...], method: str, path: str, body: bytes, status: int, tmp_path: Path
) -> None:
    """403 and one line; programs and own pages continue."""
    (tmp_path / "settings.json").write_text("{}")
    command = [sys.executable, "-m", "emulator", *(word.format(folder=tmp_path) for word in words), "--port", "0"]
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[1]
            for foreign in foreign_headers(url):
                code, text = send(url, method, path, form | foreign, body)
                assert (code, text.count("\n")) == (403, 1), foreign
            for own in own_headers(url):
                assert send(url, method, path, form | own, body)[0] == status, own
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
