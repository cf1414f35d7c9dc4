"""The services of docs/guides/platform-services.md, as they are printed, in a copy of the checkout."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lucius_service.checkout_copy import CheckoutCopy
from tests.lucius_service.service_process import ROOT


def file(name: str) -> str:
    """A file that the page shows."""
    text = (ROOT / "docs" / "guides" / "platform-services.md").read_text("utf-8")
    found = re.search(rf"<!-- file: {re.escape(name)} -->\n +```\w+\n(.*?)```", text, re.DOTALL)
    assert found, name
    return textwrap.dedent(found[1])


@contextmanager
def ready(words: list[str], line: str, folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """Runs a service, which prints `line` when it is ready."""
    service = subprocess.Popen(words, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert service.stdout is not None
        assert service.stdout.readline() == f"{line}\n"
        yield
    finally:
        service.terminate()
        service.wait(20)
        assert service.stdout is not None
        service.stdout.close()


@pytest.mark.long
def test_the_services_do_jobs(tmp_path: Path) -> None:
    """Each prints that it is ready. The result is the summary, or for the Node service its input."""
    checkout = CheckoutCopy(tmp_path)
    topology = checkout.path / "infra" / "bicep" / "topology.json"
    content = json.loads(topology.read_text("utf-8"))
    content["services"] += [{"name": "approve", "stepType": "APPROVE"}, {"name": "summary", "stepType": "SUMMARY"}]
    topology.write_text(json.dumps(content), encoding="utf-8")
    protocols = checkout.path / "protocols"
    for name, path in (
        ("approve.json", protocols / "approve.json"),
        ("ocr_summary.json", protocols / "ocr_summary.json"),
        ("summary.schema.json", protocols / "steps" / "summary.schema.json"),
        ("approve.mjs", tmp_path / "approve.mjs"),
        ("summary_service.py", tmp_path / "summary_service.py"),
    ):
        path.write_text(file(name), encoding="utf-8")
    (tmp_path / "node_modules").symlink_to(ROOT / "node_modules")
    with checkout.up() as addresses:
        connection = f"Endpoint={addresses['bus']};SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=x;"
        environment = {
            **checkout.environment,
            "LUCIUS_SERVICEBUS_CONNECTION": f"{connection}UseDevelopmentEmulator=true",
        }
        with ready(["node", "approve.mjs"], "ready approve", tmp_path, environment):
            checkout.lucius("submit", "README.md", "--protocol", "APPROVE", "--tenant", "demo", "--watch")
            (job_id,) = checkout.lucius("jobs", "-o", "ids").split()
            job = json.loads(checkout.lucius("job", "show", job_id, "-o", "json"))
            assert (job["status"], job["final_output"]) == ("SUCCEEDED", job["input_ref"])
        run = [str(Path(sys.executable).with_name("lucius-service")), "run", "summary_service:SummaryStep"]
        with ready(run, "ready summary", tmp_path, environment):
            words = ["--protocol", "OCR_SUMMARY", "--payload", '{"summary": {"sentences": 2}}', "--tenant", "demo"]
            summary = checkout.lucius("submit", "samples/bw40-manual.pdf", *words, "--wait")
            assert 0 < len(summary) < 1000
