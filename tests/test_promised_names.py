"""Names that are stored, sent or seen by a program stay, under any name in the code."""

from __future__ import annotations

import json

from tests.promised_names import FILE, collect


def test_the_code_has_every_promised_name_and_no_other() -> None:
    """A removed name breaks a caller; `python -m tests.promised_names --add` records a new one."""
    found, promised = collect(), json.loads(FILE.read_text("utf-8"))

    assert found == promised
