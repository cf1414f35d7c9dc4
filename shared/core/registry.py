"""The protocols of the app: a frozen registry, made from data (R26)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from jsonschema.exceptions import ValidationError as Violation
from jsonschema.validators import extend
from pydantic import ValidationError

from shared.contracts.protocol import ProtocolDefinition, StepDefinition
from shared.core.records.canonical import canonical_json, digest
from shared.errors import ProtocolError, json_type
from shared.refusals import MAX_REQUEST_ERROR, MAX_REQUEST_ERRORS

#: id and version of a protocol
VersionKey = tuple[str, int]

#: members of a step that never change within a version; timings and attempts can
_FIXED = ("step_id", "step_type", "service")
#: schema keywords without effect on validation, and keywords whose values are schemas by name
_ANNOTATIONS = frozenset(
    {"$comment", "$id", "$schema", "default", "deprecated", "description", "examples", "format", "readOnly", "title"}
    | {"writeOnly"}
)
_NAMED_SCHEMAS = frozenset({"$defs", "dependentSchemas", "patternProperties", "properties"})


@dataclass(frozen=True)
class Protocol:
    """A protocol definition with its digests, and the payload schema of each step."""

    definition: ProtocolDefinition
    #: SHA-256 of the definition, without `ramp_percent`, and its schemas in canonical JSON
    digest: str
    #: payload schemas by step id; a missing one accepts any object
    schemas: Mapping[str, Mapping[str, Any]]
    #: SHA-256 of the job type and the steps: ids, types, services, groups and payload schemas without their texts. All
    #: definitions of one version have the same one
    work_digest: str

    @property
    def key(self) -> VersionKey:
        return self.definition.protocol_id, self.definition.version

    def payload_errors(self, payload: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Returns pairs (path, message) of the errors in a job's payload: at most one more than `MAX_REQUEST_ERRORS`.

        The check stops there, so that its cost is bounded by the size of the payload.
        """
        return list(islice(self._payload_errors(payload), MAX_REQUEST_ERRORS + 1))

    def _payload_errors(self, payload: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        parts = self.split(payload)
        known = {step.step_id for step in self.definition.steps}
        yield from (
            (
                f"payload.{key}",
                f"is not a step of this protocol; use {', '.join(step.step_id for step in self.definition.steps)}",
            )
            for key in parts
            if key not in known
        )
        for step in self.definition.steps:
            part = parts.get(step.step_id, {})
            schema = self.schemas.get(step.step_id)
            if not isinstance(part, Mapping):
                yield f"payload.{step.step_id}", f"must be an object, not {json_type(part)}"
            elif schema is not None:
                yield from _schema_errors(schema, part, self._path(step, payload))

    def split(self, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        """Splits the payload by step id. A protocol with one step also accepts the payload without its step id."""
        first = self.definition.steps[0].step_id
        if len(self.definition.steps) == 1 and not _is_keyed(payload, first):
            return {first: payload}
        return dict(payload)

    def _path(self, step: StepDefinition, payload: Mapping[str, Any]) -> str:
        flat = len(self.definition.steps) == 1 and not _is_keyed(payload, step.step_id)
        return "payload" if flat else f"payload.{step.step_id}"


class Registry:
    """Protocols by job type, each in one or several versions.

    New jobs follow the highest version. If the highest version has a ramp, jobs outside of the ramp follow the next
    lower version.
    """

    def __init__(self, protocols: Iterable[Protocol], services: Mapping[str, str] | None = None) -> None:
        """Sets the protocols. `services` has the step type of each service with a subscription.

        Default: the services of the protocols' steps.
        """
        found: dict[str, list[Protocol]] = {}
        for protocol in protocols:
            found.setdefault(protocol.definition.request_type, []).append(protocol)
        self._versions = {name: _order_versions(name, found[name]) for name in sorted(found)}
        steps = [step for versions in found.values() for each in versions for step in each.definition.steps]
        self.services = services if services is not None else {step.service: step.step_type for step in steps}

    def find(self, request_type: str) -> Protocol | None:
        """Returns the version that new jobs outside of a ramp follow. Returns None for an unknown job type."""
        versions = self._versions.get(request_type, ())
        return next((each for each in versions if each.definition.ramp_percent is None), None)

    def versions(self, request_type: str) -> Sequence[Protocol]:
        """Returns all versions of a job type, the highest first, or an empty sequence for an unknown type."""
        return self._versions.get(request_type, ())

    def select(self, request_type: str, identity: str) -> Protocol | None:
        """Returns the version for the request whose idempotency record has the hash `identity`.

        The same request selects the same version until the ramp changes. If the ramp rises, the requests in the ramp
        stay in the ramp. Returns None for an unknown job type.
        """
        newest, *_ = self._versions.get(request_type, (None,))
        if newest is None or newest.definition.ramp_percent is None:
            return newest
        drawn = int(digest(f"{':'.join(map(str, newest.key))}:{identity}")[:8], 16) / 2**32
        return newest if drawn * 100 < newest.definition.ramp_percent else self.find(request_type)

    @property
    def request_types(self) -> list[str]:
        return list(self._versions)

    @property
    def every_version(self) -> Iterator[Protocol]:
        return (each for versions in self._versions.values() for each in versions)

    def __iter__(self) -> Iterator[Protocol]:
        return (each for name in self._versions if (each := self.find(name)) is not None)


def _order_versions(request_type: str, versions: list[Protocol]) -> tuple[Protocol, ...]:
    """Returns the versions of one job type, the highest first. Raises ProtocolError if the versions are
    inconsistent.
    """
    ordered = sorted(versions, key=lambda each: each.definition.version, reverse=True)
    if len({each.definition.protocol_id for each in ordered}) > 1 or len({each.key for each in ordered}) < len(ordered):
        raise ProtocolError(
            f"two protocols have request_type {request_type}; "
            "give one protocol another request_type, or give both the same protocol_id and different versions"
        )
    ramped = [each.definition.version for each in ordered if each.definition.ramp_percent is not None]
    if ramped and (ramped != [ordered[0].definition.version] or len(ordered) == 1):
        raise ProtocolError(
            f"request_type {request_type}: only the highest of several versions can have ramp_percent, not "
            f"{', '.join(f'version {each}' for each in ramped)}; remove ramp_percent, or add a lower version"
        )
    return tuple(ordered)


def build_protocol(source: str, definition: Any, schemas: Mapping[str, Any], services: Mapping[str, str]) -> Protocol:
    """Makes a protocol from its parsed JSON. Raises ProtocolError.

    `source` is the file's name for errors. `schemas` has the parsed step schemas by path. `services` has the step type
    of each subscription in the bus topology. An unknown service is refused, because a topic drops messages without a
    subscription.
    """
    try:
        parsed = ProtocolDefinition.model_validate(definition)
    except ValidationError as wrong:
        first = wrong.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ProtocolError(f"{source}: {place}: {first['msg']}") from None
    used: dict[str, Any] = {}
    for step in parsed.steps:
        if services.get(step.service) != step.step_type:
            raise ProtocolError(
                f"{source}: step {step.step_id}: no subscription {step.service!r} of the bus topology receives "
                f"step_type {step.step_type!r}; add the subscription"
            )
        if step.payload_schema is not None:
            used[step.step_id] = _find_schema(source, step, schemas)
    text = canonical_json({"definition": parsed.model_dump(mode="json", exclude={"ramp_percent"}), "schemas": used})
    return Protocol(parsed, digest(text), used, digest(canonical_json(_work(parsed, used))))


def _work(definition: ProtocolDefinition, schemas: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "request_type": definition.request_type,
        "steps": [{name: getattr(step, name) for name in _FIXED} for step in definition.steps],
        "parallel": definition.parallel,
        "schemas": {name: _rules(schema) for name, schema in schemas.items()},
    }


def _rules(schema: Any) -> Any:
    """Returns a payload schema without its texts for people."""
    if isinstance(schema, list):
        return [_rules(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    found: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _NAMED_SCHEMAS and isinstance(value, Mapping):
            found[keyword] = {name: _rules(each) for name, each in value.items()}
        elif keyword not in _ANNOTATIONS:
            found[keyword] = value if keyword in ("const", "enum") else _rules(value)
    return found


def _find_schema(source: str, step: StepDefinition, schemas: Mapping[str, Any]) -> Any:
    schema = schemas.get(step.payload_schema or "")
    if schema is None:
        raise ProtocolError(f"{source}: step {step.step_id}: payload schema not found: {step.payload_schema}")
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as wrong:
        raise ProtocolError(f"{source}: {step.payload_schema} is not a valid JSON Schema: {wrong.message}") from None
    return schema


def _is_keyed(payload: Mapping[str, Any], step_id: str) -> bool:
    return set(payload) == {step_id} and isinstance(payload[step_id], Mapping)


def _items_unless_too_many(validator: Any, items: Any, instance: Any, schema: Any) -> Iterator[Violation]:
    """Validates the keyword `items`, but not if `maxItems` already refuses the array, since the validation checks every
    item.
    """
    if not (isinstance(instance, list) and len(instance) > schema.get("maxItems", len(instance))):
        yield from Draft202012Validator.VALIDATORS["items"](validator, items, instance, schema) or ()


_Validator = extend(Draft202012Validator, {"items": _items_unless_too_many})


def _schema_errors(schema: Mapping[str, Any], part: Mapping[str, Any], prefix: str) -> list[tuple[str, str]]:
    found = islice(_Validator(schema).iter_errors(part), MAX_REQUEST_ERRORS + 1)
    return sorted((".".join([prefix, *map(str, error.absolute_path)]), _message(error)) for error in found)


def _message(error: Violation) -> str:
    """Returns the library's message. If the message has more than `MAX_REQUEST_ERROR` characters, returns the schema's
    keyword with its numeric limit instead, since the message repeats the value.
    """
    if len(error.message) <= MAX_REQUEST_ERROR:
        return str(error.message)
    limit = f" {error.validator_value}" if type(error.validator_value) in (int, float) else ""
    return f"does not fit {error.validator}{limit} of the step's schema"
