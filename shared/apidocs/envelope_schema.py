"""The JSON Schema of a job request, with facts that its model lacks: allowed schemes of references, and payloads by
protocol.

The app's own checks (`shared.operations.jobs.create_job`) decide. This schema describes these checks to authors of
requests. The schema omits the allowed hosts, since every caller can read the schema.
"""

from __future__ import annotations

from collections.abc import Collection

from jsonschema import Draft202012Validator

from shared.apidocs.json_schema import DIALECT, JsonObject, schemas
from shared.contracts.envelope import Envelope
from shared.contracts.reference import MAX_URI, uri_pattern
from shared.core.registry import Protocol, Registry

#: schemas that together describe a request's body; both are among `components`
ENVELOPE = ("Envelope", "EnvelopeRules")


def components(registry: Registry, schemes: Collection[str], at: str = "#/components/schemas/") -> JsonObject:
    """Returns the schemas of a job request by name, with all schemas to which these schemas refer. `at` is the path of
    the schemas in the document.
    """
    found = schemas([(Envelope, "write")], ref_template=f"{at}{{model}}")
    found.pop("Reference")
    for name in ("input_ref", "output_ref"):
        given = found["Envelope"]["properties"][name]
        found["Envelope"]["properties"][name] = {
            "$ref": f"{at}DocumentReference",
            "description": given["description"],
        }
    steps = step_schemas(registry)
    return found | {
        "DocumentReference": _reference(schemes),
        "EnvelopeRules": _rules(registry, at),
        # the document that contains the schemas names the draft
        **{name: {key: each for key, each in step.items() if key != "$schema"} for name, step in steps.items()},
    }


def document(registry: Registry, schemes: Collection[str]) -> JsonObject:
    """Returns one JSON Schema of a job request, which contains all schemas to which the schema refers."""
    at = "#/$defs/"
    whole = {"$schema": DIALECT, "title": "Envelope", "allOf": [{"$ref": f"{at}{name}"} for name in ENVELOPE]}
    return whole | {"$defs": components(registry, schemes, at)}


def step_schemas(registry: Registry) -> dict[str, JsonObject]:
    """Returns the payload schemas of all steps by name, for example `steps-ocr` of `steps/ocr.schema.json`."""
    return {
        _name(protocol, step.step_id): dict(protocol.schemas[step.step_id])
        for protocol in registry
        for step in protocol.definition.steps
        if step.step_id in protocol.schemas
    }


def _name(protocol: Protocol, step_id: str) -> str:
    step = next(step for step in protocol.definition.steps if step.step_id == step_id)
    return (step.payload_schema or "").removesuffix(".json").removesuffix(".schema").replace("/", "-")


def _reference(schemes: Collection[str]) -> JsonObject:
    uri = {"type": "string", "maxLength": MAX_URI, "pattern": uri_pattern(schemes)}
    return {
        "title": "DocumentReference",
        "description": "Reference to a document. A bare string is its `uri`. LUCIUS forwards other fields and shows "
        "them to every reader of the job, so a field that contains a credential is refused.",
        "anyOf": [{"type": "object", "required": ["uri"], "properties": {"uri": uri}}, uri],
        "examples": [{"uri": "https://account.blob.core.windows.net/documents/lease.pdf"}],
    }


def _rules(registry: Registry, at: str) -> JsonObject:
    return {
        "title": "EnvelopeRules",
        "description": "BURST requires `doc_id`. `payload` must match the protocol of `request_type`.",
        "allOf": [
            {
                "anyOf": [
                    {"properties": {"mode": {"enum": ["DEFAULT", "SAFE", None]}}},
                    {"properties": {"doc_id": {"type": "string"}}, "required": ["doc_id"]},
                ]
            },
            {
                "oneOf": [
                    {
                        "title": protocol.definition.request_type,
                        "properties": {
                            "request_type": {"const": protocol.definition.request_type},
                            "payload": _payload(protocol, at),
                        },
                    }
                    for protocol in registry
                ]
            },
        ],
    }


def _payload(protocol: Protocol, at: str) -> JsonObject:
    """Returns the schema of a payload, which has one part for each step id. For a protocol with one step, the payload
    can also be the part alone.
    """
    steps = [step.step_id for step in protocol.definition.steps]
    parts: JsonObject = {
        step: {"$ref": f"{at}{_name(protocol, step)}"} if step in protocol.schemas else {"type": "object"}
        for step in steps
    }
    keyed: JsonObject = {
        "type": "object",
        "properties": parts,
        "required": [step for step in steps if not _can_be_left_out(protocol, step)],
        "additionalProperties": False,
    }
    if len(steps) > 1:
        return keyed
    [step] = steps
    flat: JsonObject = parts[step]
    if protocol.schemas.get(step, {}).get("additionalProperties") is not False:
        # an object whose only field is the step's name has the parameters of that step in this field
        named = {"type": "object", "properties": {step: {"type": "object"}}, "required": [step], "maxProperties": 1}
        flat = {"allOf": [{"type": "object"}, flat, {"not": named}]}
    return {"anyOf": [flat, keyed | {"required": [step]}]}


def _can_be_left_out(protocol: Protocol, step: str) -> bool:
    schema = protocol.schemas.get(step)
    return schema is None or bool(Draft202012Validator(schema).is_valid({}))
