"""All checks that need no network: the compiler's diagnostics, the rules for deployed resources, and related files."""

from __future__ import annotations

from pathlib import Path

from infra.checks import (
    alerts,
    app_settings,
    container_apps,
    hardening,
    package_files,
    private_links,
    refusals,
    roles,
    seeds,
    snapshots,
    topics,
)
from infra.checks.compiler import Compiler
from infra.checks.finding import Finding
from infra.checks.snapshots import Snapshot
from infra.package import durable_backend, host_json


def templates(root: Path) -> list[Path]:
    """Returns the templates and parameter files. The file main.bicep is first, since the compiler then knows its
    modules.
    """
    folder = root / "infra" / "bicep"
    main = folder / "main.bicep"
    return [main, *sorted(set(folder.rglob("*.bicep")) - {main}), *sorted(folder.glob("*.bicepparam"))]


def compiled(compiler: Compiler, root: Path) -> list[Finding]:
    """Returns the findings of the compiler and its linter or, if there are none, of its formatter."""
    paths = templates(root)
    found = {each for path in paths for each in compiler.check(path)}
    return sorted(found) or [each for path in paths for each in compiler.format(path)]


def evaluated(compiler: Compiler, root: Path) -> list[Snapshot]:
    """Returns the snapshot of each parameter file. The templates must have no errors."""
    return [snapshots.take(compiler, path) for path in templates(root) if path.suffix == ".bicepparam"]


def check_snapshot(root: Path, snapshot: Snapshot) -> list[Finding]:
    """Returns the findings of LUCIUS's rules for the resources of a parameter file."""
    return [
        *hardening.check(snapshot),
        *private_links.check(snapshot),
        *refusals.check(snapshot),
        *roles.check(root, snapshot),
        *topics.check(root, snapshot),
        *container_apps.check(root, snapshot),
        *app_settings.check(snapshot),
        *alerts.check(snapshot),
        *seeds.check_snapshot(root, snapshot),
    ]


def check_files(root: Path) -> list[Finding]:
    """Returns the findings of the files that no compiler reads."""
    return [
        *topics.check_topology(root),
        *host_json.check_backends(root),
        *durable_backend.check(root),
        *package_files.check(root),
        *seeds.check(root),
        *package_files.check_named(root),
    ]
