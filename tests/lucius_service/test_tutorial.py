"""The services of docs/guides/platform-services.md, as they are printed, in a copy of the checkout."""

from __future__ import annotations

import json
import re
import subprocess
import textwrap
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


@pytest.mark.long
def test_the_service_in_node_does_a_job(tmp_path: Path) -> None:
    """It prints that it is ready, and a job of its protocol is SUCCEEDED with its input as the result."""
    checkout = CheckoutCopy(tmp_path)
    topology = checkout.path / "infra" / "bicep" / "topology.json"
    content = json.loads(topology.read_text("utf-8"))
    content["services"].append({"name": "approve", "stepType": "APPROVE"})
    topology.write_text(json.dumps(content), encoding="utf-8")
    (checkout.path / "protocols" / "approve.json").write_text(file("approve.json"), encoding="utf-8")
    program = tmp_path / "approve.mjs"
    program.write_text(file("approve.mjs"), encoding="utf-8")
    (tmp_path / "node_modules").symlink_to(ROOT / "node_modules")
    with checkout.up() as addresses:
        connection = f"Endpoint={addresses['bus']};SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=x;"
        environment = {
            **checkout.environment,
            "LUCIUS_SERVICEBUS_CONNECTION": f"{connection}UseDevelopmentEmulator=true",
        }
        node = subprocess.Popen(["node", str(program)], env=environment, stdout=subprocess.PIPE, text=True)
        try:
            assert node.stdout is not None
            assert node.stdout.readline() == "ready approve\n"
            checkout.lucius("submit", "README.md", "--protocol", "APPROVE", "--tenant", "demo", "--watch")
            (job_id,) = checkout.lucius("jobs", "-o", "ids").split()
            job = json.loads(checkout.lucius("job", "show", job_id, "-o", "json"))
            assert (job["status"], job["final_output"]) == ("SUCCEEDED", job["input_ref"])
        finally:
            node.terminate()
            node.wait(20)
            node.stdout.close()
