"""The receivers of docs/reference/webhooks.md, with the text of the page: the official packages verify requests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.running_stack import ROOT
from tests.waiting import wait_until

KINDS = ("receiver.py", "receiver.js")


@dataclass
class PageReceiver:
    """A process on its own port; after a restart it has the same port and its earlier output."""

    kind: str
    folder: Path
    port: int
    secret: str
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def __enter__(self) -> PageReceiver:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Returns when it answers."""
        text = (ROOT / "docs" / "reference" / "webhooks.md").read_text(encoding="utf-8")
        found = re.search(rf"<!-- tested: {re.escape(self.kind)} -->\n```\w+\n(.*?)```", text, re.DOTALL)
        assert found, f"docs/reference/webhooks.md has no block {self.kind}"
        program = self.folder / self.kind
        program.write_text(found[1], encoding="utf-8")
        words = ["node"] if self.kind.endswith(".js") else [sys.executable]
        environment = {
            **os.environ,
            "SECRET": self.secret,
            "PORT": str(self.port),
            "NODE_PATH": str(ROOT / "node_modules"),
        }
        with self._printed.open("ab") as out:
            self._process = subprocess.Popen([*words, str(program)], env=environment, stdout=out, stderr=out)

        def serves() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, self._printed.read_text()
            try:
                httpx.get(self.url, timeout=5)
            except httpx.RemoteProtocolError:
                return True
            except httpx.TransportError:
                return False
            return True

        wait_until(serves, f"{self.kind} does not serve")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def taken(self) -> list[tuple[str, str, str]]:
        """Returns (webhook-id, type, subject) of its verified and printed events."""
        lines = self._printed.read_text(encoding="utf-8").splitlines()
        found = (re.fullmatch(r"(\S+:\S+) ([a-z.]+) (\S+)", line) for line in lines)
        return [(each[1], each[2], each[3]) for each in found if each is not None]

    @property
    def _printed(self) -> Path:
        return self.folder / f"{self.kind}.log"
