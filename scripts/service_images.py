"""Builds the images of platform services that a registry lacks, in Azure. The command is `service_images.py
SUBSCRIPTION REGISTRY`.

Prints the tag of the images. The tag is a hash of their source files, so unchanged files are not built again.
infra/bicep/containers.json has the images. LUCIUS_SERVICE_BASE names another base image than that of the Dockerfile.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: files that images are made of, as .dockerignore has them
SOURCES = (".dockerignore", "packages/lucius-service/lucius_service", "platform_service", "requirements-demo.lock")


def images() -> dict[str, str]:
    """Returns the Dockerfile of each image."""
    containers = json.loads((ROOT / "infra" / "bicep" / "containers.json").read_text(encoding="utf-8"))
    return {each["image"]: each["dockerfile"] for each in containers}


def tag(base: str) -> str:
    """Returns the hash of all source files of the images, and of the name of their base image."""
    digest = hashlib.sha256(base.encode())
    for source in SOURCES:
        path = ROOT / source
        files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
        for each in files:
            if "__pycache__" not in each.parts:
                digest.update(f"{each.relative_to(ROOT).as_posix()}\0".encode() + each.read_bytes())
    return digest.hexdigest()[:16]


def main() -> int:
    if len(sys.argv) != 3:
        print("usage: service_images.py SUBSCRIPTION REGISTRY", file=sys.stderr)
        return 2
    subscription, registry = sys.argv[1:]
    base = os.environ.get("LUCIUS_SERVICE_BASE", "")
    version = tag(base)
    for image, dockerfile in images().items():
        named = f"{image}:{version}"
        place = ["--subscription", subscription, "--output", "none"]
        show = ["az", "acr", "repository", "show", "--name", registry, "--image", named, *place]
        if subprocess.run(show, stderr=subprocess.DEVNULL, check=False).returncode == 0:
            continue
        options = ["--build-arg", f"PYTHON={base}"] if base else []
        print(f"service_images: {registry} builds {named}, in a few minutes", file=sys.stderr)
        build = ["az", "acr", "build", "--registry", registry, "--image", named, "--file", dockerfile, *options, *place]
        built = subprocess.run([*build, "."], cwd=ROOT, stdout=sys.stderr, check=False)
        if built.returncode != 0:
            print(
                f"service_images: {registry} did not build {named}: the reason is above. If the registry is private,"
                " push the image from inside its network, and set LUCIUS_SERVICE_BUILD=false and LUCIUS_SERVICE_TAG",
                file=sys.stderr,
            )
            return 1
    print(version)
    return 0


if __name__ == "__main__":
    sys.exit(main())
