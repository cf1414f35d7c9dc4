"""Completes shortened ids, and finds the tenant that a command does not name.

The API has no route that completes ids. Therefore, the command searches the first `MAX_ITEMS` items of the API's lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from lucius_client import Client, Refused
from lucius_client.cli.exits import CliError, Exit, UsageError

#: maximum items of a list that are searched
MAX_ITEMS = 1000
#: maximum jobs, and maximum quotas, whose tenants are searched
_JOBS = 300
#: minimum characters of a prefix after the last `_`, and the minimum if the list has more than `MAX_ITEMS`
_MIN, _MIN_OF_MANY = 4, 8
#: characters of a complete id after the last `_`; the command does not search for it, unless the kind is `of_tenant`
_WHOLE = 32
#: maximum candidates that an error names
_NAMED = 4

T = TypeVar("T")


@dataclass(frozen=True)
class Kind:
    """A kind of id, with the API list that completes shortened ids."""

    noun: str
    #: problem code for an id of this kind that does not exist
    not_found: str
    #: function that lists the ids of a tenant (None means all), newest first unless the list is always shorter than
    #: `MAX_ITEMS`
    ids: Callable[[Client, str | None], Iterable[str]]
    #: `True` if the API lists these ids for one tenant at a time
    of_tenant: bool = False


JOB = Kind("job", "JOB_NOT_FOUND", lambda api, tenant: (each.jobId for each in api.jobs(tenant_id=tenant)))
INCIDENT = Kind(
    "incident",
    "INCIDENT_NOT_FOUND",
    lambda api, tenant: (each.incidentId for each in api.incidents(tenant_id=tenant, state=None)),
)
REJECTED = Kind("rejected message", "REJECTED_NOT_FOUND", lambda api, _: (each.id for each in api.rejected()))
BULK = Kind(
    "bulk operation",
    "BULK_NOT_FOUND",
    lambda api, tenant: (each.bulkId for each in api.bulks(tenant=tenant)),
    of_tenant=True,
)
WEBHOOK = Kind(
    "webhook",
    "HOOK_NOT_FOUND",
    lambda api, tenant: (each.hookId for each in api.webhooks(tenant=tenant)),
    of_tenant=True,
)


def found(api: Client, kinds: dict[str, Kind], options: dict[str, Any], error: Refused) -> dict[str, Any] | None:
    """Returns the options of a refused command with complete ids and their tenant, or None if nothing was completed.

    `error` is the error of the API. `kinds` has the kinds of the ids among the options, by option name. Raises CliError
    if a prefix is not unique, or if the search of a long list cannot complete the prefix.
    """
    changed: dict[str, Any] = {}
    for name, kind in kinds.items():
        without_tenant = error.code == "TENANT_REQUIRED" and kind.of_tenant and "tenant" in options
        if error.code != kind.not_found and not without_tenant:
            continue
        given = options[name] if isinstance(options[name], list) else [options[name]]
        wholes = [_whole(api, kind, each, options.get("tenant")) for each in given]
        if all(wholes):
            changed[name] = [each[0] for each in wholes if each]
            changed[name] = changed[name] if isinstance(options[name], list) else changed[name][0]
            if without_tenant and wholes[0]:
                changed["tenant"] = wholes[0][1]
    again = {**options, **changed}
    return again if again != options else None


def of_each_tenant(api: Client, tenant: str | None, listed: Callable[[str | None], Iterable[T]]) -> Iterator[T]:
    """Yields the items of `listed` for a tenant. If `tenant` is None and the API requires a tenant, yields the items of
    each of `tenants`.
    """
    try:
        yield from listed(tenant)
    except Refused as error:
        if error.code != "TENANT_REQUIRED":
            raise
        for each in tenants(api):
            yield from listed(each)


def tenants(api: Client, jobs: int = _JOBS) -> list[str]:
    """Returns the tenants of the latest `jobs` jobs and of the first `jobs` quotas, sorted."""
    named = [each.tenant_id for each in api.jobs(limit=jobs)]
    named += [each.tenant for each in api.quotas(limit=jobs) if each.name is None and each.tenant != "*"]
    return sorted(set(named))


def _whole(api: Client, kind: Kind, given: str, tenant: str | None) -> tuple[str, str | None] | None:
    """Returns the only id that begins with `given`, and the id's tenant. Returns None if `given` is too short, or if no
    id begins with `given`.
    """
    tail = given.rpartition("_")[2]
    if len(tail) == _WHOLE and not kind.of_tenant:
        return given, tenant
    if "_" not in given or len(tail) < _MIN:
        return None
    among: list[str | None] = [tenant] if tenant is not None or not kind.of_tenant else [*tenants(api)]
    matching: list[tuple[str, str | None]] = []
    cut = False
    for each in among:
        ids = list(islice(kind.ids(api, each), MAX_ITEMS + 1))
        cut = cut or len(ids) > MAX_ITEMS
        matching += [(found, each) for found in ids if found.startswith(given)]
    newest = f"the last {MAX_ITEMS:,} {kind.noun}s"
    if not matching and cut:
        text = f"{kind.noun} not found: {given} ({kind.not_found}); no match in {newest}, so give the complete id"
        raise CliError(text, Exit.REFUSED)
    if len(matching) > 1:
        named = ", ".join(found for found, _ in matching[:_NAMED])
        raise UsageError(
            f"{given} is not unique: {named}{' ...' if len(matching) > _NAMED else ''}; give more characters"
        )
    if matching and cut and len(tail) < _MIN_OF_MANY:
        raise UsageError(
            f"{given} is unique among {newest} only; give at least {_MIN_OF_MANY} characters after the last _"
        )
    return matching[0] if matching else None


def of_every_job(client: Client, **window: Any) -> Iterator[str]:
    """Yields the id of each job of the window once, first the jobs that are not archived.

    A job that is archived between the two requests can be in both lists.
    """
    seen: set[str] = set()
    for archived in (None, True):
        for line in client.jobs(**window, archived=archived):
            if line.jobId not in seen:
                seen.add(line.jobId)
                yield line.jobId
