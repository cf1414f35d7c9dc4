"""`python -m emulator appconfig` as a process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.running_stack import ROOT

STOP_TIMEOUT_S = 60
#: any key of the right form is accepted
ID, SECRET = "laptop", "c2VjcmV0"


def write(path: Path, values: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(values))


@contextmanager
def serving(path: Path, port: int = 0) -> Iterator[str]:
    """Yields a connection string; the process ends in order afterwards."""
    command = [sys.executable, "-m", "emulator", "appconfig", "--port", str(port), "--file", str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            word, url = process.stdout.readline().split()
            assert word == "ready"
            yield f"Endpoint={url};Id={ID};Secret={SECRET}"
        finally:
            process.terminate()
            code = process.wait(STOP_TIMEOUT_S)
    assert code == 0
