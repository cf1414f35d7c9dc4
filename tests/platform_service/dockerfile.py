"""Follows a Dockerfile without Docker: each stage is a folder, and a step's absolute paths lead into it."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

#: parts of the machine that the stages of an image must not see
_PATH = "/usr/bin:/bin"


@dataclass
class Stage:
    """A stage of the build, after all of its steps."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "root"
    entrypoint: list[str] = field(default_factory=list)

    def inside(self, text: str) -> str:
        """The text with each absolute path of this stage, as a path of the machine."""
        names = "|".join(sorted(each.name for each in self.root.iterdir()))
        return re.sub(rf"(?<![\w/.-])/(?=(?:{names})(?:/|\b))", f"{self.root}/", text) if names else text


def instructions(text: str) -> list[tuple[str, str]]:
    """Returns each instruction with its arguments; comments and continued lines follow the Dockerfile reference."""
    joined = re.sub(r"\\\n", "", "\n".join(line for line in text.splitlines() if not line.startswith("#")))
    lines = [line.partition(" ") for line in joined.splitlines() if line]
    return [(word.upper(), rest.strip()) for word, _, rest in lines]


def build(dockerfile: Path, context: Path, folder: Path, python: Path) -> Stage:
    """Follows all steps. `python` replaces the base image's. Raises CalledProcessError, and ValueError."""
    stages: dict[str, Stage] = {}
    stage = Stage(folder)
    arguments: dict[str, str] = {}
    for word, rest in instructions(dockerfile.read_text()):
        match word:
            case "ARG":
                name, _, default = rest.partition("=")
                arguments[name] = default
            case "FROM":
                base, _, name = rest.partition(" AS ")
                if re.sub(r"\$\{(\w+)\}", lambda found: arguments[found[1]], base) != "python:3.12-slim":
                    raise ValueError(f"the base image is {base}")
                stage = stages[name or "last"] = Stage(folder / (name or "last"))
                stage.root.mkdir(parents=True)
                (stage.root / "bin").mkdir()
                (stage.root / "bin" / "python").symlink_to(python)
            case "COPY":
                _copy(rest, stage, stages, context)
            case "WORKDIR":
                stage.folder = rest
            case "ENV":
                stage.environment |= dict(each.split("=", 1) for each in shlex.split(rest))
            case "RUN":
                _run(rest, stage)
            case "USER":
                stage.user = rest
            case "ENTRYPOINT":
                stage.entrypoint = json.loads(rest)
            case _:
                raise ValueError(f"{word} is not followed")
    return stage


def _copy(rest: str, stage: Stage, stages: dict[str, Stage], context: Path) -> None:
    *options, source, target = shlex.split(rest)
    # a virtual environment has its own path in its scripts; here its Python is the way to all of them
    origin = stages[options[0].removeprefix("--from=")].root if options else context
    there, here = origin / source.lstrip("/"), stage.root / target.lstrip("/")
    here.parent.mkdir(parents=True, exist_ok=True)
    if there.is_dir():
        shutil.copytree(there, here, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(there, here)


def _run(rest: str, stage: Stage) -> None:
    """A shell command, in the environment of the stage only."""
    command = stage.inside(rest)
    # the output of a command does not exist yet
    command = re.sub(r"(?<= )/(?=\w)", f"{stage.root}/", command) if " -m venv /" in rest else command
    subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=stage.root / stage.folder.lstrip("/"),
        env={"PATH": f"{stage.root}/bin:{_PATH}", "HOME": "/nonexistent", **stage.environment},
        stdout=sys.stderr,
        check=True,
    )
