"""Finds faults in protocol files, without the app.

A JSON Schema, which `make generate` derives from the app's model, checks the form. This module implements again the
rules that a JSON Schema cannot express. A test compares the schema and these rules with the app.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from lucius_client.cli.exits import UsageError

SCHEMA = Path(__file__).with_name("protocol.schema.json")
#: the bus topology of the checkout that contains this package; an installed package has no such file
_PACKAGE = Path(__file__).resolve().parents[2]
_CHECKOUT_TOPOLOGY = _PACKAGE.parent.parent / "infra" / "bicep" / "topology.json"


@dataclass(frozen=True)
class Finding:
    """A fault of a protocol file."""

    file: str
    #: position in the file, such as `steps.0.service`; "": the whole file
    path: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file, self.path, self.message) if part)


@dataclass
class Linter:
    """A check of protocol files, one after the other. Also checks that each job type has one protocol, and that the
    protocol's versions differ.
    """

    #: step type of each service of the bus; None if services are not checked
    services: Mapping[str, str] | None
    _validator: Draft202012Validator = field(
        default_factory=lambda: Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    )
    #: valid definitions so far, with their files, by job type
    _of_request_type: dict[str, list[tuple[str, Mapping[str, Any]]]] = field(default_factory=dict)

    def check(self, file: Path) -> list[Finding]:
        """Returns the faults of a file, or only its faults against the JSON Schema if there are any. Paths of payload
        schemas are relative to the folder of `file`.
        """
        return [Finding(str(file), path, message) for path, message in self._faults(file)]

    def check_ramps(self) -> list[Finding]:
        """Returns faults of the checked files together. Only the highest of several versions can have a ramp."""
        return [
            Finding(file, "ramp_percent", "only the highest of several versions can have a ramp; remove the ramp")
            for versions in self._of_request_type.values()
            for file, each in versions
            if each.get("ramp_percent") is not None
            and (len(versions) == 1 or each["version"] < max(other["version"] for _, other in versions))
        ]

    def _faults(self, file: Path) -> Iterator[tuple[str, str]]:
        try:
            definition = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            yield "", f"unreadable: {error}"
            return
        malformed = sorted(
            self._validator.iter_errors(definition), key=lambda fault: list(map(str, fault.absolute_path))
        )
        for fault in malformed:
            yield ".".join(map(str, fault.absolute_path)), fault.message
        if malformed:
            return
        yield from _step_id_faults(definition["steps"])
        yield from _pack_faults(definition["steps"])
        yield from _group_faults(definition)
        for number, step in enumerate(definition["steps"]):
            yield from self._service_faults(number, step)
            yield from _payload_schema_faults(file.parent, number, step)
        versions = self._of_request_type.setdefault(definition["request_type"], [])
        for other, each in versions:
            if (each["protocol_id"], each["version"]) == (definition["protocol_id"], definition["version"]):
                yield (
                    "version",
                    f"{other} also has version {definition['version']} of this protocol; change one version",
                )
            elif each["protocol_id"] != definition["protocol_id"]:
                yield (
                    "request_type",
                    f"{other} also has the job type {definition['request_type']}; "
                    "change one job type, or give both files the same protocol_id",
                )
        versions.append((str(file), definition))

    def _service_faults(self, number: int, step: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        if self.services is not None and self.services.get(step["service"]) != step["step_type"]:
            yield (
                f"steps.{number}.service",
                f"no subscription {step['service']!r} of the bus topology receives step_type {step['step_type']!r}; "
                "correct the step, or add the subscription to the topology",
            )


def services_of(topology: Path | None) -> dict[str, str] | None:
    """Returns the step type of each service in a bus topology file, or None without a file and outside a checkout.

    Raises UsageError if the file is not a bus topology.
    """
    if topology is None and not _CHECKOUT_TOPOLOGY.is_file():
        return None
    file = topology or _CHECKOUT_TOPOLOGY
    try:
        return {service["name"]: service["stepType"] for service in json.loads(file.read_text("utf-8"))["services"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{file} is not a bus topology: {error}; name another file with --topology") from error


def _step_id_faults(steps: list[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for number, step in enumerate(steps):
        name = step["step_id"].lower()
        if name in seen:
            yield (
                f"steps.{number}.step_id",
                f"an earlier step has the id {step['step_id']} (step ids ignore case); rename one step",
            )
        seen.add(name)


def _pack_faults(steps: list[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    packs = [number for number, step in enumerate(steps) if step["step_type"] == "PACK"]
    for number in packs[1:]:
        yield (
            f"steps.{number}.step_type",
            "an earlier step has the step_type PACK, and a job has one log; use one step of this type",
        )


def _group_faults(definition: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    order = [step["step_id"] for step in definition["steps"]]
    grouped: list[str] = []
    for number, group in enumerate(definition.get("parallel", ())):
        place = f"parallel.{number}"
        unknown = [name for name in group if name not in order]
        if unknown:
            yield place, f"unknown steps: {', '.join(unknown)}; name steps of this file"
            continue
        if len({*grouped, *group}) != len(grouped) + len(group):
            yield place, f"`parallel` names a step of this group twice: {', '.join(group)}; name each step once"
        grouped += group
        first = min(order.index(name) for name in group)
        if set(order[first : first + len(group)]) != set(group):
            yield place, f"the steps of a group must be adjacent: {', '.join(group)}; change the order in `steps`"


def _payload_schema_faults(folder: Path, number: int, step: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if (name := step.get("payload_schema")) is None:
        return
    place = f"steps.{number}.payload_schema"
    try:
        Draft202012Validator.check_schema(json.loads((folder / name).read_text(encoding="utf-8")))
    except OSError:
        yield place, f"file not found: {name}; add the file, or correct `payload_schema`"
    except ValueError as error:
        yield place, f"{name} is not JSON: {error}; correct the file"
    except SchemaError as error:
        yield place, f"{name} is not a JSON Schema: {error.message}; correct the file"
