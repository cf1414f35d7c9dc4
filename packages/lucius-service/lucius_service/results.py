"""The copy of a result at the caller's `output_ref`, and the stored RESULT of an ended attempt.

A step writes into the workspace. The storage account deletes a blob of the workspace `LUCIUS_WORKSPACE_DAYS` days after
the last write.

The result of a directive with `final` is the job's result, and the SDK copies this result to
`{output_ref}/{jobId}/{name}`. `name` is the result's path below `workspace_ref`, so every attempt of the step writes
the same blob. An `output_ref` whose last segment has a dot and no closing slash is the blob's URI.

In a last parallel group, only the first step writes to this URI. The URI of each other step contains the step's id. The
SDK does not replace a blob that another job wrote, or that is not a result.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote, unquote, unquote_to_bytes, urlsplit

from lucius_service import replies
from lucius_service.directive import Directive
from lucius_service.errors import REF_UNSUPPORTED, FailedFinal, StepFailed
from lucius_service.log_lines import attempt_ids
from lucius_service.workspace_io import Owner, Workspace, blob_uri

log = logging.getLogger(__name__)

#: metadata of a result's blob with the RESULT, percent-encoded except these characters, since metadata is ASCII
_RESULT, _PLAIN = "lucius_result", '"{}[],:/'
#: maximum characters of this metadata: Azure allows 8 KiB in all, and aiohttp reads headers of at most this size
_MAX_METADATA = 6_000


def final_uri(directive: Directive, result_ref: str) -> str:
    """Returns the URI to which the result at `result_ref` is copied. Raises FailedFinal if the directive has no
    `output_ref`.
    """
    if directive.output_ref is None:
        raise FailedFinal(REF_UNSUPPORTED, "the directive is final and has no output_ref")
    output = directive.output_ref.uri
    workspace = directive.workspace_ref.uri.rstrip("/") + "/"
    name = result_ref.removeprefix(workspace) if result_ref.startswith(workspace) else result_ref.rsplit("/", 1)[-1]
    step = quote(directive.stepId, safe="")
    if "." in unquote(urlsplit(output).path.rsplit("/", 1)[-1]):
        if not directive.final_index:
            return output
        folder, _, named = output.rpartition("/")
        return f"{folder}/{named.rpartition('.')[0]}.{step}{PurePosixPath(name).suffix}"
    folder = f"{output.rstrip('/')}/{quote(directive.jobId, safe='')}"
    return f"{folder}/{step}/{name}" if directive.final_index else f"{folder}/{name}"


def check_places(directive: Directive, workspace: Workspace) -> None:
    """Raises FailedFinal for URIs that the attempt cannot read or write. Must be called before the work begins."""
    workspace.check_reference(directive.input_ref.uri, directive.workspace_ref.uri)
    if directive.final:
        output = final_uri(directive, f"{directive.workspace_ref.uri.rstrip('/')}/result")
        try:
            workspace.check_reference(output, directive.workspace_ref.uri)
        except FailedFinal as fault:
            raise FailedFinal(fault.code, f"output_ref: {fault.message}") from None


def publish_result(directive: Directive, result: dict[str, Any], workspace: Workspace) -> dict[str, Any]:
    """Copies the blob that a RESULT names to `output_ref`. Returns the RESULT with that URI and the digest.

    Returns a RESULT unchanged if the RESULT is not final or not successful. Raises StepFailed if the copy cannot be
    written, so no RESULT names the workspace as the output.
    """
    if not directive.final or result["status"] != "SUCCEEDED":
        return result
    source = result["result_ref"]["uri"]
    target = final_uri(directive, source)
    owner = Owner(directive.tenant_id, directive.first_job_id or directive.jobId)
    try:
        digest = workspace.copy(source, target, owner)
    except StepFailed as fault:
        raise type(fault)(fault.code, f"output_ref: {fault.message}") from None
    return result | {"output_ref": {"uri": target}, "digests": result.get("digests", {}) | {"output_ref": digest}}


class ResultStore:
    """The store of the RESULT of each attempt, so that a duplicate gets the same RESULT without repeated work.

    A RESULT is stored before its publication, survives a restart, and is visible to all replicas. If the result is the
    blob `result_name`, the RESULT is metadata of this blob, since a change of metadata costs less than a write. Any
    other RESULT, and a RESULT of more than 6,000 encoded characters, is the blob `.attempt/{key}.json` under
    `workspace_ref`.

    Methods are synchronous, for worker threads, and raise StepFailed if storage fails.
    """

    def __init__(self, workspace: Workspace, result_name: str = "") -> None:
        """Stores RESULTs in `workspace`. `lucius_service.step.Declared` describes `result_name`."""
        self._workspace = workspace
        self._result_name = result_name

    def find(self, directive: Directive) -> dict[str, Any] | None:
        """Returns the stored RESULT of the attempt, or None if no RESULT of this attempt is stored."""
        for stored in self._stored(directive):
            try:
                return replies.with_lease(json.loads(stored), directive)
            except (ValueError, RecursionError) as wrong:
                log.warning("%s step %s: %s", directive.jobId, directive.stepId, wrong, extra=attempt_ids(directive))
        return None

    def _stored(self, directive: Directive) -> Iterator[bytes]:
        if self._result_name:
            encoded = self._workspace.metadata(self._result_uri(directive)).get(_RESULT)
            if encoded is not None:
                yield unquote_to_bytes(encoded)
        record = self._workspace.find(directive.workspace_ref.uri, _record_name(directive))
        if record is not None:
            yield record

    def keep(self, directive: Directive, result: dict[str, Any]) -> dict[str, Any]:
        """Stores and returns `result`. If the metadata cannot have `result` and the blob `.attempt/{key}.json` exists,
        returns the RESULT of this blob instead.

        Raises ValueError if that blob is not the attempt's RESULT.
        """
        body = json.dumps(replies.without_lease(result, directive), ensure_ascii=False).encode()
        if self._is_in_metadata(directive, result, quote(body, safe=_PLAIN)):
            return result
        stored = self._workspace.write_once(
            directive.workspace_ref.uri, _record_name(directive), body, "application/json"
        )
        return replies.with_lease(json.loads(stored), directive)

    def _is_in_metadata(self, directive: Directive, result: dict[str, Any], encoded: str) -> bool:
        """Stores the RESULT in the metadata of the result's blob. Returns `False` if the blob cannot have this
        metadata.
        """
        uri = self._result_uri(directive)
        can_be = self._result_name and result.get("result_ref") == {"uri": uri} and len(encoded) <= _MAX_METADATA
        return bool(can_be) and self._workspace.set_metadata(uri, {_RESULT: encoded})

    def _result_uri(self, directive: Directive) -> str:
        return blob_uri(directive.workspace_ref.uri, self._result_name)


def _record_name(directive: Directive) -> str:
    return f".attempt/{directive.key}.json"
