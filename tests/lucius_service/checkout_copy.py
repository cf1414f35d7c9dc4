"""A copy of the checkout, to which a test adds a service and in which it serves the stack."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from emulator.up.environment import _ACCOUNT_KEY, ACCOUNT
from tests.lucius_service.service_process import ROOT

_LUCIUS = ("-c", "from lucius_client.cli.main import main; main()")


class CheckoutCopy:
    """The files that git lists or would list, in `folder`/checkout; `environment` finds their Python modules."""

    def __init__(self, folder: Path) -> None:
        self.path, self._folder = folder / "checkout", folder
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
        for name in filter(None, listed.stdout.decode().split("\0")):
            if (ROOT / name).is_file():
                (self.path / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.path / name)
        (self.path / "node_modules").symlink_to(ROOT / "node_modules")
        packages = [str(each) for each in (self.path / "packages").iterdir()]
        self.environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(self.path), *packages])}

    def lucius(self, *words: str) -> str:
        """Returns the output of the command, which must succeed."""
        done = subprocess.run(
            [sys.executable, *_LUCIUS, *words],
            cwd=self.path,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def up(self) -> Iterator[dict[str, str]]:
        """The stack on free ports, to which `lucius` is directed: its addresses by name."""
        ports = [word for name in ("api", "bus", "azurite") for word in (f"--{name}-port", "0")]
        up = [sys.executable, "-m", "emulator", "up", *ports, "--data", str(self._folder / "data")]
        with (self._folder / "up.log").open("w") as log:
            stack = subprocess.Popen(
                up, cwd=self.path, env=self.environment, stdout=subprocess.PIPE, stderr=log, text=True
            )
        try:
            assert stack.stdout is not None
            ready = stack.stdout.readline().split()
            assert ready[:1] == ["ready"], (self._folder / "up.log").read_text()
            addresses = dict(word.split("=", 1) for word in ready[2:])
            self.environment["LUCIUS_API"] = ready[1]
            self.environment["LUCIUS_BLOB_CONNECTION"] = _azurite(addresses["blob"])
            yield addresses
        finally:
            stack.terminate()
            stack.wait(60)
            assert stack.stdout is not None
            stack.stdout.close()


def _azurite(blob: str) -> str:
    """The connection string of Azurite's development account at an address."""
    return f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={_ACCOUNT_KEY};BlobEndpoint={blob};"
