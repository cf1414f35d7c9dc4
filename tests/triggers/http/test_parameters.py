"""A query parameter that a route does not declare is refused before its handler runs."""

import azure.functions as func
import pytest

from shared.apidocs.route import Parameter
from tests.triggers.http.test_routes import route
from triggers.http.parameters import DRY_RUN, page, refuse_unknown_parameters
from triggers.http.problems import RequestError, problem_body
from triggers.registered import ROUTES

TENANT = Parameter(name="tenant_id", where="query", schema={"type": "string"})


def asked(query: dict[str, str]) -> func.HttpRequest:
    return func.HttpRequest("POST", "/v1/test", params=query, body=b"")


@pytest.mark.parametrize(("name", "near"), [("dryrun", "dryRun"), ("dry_run", "dryRun"), ("tenantid", "tenant_id")])
def test_a_misspelt_parameter_is_refused(name: str, near: str) -> None:
    """The problem names the parameter, and the one that has nearly this name."""
    with pytest.raises(RequestError) as refused:
        refuse_unknown_parameters(asked({name: "true", "tenant_id": "a"}), route(parameters=(DRY_RUN, TENANT)))
    assert (refused.value.status, refused.value.code) == (400, "PARAMETER_UNKNOWN")
    [(path, message)] = refused.value.errors
    assert path == name
    assert f"did you mean {near}?" in message


def test_hostile_names_are_shortened() -> None:
    """A thousand parameters with long names are one problem of bounded size."""
    query = {f"{number}{'x' * 5000}": "" for number in range(1000)}
    with pytest.raises(RequestError) as refused:
        refuse_unknown_parameters(asked(query), route(parameters=()))
    body = problem_body(refused.value, "r-1")
    assert len(str(body)) < 2_000


def test_a_refused_value_is_quoted_in_part() -> None:
    """The detail shows the value without control characters, cut to a bounded length."""
    with pytest.raises(RequestError) as refused:
        page(asked({"limit": "\x1b[31m\n\u202e" + "9" * 5_000}))
    assert r"not '\x1b[31m\n\u202e999" in str(refused.value)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 100


def test_declared_parameters_and_keys_of_gateways_pass() -> None:
    """The Functions host and API Management leave their keys in the query."""
    refuse_unknown_parameters(
        asked({"dryRun": "true", "code": "k", "subscription-key": "k"}), route(parameters=(DRY_RUN,))
    )


def test_every_route_refuses_unknown_parameters() -> None:
    """Each route of the app, with any declared parameters."""
    for each in ROUTES:
        with pytest.raises(RequestError):
            refuse_unknown_parameters(asked({"stauts": "FAILED_FINAL"}), each)
