"""The image of the reference services: its content, and its steps, run in an empty environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.package import environment
from scripts import service_images
from tests import running_stack
from tests.jobs import ROOT
from tests.platform_service import dockerfile

DOCKERFILE = ROOT / "platform_service" / "Dockerfile"


def copied() -> set[str]:
    """Returns the files that the Dockerfiles take from the repository."""
    texts = [(ROOT / path).read_text() for path in set(service_images.images().values())]
    copies = [rest for text in texts for word, rest in dockerfile.instructions(text) if word == "COPY"]
    return {rest.split()[0] for rest in copies if not rest.startswith("--from")}


def test_an_image_is_made_of_what_its_tag_is_the_hash_of() -> None:
    """The upload has the files that the Dockerfile copies and no others, and a change of them is another tag."""
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert {line[1:] for line in ignored if line.startswith("!")} == copied()
    assert {line for line in ignored if line and line[0] not in "#!"} == {"*", "**/__pycache__"}
    assert set(service_images.SOURCES) == copied() | {".dockerignore"}
    assert service_images.tag("") != service_images.tag("mirror.example/python:3.12-slim")


def test_the_runner_of_packs_starts_as_root_under_an_init() -> None:
    """Without USER; tini is process 1, and hands SIGTERM on."""
    text = (ROOT / service_images.images()["lucius-packs"]).read_text()
    steps = dockerfile.instructions(text)
    assert "USER" not in [word for word, _ in steps]
    assert any(word == "RUN" and " tini " in rest and "chmod 0111 /usr/bin/tini" in rest for word, rest in steps)
    assert steps[-1] == ("ENTRYPOINT", '["/usr/bin/tini", "--", "/service/bin/python", "-m", "platform_service"]')


def test_nothing_of_the_image_of_services_runs_as_root() -> None:
    """The last USER is a number, so that a cluster can see that it is not root; nothing is added after it."""
    last = [word for word, _ in dockerfile.instructions(DOCKERFILE.read_text())].index("USER")
    assert dockerfile.instructions(DOCKERFILE.read_text())[last:] == [
        ("USER", "1000"),
        ("ENTRYPOINT", '["/service/bin/python", "-m", "platform_service"]'),
    ]


@pytest.mark.long
@pytest.mark.needs("python3.12")
@pytest.mark.timeout(1800)
def test_the_image_puts_a_document_through(tmp_path: Path) -> None:
    """Each step of the Dockerfile, with the packages of the lock; then its services take a job to SUCCEEDED.

    It installs 60 packages and loads every model.
    """
    context = tmp_path / "context"
    for source in copied():
        (context / source).parent.mkdir(parents=True, exist_ok=True)
        (context / source).symlink_to(ROOT / source)
    image = dockerfile.build(DOCKERFILE, context, tmp_path / "image", environment.python312())
    stack = running_stack.start(tmp_path / "data", "--without-services")
    services = []
    try:
        for name in ("ocr", "embedding", "sis"):
            settings = {name: value for name, value in stack.settings.items() if name.startswith("LUCIUS_")}
            services.append(
                subprocess.Popen(
                    [*(image.inside(word) for word in image.entrypoint), name],
                    cwd=image.inside(image.folder),
                    env={**image.environment, **settings, "LUCIUS_SERVICE_HEALTH_PORT": "0", "PATH": os.defpath},
                )
            )
        smoke = [sys.executable, str(ROOT / "scripts" / "smoke.py"), "--api", stack.api, "--blobs", stack.blob]
        done = subprocess.run(
            [*smoke, "--document", str(running_stack.SMALL_INVOICE)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr + running_stack.tails(tmp_path / "data")
        assert "SUCCEEDED: ocr SUCCEEDED, embedding SUCCEEDED, sis SUCCEEDED" in done.stdout
    finally:
        for each in services:
            each.terminate()
        assert [each.wait(60) for each in services] == [0] * len(services)
        stack.stop()
