"""`--watch`: a change of the app's files takes effect, and orchestrations go on."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.functions_emulator.host.process import APPS, Host, eventually, start_host


def _answers(host: Host, text: str) -> bool:
    try:
        return host.get("/sync?name=bob").text == text
    except Exception:
        return False


def test_a_change_takes_effect_and_the_store_is_kept(tmp_path: Path) -> None:
    """New code answers on the same port; a broken change waits for the next one; an orchestration outlives both."""
    app = tmp_path / "app"
    shutil.copytree(APPS / "tour", app)
    script = app / "function_app.py"
    host = start_host(app, tmp_path, "--watch")
    try:
        instance_id = host.start("approval", 600)
        host.wait_for(instance_id, "Running")
        assert _answers(host, "hello bob")
        code = script.read_text()
        script.write_text(code.replace("hello {", "good day {"))
        eventually(lambda: _answers(host, "good day bob"), lambda: host.log)
        script.write_text("this is no Python")
        eventually(lambda: "cannot be served, waiting for the next change" in host.log, lambda: host.log)
        script.write_text(code)
        eventually(lambda: _answers(host, "hello bob"), lambda: host.log)
        host.post(f"/raise/{instance_id}/approve", json=1)
        assert host.wait_for(instance_id)["output"] == "1"
    finally:
        assert host.stop() == 0
