"""Runs: the part of the synchronous client for logs and artifacts of jobs that execute a program."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import BinaryIO, TypeVar

import httpx

from lucius_client import run_calls
from lucius_client.calls import Call
from lucius_client.errors import StoreUnreachable
from lucius_client.models import RunArtifact
from lucius_client.retry import Retries
from lucius_client.series import Series

T = TypeVar("T")


class Runs(ABC):
    """The methods of `lucius_client.client.Client` for runs."""

    _retries: Retries
    _timeout_s: float

    @abstractmethod
    def _call(self, call: Call[T]) -> T: ...

    @abstractmethod
    def _iterate(self, source: Series[T]) -> Iterator[T]: ...

    def run_log(self, job_id: str, *, follow: bool = True) -> Iterator[bytes]:
        """Yields the log of a run from its beginning, each byte once. With `follow`, continues until the run has ended.
        Otherwise, stops at the present end of the log.
        """
        return self._iterate(run_calls.RunLog(job_id, self._retries, follow=follow))

    def run_artifacts(self, job_id: str, *, attempt: int | None = None) -> list[RunArtifact]:
        """Lists the artifacts of a run's attempt by name. `attempt` None means the last attempt."""
        return self._call(run_calls.run_artifacts(job_id, attempt)).artifacts

    def run_artifact(self, job_id: str, name: str, out: BinaryIO, *, attempt: int | None = None) -> None:
        """Writes the content of an artifact to `out`, a binary file. Raises StoreUnreachable if storage does not return
        the content.
        """
        link = self._call(run_calls.run_artifact_link(job_id, name, attempt))
        try:
            # without the token: the link is its own credential
            with httpx.stream("GET", link.url, timeout=self._timeout_s, trust_env=False) as response:
                response.raise_for_status()
                for piece in response.iter_bytes():
                    out.write(piece)
        except httpx.HTTPError as error:
            raise StoreUnreachable(run_calls.no_content(name, error)) from error
