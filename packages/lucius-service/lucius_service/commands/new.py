"""Writes a new service, into a checkout of LUCIUS or into a new folder.

In a checkout the service is `platform_service/NAME`. Protocol, payload schema and topology entry are added to the files
of LUCIUS. Otherwise all files are in the folder NAME, and the operator of LUCIUS must install the protocol files and
the topology entry.
"""

from __future__ import annotations

import json
import keyword
import re
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

TEMPLATES = Path(__file__).with_name("template")
TOPOLOGY = Path("infra", "bicep", "topology.json")
#: names that are valid as a subscription (at most 50 characters), a Python module and a step id
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
#: form of step types in protocols
_STEP_TYPE = re.compile(r"[A-Z][A-Z0-9_]{0,39}")


class NotMade(Exception):
    """The service was not created. The message is one line."""


@dataclass(frozen=True)
class Made:
    """The files of a new service, and the next steps for its author."""

    files: list[Path]
    next_steps: str


def make(name: str, step_type: str, folder: Path) -> Made:
    """Writes the files of a service. Raises NotMade if the name or the step type is invalid or in use, or if a file of
    the service exists. Raises NotMade if a file cannot be read or written, or if the topology file has another form.
    """
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise NotMade(
            f"{name!r} is not a valid name; use 1 to 40 of a-z, 0-9 and _, a letter first, and no Python keyword"
        )
    if not _STEP_TYPE.fullmatch(step_type):
        raise NotMade(f"{step_type!r} is not a valid step type; use 1 to 40 of A-Z, 0-9 and _, a letter first")
    topology = folder / TOPOLOGY
    try:
        return (
            _in_checkout(name, step_type, folder, topology) if topology.is_file() else _alone(name, step_type, folder)
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NotMade(f"{folder}: {' '.join(str(error).split())}") from None


def _in_checkout(name: str, step_type: str, folder: Path, topology: Path) -> Made:
    text = topology.read_text("utf-8")
    for service in json.loads(text)["services"]:
        if service["name"] == name:
            raise NotMade(f"{TOPOLOGY} has a service {name}; choose another name")
        if service["stepType"] == step_type:
            raise NotMade(f"{TOPOLOGY} has a service with the step type {step_type}; choose another step type")
    for path in (folder / "protocols").glob("*.json"):
        if json.loads(path.read_text("utf-8")).get("request_type") == step_type:
            raise NotMade(f"{path.relative_to(folder)} has the job type {step_type}; choose another step type")
    package = Path("platform_service", name)
    files = {
        package / "__init__.py": f'"""The {step_type} service."""\n',
        package / "step.py": _text("step.py", name, step_type),
        package / "Dockerfile": _text("Dockerfile.checkout", name, step_type),
        Path("tests", "platform_service", f"test_{name}.py"): _text(
            "test_step.py", name, step_type, module=f"platform_service.{name}.step"
        ),
        **_protocol_files(Path("protocols"), name, step_type),
    }
    # the file keeps its format: the entry is added to its list as text
    end = re.search(r"\n(\s*)\]\s*\}\s*$", text)
    if end is None:
        raise NotMade(f"{TOPOLOGY}: `services` must be the last field")
    _write(folder, files)
    line = f',\n{end[1]}  {{ "name": "{name}", "stepType": "{step_type}" }}'
    topology.write_text(text[: end.start()] + line + text[end.start() :], "utf-8")
    return Made(
        [*files, TOPOLOGY],
        f"next: stop a running stack, then run\n      make up\n"
        f"      .venv/bin/lucius submit FILE --protocol {step_type} --tenant demo --wait\n"
        f"before a commit: run make generate",
    )


def _alone(name: str, step_type: str, folder: Path) -> Made:
    if (folder / name).exists():
        raise NotMade(f"{folder / name} exists")
    module = f"{name}_service"
    line: dict[str, Any] = {"name": name, "stepType": step_type}
    files = {
        Path(name, f"{module}.py"): _text("step.py", name, step_type),
        Path(name, f"test_{module}.py"): _text("test_step.py", name, step_type, module=module),
        Path(name, "requirements.txt"): "lucius-service[telemetry]\n",
        Path(name, "Dockerfile"): _text("Dockerfile.alone", name, step_type),
        Path(name, "topology-line.json"): json.dumps(line) + "\n",
        **_protocol_files(Path(name, "protocols"), name, step_type),
    }
    _write(folder, files)
    return Made(
        list(files),
        f"next: cd {folder / name} && lucius-service run {module}:{_class(name)}\n"
        f"to install the service in LUCIUS: add the content of topology-line.json to `services` of\n"
        f"      infra/bicep/topology.json,\n"
        f"      and copy the files of protocols/ to the protocols of LUCIUS",
    )


def _protocol_files(folder: Path, name: str, step_type: str) -> dict[Path, str]:
    return {
        folder / f"{name}.json": _text("protocol.json", name, step_type),
        folder / "steps" / f"{name}.schema.json": _text("payload.schema.json", name, step_type),
    }


def _text(template: str, name: str, step_type: str, module: str = "") -> str:
    """Returns a template with its names filled in."""
    names = {"name": name, "step_type": step_type, "class_name": _class(name), "module": module}
    return Template((TEMPLATES / f"{template}.in").read_text("utf-8")).substitute(names)


def _class(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_")) + "Step"


def _write(folder: Path, files: dict[Path, str]) -> None:
    """Writes all files. Raises NotMade, and writes nothing, if a file exists."""
    for path in files:
        if (folder / path).exists():
            raise NotMade(f"{folder / path} exists")
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
