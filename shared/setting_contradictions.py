"""Missing settings, contradictions between valid settings, and modes that do not fit the platform."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any

from shared.errors import excerpt

#: variables that a platform sets: App Service and Functions, Container Apps, a managed identity, Kubernetes
_PLATFORM = frozenset({"WEBSITE_SITE_NAME", "CONTAINER_APP_NAME", "IDENTITY_ENDPOINT", "KUBERNETES_SERVICE_HOST"})
#: origin of the sign-in, which becomes a part of the dashboard's policy
_SIGN_IN = re.compile(r"(https://[\w.-]+|http://(127\.0\.0\.1|localhost|\[::1\]))(:\d+)?(/|\Z)")


def contradictions(
    names: Mapping[str, str], values: Mapping[str, Any], environ: Mapping[str, str], *, in_azure: bool
) -> list[str]:
    """Returns an error text for each missing setting, and for each contradiction.

    `names` has the names of the settings by field. `values` has no entry for a setting that is itself invalid.
    """
    return [*_missing(names, values), *_refused(names, values, environ, in_azure=in_azure)]


def _missing(names: Mapping[str, str], values: Mapping[str, Any]) -> list[str]:
    pairs = [("servicebus_connection", "servicebus_namespace")]
    if values.get("storage_backend") != "memory":
        pairs += [("table_connection", "table_endpoint"), ("blob_connection", "blob_endpoint")]
    wrong = [
        f"{names[one]} is not set; set {names[one]} or {names[other]}"
        for one, other in pairs
        if values.get(one, "") is None and values.get(other, "") is None
    ]
    if values.get("auth_mode") == "jwt":
        empty = (each for each in ("auth_issuer", "auth_audiences", "auth_jwks_url") if values.get(each) in ("", ()))
        wrong += [
            f"{names[each]} is not set: LUCIUS_AUTH_MODE=jwt requires it; on a laptop, set LUCIUS_AUTH_MODE=none"
            for each in empty
        ]
        if values.get("dashboard_client_id") and not _SIGN_IN.match(values.get("auth_issuer", "")):
            issuer, client = names["auth_issuer"], names["dashboard_client_id"]
            value = excerpt(values.get("auth_issuer", ""))
            wrong.append(f"{issuer} must be an https URL (http on loopback only) if {client} is set, not {value}")
    return wrong


def _refused(
    names: Mapping[str, str], values: Mapping[str, Any], environ: Mapping[str, str], *, in_azure: bool
) -> list[str]:
    wrong = []
    if in_azure and values.get("storage_backend") == "memory":
        wrong.append("LUCIUS_STORAGE_BACKEND=memory is refused in Azure, since each restart loses all jobs; use tables")
    if values.get("auth_mode") == "none" and (signs := _signs_of_deployment(names, environ)):
        wrong.append(
            f"LUCIUS_AUTH_MODE=none is refused in a deployment, which is indicated by {', '.join(signs)}; use jwt or, "
            "on a laptop, unset these variables"
        )
    if (
        values.get("table_transport") == "direct"
        and "sharedaccesssignature=" in (values.get("table_connection") or "").lower()
    ):
        wrong.append(
            "LUCIUS_TABLE_CONNECTION has a SharedAccessSignature; set LUCIUS_TABLE_TRANSPORT=sdk, or use an AccountKey"
        )
    if values.get("audit_key") is not None and values.get("events") == "off":
        # the writer of the feed also writes the heads
        wrong.append(f"{names['audit_key']} requires {names['events']}=feed or topic")
    retention, ttl = values.get("retention_days"), values.get("idempotency_ttl_days")
    if retention is not None and ttl is not None and retention < ttl:
        # a repeated request would get the id of a deleted job
        wrong.append(f"LUCIUS_RETENTION_DAYS={retention:g} must be at least LUCIUS_IDEMPOTENCY_TTL_DAYS={ttl:g}")
    return [*wrong, *_one_table(names, values)]


def _one_table(names: Mapping[str, str], values: Mapping[str, Any]) -> list[str]:
    """Returns an error text for each two settings that name the same table. A tenant's partition in one table could
    have the name of another table's partition.

    Azure compares the names of tables without case.
    """
    tables = [(names[field], values[field].lower()) for field in names if field.endswith("_table") and field in values]
    return [
        f"{name} and {other} name the same table; set a different table for each"
        for (other, first), (name, second) in itertools.combinations(tables, 2)
        if first == second
    ]


def _signs_of_deployment(names: Mapping[str, str], environ: Mapping[str, str]) -> list[str]:
    """Returns the names of settings that only a deployment has. Without tokens, every caller of a deployment has every
    right.
    """
    identity = {name for field, name in names.items() if field.startswith("auth_") and field != "auth_mode"}
    endpoints = {name for name in names.values() if name.endswith(("_ENDPOINT", "__fullyQualifiedNamespace"))}
    connections = {name for name in names.values() if name.endswith("_CONNECTION")}
    signs = identity | endpoints | _PLATFORM
    signs |= {name for name in connections if "https" in environ.get(name, "").lower()}
    return sorted(name for name in signs if environ.get(name, "").strip())
