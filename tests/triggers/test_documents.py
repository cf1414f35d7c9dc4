"""The open documents: made once for each catalog, and without what is not everybody's business."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

import azure.durable_functions as df
import azure.functions as func
import pytest

from shared.core.registry import Registry
from shared.operations.context import Context
from shared.settings import Settings
from shared.wiring import Wiring
from tests.operations.conftest import World, world
from triggers import documents_http
from triggers.registered import ROUTES

__all__ = ["world"]  # the fixture

PATHS = ["v1/openapi.json", "v1/asyncapi.json", "v1/schemas", "v1/schemas/envelope", "v1/docs"]


class OpenWiring:
    """A wiring over a context, for routes that ask for no token."""

    def __init__(self, context: Context) -> None:
        self.current = context

    @property
    def settings(self) -> Settings:
        return self.current.settings

    async def fresh_context(self) -> Context:
        return self.current


class Documents:
    """The functions of the documents, called as the host calls them."""

    def __init__(self, context: Context) -> None:
        self.wiring = OpenWiring(context)
        app = df.DFApp()
        app.register_functions(documents_http.blueprint(cast(Wiring, self.wiring), lambda: ROUTES))
        self._functions = {one.get_function_name(): one.get_user_function() for one in app.get_functions()}

    async def get(self, path: str, **headers: str) -> func.HttpResponse:
        name = {
            "v1/schemas/envelope": "documents_schema",
            "v1/docs": "documents_page",
            "v1/schemas": "documents_schemas",
        }
        function: Any = self._functions[name.get(path) or f"documents_{path[3:].removesuffix('.json')}"]
        url = f"http://evil.example/{path}"
        request = func.HttpRequest("GET", url, headers=headers, route_params={"name": "envelope"}, body=b"")
        response = await function(request)
        assert isinstance(response, func.HttpResponse)
        return response


@pytest.fixture
def documents(world: World) -> Documents:
    hosts = frozenset({"secretaccount.blob.core.windows.net/documents"})
    return Documents(
        replace(world.context, settings=replace(world.context.settings, allowed_ref_hosts=hosts, public_url=None))
    )


@pytest.mark.parametrize("path", PATHS)
async def test_a_document_is_made_once_for_each_catalog(documents: Documents, path: str) -> None:
    """The next request gets the bytes of the first, or 304 for its ETag; other protocols make it again."""
    first = await documents.get(path)
    again = await documents.get(path)
    assert again.get_body() is first.get_body()
    assert again.headers["Cache-Control"] == "public, max-age=60"
    known = await documents.get(path, **{"If-None-Match": first.headers["ETag"]})
    assert (known.status_code, known.get_body(), known.headers["Cache-Control"]) == (304, b"", "public, max-age=60")
    documents.wiring.current = replace(
        documents.wiring.current, registry=Registry(list(documents.wiring.current.registry)[:1])
    )
    other = await documents.get(path)
    assert other.get_body() is not first.get_body()
    # the messages of the bus are the same for all protocols
    assert path == "v1/asyncapi.json" or other.headers["ETag"] != first.headers["ETag"]


@pytest.mark.parametrize("path", PATHS)
async def test_a_document_names_no_host(documents: Documents, path: str) -> None:
    """Neither the allowed hosts of references, nor the one that the caller put into `Host`."""
    text = (await documents.get(path, Host="evil.example")).get_body().decode()
    assert "secretaccount" not in text
    assert "evil.example" not in text


async def test_without_an_address_of_its_own_the_document_is_relative(documents: Documents) -> None:
    """`servers` is `/` (OpenAPI 3.1, 4.8.5), commands name `$API`; with LUCIUS_PUBLIC_URL both have it."""
    assert json.loads((await documents.get("v1/openapi.json")).get_body())["servers"] == [{"url": "/"}]
    assert '"$API/v1/jobs"' in (await documents.get("v1/docs")).get_body().decode().replace("&quot;", '"')
    settings = replace(documents.wiring.settings, public_url="https://lucius.example/base")
    named = Documents(replace(documents.wiring.current, settings=settings))
    servers = json.loads((await named.get("v1/openapi.json")).get_body())["servers"]
    assert servers == [{"url": "https://lucius.example/base"}]
    assert "https://lucius.example/base/v1/jobs" in (await named.get("v1/docs")).get_body().decode()
