"""Calls of the API about runs, and the log of a run (no I/O)."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from lucius_client.calls import Call, _query, _reader, _segment
from lucius_client.exchange import Flow, Pause, Request, Response
from lucius_client.models import ArtifactLink, RunArtifacts
from lucius_client.retry import Retries, send
from lucius_client.series import LONG_POLL_S, Series

#: seconds between two requests for a log that does not grow, if the API does not delay its responses
_AFTER_NONE_S = 1.0
_NEXT = re.compile(r'<[^>]*[?&]after=([0-9.]+)[^>]*>; *rel="?next"?')


def run_artifacts(job_id: str, attempt: int | None) -> Call[RunArtifacts]:
    return Call(Request("GET", f"{_run(job_id)}/artifacts", query=_query(attempt=attempt)), _reader(RunArtifacts))


def run_artifact_link(job_id: str, name: str, attempt: int | None) -> Call[ArtifactLink]:
    path = f"{_run(job_id)}/artifacts/{_segment(name)}"
    headers = {"Accept": "application/json"}
    return Call(Request("GET", path, query=_query(attempt=attempt), headers=headers), _reader(ArtifactLink))


class RunLog(Series[bytes]):
    """The log of a run from the beginning, each byte once. With `follow`, the log ends after the run has ended.

    The client repeats a failed request from the same position, so the log is complete after a restart of the API.
    """

    def __init__(
        self, job_id: str, retries: Retries, *, follow: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = f"{_run(job_id)}/logs"
        self._retries = retries
        self._follow = follow
        self._clock = clock
        self._after: str | None = None
        self._pause_s = 0.0
        self.more = True

    def next(self) -> Flow[list[bytes]]:
        if self._pause_s:
            yield Pause(self._pause_s)
        wait_s = LONG_POLL_S if self._follow else 0
        query = _query(after=self._after, wait=wait_s or None)
        request = Request("GET", self._path, query=query, headers={"Accept": "text/plain"}, long_poll_s=wait_s)
        began = self._clock()
        response = yield from send(request, self._retries)
        self._after = _next(response)
        self.more = self._after is not None and (self._follow or bool(response.body))
        # the next request for a growing log waits until storage has more of the log
        self._pause_s = max(0.0, _AFTER_NONE_S - (self._clock() - began)) if self._follow else 0.0
        return [response.body] if response.body else []


def _next(response: Response) -> str | None:
    found = _NEXT.search(response.header("Link") or "")
    return found[1] if found else None


def _run(job_id: str) -> str:
    return f"/v1/runs/{_segment(job_id)}"


def no_content(name: str, error: Exception) -> str:
    """Returns the error for an unreadable artifact, without the link, which is a secret."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    why = f"HTTP status {status}" if status else type(error).__name__
    return f"artifact {name}: cannot read the artifact from storage ({why}); get the artifact again"
