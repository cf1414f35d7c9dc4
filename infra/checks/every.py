"""All checks that need neither an environment of their own nor a network."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from infra.checks import (
    alerts,
    app_settings,
    durable_backend,
    hardening,
    host_json,
    modules,
    package_files,
    private_links,
    refusals,
    roles,
    seeds,
    symbols,
    topics,
    values,
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
        "DURABLE_TASK_SCHEDULER_CONNECTION_STRING",
        "FUNCTIONS_REQUEST_BODY_SIZE_LIMIT",
    }
)
_PLATFORM = frozenset(
    {
        "AzureWebJobsStorage__accountName",
        "AzureWebJobsStorage__blobServiceUri",
        "AzureWebJobsStorage__queueServiceUri",
        "AzureWebJobsStorage__tableServiceUri",
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
    found = [each for template in templates.values() for each in check_template(template, templates)]
    for path in sorted(folder.rglob("*.bicepparam")):
        found += check_parameters(parse(path), templates)
    return sorted([*found, *check_project(root, templates), *compiled(folder)])


def check_template(template: Template, templates: Mapping[Path, Template]) -> list[Finding]:
    """What is found in one template; `templates` by resolved path."""
    return [
        *_syntax(template),
        *symbols.check(template),
        *modules.check(template, templates),
        *roles.check_ids(template),
        *symbols.check_declarations(template, templates),
        *values.check(template, templates),
        *refusals.check(template),
        *symbols.check_resource_ids(template),
        *hardening.check(template, templates),
        *private_links.check(template),
        *alerts.check(template),
    ]


def check_parameters(file: Template, templates: Mapping[Path, Template]) -> list[Finding]:
    """What is found in one parameter file."""
    found = [*_syntax(file), *modules.check_parameters(file, templates)]
    if (target := modules.used(file, templates)) is not None:
        found += values.check_parameters(file, target, templates)
    return found


def check_project(root: Path, templates: Mapping[Path, Template]) -> list[Finding]:
    """What is found in the templates as a whole, and in the files around them."""
    return [
        *app_settings.check(templates.values(), known=known_settings(), needed=_NEEDED),
        *roles.check(templates),
        *topics.check(root, templates.values()),
        *host_json.check_backends(root),
        *durable_backend.check(root),
        *package_files.check(root),
        *seeds.check(root),
        *package_files.check_named(root),
    ]


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


def _syntax(template: Template) -> list[Finding]:
    return [Finding(template.path, line, "syntax", "is not Bicep") for line in template.broken]
