"""All checks that need neither an environment of their own nor a network."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from infra.checks import (
    app_settings,
    durable_backend,
    host_json,
    limits,
    modules,
    package_files,
    refusals,
    resources,
    roles,
    seeds,
    symbols,
)
from infra.checks.finding import Finding
from infra.checks.template import Template, parse
from shared.settings import SETTINGS

#: settings for laptops and tests: a template must not set one
_LAPTOP = frozenset(
    {
        "LUCIUS_SERVICEBUS_CONNECTION",
        "LUCIUS_TABLE_CONNECTION",
        "LUCIUS_BLOB_CONNECTION",
        "LUCIUS_APPCONFIG_CONNECTION",
        "LUCIUS_PROTOCOLS_PATH",
        "LUCIUS_TOPOLOGY_PATH",
    }
)
#: without these the app does not start in Azure, or starts without tokens, metrics, identities or bounds
_NEEDED = frozenset(
    {
        "LUCIUS_SERVICEBUS_CONNECTION__fullyQualifiedNamespace",
        "LUCIUS_SERVICEBUS_CONNECTION__credential",
        "LUCIUS_SERVICEBUS_CONNECTION__clientId",
        "LUCIUS_TABLE_ENDPOINT",
        "LUCIUS_BLOB_ENDPOINT",
        "LUCIUS_APPCONFIG_ENDPOINT",
        "LUCIUS_ALLOWED_REF_HOSTS",
        "LUCIUS_PUBLIC_URL",
        "LUCIUS_AUTH_MODE",
        "LUCIUS_AUTH_ISSUER",
        "LUCIUS_AUTH_AUDIENCE",
        "LUCIUS_AUTH_JWKS_URL",
        "LUCIUS_SERVICEBUS_REPLY_SUBSCRIPTION",
        "AzureWebJobsStorage__credential",
        "AzureWebJobsStorage__clientId",
        "APPLICATIONINSIGHTS_CONNECTION_STRING",
        "APPLICATIONINSIGHTS_AUTHENTICATION_STRING",
        "AZURE_CLIENT_ID",
        "TASKHUB_NAME",
        "FUNCTIONS_REQUEST_BODY_SIZE_LIMIT",
    }
)
_PLATFORM = frozenset(
    {
        "AzureWebJobsStorage__accountName",
        "AzureWebJobsStorage__blobServiceUri",
        "AzureWebJobsStorage__queueServiceUri",
        "AzureWebJobsStorage__tableServiceUri",
        "DURABLE_TASK_SCHEDULER_CONNECTION_STRING",
        "FUNCTIONS_EXTENSION_VERSION",
        "WEBSITE_RUN_FROM_PACKAGE",
        "WEBSITE_RUN_FROM_PACKAGE_BLOB_MI_RESOURCE_ID",
        "FUNCTIONS_WORKER_RUNTIME",
        "PYTHON_THREADPOOL_THREAD_COUNT",
        "PYTHON_ENABLE_INIT_INDEXING",
        "PYTHON_APPLICATIONINSIGHTS_ENABLE_TELEMETRY",
        "OTEL_SERVICE_NAME",
    }
)
_LINE = re.compile(r"(?P<path>[^(]+)\((?P<line>\d+),\d+\) : (?P<level>Error|Warning) (?P<text>.*)")


def check(root: Path) -> list[Finding]:
    """Findings in the templates, host.json and `.funcignore`; also those of the compiler, where `bicep` is on PATH."""
    folder = root / "infra" / "bicep"
    templates = {path.resolve(): parse(path) for path in sorted(folder.rglob("*.bicep"))}
    parameter_files = [parse(path) for path in sorted(folder.rglob("*.bicepparam"))]
    found = _syntax([*templates.values(), *parameter_files])
    for template in templates.values():
        found += [*symbols.check(template), *modules.check(template, templates), *resources.check(template)]
        found += [*limits.check(template, templates), *refusals.check(template), *roles.check_ids(template)]
    for file in parameter_files:
        found += modules.check_parameters(file, templates)
        if (target := modules.used(file, templates)) is not None:
            found += limits.check_parameters(file, target)
    found += roles.check(templates)
    found += app_settings.check(templates.values(), known=known_settings(), needed=_NEEDED)
    found += resources.check_topics(root, templates.values())
    found += host_json.check_backends(root)
    found += durable_backend.check(root)
    found += package_files.check(root)
    found += seeds.check(root)
    found += compiled(folder)
    return sorted(found)


def known_settings() -> frozenset[str]:
    """The settings that a template may set: those that the app reads in Azure, and those of the platform."""
    return frozenset({setting.name for setting in SETTINGS} - _LAPTOP) | _NEEDED | _PLATFORM


def compiled(folder: Path) -> list[Finding]:
    """Errors and warnings of Microsoft's compiler; none where `bicep` is not on PATH."""
    bicep = shutil.which("bicep")
    if bicep is None:
        return []
    found = []
    for path in sorted(folder.glob("*.bicep")):
        done = subprocess.run([bicep, "build", "--stdout", str(path)], capture_output=True, text=True, check=False)
        matches = filter(None, map(_LINE.match, done.stderr.splitlines()))
        found += [Finding(Path(each["path"]), int(each["line"]), "bicep", each["text"]) for each in matches]
    return found


def _syntax(templates: Iterable[Template]) -> list[Finding]:
    return [
        Finding(template.path, line, "syntax", "is not Bicep") for template in templates for line in template.broken
    ]
