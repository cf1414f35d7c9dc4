"""Programs that the peers need: a separate Python environment, and servers from PATH, Debian or npm.

All files are in `.lucius/peers` in the checkout, which git ignores and `make clean` removes.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".lucius" / "peers"
_REQUIREMENTS = Path(__file__).parent / "requirements.txt"
_RESTATE = "@restatedev/restate-server@>=1.7 <2"
_SERVERS = FOLDER / "debian"


class CannotBeHad(Exception):
    """A peer cannot run on this machine. The message has the reason."""


def python() -> Path:
    """Returns the interpreter of the peers' environment, and creates it if it is missing. Raises CannotBeHad."""
    folder = FOLDER / "venv"
    interpreter, done = folder / "bin" / "python", folder / ".requirements"
    expected = _REQUIREMENTS.read_text()
    if not done.exists() or done.read_text() != expected:
        venv.create(folder, with_pip=True, clear=True)
        install = [str(interpreter), "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
        _run(
            [*install, "-r", str(_REQUIREMENTS)],
            "pip cannot install the peers' packages; see benchmarks/peers/requirements.txt",
        )
        done.write_text(expected)
    return interpreter


def postgres() -> Path:
    """Returns the folder with `postgres` and `initdb`. Raises CannotBeHad."""
    found = shutil.which("postgres") or _newest("/usr/lib", "postgresql/*/bin/postgres")
    if found is None and (found := _newest(_SERVERS, "usr/lib/postgresql/*/bin/postgres")) is None:
        _unpack("postgresql")
        found = _newest(_SERVERS, "usr/lib/postgresql/*/bin/postgres")
    if found is None:
        raise CannotBeHad("no PostgreSQL: apt-get install postgresql")
    return Path(os.path.realpath(found)).parent


def redis() -> Path:
    """Returns the path of `redis-server`. Raises CannotBeHad."""
    found = shutil.which("redis-server") or _newest(_SERVERS, "usr/bin/redis-server")
    if found is None:
        _unpack("redis-server")
        found = _newest(_SERVERS, "usr/bin/redis-server")
    if found is None:
        raise CannotBeHad("no Redis: apt-get install redis-server")
    return Path(found)


def restate() -> Path:
    """Returns the path of `restate-server`, the program itself and not npm's wrapper. Raises CannotBeHad."""
    pattern = "node_modules/@restatedev/restate-server-*/bin/restate-server"
    found = shutil.which("restate-server") or _newest(FOLDER / "npm", pattern)
    if found is None:
        (FOLDER / "npm").mkdir(parents=True, exist_ok=True)
        install = ["npm", "install", "--prefix", str(FOLDER / "npm"), "--ignore-scripts", "--no-audit", "--no-fund"]
        _run([*install, _RESTATE], "no Restate server: npm install -g @restatedev/restate-server")
        found = _newest(FOLDER / "npm", pattern)
    if found is None:
        raise CannotBeHad("no Restate server for this machine: https://docs.restate.dev/installation")
    return Path(found)


def libraries() -> Mapping[str, str]:
    """Returns the environment in which unpacked servers find their libraries."""
    folders = sorted({str(each.parent) for each in _SERVERS.glob("usr/lib/*-linux-gnu/*.so*")})
    known = [os.environ["LD_LIBRARY_PATH"]] if os.environ.get("LD_LIBRARY_PATH") else []
    return {"LD_LIBRARY_PATH": os.pathsep.join([*folders, *known])} if folders else {}


def unprivileged() -> Sequence[str]:
    """Returns the prefix of a command that must not run as root. The prefix is empty for another user. Raises
    CannotBeHad.
    """
    if os.geteuid() != 0:
        return ()
    if (setpriv := shutil.which("setpriv")) is None:
        raise CannotBeHad("PostgreSQL does not run as root, and there is no setpriv: apt-get install util-linux")
    return (setpriv, "--reuid=nobody", f"--regid={pwd.getpwnam('nobody').pw_gid}", "--clear-groups")


def _unpack(package: str) -> None:
    """Unpacks a Debian package, with the dependencies that the machine lacks, into a folder, without an installation on
    the machine.
    """
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise CannotBeHad(f"no {package} on PATH, and no {program} to get it: install {package}")
    _SERVERS.mkdir(parents=True, exist_ok=True)
    help_ = f"no {package}: apt-get install {package}"
    plan = _run(["apt-get", "install", "--simulate", "--no-install-recommends", package], help_)
    names = [line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")]
    print(f"unpacking {package} into {_SERVERS.relative_to(ROOT)}", file=sys.stderr, flush=True)
    _run(["apt-get", "download", *names], help_, cwd=_SERVERS)
    for archive in _SERVERS.glob("*.deb"):
        _run(["dpkg-deb", "-x", str(archive), str(_SERVERS)], help_)
        archive.unlink()


def _newest(folder: Path | str, pattern: str) -> str | None:
    found = sorted(str(each) for each in Path(folder).glob(pattern))
    return found[-1] if found else None


def _run(command: Sequence[str], help_: str, cwd: Path = ROOT) -> str:
    """Returns the output of a command. Raises CannotBeHad with `help_` and its last line."""
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    except OSError:
        raise CannotBeHad(help_) from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise CannotBeHad(f"{help_} ({last})")
    return done.stdout
