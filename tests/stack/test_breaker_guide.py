"""The breaker of docs/guides/quotas.md opens on a laptop, with the commands as they are printed."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.lucius_service.checkout_copy import CheckoutCopy
from tests.running_stack import ROOT
from tests.waiting import wait_until


@pytest.mark.long
def test_dropped_directives_open_the_breaker(tmp_path: Path) -> None:
    """Two jobs fail after three attempts without an ACK. Without the fault, a third job closes the breaker."""
    guide = (ROOT / "docs" / "guides" / "quotas.md").read_text("utf-8")
    [start] = re.findall(r"(?m)^LUCIUS_ACK\S+ .*$", guide)
    [failing] = re.findall(r"```sh\n(lucius faults set .*?)```", guide, re.DOTALL)
    [clear] = re.findall(r"```sh\n(lucius faults clear)\n```", guide)
    [breaker] = re.findall(r"(?m)^lucius quota set --tenant acme --type OCR --breaker .*$", guide)
    checkout = CheckoutCopy(tmp_path)
    checkout.environment |= dict(word.split("=", 1) for word in start.removesuffix(" make up").split())

    def typed(commands: str) -> str:
        return "".join(checkout.lucius(*shlex.split(line)[1:]) for line in commands.splitlines())

    with checkout.up() as addresses:
        checkout.environment["LUCIUS_BUS_ADMIN"] = addresses["admin"]

        def state() -> str:
            shown = json.loads(typed("lucius quota show --tenant acme --type OCR -o json"))
            return str((shown["breaker"] or {}).get("state"))

        # shorter than on the page
        typed(f"{breaker.replace('cooldown_s=60', 'cooldown_s=20')}\n{failing}")
        wait_until(lambda: state() == "OPEN", "the breaker did not open")
        typed(f"{failing.splitlines()[-1]}\n{clear}")
        wait_until(lambda: state() == "CLOSED", "the breaker did not close")
