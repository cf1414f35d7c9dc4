"""The dashboard's files: their size, their imports, their agreement with the API, and how they are served."""

from __future__ import annotations

import gzip
import json
import re
from types import SimpleNamespace
from typing import Any, cast

import azure.durable_functions as df
import azure.functions as func
import pytest

from infra.package.files import packaged
from shared.access_settings import SignIn
from shared.core.filters import JobFilter, parameters_of
from shared.dashboard_assets import FOLDER, dashboard
from shared.wiring import Wiring
from tests.jobs import ROOT
from triggers import dashboard_page_http
from triggers.http.routes import build_blueprint

#: of the files that a browser loads before it shows the first view, in gzip
FIRST_LOAD_BYTES = 150_000
#: name of a function, method, path, query parameters, fields of the body, scope; `*`: the caller gives the body
_CALL = re.compile(
    r'export const (\w+) = call\("(\w+)", "([^"]+)"(?:, ["`]([^"`]*)["`])?(?:, "([^"]*)")?(?:, "([^"]*)")?\);'
)
_FILTER = re.compile(r'const FILTER = "([^"]+)"')
_JOB_KEYS = re.compile(r"const JOB_KEYS = {(.*?)};", re.DOTALL)


def test_the_first_load_is_small() -> None:
    made = dashboard()
    assert sum(len(made.assets[name].packed) for name in made.first_load) < FIRST_LOAD_BYTES
    assert not any("uplot" in name and name.endswith(".js") for name in made.first_load), "charts are loaded later"


def test_every_file_is_reached_by_its_name() -> None:
    """Each import leads to an asset, and every module of the folder is imported."""
    made = dashboard()
    for asset in made.assets.values():
        for name in re.findall(r'(?:from|import)\s*\(?\s*"\./([\w.-]+)"', asset.body.decode()):
            assert name in made.assets, f"{asset.name} imports {name}"
    reached = {re.sub(r"-[0-9a-f]{12}(\.\w+)$", r"\1", name) for name in made.assets}
    files = [path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.*") if path.name != "index.html"]
    assert {name.replace("/", "-") for name in files} == reached


def test_modules_are_short() -> None:
    own = [path for path in FOLDER.rglob("*.js") if "vendor" not in path.parts]
    assert {path.name: lines for path in own if (lines := len(path.read_text().splitlines())) > 300} == {}


def test_it_is_part_of_what_is_deployed() -> None:
    deployed = {path.as_posix() for path in packaged(ROOT)}
    assert {path.relative_to(ROOT).as_posix() for path in FOLDER.rglob("*") if path.is_file()} <= deployed


def test_each_call_is_of_the_api() -> None:
    """Paths, parameters, fields of bodies and scopes are those of the OpenAPI document."""
    document = json.loads((ROOT / "docs" / "openapi.json").read_text())
    source = (FOLDER / "api.js").read_text()
    filters = cast(re.Match[str], _FILTER.search(source))[1]
    calls = _CALL.findall(source)
    assert len(calls) == source.count("= call(")
    for name, method, path, query, body, scope in calls:
        operation = document["paths"][path][method.lower()]
        known = {_resolved(document, each)["name"] for each in operation.get("parameters", [])}
        assert {*query.replace("${FILTER}", filters).split()} <= known, name
        needed = scope or ("orch:read" if method == "GET" else "orch:operate")
        assert operation["security"] in ([{"bearer": [needed]}], []), name
        if body not in ("", "*"):
            schema = _resolved(document, operation["requestBody"]["content"]["application/json"]["schema"])
            assert {*body.split()} <= {*schema["properties"]}, name


def test_every_filter_of_jobs_is_offered() -> None:
    names = [each.name for each in parameters_of(JobFilter)]
    sent = cast(re.Match[str], _FILTER.search((FOLDER / "api.js").read_text()))[1].split()
    assert sorted(sent) == sorted(names)
    offered = cast(re.Match[str], _JOB_KEYS.search((FOLDER / "parts" / "filter.js").read_text()))[1]
    # the page's own choice of a tenant is beside the filter
    assert {*re.findall(r"^  (\w+):", offered, re.MULTILINE)} == {*names} - {"tenant_id"}


def _resolved(document: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in node:
        return node
    _, section, name = node["$ref"].removeprefix("#/").split("/")
    return cast(dict[str, Any], document["components"][section][name])


@pytest.fixture
def functions() -> dict[str, Any]:
    return functions_with(sign_in=None)


def functions_with(sign_in: SignIn | None) -> dict[str, Any]:
    app = df.DFApp()
    wiring = SimpleNamespace(settings=SimpleNamespace(sign_in=sign_in))
    app.register_functions(build_blueprint([dashboard_page_http], cast(Wiring, wiring)))
    app.register_functions(dashboard_page_http.root_blueprint())
    return {one.get_function_name(): one.get_user_function() for one in app.get_functions()}


async def get(functions: dict[str, Any], function: str, path: str = "", **headers: str) -> func.HttpResponse:
    file = path.rsplit("/", 1)[-1]
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = func.HttpRequest("GET", f"https://app/{path}", headers=named, route_params={"file": file}, body=b"")
    return cast(func.HttpResponse, await functions[function](request))


async def test_a_file_is_immutable_and_compressed(functions: dict[str, Any]) -> None:
    name = next(each for each in dashboard().first_load if each.startswith("app-"))
    packed = await get(functions, "dashboard_asset", name, accept_encoding="br, gzip")
    plain = await get(functions, "dashboard_asset", name)
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    assert gzip.decompress(packed.get_body()) == plain.get_body()
    assert packed.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert packed.mimetype == "text/javascript"


async def test_an_older_file_is_not_there(functions: dict[str, Any]) -> None:
    answer = await get(functions, "dashboard_asset", "app-000000000000.js")
    assert (answer.status_code, answer.headers["Cache-Control"]) == (404, "no-store")


async def test_the_page_has_no_inline_script_or_style(functions: dict[str, Any]) -> None:
    page = await get(functions, "dashboard_page", "v1/dashboard")
    assert "unsafe" not in page.headers["Content-Security-Policy"]
    text = page.get_body().decode()
    assert re.findall(r"<script(?![^>]*\bsrc=)[^>]*>|<style|\bon\w+=|\bstyle=", text) == []
    assert f"dashboard/assets/{dashboard().first_load[0]}" in text
    assert "connect-src 'self';" in page.headers["Content-Security-Policy"]
    assert 'name="sign-in"' not in text


async def test_the_page_names_the_issuer(functions: dict[str, Any]) -> None:
    """As text of attributes, and as the one other origin that the page may call."""
    sign_in = SignIn("https://login.example/tenant/v2.0", 'c"1', "api/.default")
    page = await get(functions_with(sign_in), "dashboard_page", "v1/dashboard")
    assert "connect-src 'self' https://login.example;" in page.headers["Content-Security-Policy"]
    meta = 'data-issuer="https://login.example/tenant/v2.0" data-client-id="c&quot;1" data-scope="api/.default"'
    assert meta in page.get_body().decode()


async def test_the_root_leads_to_the_page(functions: dict[str, Any]) -> None:
    answer = await get(functions, "dashboard_root")
    assert (answer.status_code, answer.headers["Location"]) == (302, "v1/dashboard")
