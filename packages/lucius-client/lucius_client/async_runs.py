"""Runs: the part of the asynchronous client for logs and artifacts of jobs that execute a program."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import BinaryIO, TypeVar

import httpx

from lucius_client import run_calls
from lucius_client.calls import Call
from lucius_client.errors import StoreUnreachable
from lucius_client.models import RunArtifact
from lucius_client.retry import Retries
from lucius_client.series import Series

T = TypeVar("T")


class AsyncRuns(ABC):
    """The methods of `lucius_client.async_client.AsyncClient` for runs."""

    _retries: Retries
    _timeout_s: float

    @abstractmethod
    async def _call(self, call: Call[T]) -> T: ...

    @abstractmethod
    def _iterate(self, source: Series[T]) -> AsyncIterator[T]: ...

    def run_log(self, job_id: str, *, follow: bool = True) -> AsyncIterator[bytes]:
        """Yields the log of a run from its beginning, each byte once. With `follow`, continues until the run has ended.
        Otherwise, stops at the present end of the log.
        """
        return self._iterate(run_calls.RunLog(job_id, self._retries, follow=follow))

    async def run_artifacts(self, job_id: str, *, attempt: int | None = None) -> list[RunArtifact]:
        """Lists the artifacts of a run's attempt by name. `attempt` None means the last attempt."""
        return (await self._call(run_calls.run_artifacts(job_id, attempt))).artifacts

    async def run_artifact(self, job_id: str, name: str, out: BinaryIO, *, attempt: int | None = None) -> None:
        """Writes the content of an artifact to `out`, a binary file. Raises StoreUnreachable if storage does not return
        the content.
        """
        link = await self._call(run_calls.run_artifact_link(job_id, name, attempt))
        try:
            # without the token: the link is its own credential
            async with (
                httpx.AsyncClient(timeout=self._timeout_s, trust_env=False) as http,
                http.stream("GET", link.url) as response,
            ):
                response.raise_for_status()
                async for piece in response.aiter_bytes():
                    out.write(piece)
        except httpx.HTTPError as error:
            raise StoreUnreachable(run_calls.no_content(name, error)) from error
