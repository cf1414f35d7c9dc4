"""`lucius tenant export` and `lucius tenant purge`: export and delete a tenant's data."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from lucius_client import Client, Refused
from lucius_client.cli import ids, rendering
from lucius_client.cli.bulk import Wait, finish
from lucius_client.cli.commands import add
from lucius_client.cli.exits import GONE, UNREADABLE, check_whole
from lucius_client.cli.options import Reason
from lucius_client.cli.part_folder import part_folder
from lucius_client.cli.session import WATCH_RETRIES, Session, with_session
from lucius_client.cli.tables import Column, Listing
from lucius_client.feed import events

FORMAT = "lucius-tenant/1"
#: maximum age of usage in the API, minus a minute for the request
_USAGE = timedelta(days=31) - timedelta(minutes=1)
#: problem codes of features that are disabled
_OFF = ("EVENTS_OFF", "WEBHOOKS_OFF")

EXPORTED = Listing("files", "file", (Column("file", "file"), Column("rows", "rows")))
PREVIEW = Listing("tenants", "tenant", (Column("tenant", "tenant"), Column("jobs", "jobs"), Column("living", "living")))

TenantName = Annotated[str, typer.Argument(metavar="TENANT", help="Id of the tenant to export or purge.")]

tenant_app = typer.Typer(help="Export or purge tenants.", no_args_is_help=True)


@with_session
def export(
    session: Session,
    tenant: TenantName,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="File to write, in the format tar.gz.")],
) -> None:
    """Write a tenant's data to a file.

    The file has JSON lines of jobs, histories, retained events, webhooks, quotas,
    changes of quotas, incidents, bulk operations, sources and rejected messages.
    The file also has the usage of the last 31 days. The jobs include archived
    jobs. The command replaces an existing file only by a complete file.

    The exit code is 1 if the API cannot read some items. The file lacks these
    items, and the manifest has their ids.
    """
    client = session.connect(WATCH_RETRIES)
    with part_folder(out, continues=False) as part:
        manifest: dict[str, Any] = {"format": FORMAT, "tenant": tenant, "created_at": f"{datetime.now(UTC):%FT%TZ}"}
        manifest["files"] = files = {}
        for name, rows in _FILES.items():
            session.progress.print(f"{name}: reading", highlight=False)
            files[name] = _written(part / name, partial(rows, client, tenant))
        packed = part / "tenant.tar.gz"
        with tarfile.open(packed, "w:gz") as tar:
            content = json.dumps(manifest, indent=1).encode()
            member = tarfile.TarInfo("manifest.json")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
            for name in files:
                tar.add(part / name, name)
        packed.replace(out)
    session.show(EXPORTED, [{"file": name, **each} for name, each in files.items()], manifest)
    check_whole({name: code for each in files.values() for name, code in each["not_exported"].items()})


@with_session
def purge(
    session: Session,
    tenant: TenantName,
    reason: Reason,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count the tenant's jobs, up to 1,000. Delete nothing.")
    ] = False,
    wait: Wait = False,
) -> None:
    """Delete a tenant's data. Operators only.

    Some data stays, for example documents, results, runs' logs and artifacts,
    and the anchors with job ids. The guide docs/guides/audit.md has the list.

    LUCIUS refuses the purge while the tenant has jobs that have not ended. The
    deletion is final, so export the tenant first.

    LUCIUS deletes the data as a bulk operation. With --wait, the exit code is 1
    if a job was submitted during the purge. The job stays, with the data
    that is not deleted yet. Purge the tenant again.
    """
    if dry_run:
        found = session.client.preview_purge(tenant).plain()
        session.show(PREVIEW, [found], found)
        return
    finish(session, session.client.purge(tenant, reason=reason), wait=wait)


@dataclass(frozen=True)
class _NotExported:
    """An item that the API refuses to show."""

    name: str
    code: str


def _written(file: Path, rows: Callable[[], Iterable[Any]]) -> dict[str, Any]:
    """Writes rows as JSON lines. Returns their number, the digest, and the problem codes of missing items.

    A disabled feature has no rows.
    """
    digest, count, not_exported = hashlib.sha256(), 0, dict[str, str]()
    with file.open("wb") as written:
        try:
            for row in rows():
                if isinstance(row, _NotExported):
                    rendering.write(f"{file.name} lacks {row.name}: {row.code}", stderr=True)
                    not_exported[row.name] = row.code
                    continue
                line = json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
                written.write(line)
                digest.update(line)
                count += 1
        except Refused as refused:
            if count or refused.code not in _OFF:
                raise
            rendering.write(f"{file.name}: {refused}", stderr=True)
    return {"rows": count, "sha256": digest.hexdigest(), "not_exported": not_exported}


def _each(names: Iterable[str], read: Callable[[str], Iterable[Any]]) -> Iterator[Any]:
    """Yields the rows of each item, or a `_NotExported` for an item that is deleted or unreadable."""
    for name in names:
        try:
            yield from read(name)
        except Refused as refused:
            if refused.code not in (*GONE, *UNREADABLE):
                raise
            yield _NotExported(name, refused.code)


def _jobs(client: Client, tenant: str) -> Iterator[Any]:
    return _each(ids.of_every_job(client, tenant_id=tenant), lambda job_id: [client.audit(job_id)])


def _quota_log(client: Client, tenant: str) -> Iterator[Any]:
    for quota in client.quotas(tenant=tenant):
        for entry in client.quota_log(quota):
            yield {"quota": quota.id, **entry.plain()}


def _bulk_items(client: Client, tenant: str) -> Iterator[Any]:
    def items(bulk_id: str) -> Iterator[Any]:
        for item in client.bulk_items(bulk_id, tenant=tenant):
            yield {"bulkId": bulk_id, **item.plain()}

    return _each((bulk.bulkId for bulk in client.bulks(tenant=tenant)), items)


def _rejected(client: Client, tenant: str) -> Iterator[Any]:
    found = (line.id for line in client.rejected(tenant=tenant))
    return _each(found, lambda rejected_id: [client.rejected_message(rejected_id).plain()])


def _usage(client: Client, tenant: str) -> Iterator[Any]:
    yield client.usage(tenant=tenant, since=datetime.now(UTC) - _USAGE, by="hour").plain()


_FILES: dict[str, Callable[[Client, str], Iterable[Any]]] = {
    "jobs.jsonl": _jobs,
    "events.jsonl": lambda client, tenant: (
        each.plain() for each in events(client, tenant_id=tenant, after="earliest", follow=False)
    ),
    "webhooks.jsonl": lambda client, tenant: (each.plain() for each in client.webhooks(tenant=tenant)),
    "incidents.jsonl": lambda client, tenant: (each.plain() for each in client.incidents(tenant_id=tenant)),
    "quotas.jsonl": lambda client, tenant: (each.plain() for each in client.quotas(tenant=tenant)),
    "quota_log.jsonl": _quota_log,
    "bulks.jsonl": lambda client, tenant: (each.plain() for each in client.bulks(tenant=tenant)),
    "bulk_items.jsonl": _bulk_items,
    "usage.jsonl": _usage,
    "sources.jsonl": lambda client, tenant: (each.plain() for each in client.sources(tenant=tenant)),
    "rejected.jsonl": _rejected,
}

add(tenant_app, "export", export, "lucius tenant export acme --out acme.tar.gz")
add(
    tenant_app,
    "purge",
    purge,
    "lucius tenant purge acme --reason 'the contract has ended' --dry-run",
    "lucius tenant purge acme --reason 'the contract has ended' --wait",
)
