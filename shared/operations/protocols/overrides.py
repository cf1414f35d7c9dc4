"""Applies values of a configuration store to protocols and modes. An invalid definition or mode leaves the last good
value in effect. An invalid schema leaves the packaged schema in effect.

The store has these keys:

- `lucius:protocols:{protocol_id}` and `lucius:protocols:{protocol_id}:{version}`: a definition as JSON
- `lucius:schemas:{path}`: a payload schema as JSON
- `lucius:tenants:{tenant}:mode` and `lucius:defaults:mode`: `DEFAULT` (older name: `SAFE`) or `BURST`
- `lucius:tenants:{tenant}:ref_hosts`: hosts and containers of the tenant's references, separated by commas
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.contracts.envelope import OLDER_MODES, RESERVED_TENANTS
from shared.core.jobs.routing import Modes, normalise
from shared.core.records.strict_json import parse_json
from shared.core.registry import Protocol, Registry, VersionKey, build_protocol
from shared.errors import ProtocolError

_PROTOCOLS = "lucius:protocols:"
_SCHEMAS = "lucius:schemas:"
_TENANTS, _MODE, _REF_HOSTS = "lucius:tenants:", ":mode", ":ref_hosts"
_DEFAULT_MODE = "lucius:defaults:mode"
_MODES = ("DEFAULT", "BURST")


@dataclass(frozen=True)
class CatalogState:
    """The protocols, modes and allowed hosts for requests, until the next refresh."""

    registry: Registry
    modes: Modes = field(default_factory=Modes)
    #: one line for each unusable value of the store
    problems: tuple[str, ...] = ()
    #: allowed hosts of references by normalised tenant, within the setting; a missing tenant has all hosts of the
    #: setting
    ref_hosts: Mapping[str, frozenset[str]] = field(default_factory=dict)


def apply_overrides(
    values: Mapping[str, str], before: CatalogState, schemas: Mapping[str, Any], services: Mapping[str, str]
) -> CatalogState:
    """Returns the state after applying `values` to `before`. `schemas`: the packaged schemas, which a store can use and
    replace.

    The result also has the problems of invalid values.
    """
    problems: list[str] = []
    known = dict(schemas)
    for path, text in _part(values, _SCHEMAS).items():
        try:
            known[path] = parse_json(text.encode())
        except ValueError as wrong:
            problems.append(f"{_SCHEMAS}{path}: {wrong}")
    for name in _part(values, _TENANTS):
        tenant = normalise(name.rpartition(":")[0])
        if (meaning := RESERVED_TENANTS.get(tenant)) is not None:
            problems.append(f"{_TENANTS}{name}: the name is reserved for {meaning}; remove the key")
    registry = _registry(_part(values, _PROTOCOLS), before.registry, known, services, problems)
    return CatalogState(registry, _modes(values, before.modes, problems), tuple(problems), _ref_hosts(values))


def _registry(
    texts: Mapping[str, str],
    before: Registry,
    schemas: Mapping[str, Any],
    services: Mapping[str, str],
    problems: list[str],
) -> Registry:
    if not texts:
        problems.append(f"no key begins with {_PROTOCOLS}, so the loaded protocols stay in effect")
        return before
    found: dict[VersionKey, Protocol] = {}
    kept: list[str] = []
    for name, text in texts.items():
        try:
            protocol = _protocol(name, text, schemas, services)
            found[protocol.key] = protocol
        except ProtocolError as wrong:
            problems.append(str(wrong))
            kept.append(name)
    for each in before.every_version:
        protocol_id, version = each.key
        # the key of an only version need not name the version
        unnamed = protocol_id in kept and not any(key[0] == protocol_id for key in found)
        if unnamed or f"{protocol_id}:{version}" in kept:
            found.setdefault(each.key, each)
    try:
        return Registry(found.values(), services) if found else before
    except ProtocolError as wrong:
        problems.append(str(wrong))
        return before


def _protocol(name: str, text: str, schemas: Mapping[str, Any], services: Mapping[str, str]) -> Protocol:
    source = f"{_PROTOCOLS}{name}"
    try:
        definition = parse_json(text.encode())
    except ValueError as wrong:
        raise ProtocolError(f"{source}: {wrong}") from None
    protocol = build_protocol(source, definition, schemas, services)
    protocol_id, version = protocol.key
    if name not in (protocol_id, f"{protocol_id}:{version}"):
        raise ProtocolError(
            f"{source}: the key of this definition must be {_PROTOCOLS}{protocol_id}, with or without :{version}"
        )
    return protocol


def _modes(values: Mapping[str, str], before: Modes, problems: list[str]) -> Modes:
    tenants: dict[str, str] = {}
    for name, mode in _part(values, _TENANTS).items():
        if not name.endswith(_MODE):
            continue
        tenant, mode = normalise(name.removesuffix(_MODE)), OLDER_MODES.get(mode, mode)
        if mode in _MODES:
            tenants[tenant] = mode
        else:
            problems.append(f"{_TENANTS}{name}: {mode!r} is not one of {', '.join(_MODES)}")
            if tenant in before.tenants:
                tenants[tenant] = before.tenants[tenant]
    default = values.get(_DEFAULT_MODE)
    default = OLDER_MODES.get(default, default) if default is not None else None
    if default is not None and default not in _MODES:
        problems.append(f"{_DEFAULT_MODE}: {default!r} is not one of {', '.join(_MODES)}")
        default = before.default
    return Modes(tenants, default)


def _ref_hosts(values: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """Returns the allowed hosts by tenant. An empty list allows only the tenant's own folder of the workspace."""
    return {
        normalise(name.removesuffix(_REF_HOSTS)): frozenset(part.strip().lower() for part in text.split(","))
        for name, text in _part(values, _TENANTS).items()
        if name.endswith(_REF_HOSTS)
    }


def _part(values: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): text for key, text in sorted(values.items()) if key.startswith(prefix)}
