"""A checkout in a separate folder, in which commands use emulated az, azd, gh, git and curl."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

from tests.infra.stand_in import az, state
from tests.jobs import ROOT

COMMIT = "0123456789abcdef0123456789abcdef01234567"

_PROGRAM = """#!/bin/sh
exec {python} -I -S -c 'import sys; sys.path += ["{root}"]
from tests.infra.stand_in.{name} import main
sys.exit(main())' "$@"
"""
_PASSED_ON = (
    *("AZURE_ENV_NAME", "LUCIUS_AUTH_AUDIENCE", "LUCIUS_MONTHLY_BUDGET", "LUCIUS_CALLBACKS", "LUCIUS_WEBHOOKS"),
    *("LUCIUS_KEYS", "LUCIUS_PLATFORM_SERVICES", "LUCIUS_REGISTRY_ID", "LUCIUS_RESOURCE_GROUP", "LUCIUS_SERVICE_TAG"),
)
#: calls the test's own process, which has loaded everything; one at a time
_ASK = """#!/bin/sh
printf '%s\\0' {values} "$@" >{folder}/ask
read -r code <{folder}/done
cat {folder}/out
cat {folder}/error >&2
exit "$code"
"""
#: programs that the hooks use besides the emulated ones
_TOOLS = (
    *("cat", "cut", "date", "dirname", "env", "grep", "head", "mktemp", "printf", "rm", "sed", "seq"),
    *("sh", "sha256sum", "sort", "tee", "tr"),
)
#: a git that knows one commit
_GIT = f"#!/bin/sh\ncase $1 in rev-parse) echo {COMMIT} ;; ls-files) exit 0 ;; *) exit 2 ;; esac\n"
#: as of macOS
_SHASUM = f"""#!/bin/sh
[ "$*" = "-a 256" ] || exit 2
exec {sys.executable} -I -S -c 'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest(), " -")'
"""
_QUIET = "#!/bin/sh\nexit 0\n"


def _ask(folder: Path) -> str:
    values = " ".join(f'"${{{each}-}}"' for each in _PASSED_ON)
    return _ASK.format(folder=folder, values=values)


@dataclass(frozen=True)
class Done:
    code: int
    output: str
    error: str
    #: commands of the emulated programs
    asked: list[str]

    @property
    def refusal(self) -> str:
        """Returns the line with the reason; a second line would be a fault."""
        lines = [line for line in self.error.splitlines() if not line.startswith("ERROR: '")]
        assert self.code != 0, self.output
        assert len(lines) == 1, self.error
        return lines[0]


@dataclass
class Walk:
    """A checkout. `checkout` is the folder of commands; `environment` is theirs, with the emulated programs."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def begun(cls, folder: Path, **known: Any) -> Iterator[Walk]:
        """`known` differs from an empty subscription and a new tenant."""
        walk = cls(folder)
        walk.bin.mkdir(parents=True)
        scripts = {
            "az": _ask(folder),
            **{name: _PROGRAM.format(python=sys.executable, root=ROOT, name=name) for name in ("azd", "gh")},
            "git": _GIT,
            "shasum": _SHASUM,
        }
        for name, text in {
            **scripts,
            **dict.fromkeys(("curl", "sleep", "make", "openssl", "python3"), _QUIET),
        }.items():
            (walk.bin / name).write_text(text)
            (walk.bin / name).chmod(0o755)
        (walk.checkout / "infra").mkdir(parents=True)
        for name in (
            "infra/bicep",
            "infra/hooks",
            "infra/pipelines",
            "infra/quotas.yaml",
            "azure.yaml",
            "host.json",
            "protocols",
            "scripts",
        ):
            (walk.checkout / name).symlink_to(ROOT / name)
        python = walk.checkout / ".venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        smoke = _PROGRAM.format(python=sys.executable, root=ROOT, name="smoke")
        python.write_text(smoke.replace("exec ", "[ $1 = scripts/smoke.py ] || exit 0\nexec ", 1))
        python.chmod(0o755)
        walk.know(**{**state.NEW, **known})
        for name in ("ask", "done"):
            os.mkfifo(folder / name)
        Thread(target=walk._answer, daemon=True).start()
        try:
            yield walk
        finally:
            (folder / "ask").write_bytes(b"")

    @property
    def checkout(self) -> Path:
        return self.folder / "checkout"

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    def _answer(self) -> None:
        """Responds as az, until an empty request."""
        while asked := (self.folder / "ask").read_bytes():
            words = asked.decode().split("\0")[:-1]
            environ = dict(zip(_PASSED_ON, words, strict=False))
            code, output, error = az.answer(words[len(_PASSED_ON) :], self._file, self.checkout, environ)
            (self.folder / "out").write_text(output)
            (self.folder / "error").write_text(error)
            (self.folder / "done").write_text(f"{code}\n")

    def own(self, name: str) -> Path:
        """A folder of the checkout that the test may change."""
        path = self.checkout / name
        path.unlink()
        shutil.copytree(ROOT / name, path)
        return path

    @property
    def _file(self) -> Path:
        return self.folder / "state.json"

    def state(self) -> dict[str, Any]:
        return json.loads(self._file.read_text())

    def know(self, **changes: Any) -> None:
        """Changes the state of the emulated Azure."""
        now = self.state() if self._file.exists() else {}
        self._file.write_text(json.dumps({**now, **changes}))

    def without(self, *names: str) -> None:
        """Removes these commands from the machine: only programs of the hooks are on its path."""
        for name in _TOOLS:
            found = shutil.which(name)
            if found and not (self.bin / name).exists():
                (self.bin / name).symlink_to(found)
        for name in names:
            (self.bin / name).unlink(missing_ok=True)
        self.environment["PATH"] = str(self.bin)

    def run(self, commands: str, **environment: str) -> Done:
        """Runs them in one shell that stops at the first failure."""
        before = len(self.state()["asked"])
        done = subprocess.run(
            ["/bin/sh", "-euc", commands],
            cwd=self.checkout,
            env={
                "PATH": f"{self.bin}:{os.defpath}",
                "AZURE_STAND_IN": str(self._file),
                "HOME": str(self.folder),
                **self.environment,
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr, self.state()["asked"][before:])
