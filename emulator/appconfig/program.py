"""App Configuration as a program: `GET /kv` and `GET /kv/{key}` (REST API 1.0), from a file."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any
from urllib.parse import quote

from aiohttp import web

from emulator.appconfig.settings_file import KeyValue, SettingsFile, SettingsFileError, matches
from emulator.serving import serve

_KV = "application/vnd.microsoft.appconfig.kv+json"
_KVSET = "application/vnd.microsoft.appconfig.kvset+json"
_PROBLEM = "application/problem+json"
#: maximum settings per page, as in Azure
PAGE = 100
#: label filters that match a setting without a label
_NO_LABEL = frozenset({"*", "\0", "%00", ""})


def run(args: argparse.Namespace) -> int:
    """Serves until a signal. Returns the exit code."""
    try:
        return asyncio.run(serve(application(SettingsFile(args.file)), args.port))
    except SettingsFileError as error:
        print(f"appconfig: {error}", file=sys.stderr)
    except OSError as error:
        print(f"appconfig: cannot listen on port {args.port}: {error.strerror}", file=sys.stderr)
    return 1


def application(file: SettingsFile) -> web.Application:
    """Returns the app, which serves `GET /kv` and `GET /kv/{key}`."""

    async def list_settings(request: web.Request) -> web.Response:
        pattern, after = request.query.get("key", "*"), request.query.get("after", "")
        settings = [setting for setting in file.read() if matches(pattern, setting.key) and setting.key > after]
        if request.query.get("label", "*") not in _NO_LABEL:
            settings = []
        body: dict[str, Any] = {"items": [_item(setting) for setting in settings[:PAGE]]}
        if len(settings) > PAGE:
            query = {**request.query, "after": settings[PAGE - 1].key}
            body["@nextLink"] = "/kv?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
        return web.json_response(body, content_type=_KVSET)

    async def read_setting(request: web.Request) -> web.Response:
        key = request.match_info["key"]
        setting = next((setting for setting in file.read() if setting.key == key), None)
        if setting is None or request.query.get("label", "") not in _NO_LABEL:
            return web.Response(status=404)
        headers = {
            "ETag": f'"{setting.etag}"',
            "Last-Modified": setting.last_modified.strftime("%a, %d %b %Y %H:%M:%S GMT"),
        }
        if request.headers.get("If-None-Match", "").strip('"') == setting.etag:
            return web.Response(status=304, headers=headers)
        return web.json_response(_item(setting), content_type=_KV, headers=headers)

    app = web.Application(middlewares=[_check_request])
    app.router.add_get("/kv", list_settings)
    app.router.add_get("/kv/{key:.+}", read_setting)
    return app


@web.middleware
async def _check_request(request: web.Request, handler: Any) -> web.StreamResponse:
    """Refuses a request without a signature or bearer token, or without `api-version`. Does not verify the signature or
    token.
    """
    scheme, _, rest = request.headers.get("Authorization", "").partition(" ")
    if not (scheme == "HMAC-SHA256" and "Credential=" in rest and "Signature=" in rest) and scheme != "Bearer":
        return _problem(
            401,
            "The request is not signed: Authorization must be HMAC-SHA256 with Credential and Signature, or Bearer.",
        )
    if "api-version" not in request.query:
        return _problem(400, "api-version is missing.")
    try:
        response: web.StreamResponse = await handler(request)
    except web.HTTPMethodNotAllowed:
        return _problem(405, "This App Configuration is read-only; edit the file of --file.")
    except web.HTTPNotFound:
        return _problem(404, "Only /kv and /kv/{key} are supported.")
    return response


def _problem(status: int, title: str) -> web.Response:
    return web.json_response({"title": title, "status": status}, status=status, content_type=_PROBLEM)


def _item(setting: KeyValue) -> dict[str, Any]:
    return {
        "etag": setting.etag,
        "key": setting.key,
        "label": None,
        "content_type": None,
        "value": setting.value,
        "last_modified": setting.last_modified.isoformat(),
        "locked": False,
        "tags": {},
    }
