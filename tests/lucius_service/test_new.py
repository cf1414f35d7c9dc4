"""`lucius service new`: its files work, and nothing is overwritten."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lucius_client.cli.main import app
from lucius_service.commands.new import TOPOLOGY
from tests.lucius_service.checkout_copy import CheckoutCopy
from tests.lucius_service.service_process import ROOT


def new(*words: str | Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `lucius service new`."""
    done = CliRunner().invoke(app, ["service", "new", *map(str, words)])
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files of a checkout that the command reads."""
    (tmp_path / TOPOLOGY).parent.mkdir(parents=True)
    shutil.copy2(ROOT / TOPOLOGY, tmp_path / TOPOLOGY)
    shutil.copytree(ROOT / "protocols", tmp_path / "protocols")
    return tmp_path


def module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = loaded  # the module in which pydantic resolves its annotations
    spec.loader.exec_module(loaded)
    return loaded


def test_a_service_in_a_checkout(checkout: Path) -> None:
    """Code, test, schema, protocol and Dockerfile are in the checkout's own folders, with one topology line."""
    before = (checkout / TOPOLOGY).read_text()
    code, out, _ = new("new_words", "--step-type", "NEW_WORDS", "--dir", checkout)
    assert code == 0
    written = out.splitlines()[:7]
    assert [path for path in written if not (checkout / path).is_file()] == []
    topology = json.loads((checkout / TOPOLOGY).read_text())
    assert topology["services"][-1] == {"name": "new_words", "stepType": "NEW_WORDS"}
    *_, last = [line for line in before.splitlines() if "stepType" in line]
    assert [each for each in (checkout / TOPOLOGY).read_text().splitlines() if each not in before.splitlines()] == [
        f"{last},",
        '    { "name": "new_words", "stepType": "NEW_WORDS" }',
    ]
    protocol = json.loads((checkout / "protocols" / "new_words.json").read_text())
    assert (checkout / "protocols" / protocol["steps"][0]["payload_schema"]).is_file()
    lint = CliRunner().invoke(
        app, ["protocol", "lint", str(checkout / "protocols"), "--topology", str(checkout / TOPOLOGY)]
    )
    assert lint.exit_code == 0, lint.output


@pytest.mark.parametrize("in_checkout", [True, False])
def test_what_is_written_passes_its_own_test_and_the_linter(
    in_checkout: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The test that comes with a service is green, and the code has the style of the checkout."""
    folder = request.getfixturevalue("checkout") if in_checkout else tmp_path
    assert new("words", "--step-type", "WORDS", "--dir", folder)[0] == 0
    if in_checkout:
        step, test = folder / "platform_service/words/step.py", folder / "tests/platform_service/test_words.py"
        test.write_text(test.read_text().replace("platform_service.words.step", "step"))
    else:
        step, test = folder / "words/words_service.py", folder / "words/test_words_service.py"
    module(step)
    tests = module(test)
    tests.test_words_are_counted()
    tests.test_a_wrong_payload_is_refused()
    ruff = [Path(sys.executable).with_name("ruff"), "check", "--no-cache", "--config", ROOT / "pyproject.toml"]
    ruff += ["--ignore", "I001"]  # it depends on where the module lies
    done = subprocess.run([*ruff, step, test], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("ocr", "--step-type", "NEW"), "has a service ocr"),
        (("new", "--step-type", "OCR"), "has a service with the step type OCR"),
        (("new", "--step-type", "OCR_EMBEDDING"), "has the job type OCR_EMBEDDING"),
        (("new", "--step-type", "lower"), "'lower' is not a valid step type"),
        (("new", "--step-type", ""), "'' is not a valid step type"),
        (("new", "--step-type", "A" * 41), "is not a valid step type"),
        (("Upper", "--step-type", "NEW"), "'Upper' is not a valid name"),
        (("../new", "--step-type", "NEW"), "is not a valid name"),
        (("class", "--step-type", "NEW"), "'class' is not a valid name"),
        (("there", "--step-type", "NEW"), "exists"),
    ],
)
def test_what_exists_or_is_invalid_is_refused(words: tuple[str, ...], reason: str, checkout: Path) -> None:
    """One line, exit code 2, and no file is written."""
    (checkout / "protocols" / "there.json").write_text("{}")
    before = sorted(checkout.rglob("*"))
    code, out, err = new(*words, "--dir", checkout)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert reason in err
    assert before == sorted(checkout.rglob("*"))


def test_a_topology_of_another_form_is_refused(checkout: Path) -> None:
    """The command appends to its last field, and writes no file before it knows the place."""
    topology = json.loads((checkout / TOPOLOGY).read_text())
    (checkout / TOPOLOGY).write_text(json.dumps({**topology, "later": 1}))
    before = sorted(checkout.rglob("*"))
    code, _, err = new("words", "--step-type", "WORDS", "--dir", checkout)
    assert (code, "`services` must be the last field" in err) == (2, True)
    assert before == sorted(checkout.rglob("*"))


def test_a_folder_that_exists_is_refused(tmp_path: Path) -> None:
    """Outside a checkout the folder is the service's own."""
    (tmp_path / "words").mkdir()
    assert new("words", "--step-type", "WORDS", "--dir", tmp_path)[0] == 2
    assert list((tmp_path / "words").iterdir()) == []


@pytest.mark.long
def test_a_new_service_does_a_job(tmp_path: Path) -> None:
    """In a copy of the checkout, after `new` and `make up`, a job of the new protocol is SUCCEEDED with its result.

    The result is at the `output_ref` that `lucius submit` sends.
    """
    checkout = CheckoutCopy(tmp_path)
    checkout.lucius("service", "new", "words", "--step-type", "WORDS")
    with checkout.up():
        assert '{"words": {' in checkout.lucius(
            "submit", "README.md", "--protocol", "WORDS", "--tenant", "demo", "--wait"
        )
        (job_id,) = checkout.lucius("jobs", "-o", "ids").split()
        job = json.loads(checkout.lucius("job", "show", job_id, "-o", "json"))
        assert job["status"] == "SUCCEEDED"
        assert job["final_output"]["uri"].startswith(f"{job['output_ref']['uri']}/{job_id}/")
        assert '{"words": {' in checkout.lucius("job", "result", job_id)


@pytest.mark.long
@pytest.mark.parametrize("in_checkout", [True, False])
def test_the_dockerfile(in_checkout: bool, tmp_path: Path) -> None:
    """Its steps, done in an empty environment, end in a command that starts the service."""
    context = tmp_path / "context"
    context.mkdir()
    if in_checkout:
        for part in ("packages/lucius-service", "platform_service", "infra/bicep/topology.json", "protocols"):
            copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy2
            (context / part).parent.mkdir(parents=True, exist_ok=True)
            copy(ROOT / part, context / part)
    assert new("words", "--step-type", "WORDS", "--dir", context)[0] == 0
    dockerfile = context / ("platform_service/words/Dockerfile" if in_checkout else "words/Dockerfile")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PIP_CONSTRAINT"] = str(ROOT / "constraints.txt")
    if not in_checkout:
        # the kit is not in the package index; setuptools writes into the folder that it builds from
        kit = shutil.copytree(ROOT / "packages" / "lucius-service", tmp_path / "kit")
        text = f"{kit}[telemetry]\n"
        (context / "words" / "requirements.txt").write_text(text)
        context = context / "words"
    root = tmp_path / "root"
    (root / "app").mkdir(parents=True)

    def inside(text: str) -> str:
        for name in ("/service", "/source", "/app"):
            text = text.replace(f" {name}", f" {root}{name}").replace(f'"{name}', f'"{root}{name}')
        return text

    command: list[str] = []
    for line in dockerfile.read_text().splitlines():
        word, _, rest = line.partition(" ")
        if word == "COPY" and not rest.startswith("--from"):
            *sources, target = rest.split()
            place = Path(f"{root}{target}")
            for source in sources:
                if (context / source).is_dir():
                    shutil.copytree(context / source, place, dirs_exist_ok=True)
                else:
                    folder = place if target.endswith("/") else place.parent
                    folder.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(context / source, place)
        elif word == "RUN":
            script = inside(f" {rest}").replace("python -m venv", f"{sys.executable} -m venv")
            subprocess.run(["sh", "-ec", script], check=True, env=environment, cwd=root)
        elif word == "CMD":
            command = json.loads(inside(rest))
    environment = {name: value for name, value in environment.items() if not name.startswith("LUCIUS_")}
    done = subprocess.run(
        command, cwd=root / "app", env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    # it gets as far as its settings
    assert (done.returncode, done.stderr.split(":")[0]) == (1, "words"), done.stderr
    assert "LUCIUS_SERVICEBUS_CONNECTION is not set" in done.stderr
