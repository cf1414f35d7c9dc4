"""`scripts/setup.sh` on machines without some programs: a PATH with stand-ins for python, node and npm."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.running_stack import ROOT

#: programs that any machine has
SYSTEM_TOOLS = ("sh", "cat", "cksum", "dirname", "grep", "head", "sed", "tail", "mkdir", "rm", "env", "chmod")
PINNED = (
    *("requirements.txt", "pyproject.toml", "constraints.txt"),
    *("package.json", "package-lock.json"),
    *(path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("packages/*/pyproject.toml"))),
)
#: creates a .venv whose python records its arguments, so that nothing is downloaded
PYTHON = f"""#!/bin/sh
if [ "$1 $2" = "-m venv" ]; then
    mkdir -p "$3/bin"
    cat >"$3/bin/python" <<'INNER'
#!/bin/sh
if [ "$1 $2" = "-m pip" ]; then echo "$@" >>pip-calls; exit ${{PIP_FAILS:-0}}; fi
exec {sys.executable} "$@"
INNER
    chmod +x "$3/bin/python"
    exit 0
fi
exec {sys.executable} "$@"
"""
#: As Debian ships it without python3-venv.
NO_ENSUREPIP = """#!/bin/sh
case "$2" in *ensurepip*) exit 1;; esac
"""


class Machine:
    """A checkout without `.git` and with its own PATH."""

    def __init__(self, folder: Path) -> None:
        self.checkout, self.bin = folder / "my checkout", folder / "bin"
        (self.checkout / "scripts").mkdir(parents=True)
        shutil.copy(ROOT / "scripts" / "setup.sh", self.checkout / "scripts")
        for name in PINNED:
            (self.checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.checkout / name)
        self.bin.mkdir()
        for tool in SYSTEM_TOOLS:
            where = shutil.which(tool)
            assert where, f"{tool} is missing on this machine"
            (self.bin / tool).symlink_to(where)
        self.has("python3", PYTHON)
        self.has("node", '#!/bin/sh\n[ "$1" = --version ] && echo v20.0.0\nexit 0\n')
        self.has("npm", '#!/bin/sh\necho npm "$@" >>npm-calls\nmkdir -p node_modules\n')

    def has(self, name: str, script: str) -> None:
        path = self.bin / name
        path.write_text(script)
        path.chmod(0o755)

    def lacks(self, name: str) -> None:
        (self.bin / name).unlink()

    def set_up(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "scripts/setup.sh", *arguments],
            cwd=self.checkout,
            env={"PATH": str(self.bin), **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def notes(self, program: str) -> str:
        """Returns a line for each call of pip, npm or uv: its arguments."""
        notes = self.checkout / f"{program}-calls"
        return notes.read_text() if notes.exists() else ""

    def calls(self, program: str) -> int:
        return len(self.notes(program).splitlines())


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_nothing_is_done_twice(machine: Machine) -> None:
    """A second run installs nothing and prints nothing."""
    first = machine.set_up()
    assert (first.returncode, first.stderr) == (0, "")
    assert (machine.calls("pip"), machine.calls("npm")) == (2, 1)
    second = machine.set_up()
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")
    assert (machine.calls("pip"), machine.calls("npm")) == (2, 1)


def test_the_tools_of_tests_are_added_where_they_are_asked_for(machine: Machine) -> None:
    """`make demo` installs none of them; `make test` adds them once, to the installed packages."""
    machine.set_up()
    assert "--group dev" not in machine.notes("pip")
    assert "--omit=dev" in machine.notes("npm")
    for _ in range(2):
        assert machine.set_up("dev").returncode == 0
    assert machine.notes("pip").count("--group dev") == 1
    assert (machine.calls("pip"), machine.calls("npm")) == (3, 2)
    assert machine.notes("npm").count("--omit=dev") == 1
    assert machine.set_up().stdout == ""
    assert (machine.calls("pip"), machine.calls("npm")) == (3, 2)


def test_uv_installs_where_it_is_on_path(machine: Machine) -> None:
    """pip is used if uv fails, as it does behind an index that only pip's configuration names."""
    machine.has("uv", '#!/bin/sh\necho uv "$@" >>uv-calls\n')
    assert machine.set_up().returncode == 0
    assert (machine.calls("uv"), machine.calls("pip")) == (2, 0)
    machine.has("uv", "#!/bin/sh\nexit 1\n")
    assert machine.set_up("dev").returncode == 0
    assert (machine.calls("uv"), machine.calls("pip")) == (2, 1)


def test_new_pins_are_installed_into_the_same_venv(machine: Machine) -> None:
    """After a pull that changed the pins, only pip runs again; another table of pyproject.toml has no pins."""
    machine.set_up()
    (machine.checkout / ".venv" / "mark").touch()
    with (machine.checkout / "constraints.txt").open("a") as pins:
        pins.write("extra==1.0\n")
    assert machine.set_up().returncode == 0
    assert machine.calls("pip") == 4
    project = machine.checkout / "pyproject.toml"
    project.write_text(project.read_text() + "[tool.other]\n")
    assert machine.set_up().returncode == 0
    assert machine.calls("pip") == 4
    project.write_text(project.read_text().replace("\ndemo = [\n", '\ndemo = [\n    "extra>=1,<2",\n'))
    assert machine.set_up().returncode == 0
    assert machine.calls("pip") == 6
    assert (machine.checkout / ".venv" / "mark").exists()


def test_a_checkout_in_another_place_gets_a_new_venv(machine: Machine) -> None:
    """The scripts of a .venv contain its path: after a move of the checkout there is a new one."""
    machine.set_up()
    (machine.checkout / ".venv" / "mark").touch()
    machine.checkout = machine.checkout.rename(machine.checkout.with_name("moved"))
    assert machine.set_up().returncode == 0
    assert not (machine.checkout / ".venv" / "mark").exists()


def old(version: str, flag: str = "--version") -> str:
    return f'#!/bin/sh\n[ "$1" = {flag} ] && echo "{version}" && exit 0\nexit 1\n'


@pytest.mark.parametrize(
    ("break_it", "line"),
    [
        (
            lambda machine: machine.has("python3", old("Python 3.14.1")),
            "setup: needs Python 3.11, 3.12 or 3.13 on PATH (uv python install 3.12, or "
            "PYTHON=/path/to/python make setup); found: Python 3.14.1",
        ),
        (lambda machine: machine.lacks("python3"), "setup: needs Python 3.11, 3.12 or 3.13 on PATH"),
        (lambda machine: machine.lacks("node"), "setup: needs Node.js 18 or newer on PATH"),
        (lambda machine: machine.has("node", old("v16.20.2")), "setup: needs Node.js 18 or newer; found v16.20.2"),
        (lambda machine: machine.lacks("npm"), "setup: needs npm on PATH"),
        (
            lambda machine: machine.has("npm", "#!/bin/sh\necho 'npm error code ENOTFOUND'\nexit 1\n"),
            "setup: npm ci failed: npm error code ENOTFOUND",
        ),
        (
            lambda machine: machine.has("python3", PYTHON.replace("#!/bin/sh", NO_ENSUREPIP)),
            "setup: Python cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv",
        ),
    ],
)
def test_what_is_wrong_is_one_line(machine: Machine, break_it: object, line: str) -> None:
    """Each missing or unfit program ends the set-up with one line and its remedy."""
    break_it(machine)  # type: ignore[operator]
    run = machine.set_up()
    assert run.returncode == 1
    assert run.stderr.startswith(line)
    assert len(run.stderr.splitlines()) == 1


def test_a_failed_install_is_tried_again(machine: Machine) -> None:
    """pip's failure is one line, and the next run does not treat the incomplete .venv as complete."""
    failed = machine.set_up(PIP_FAILS="1")
    assert failed.returncode == 1
    assert failed.stderr.startswith("setup: pip could not install pip and setuptools")
    assert machine.set_up().returncode == 0
    assert machine.calls("pip") == 3


def test_a_python_named_by_the_user_must_fit(machine: Machine) -> None:
    """A PYTHON of another version is refused, not replaced."""
    machine.has("python3.14", old("Python 3.14.1"))
    run = machine.set_up(PYTHON="python3.14")
    assert (run.returncode, run.stderr) == (
        1,
        "setup: PYTHON=python3.14 is not Python 3.11, 3.12 or 3.13; uv python install 3.12 gets one\n",
    )
