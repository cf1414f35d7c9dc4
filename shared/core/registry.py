"""The protocols of the app as a frozen registry, made from data (R26)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from jsonschema.exceptions import ValidationError as Violation
from jsonschema.validators import extend
from pydantic import ValidationError

from shared.contracts.protocol import ProtocolDefinition, StepDefinition
from shared.core.canonical import canonical_json, digest
from shared.errors import ProtocolError
from shared.refusals import MAX_REQUEST_ERROR, MAX_REQUEST_ERRORS


@dataclass(frozen=True)
class Protocol:
    """A definition with its digest and one validator a step."""

    definition: ProtocolDefinition
    #: SHA-256 of the definition and its schemas in canonical JSON
    digest: str
    #: by step id; absent: any object
    schemas: Mapping[str, Mapping[str, Any]]

    def payload_errors(self, payload: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Returns (path, message) of the errors in a job's payload: at most one more than `MAX_REQUEST_ERRORS`.

        The check stops there, so that a payload costs no more than its own size.
        """
        return list(islice(self._payload_errors(payload), MAX_REQUEST_ERRORS + 1))

    def _payload_errors(self, payload: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        parts = self.split(payload)
        known = {step.step_id for step in self.definition.steps}
        yield from ((f"payload.{key}", "is not a step of this protocol") for key in parts if key not in known)
        for step in self.definition.steps:
            part = parts.get(step.step_id, {})
            schema = self.schemas.get(step.step_id)
            if not isinstance(part, Mapping):
                yield f"payload.{step.step_id}", "must be an object"
            elif schema is not None:
                yield from _schema_errors(schema, part, self._path(step, payload))

    def split(self, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        """Splits the payload by step id. A one-step protocol accepts the flat form too."""
        first = self.definition.steps[0].step_id
        if len(self.definition.steps) == 1 and not _is_keyed(payload, first):
            return {first: payload}
        return dict(payload)

    def _path(self, step: StepDefinition, payload: Mapping[str, Any]) -> str:
        flat = len(self.definition.steps) == 1 and not _is_keyed(payload, step.step_id)
        return "payload" if flat else f"payload.{step.step_id}"


class Registry:
    """Protocols by request type."""

    def __init__(self, protocols: Iterable[Protocol]) -> None:
        self._protocols: dict[str, Protocol] = {}
        for protocol in protocols:
            request_type = protocol.definition.request_type
            if request_type in self._protocols:
                raise ProtocolError(f"two protocols have request_type {request_type}")
            self._protocols[request_type] = protocol

    def find(self, request_type: str) -> Protocol | None:
        return self._protocols.get(request_type)

    @property
    def request_types(self) -> list[str]:
        return sorted(self._protocols)

    def __iter__(self) -> Iterator[Protocol]:
        return (self._protocols[name] for name in self.request_types)


def build_protocol(source: str, definition: Any, schemas: Mapping[str, Any], services: Mapping[str, str]) -> Protocol:
    """Makes a protocol from its parsed JSON.

    `source` names the file in errors. `schemas` are the parsed step schemas by path. `services` is the step type of
    each subscription in the bus topology: a topic drops messages without a subscription, so an unknown service is
    refused. Raises ProtocolError.
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
                f"{source}: step {step.step_id}: no subscription {step.service!r} takes step_type {step.step_type!r} "
                "in the bus topology, so its directives would be dropped"
            )
        if step.payload_schema is not None:
            used[step.step_id] = _checked_schema(source, step, schemas)
    text = canonical_json({"definition": parsed.model_dump(mode="json"), "schemas": used})
    return Protocol(parsed, digest(text), used)


def _checked_schema(source: str, step: StepDefinition, schemas: Mapping[str, Any]) -> Any:
    schema = schemas.get(step.payload_schema or "")
    if schema is None:
        raise ProtocolError(f"{source}: step {step.step_id}: no file {step.payload_schema}")
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as wrong:
        raise ProtocolError(f"{source}: {step.payload_schema} is no JSON Schema: {wrong.message}") from None
    return schema


def _is_keyed(payload: Mapping[str, Any], step_id: str) -> bool:
    return set(payload) == {step_id} and isinstance(payload[step_id], Mapping)


def _items_unless_too_many(validator: Any, items: Any, instance: Any, schema: Any) -> Iterator[Violation]:
    """The keyword `items`, which is not asked where `maxItems` refuses the array: it would look at each of them."""
    if not (isinstance(instance, list) and len(instance) > schema.get("maxItems", len(instance))):
        yield from Draft202012Validator.VALIDATORS["items"](validator, items, instance, schema) or ()


_Validator = extend(Draft202012Validator, {"items": _items_unless_too_many})


def _schema_errors(schema: Mapping[str, Any], part: Mapping[str, Any], prefix: str) -> list[tuple[str, str]]:
    found = islice(_Validator(schema).iter_errors(part), MAX_REQUEST_ERRORS + 1)
    return sorted((".".join([prefix, *map(str, error.absolute_path)]), _message(error)) for error in found)


def _message(error: Violation) -> str:
    """The library's own, which repeats the value; where that makes it long, the keyword and what it asks for."""
    if len(error.message) <= MAX_REQUEST_ERROR:
        return str(error.message)
    limit = f" {error.validator_value}" if type(error.validator_value) in (int, float) else ""
    return f"does not fit {error.validator}{limit} of the step's schema"
