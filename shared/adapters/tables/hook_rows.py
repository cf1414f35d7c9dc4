"""Converts HOOK, PENDING and DELIVERY rows to table entities and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from shared.adapters.tables.columns import json_text
from shared.adapters.tables.keys import delivery_row, hook_row, pending_row
from shared.adapters.tables.table import row_at
from shared.core.webhooks.webhooks import (
    Delivery,
    DeliveryState,
    Hook,
    HookFilter,
    HookFormat,
    HookState,
    SecretVersion,
)

#: columns that are stored unchanged
_HOOK_PLAIN = frozenset(each.name for each in fields(Hook)) - {"url", "format", "filter", "state", "secret", "previous"}
_DELIVERY = frozenset(each.name for each in fields(Delivery))
_NUMBERS = frozenset({"first", "caught_up", "number", "unlogged_first", "unlogged_last"})


def hook_entity(partition: str, hook: Hook) -> dict[str, Any]:
    """Makes the webhook's row. The row has no secret, only the version, key id and salt of the secret."""
    lets_in = {
        "types": sorted(hook.filter.types),
        "job_types": sorted(hook.filter.job_types),
        "labels": dict(hook.filter.labels),
    }
    row = {
        **_columns({name: getattr(hook, name) for name in (*_HOOK_PLAIN, "url")}),
        "format": hook.format.value,
        "filter": json_text(lets_in),
        "state": hook.state.value,
        **_of_secret("secret", hook.secret),
    }
    if hook.previous is not None:
        row |= _of_secret("previous", hook.previous)
    return {**row_at(partition, hook_row(hook.id)), **row}


def _of_secret(name: str, secret: SecretVersion) -> dict[str, Any]:
    return {f"{name}_version": secret.version, f"{name}_key": secret.key_id, f"{name}_salt": secret.salt}


def _secret(row: Mapping[str, Any], name: str) -> SecretVersion:
    return SecretVersion(version=row[f"{name}_version"], key_id=row[f"{name}_key"], salt=row[f"{name}_salt"])


def hook_of(row: Mapping[str, Any]) -> Hook:
    """Decodes the webhook's row."""
    lets_in = json.loads(row["filter"])
    previous = None
    if row.get("previous_version") is not None:
        previous = _secret(row, "previous")
    return Hook(
        **_present(row, _HOOK_PLAIN),
        url=row.get("url"),
        format=HookFormat(row["format"]),
        filter=HookFilter(
            types=frozenset(lets_in["types"]), job_types=frozenset(lets_in["job_types"]), labels=lets_in["labels"]
        ),
        state=HookState(row["state"]),
        secret=_secret(row, "secret"),
        previous=previous,
    )


def delivery_key(delivery: Delivery) -> str:
    """Returns the key of the delivery's row: PENDING while the delivery waits, DELIVERY after the delivery ended."""
    key = pending_row if delivery.state is DeliveryState.PENDING else delivery_row
    return key(delivery.hook_id, delivery.number, delivery.name)


def delivery_entity(partition: str, delivery: Delivery) -> dict[str, Any]:
    row = {**_columns(vars(delivery)), "state": delivery.state.value}
    return {**row_at(partition, delivery_key(delivery)), **row}


def delivery_of(row: Mapping[str, Any]) -> Delivery:
    values = _present(row, _DELIVERY)
    return Delivery(**{"job_id": None, **values, "state": DeliveryState(row["state"])})


def _columns(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: (value, "Edm.Int64") if name in _NUMBERS else value for name, value in values.items() if value is not None
    }


def _present(row: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {name: int(row[name]) if name in _NUMBERS else row[name] for name in names if row.get(name) is not None}
