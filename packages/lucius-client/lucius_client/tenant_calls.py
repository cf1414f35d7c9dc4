"""Requests that delete a tenant's data, with the functions that read their responses."""

from __future__ import annotations

from lucius_client.calls import Call, _post, _reader
from lucius_client.models import Bulk, PurgePreview


def purge(tenant: str, reason: str) -> Call[Bulk]:
    return Call(_post("/v1/admin/purge", {"tenant": tenant, "reason": reason}), _reader(Bulk))


def preview_purge(tenant: str) -> Call[PurgePreview]:
    body = {"tenant": tenant, "reason": "dry run", "dryRun": True}
    return Call(_post("/v1/admin/purge", body), _reader(PurgePreview))
