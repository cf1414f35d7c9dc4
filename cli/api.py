"""The HTTP API, as the command line uses it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx

from cli.exits import CliError, Refused, Unreachable, UsageError

DEFAULT_URL = "http://127.0.0.1:7071"
_TIMEOUT_S = 30.0
_PAGE = 100

Json = dict[str, Any]


class Api:
    """A client of one API. Raises `Refused` where it answers with a problem, `Unreachable` where nobody answers."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        #: GET requests so far: each reads the ledger
        self.reads = 0
        try:
            self._client = httpx.Client(base_url=self.url, timeout=_TIMEOUT_S, trust_env=False)
        except httpx.InvalidURL as error:
            raise UsageError(f"--api {url}: {error}") from error

    def submit(self, envelope: Json) -> tuple[Json, bool]:
        """The accepted job, and whether it was known already."""
        response = self._send("POST", "/v1/orchestrate", json=envelope)
        return self._body(response), response.headers.get("Idempotency-Replayed") == "true"

    def job(self, job_id: str) -> Json:
        return self._get(f"/v1/jobs/{_segment(job_id)}")

    def control(self, job_id: str, verb: str, reason: str | None) -> Json:
        """`verb` is cancel, pause or resume; the job as it stands after."""
        body = {"reason": reason} if reason else {}
        return self._body(self._send("POST", f"/v1/jobs/{_segment(job_id)}:{verb}", json=body))

    def jobs(self, tenant: str | None, status: str | None, limit: int) -> list[Json]:
        """Newest first, at most `limit`."""
        return self._pages("/v1/jobs", "jobs", limit, tenant_id=tenant, status=status)

    def events(self, job_id: str) -> list[Json]:
        return self._pages(f"/v1/jobs/{_segment(job_id)}/events", "events", None)

    def explain(self, job_id: str) -> Json:
        return self._get(f"/v1/jobs/{_segment(job_id)}/explain")

    def protocols(self) -> list[Json]:
        return self._pages("/v1/protocols", "protocols", None)

    def protocol(self, request_type: str) -> Json:
        return self._get(f"/v1/protocols/{_segment(request_type)}")

    def _pages(self, path: str, key: str, limit: int | None, **parameters: str | None) -> list[Json]:
        found: list[Json] = []
        for page in self._each_page(path, parameters):
            found += page[key]
            if limit is not None and len(found) >= limit:
                return found[:limit]
        return found

    def _each_page(self, path: str, parameters: dict[str, str | None]) -> Iterator[Json]:
        given = {name: value for name, value in parameters.items() if value}
        cursor: str | None = None
        while True:
            page = self._get(path, {**given, "limit": str(_PAGE), **({"cursor": cursor} if cursor else {})})
            yield page
            cursor = page.get("next")
            if not cursor:
                return

    def _get(self, path: str, parameters: dict[str, str] | None = None) -> Json:
        self.reads += 1
        return self._body(self._send("GET", path, params=parameters))

    def _send(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            response = self._client.request(method, path, **more)
        except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise UsageError(f"--api {self.url}: {error}") from error
        except httpx.TransportError as error:
            reason = str(error) or type(error).__name__
            raise Unreachable(f"no API answers at {self.url} ({reason}); start one by `make up`") from error
        if response.status_code >= 400:
            raise _refusal(response)
        return response

    def _body(self, response: httpx.Response) -> Json:
        try:
            body = response.json()
        except ValueError as error:
            raise CliError(f"{self.url} is not a LUCIUS API: it answered no JSON") from error
        if not isinstance(body, dict):
            raise CliError(f"{self.url} is not a LUCIUS API: it answered no JSON object")
        return body


def _segment(value: str) -> str:
    return quote(value, safe="")


def _refusal(response: httpx.Response) -> Refused:
    try:
        problem = response.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        problem = {"code": response.reason_phrase, "detail": response.text[:200].strip()}
    return Refused(response.status_code, problem)
