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
    """Two jobs fail after three attempts without an ACK."""
    guide = (ROOT / "docs" / "guides" / "quotas.md").read_text("utf-8")
    start, drop = re.findall(r"(?m)^(LUCIUS_ACK\S+ .*|lucius faults set .*)$", guide)
    [breaker] = re.findall(r"(?m)^lucius (quota set --tenant acme --type OCR --breaker .*)$", guide)
    checkout = CheckoutCopy(tmp_path)
    checkout.environment |= dict(word.split("=", 1) for word in start.removesuffix(" make up").split())
    with checkout.up() as addresses:
        checkout.environment["LUCIUS_BUS_ADMIN"] = addresses["admin"]
        checkout.lucius(*shlex.split(breaker))
        checkout.lucius(*shlex.split(drop, comments=True)[1:])
        for _ in range(2):
            checkout.lucius("submit", "samples/invoice.png", "-p", "OCR", "--tenant", "acme", "--again")

        def is_open() -> bool:
            shown = json.loads(checkout.lucius("quota", "show", "--tenant", "acme", "--type", "OCR", "-o", "json"))
            return (shown["breaker"] or {}).get("state") == "OPEN"

        wait_until(is_open, "the breaker did not open")
