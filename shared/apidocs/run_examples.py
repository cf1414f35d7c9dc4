"""Examples of runs."""

from __future__ import annotations

from shared.apidocs.json_schema import JsonObject

_WRITTEN_AT = "2026-01-27T10:02:00Z"


def by_model(job_id: str) -> JsonObject:
    """An example for each answer about a run, by the name of its model."""
    report = {"name": "report.json", "size": 1204, "media_type": "application/json", "written_at": _WRITTEN_AT}
    url = (
        f"https://account.blob.core.windows.net/runs/tenant_a/{job_id}/1/report.json?se=2026-01-27T10%3A07%3A00Z&sig=s"
    )
    return {
        "RunArtifacts": {"jobId": job_id, "attempt": 1, "artifacts": [report]},
        "ArtifactLink": {"url": url, "expires_at": "2026-01-27T10:07:00Z"},
    }
