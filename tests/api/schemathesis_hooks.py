"""Rules of this API that schemathesis cannot read from the document
(docs/decisions/0013-what-json-schema-cannot-say.md).
"""

import os

import schemathesis
from schemathesis.generation.meta import CoveragePhaseData

# lines of JSON are sent as text
schemathesis.serializer.alias("application/x-ndjson", "text/plain")

#: the one tenant of the tokens at hand; unset: they see every tenant
TENANT = os.environ.get("SCHEMATHESIS_TENANT")
#: 1: one value for each edge of each field of a resource; unset: every value, to every operation
ONE_VALUE = os.environ.get("SCHEMATHESIS_ONE_VALUE") == "1"
_sent = set()
#: within the bounds of timestamps, ahead, and a leap year, so that each day of another year is one of its days
_YEAR = "2104"
_OF_A_TENANTS_GATE = ("max_staged", "weight", "emergency_max_active")


@schemathesis.hook
def filter_case(context, case):
    """Drops a second value for the same edge of the same field, of operations of one method below one path."""
    edge = case.meta.phase.data if case.meta is not None else None
    if not ONE_VALUE or not isinstance(edge, CoveragePhaseData):
        return True
    operations = (case.operation.method, case.operation.path.rpartition("/")[0])
    key = (operations, edge.scenario, edge.description, edge.parameter, edge.parameter_location)
    is_new = key not in _sent
    _sent.add(key)
    return is_new


@schemathesis.hook
def map_body(context, body):
    """A body gets the tenant of its token: that another one is refused (403) is no matter of schemas; nor is which jobs
    there are to wait for (400).
    """
    if not isinstance(body, dict):
        return body
    if TENANT and "tenant_id" in body:
        body = body | {"tenant_id": TENANT}
    named = body.get("dependencies")
    if isinstance(named, list) and len(named) <= 50 and all(isinstance(each, str) and each for each in named):
        body = body | {"dependencies": []}
    if body.get("withDependants") is True and body.get("ignoreDependencies") is True:
        body = body | {"ignoreDependencies": False}
    return body


def _reachable(body):
    """Replaces values by valid ones that no schema can describe.

    These are addresses of webhooks, names of events, references into the tenant's own folder of the workspace, loaded
    versions, and the bounds of timestamps.
    """
    if isinstance(body.get("expires_at"), str) and body["expires_at"][:4].isdecimal():
        body = body | {"expires_at": f"{_YEAR}{body['expires_at'][4:]}"}
    if "url" in body:
        body = body | {"url": "https://hooks.example.com/x"}
    if body.get("callback_urls"):
        urls = {name: f"https://hooks{n}.example.com/x" for n, name in enumerate(body["callback_urls"])}
        body = body | {"callback_urls": urls}
    for name in ("input_ref", "output_ref"):
        if isinstance(named := body.get(name), dict) and "/workspace/" in str(named.get("uri")):
            body = body | {name: named | {"uri": named["uri"].replace("/workspace/", "/documents/")}}
    # which versions of a protocol are loaded
    body = {name: value for name, value in body.items() if name != "protocol_version"}
    words = body.get("filter")
    if "action" in body and isinstance(words, dict):
        # archived jobs are not found by a key
        body = body | {"filter": {name: value for name, value in words.items() if name != "archived"}}
    if "action" not in body and isinstance(words, dict):
        good = {"types": ["job.completed"], "job_types": ["OCR"]}
        body = body | {"filter": words | {name: names for name, names in good.items() if words.get(name)}}
    return body


@schemathesis.hook
def filter_query(context, query):
    """Two quotas in one call are refused (400): no schema can state that only one of several parameters is allowed.

    An empty parameter never reaches the app: the host omits it.
    """
    if not query:
        return True
    named = {name for name, value in query.items() if value not in ("", [], {})}
    return named | {"cursor"} == query.keys() | {"cursor"} and len({"type", "source", "name"} & named) <= 1


@schemathesis.hook
def filter_body(context, body):
    """A burst needs a rate, which the rule may have already; a breaker belongs to a job type's quota."""
    if not isinstance(body, dict):
        return True
    return (body.get("burst") is None or body.get("max_per_hour") is not None) and not isinstance(
        body.get("breaker"), dict
    )


@schemathesis.hook
def before_call(context, case, kwargs):
    """A hold is for one quota, and its end is in the future; it and a bulk operation are for one tenant: an operator's
    token has none.
    """
    if isinstance(case.body, dict) and case.meta is not None and case.meta.generation.mode.is_positive:
        case.body = _reachable(case.body)
        if case.operation.path == "/v1/quotas/{gate}":
            # some numbers are only for a tenant's quota
            case.body = {name: value for name, value in case.body.items() if name not in _OF_A_TENANTS_GATE}
    if case.operation.path == "/v1/bulk" and isinstance(case.body, dict) and isinstance(case.body.get("filter"), dict):
        words = case.body["filter"]
        case.body = {**case.body, "filter": {**words, "tenant_id": words.get("tenant_id") or "fuzzed"}}
    if case.operation.path == "/v1/events:ticket" and isinstance(case.body, dict):
        # an operator of all tenants names one
        case.body = {**case.body, "tenant_id": case.body.get("tenant_id") or "fuzzed"}
    if not case.operation.path.startswith("/v1/limits/") or not isinstance(case.body, dict):
        return
    body = {**case.body, "tenant": case.body.get("tenant") or "fuzzed"}
    body |= {"name": None}
    named = [name for name in ("job_type", "source", "service") if isinstance(body.get(name), str)]
    for name in named[1:] if "service" not in named[:1] else named:
        body[name] = None
    if isinstance(body.get("until"), str) and body["until"][:4].isdecimal():
        body["until"] = f"{_YEAR}{body['until'][4:]}"
    case.body = body


@schemathesis.hook
def map_headers(context, headers):
    """That an ETag is stale (412) is no matter of schemas."""
    return {**headers, "If-Match": "*"} if headers and "If-Match" in headers else headers


@schemathesis.hook
def filter_headers(context, headers):
    """Schemathesis sends headers in Latin-1, and the host itself refuses other bytes than UTF-8 with a bare 400."""
    return not headers or all(str(value).isascii() for value in headers.values())
