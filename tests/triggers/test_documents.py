"""The public documents: made once for each catalog, without confidential content."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from dataclasses import replace
from typing import Any, cast
from urllib.parse import urljoin

import azure.durable_functions as df
import azure.functions as func
import pytest

from scripts.generate import api_documents
from shared.apidocs import docs_page
from shared.apidocs.operation import refusals_of
from shared.build import VERSION
from shared.core.registry import Registry
from shared.operations.process.context import Context
from shared.settings import Settings
from shared.wiring import Wiring
from tests.operations.conftest import World, world
from triggers import documents_http
from triggers.registered import ROUTES

__all__ = ["world"]  # the fixture

PATHS = ["v1/openapi.json", "v1/asyncapi.json", "v1/schemas", "v1/schemas/envelope", "v1/docs", "v1/problems"]
#: the same for all protocols
FIXED = ["v1/asyncapi.json", "v1/docs", "v1/problems"]


class OpenWiring:
    """A wiring over a context, for routes that need no token."""

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
            "v1/docs/": "documents_page",
            "v1/schemas": "documents_schemas",
        }
        file = path.removeprefix("v1/docs/")
        found = "documents_page_file" if file not in ("", path) else name.get(path)
        function: Any = self._functions[found or f"documents_{path[3:].removesuffix('.json')}"]
        url, parameters = f"http://evil.example/{path}", {"name": "envelope", "file": file}
        request = func.HttpRequest("GET", url, headers=headers, route_params=parameters, body=b"")
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
    assert (path in FIXED) == (other.headers["ETag"] == first.headers["ETag"])


@pytest.mark.parametrize("name", ["openapi.json", "asyncapi.json"])
async def test_the_document_has_the_build(documents: Documents, name: str) -> None:
    """The served one has version and commit of the app; the committed one has neither, so no commit changes it."""
    current = documents.wiring.current
    documents.wiring.current = replace(current, settings=replace(current.settings, build_commit="1a2b3c4d5e6f7a8b"))
    served = json.loads((await documents.get(f"v1/{name}")).get_body())
    assert served["info"]["version"] == f"API v1 (build {VERSION}, commit 1a2b3c4d5e6f)"
    assert json.loads(api_documents.files()[name])["info"]["version"] == "API v1"


@pytest.mark.parametrize("path", PATHS)
async def test_a_document_names_no_host(documents: Documents, path: str) -> None:
    """Neither the allowed hosts of references, nor the one that the caller put into `Host`."""
    text = (await documents.get(path, Host="evil.example")).get_body().decode()
    assert "secretaccount" not in text
    assert "evil.example" not in text


async def test_without_an_address_of_its_own_the_document_is_relative(documents: Documents) -> None:
    """`servers` is `/` (OpenAPI 3.1, 4.8.5), or LUCIUS_PUBLIC_URL."""
    assert json.loads((await documents.get("v1/openapi.json")).get_body())["servers"] == [{"url": "/"}]
    settings = replace(documents.wiring.settings, public_url="https://lucius.example/base")
    named = Documents(replace(documents.wiring.current, settings=settings))
    servers = json.loads((await named.get("v1/openapi.json")).get_body())["servers"]
    assert servers == [{"url": "https://lucius.example/base"}]


async def test_the_openapi_document_is_packed_once(documents: Documents) -> None:
    """The packed bytes have an ETag of their own, which another process makes too."""
    plain = await documents.get("v1/openapi.json")
    packed, again = [await documents.get("v1/openapi.json", **{"Accept-Encoding": "gzip"}) for _ in range(2)]
    assert gzip.decompress(packed.get_body()) == plain.get_body()
    assert again.get_body() is packed.get_body()
    assert (packed.headers["Content-Encoding"], packed.headers["Vary"]) == ("gzip", "Accept-Encoding")
    assert packed.headers["ETag"] != plain.headers["ETag"]
    other = await Documents(documents.wiring.current).get("v1/openapi.json", **{"Accept-Encoding": "gzip"})
    assert other.headers["ETag"] == packed.headers["ETag"]


async def test_the_page_runs_one_script_of_one_hash(documents: Documents) -> None:
    """The committed file is the one of the npm package; it is sent packed to a client that can unpack it."""
    page = (await documents.get("v1/docs")).get_body().decode()
    [source] = re.findall(r' src="([^"]+)"', page)
    [integrity] = re.findall(r' integrity="sha384-([^"]+)"', page)
    packed = await documents.get(f"v1/{source}", **{"Accept-Encoding": "br, gzip"})
    plain = await documents.get(f"v1/{source}", **{"Accept-Encoding": "gzip;q=0"})
    assert gzip.decompress(packed.get_body()) == plain.get_body()
    assert base64.b64encode(hashlib.sha384(plain.get_body()).digest()).decode() == integrity
    assert (packed.headers["Content-Encoding"], plain.headers.get("Content-Encoding")) == ("gzip", None)
    assert packed.headers["ETag"] != plain.headers["ETag"]
    for response in (packed, plain):
        assert response.mimetype == "text/javascript"
        assert response.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert response.headers["Vary"] == "Accept-Encoding"
    known = await documents.get(f"v1/{source}", **{"Accept-Encoding": "gzip", "If-None-Match": packed.headers["ETag"]})
    assert (known.status_code, known.get_body()) == (304, b"")


@pytest.mark.parametrize("file", ["other.js", "LICENSE.txt", "../scalar/LICENSE.txt", f"{docs_page.SCRIPT}.gz"])
async def test_the_page_has_no_other_file(documents: Documents, file: str) -> None:
    refused = await documents.get(f"v1/docs/{file}")
    assert (refused.status_code, json.loads(refused.get_body())["code"]) == (404, "ROUTE_NOT_FOUND")
    assert refused.headers["Cache-Control"] == "no-store"


async def test_the_page_has_one_address(documents: Documents) -> None:
    """The host serves `/v1/docs/` too, from which relative links lead elsewhere."""
    redirected = await documents.get("v1/docs/")
    assert (redirected.status_code, urljoin("/v1/docs/", redirected.headers["Location"])) == (308, "/v1/docs")


async def test_each_code_has_an_entry(documents: Documents) -> None:
    """The `type` of a problem leads to it (`test_problems`)."""
    page = (await documents.get("v1/problems")).get_body().decode()
    codes = {refusal.code for route in ROUTES for refusal in refusals_of(route)}
    assert re.findall(r' id="([^"]+)"', page) == sorted(codes)
