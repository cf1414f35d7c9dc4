import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from jsonschema import Draft202012Validator, FormatChecker
from openapi_spec_validator import OpenAPIV31SpecValidator

from scripts.generate import api_documents
from shared import archive_refusals, audit_refusals, refusals, webhook_refusals
from shared.access.caller import Scope
from shared.access.references import ReferencePolicy
from shared.apidocs import envelope_schema
from shared.apidocs.openapi import document
from shared.apidocs.problem_codes import ProblemCode
from shared.archive_refusals import NotReplayable
from shared.core.registry import Registry
from shared.refusals import NotRedrivable, Refused
from tests.jobs import ROOT, envelope, registry
from triggers.dashboard_page_http import ROOT_FUNCTION
from triggers.registered import OPTIONS_FUNCTION, ROUTES

DOCUMENT = api_documents.openapi()
POLICY = ReferencePolicy(frozenset({"https", "s3", "abfss", "http"}))


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in DOCUMENT["paths"].items():
        for method, operation in item.items():
            yield method.upper(), path, operation


def validator(schema: dict[str, Any]) -> Draft202012Validator:
    whole = {**schema, "components": DOCUMENT["components"]}
    return Draft202012Validator(whole, format_checker=FormatChecker())


def test_it_is_an_openapi_document() -> None:
    """The meta-schema of OpenAPI 3.1 and its rules find nothing."""
    assert list(OpenAPIV31SpecValidator(DOCUMENT).iter_errors()) == []
    assert list(OpenAPIV31SpecValidator({"openapi": "3"}).iter_errors()) != []


def test_each_summary_names_one_operation() -> None:
    """An older path has the same function, but another title."""
    summaries = [operation["summary"] for _, _, operation in operations()]
    assert len(summaries) == len(set(summaries))


def test_every_reference_leads_somewhere() -> None:
    """Within the document; no schema has its own definitions."""
    text = json.dumps(DOCUMENT)
    assert "$defs" not in text
    for pointer in set(re.findall(r'"\$ref": "#/([^"]+)"', text)):
        node: Any = DOCUMENT
        for part in pointer.split("/"):
            node = node[part]
        assert node


def test_what_is_registered_is_what_stands_in_it(app_functions: list[Any]) -> None:
    """Every HTTP function of the app, with its path, its method and its name; GET answers HEAD too."""
    served = set()
    for one in app_functions:
        [trigger] = [each for each in json.loads(one.get_function_json())["bindings"] if "Trigger" in each["type"]]
        if trigger["type"] == "httpTrigger" and one.get_function_name() not in (OPTIONS_FUNCTION, ROOT_FUNCTION):
            methods = set(trigger["methods"])
            assert ("HEAD" in methods) == ("GET" in methods)
            [method] = methods - {"HEAD"}
            served.add((method, f"/{trigger['route']}", one.get_function_name()))
    described = {(method, path, operation["operationId"]) for method, path, operation in operations()}
    assert described == served
    assert len({name for _, _, name in described}) == len(described)


def test_every_operation_names_its_scope() -> None:
    """All four scopes are explained; a route without one is open or a callback."""
    for route in ROUTES:
        security = DOCUMENT["paths"][f"/{route.path}"][route.method.lower()]["security"]
        if route.scope is not None:
            assert security == [{"bearer": [str(route.scope)]}]
        else:
            assert security == ([{"callback": []}] if route.callback else [])
    explained = DOCUMENT["components"]["securitySchemes"]["bearer"]["description"]
    assert [scope for scope in Scope if f"`{scope}`" not in explained] == []


def test_every_refusal_is_a_problem_with_its_codes() -> None:
    """Each 4xx and 5xx is problem+json with its codes enumerated, and Retry-After where one is to come again."""
    for _, path, operation in operations():
        for status, answer in operation["responses"].items():
            if int(status) < 400:
                continue
            [(media_type, content)] = answer["content"].items()
            assert media_type == "application/problem+json", path
            codes = content["schema"]["allOf"][1]["properties"]["code"]["enum"]
            assert all(f"`{code}`" in answer["description"] for code in codes)
            is_awaited = status in ("429", "503") or "HEADS_INCOMPLETE" in codes
            assert ("Retry-After" in answer["headers"]) == is_awaited
        assert {"500", "503"} < operation["responses"].keys()


def test_a_body_needs_its_length() -> None:
    """Every operation with a body can return 411, and no other: the host passes chunked bodies empty."""
    for _, path, operation in operations():
        assert ("411" in operation["responses"]) == ("requestBody" in operation), path


def test_every_code_is_declared() -> None:
    """The document has each problem code, and no other; `test_problems` checks that the app raises each."""
    modules = (refusals, archive_refusals, audit_refusals, webhook_refusals)
    named = {name: each for module in modules for name, each in vars(module).items()}.values()
    classes = [each for each in named if isinstance(each, type) and issubclass(each, Refused)]
    # the code of an instance of these is its reason
    named = {each.code for each in classes if each not in (Refused, NotRedrivable, NotReplayable)}
    declared = {
        code
        for _, _, operation in operations()
        for status, answer in operation["responses"].items()
        if int(status) >= 400
        for code in answer["content"]["application/problem+json"]["schema"]["allOf"][1]["properties"]["code"]["enum"]
    }
    assert declared == {*ProblemCode, *named}


@pytest.mark.parametrize("model", ["Envelope", "HookFilterBody"])
def test_labels_are_bounded_in_their_schema(model: str) -> None:
    """As the code bounds them: their number, and their names."""
    schema = validator(DOCUMENT["components"]["schemas"][model]["properties"]["labels"])
    assert schema.is_valid({f"{n}": "x" for n in range(32)})
    for labels in ({f"{n}": "x" for n in range(33)}, {"a\nb": "x"}, {"a\nb": 1}, {"a" * 129: "x"}, {"a": 1}):
        assert not schema.is_valid(labels)


def test_every_example_fits_its_schema() -> None:
    """Of every request with a body, and of every response that is an object of the API."""
    for _, path, operation in operations():
        bodies = [operation["requestBody"]] if "requestBody" in operation else []
        for body in [*bodies, *operation["responses"].values()]:
            for content in body.get("content", {}).values():
                refused = "application/problem+json" in body["content"]
                assert content.get("examples") or content["schema"].get("type") or refused, path
                for example in content.get("examples", {}).values():
                    errors = [error.message for error in validator(content["schema"]).iter_errors(example["value"])]
                    assert errors == [], path


def test_the_committed_copies_are_up_to_date() -> None:
    """`python -m scripts.generate` would change nothing."""
    for name, text in api_documents.files().items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == text, f"{name}: run python -m scripts.generate"


ENVELOPES: list[tuple[str, dict[str, Any], bool]] = [
    ("the shipped example", {}, True),
    ("BURST without doc_id", {"mode": "BURST"}, False),
    ("BURST with doc_id null", {"mode": "BURST", "doc_id": None}, False),
    ("BURST with doc_id", {"mode": "BURST", "doc_id": "d"}, True),
    ("the older name of a mode", {"mode": "SAFE"}, True),
    ("a request type that nobody knows", {"request_type": "FAX"}, False),
    ("SIS without its prompts", {"request_type": "SIS", "payload": {}}, False),
    ("SIS, flat", {"request_type": "SIS", "payload": {"prompt_set": ["?"]}}, True),
    ("SIS, under its name", {"request_type": "SIS", "payload": {"sis": {"prompt_set": ["?"]}}}, True),
    ("OCR with a step of another protocol", {"request_type": "OCR", "payload": {"sis": {}}}, False),
    ("a parameter out of bounds", {"request_type": "OCR", "payload": {"dpi": 9000}}, False),
    ("a composed protocol in the flat form", {"payload": {"prompt_set": ["?"]}}, False),
    ("a bare string as a reference", {"input_ref": "https://example.com/a"}, True),
    ("a scheme that is not allowed", {"input_ref": "file:///etc/passwd"}, False),
    ("a user in a reference", {"input_ref": "https://user@example.com/a"}, False),
    ("a backslash in a reference", {"input_ref": "https://example.com\\@evil.example/a"}, False),
    ("abfss with its container", {"input_ref": "abfss://c@account.dfs.core.windows.net/a"}, True),
    ("a port too high", {"input_ref": "https://example.com:65536/"}, False),
    ("the highest port", {"input_ref": "https://example.com:65535/"}, True),
    ("a control character in the tenant", {"tenant_id": "a\x07"}, False),
    ("a newline at the tenant's end", {"tenant_id": "a\n"}, False),
    ("a blank tenant", {"tenant_id": "  "}, False),
    ("another major version", {"schema_version": "2.0"}, False),
    ("a later minor version", {"schema_version": "1.7"}, True),
    ("a dependency", {"dependencies": ["job_1"]}, True),
    ("a dependency without a name", {"dependencies": [""]}, False),
    ("too many dependencies", {"dependencies": ["job_1"] * 51}, False),
    ("another policy for them", {"on_dependency_failure": "wait"}, False),
    ("an end", {"expires_at": "2027-01-01T00:00:00Z"}, True),
    ("an end without a zone", {"expires_at": "2027-01-01T00:00:00"}, False),
    ("a label that is no text", {"labels": {"a": 1}}, False),
    ("an escape in a label", {"labels": {"a": "\x1b[2J"}}, False),
    ("a control character in the name of a label", {"labels": {"a\x9b": "x"}}, False),
    ("the longest label", {"labels": {"a" * 128: "x" * 512}}, True),
    ("the name of a label too long", {"labels": {"a" * 129: "x"}}, False),
    ("a label too long", {"labels": {"a": "x" * 513}}, False),
    ("a label without a name and text", {"labels": {"": ""}}, True),
    ("an instant that is LUCIUS's to name", {"requested_at": 1769508120}, True),
    ("a callback that is not https", {"callback_urls": {"done": "http://example.com"}}, False),
    ("a callback", {"callback_urls": {"done": "https://example.com/x"}}, True),
    ("an unknown field", {"colour": "green"}, True),
]


@pytest.mark.parametrize(("changes", "good"), [each[1:] for each in ENVELOPES], ids=[each[0] for each in ENVELOPES])
def test_the_schema_and_the_app_agree_on_envelopes(changes: dict[str, Any], good: bool) -> None:
    """The schema refuses exactly the envelopes that the app refuses."""
    whole = json.loads(envelope().model_dump_json(exclude_unset=True)) | changes
    body = DOCUMENT["paths"]["/v1/orchestrate"]["post"]["requestBody"]["content"]["application/json"]
    # its patterns are ECMA's, as in JSON Schema; Python's `$` would accept a newline
    schema = {**body["schema"], "components": DOCUMENT["components"]}
    assert jsonschema_rs.Draft202012Validator(schema).is_valid(whole) == good
    alone = jsonschema_rs.Draft202012Validator(envelope_schema.document(registry(), POLICY.schemes))
    assert alone.is_valid(whole) == good
    assert _accepts(whole) == good


def _accepts(body: dict[str, Any]) -> bool:
    try:
        request = envelope(**body)
    except ValueError:
        return False
    protocol = registry().find(request.request_type)
    references = (request.input_ref.uri, request.output_ref.uri)
    return (
        protocol is not None
        and protocol.payload_errors(request.payload) == []
        and not any(POLICY.violation(uri) for uri in references)
        and not (request.mode == "BURST" and request.doc_id is None)
    )


def test_a_protocol_of_ones_own_stands_in_it() -> None:
    """The document follows the protocols in effect, also one whose payload is open."""
    from shared.core.registry import build_protocol

    own = build_protocol(
        "own.json",
        {
            "protocol_id": "own",
            "version": 1,
            "request_type": "OWN",
            "steps": [{"step_id": "ocr", "step_type": "OCR", "service": "ocr"}],
        },
        {},
        {"ocr": "OCR"},
    )
    described = document(ROUTES, Registry([own]), POLICY.schemes, server="http://127.0.0.1:1")
    # the other operations are those of `test_it_is_an_openapi_document`
    takes_envelopes = {"/v1/orchestrate"}
    own_paths = {
        path: item
        for path, item in described["paths"].items()
        if path in takes_envelopes or item != DOCUMENT["paths"].get(path)
    }
    assert own_paths.keys() > takes_envelopes
    assert list(OpenAPIV31SpecValidator({**described, "paths": own_paths}).iter_errors()) == []
    alone = Draft202012Validator(envelope_schema.document(Registry([own]), POLICY.schemes))
    base = json.loads(envelope(request_type="OWN", payload={}).model_dump_json(exclude_unset=True))
    for payload, good in (({"a": 1}, True), ({"ocr": {"a": 1}}, True), ({"ocr": 1}, True), ([], False)):
        assert alone.is_valid(base | {"payload": payload}) == good
