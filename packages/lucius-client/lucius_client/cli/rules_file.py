"""Reads the limits of quotas from a file, for `lucius quota apply quotas.yaml`.

```yaml
quotas:
- tenant: acme-corp
  jobType: "*"            # default: all jobs of the tenant
  maxActive: 50
  maxPerHour: 500
  burst: 10
  maxStaged: 2000
  priority: {emergency: {maxActive: 5, skipQueue: true}}
- {tenant: acme-corp, jobType: OCR, maxActive: 4, breaker: {failureRate: 0.5}}
- {tenant: acme-corp, source: scanner-7, maxPerHour: 60}
- {tenant: "*", maxActive: 100}    # every tenant without its own limits
- {gate: platform, maxActive: 500}   # over all tenants; also mode:BURST, type:OCR, service:ocr, lane:3
```
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lucius_client.cli.exits import UsageError

_NUMBERS = {
    "maxActive": "max_active",
    "maxPerHour": "max_per_hour",
    "burst": "burst",
    "maxStaged": "max_staged",
    "weight": "weight",
}
_NAMES = ("tenant", "jobType", "source", "gate", "priority", "breaker")
_OF_A_BREAKER = {
    "failureRate": "failure_rate",
    "minCalls": "min_calls",
    "cooldownS": "cooldown_s",
    "minTenants": "min_tenants",
}
#: names in the API
BREAKER_NUMBERS = tuple(_OF_A_BREAKER.values())


@dataclass(frozen=True)
class FileRule:
    """All limits of one quota. A limit that the file omits is None."""

    #: tenant; None means a quota over all tenants
    tenant: str | None
    job_type: str | None
    source: str | None
    #: name of a quota over all tenants
    gate: str | None
    numbers: dict[str, Any]


def read_rules(file: Path) -> list[FileRule]:
    """Reads the limits of all quotas in a file. Raises UsageError with the position of the error."""
    import yaml  # imported late: no other command needs it

    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}; name another file") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{file} is not YAML: {' '.join(str(error).split())}; correct the file") from error
    entries = document.get("quotas") if isinstance(document, dict) and len(document) == 1 else None
    if not isinstance(entries, list):
        raise UsageError(f"{file}: must be a list under `quotas:`, without other keys")
    rules = [_rule(f"{file}: quotas[{number}]", entry) for number, entry in enumerate(entries)]
    gates = [(rule.tenant, rule.job_type, rule.source, rule.gate) for rule in rules]
    if twice := next((gate for gate in gates if gates.count(gate) > 1), None):
        raise UsageError(f"{file}: two items for one quota: {', '.join(each for each in twice if each)}; keep one item")
    return rules


def _rule(place: str, entry: Any) -> FileRule:
    if not isinstance(entry, dict):
        raise UsageError(f"{place}: must be a mapping, for example {{tenant: acme, maxActive: 2}}")
    if unknown := sorted(str(name) for name in entry if name not in (*_NUMBERS, *_NAMES)):
        raise UsageError(f"{place}: unknown keys: {', '.join(unknown)}; remove the keys")
    tenant, source = _name(place, "tenant", entry), _name(place, "source", entry)
    job_type = _name(place, "jobType", entry)
    gate = _name(place, "gate", entry)
    if (tenant is None) == (gate is None) or (gate is not None and (job_type or source)):
        raise UsageError(f"{place}: must name a tenant, or a `gate` without jobType and source")
    numbers: dict[str, Any] = {theirs: _number(place, ours, entry.get(ours)) for ours, theirs in _NUMBERS.items()}
    numbers["emergency_max_active"] = _emergencies(place, entry.get("priority"))
    numbers["breaker"] = _breaker(place, entry.get("breaker"))
    return FileRule(tenant, None if job_type == "*" else job_type, source, gate, numbers)


def _name(place: str, name: str, entry: dict[str, Any]) -> str | None:
    value = entry.get(name)
    if value is not None and not isinstance(value, str):
        raise UsageError(f"{place}.{name}: must be text; put {value} in quotes")
    return value


def _number(place: str, name: str, value: Any) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise UsageError(f"{place}.{name}: must be a whole number, not {value!r}")
    return value


def _breaker(place: str, given: Any) -> dict[str, float | None] | None:
    """Returns the breaker's numbers. A number that the file omits is None, which means the default."""
    if given is None:
        return None
    if not isinstance(given, dict) or given.keys() - _OF_A_BREAKER.keys():
        raise UsageError(f"{place}.breaker: must be a mapping of {', '.join(_OF_A_BREAKER)}, or {{}}")
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UsageError(f"{place}.breaker.{name}: must be a number, not {value!r}")
    return {theirs: given.get(ours) for ours, theirs in _OF_A_BREAKER.items()}


def _emergencies(place: str, priority: Any) -> int | None:
    if priority is None:
        return None
    emergency = priority.get("emergency") if isinstance(priority, dict) and len(priority) == 1 else None
    if not isinstance(emergency, dict) or emergency.keys() - {"maxActive", "skipQueue"}:
        raise UsageError(f"{place}.priority: must be {{emergency: {{maxActive: N, skipQueue: true}}}}")
    if emergency.get("skipQueue", True) is not True:
        return None
    return _number(place, "priority.emergency.maxActive", emergency.get("maxActive"))
