import json
from collections.abc import Iterator
from typing import Any

import pytest
from cloudevents.http import from_json
from jsonschema import Draft7Validator, Draft202012Validator, FormatChecker

from shared.apidocs import message_schemas
from shared.apidocs.asyncapi import BusNames, document
from shared.contracts.messages import Reply
from shared.core.events.event_types import PublicType
from shared.core.jobs.directive import directive_of, encode_directive
from tests.jobs import ROOT, Story, reply

SPECS = ROOT / "node_modules" / "@asyncapi" / "specs" / "schemas" / "3.0.0-without-$id.json"
DOCUMENT = document(BusNames())


def resolved(pointer: str) -> Any:
    """Returns the target of a reference within the document. Raises KeyError if there is none."""
    node: Any = DOCUMENT
    for part in pointer.removeprefix("#/").split("/"):
        node = node[part]
    return node


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(ref := node.get("$ref"), str):
            yield ref
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            yield from references(each)


def test_it_is_an_asyncapi_document() -> None:
    """AsyncAPI's own JSON Schema for 3.0.0 finds nothing, and every reference leads somewhere."""
    official = json.loads(SPECS.read_text())
    Draft7Validator.check_schema(official)
    wrong = [
        f"{list(error.absolute_path)}: {error.message}" for error in Draft7Validator(official).iter_errors(DOCUMENT)
    ]
    assert wrong == []
    assert not Draft7Validator(official).is_valid(DOCUMENT | {"channels": {"x": {"addres": "y"}}})
    for ref in references(DOCUMENT):
        assert resolved(ref)


def validator(name: str) -> Draft7Validator:
    schema = {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]}
    return Draft7Validator(schema, format_checker=FormatChecker())


@pytest.mark.parametrize("name", DOCUMENT["components"]["messages"])
def test_every_example_is_a_message(name: str) -> None:
    """By its schema, and replies also by the model that reads them from the bus."""
    message = DOCUMENT["components"]["messages"][name]
    schema = message["payload"]["$ref"].rsplit("/", 1)[1]
    for example in message["examples"]:
        assert list(validator(schema).iter_errors(example["payload"])) == []
        if name in {*PublicType}:
            assert from_json(json.dumps(example["payload"]))["type"] == name
        elif name != "directive":
            assert Reply.model_validate(example["payload"]).type in message["name"]


def test_channels_are_those_of_the_topology() -> None:
    """Prefixes, numbers, lock times and delivery counts as they are deployed."""
    topology = json.loads((ROOT / "infra" / "bicep" / "topology.json").read_text())
    for channel, part in (("directives", "directives"), ("replies", "replies")):
        described, deployed = DOCUMENT["channels"][channel], topology[part]
        assert described["address"] == f"{deployed['prefix']}{{lane}}"
        assert described["parameters"]["lane"]["enum"] == [str(lane) for lane in range(topology["lanes"])]
        for name in described["x-servicebus"].keys() & {"lockDuration", "maxDeliveryCount", "duplicateDetectionWindow"}:
            assert described["x-servicebus"][name] == deployed[name]
    assert DOCUMENT["channels"]["replies"]["x-servicebus"]["subscription"] == topology["replies"]["subscription"]
    described, deployed = DOCUMENT["channels"]["eventsTopic"], topology["events"]
    assert described["address"] == deployed["topic"]
    assert described["x-servicebus"]["duplicateDetectionWindow"] == deployed["duplicateDetectionWindow"]


def test_the_messages_of_the_app_are_as_their_schemas_say() -> None:
    """A directive as it is encoded, and the replies that the app accepts."""
    story = Story()
    story.recorded()
    step = story.step()
    schemas = message_schemas.documents()
    sent = json.loads(encode_directive(directive_of(story.record, step)))
    assert [error.message for error in Draft202012Validator(schemas["directive"]).iter_errors(sent)] == []
    for kind in ("ACK", "HEARTBEAT", "RESULT"):
        sent = json.loads(reply(story.record, kind).model_dump_json(exclude_none=True))
        assert Draft202012Validator(schemas[kind.lower()]).is_valid(sent)
        assert not Draft202012Validator(schemas[kind.lower()]).is_valid(sent | {"attempt_no": 0})
        del sent["lease_id"]
        assert not Draft202012Validator(schemas[kind.lower()]).is_valid(sent)


@pytest.mark.parametrize("name", message_schemas.documents())
def test_every_schema_is_a_json_schema(name: str) -> None:
    """Each is a valid schema of the draft that it names, 2020-12."""
    schema = message_schemas.documents()[name]
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    Draft202012Validator.check_schema(schema)
