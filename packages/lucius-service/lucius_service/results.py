"""The blobs of a RESULT: the copy at the caller's `output_ref`, and the record of an ended attempt.

A step writes into the workspace, which is cleared. If a directive says `final`, its result is the job's and is copied
to `{output_ref}/{jobId}/{name}`; `name` is the result's path below `workspace_ref`, so every attempt of the step writes
the same blob. An `output_ref` whose last segment has a dot and no closing slash names the blob itself. In a last
parallel group the first step writes that blob, and the others write next to it, with their step id. A blob that another
job wrote, or that is not a result, is not replaced.
"""

from __future__ import annotations

import json
import logging
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from lucius_service import replies
from lucius_service.directive import Directive
from lucius_service.errors import REF_UNSUPPORTED, FailedFinal, StepFailed
from lucius_service.log_lines import attempt_ids
from lucius_service.workspace_io import Owner, Workspace

log = logging.getLogger(__name__)


def final_uri(directive: Directive, result_ref: str) -> str:
    """Returns the URI to which the result at `result_ref` is copied. Raises FailedFinal if a final directive has no
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
    """Refuses URIs that the attempt could not read or write, before its work begins. Raises FailedFinal."""
    workspace.check_reference(directive.input_ref.uri, directive.workspace_ref.uri)
    if directive.final:
        output = final_uri(directive, f"{directive.workspace_ref.uri.rstrip('/')}/result")
        try:
            workspace.check_reference(output, directive.workspace_ref.uri)
        except FailedFinal as fault:
            raise FailedFinal(fault.code, f"output_ref: {fault.message}") from None


def publish_result(directive: Directive, result: dict[str, Any], workspace: Workspace) -> dict[str, Any]:
    """Copies the blob that a RESULT names to `output_ref`. Returns the RESULT with that URI and the digest.

    Returns a RESULT that is not final, or did not succeed, unchanged. Raises StepFailed if the copy cannot be written:
    no RESULT names the workspace instead.
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
    """Stores the RESULT of each attempt, so that a duplicate gets the same RESULT and its work is not repeated (R6).

    One blob per attempt, `.attempt/{key}.json` under its `workspace_ref`, is written before the RESULT is published. It
    survives a restart, and all replicas see it. If two replicas worked on one attempt, the first RESULT counts. Methods
    are synchronous, for worker threads. They raise StepFailed if storage fails.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def find(self, directive: Directive) -> dict[str, Any] | None:
        """Returns the stored RESULT of the attempt; None if it has not ended, or if the blob is not its RESULT."""
        stored = self._workspace.find(directive.workspace_ref.uri, _name(directive))
        try:
            return None if stored is None else replies.with_lease(json.loads(stored), directive)
        except (ValueError, RecursionError) as wrong:
            log.warning("%s step %s: %s", directive.jobId, directive.stepId, wrong, extra=attempt_ids(directive))
            return None

    def keep(self, directive: Directive, result: dict[str, Any]) -> dict[str, Any]:
        """Stores `result`, unless one is already stored. Returns the stored one.

        Raises ValueError if the stored blob is not the attempt's RESULT.
        """
        body = json.dumps(replies.without_lease(result, directive), ensure_ascii=False).encode()
        stored = self._workspace.write_once(directive.workspace_ref.uri, _name(directive), body, "application/json")
        return replies.with_lease(json.loads(stored), directive)


def _name(directive: Directive) -> str:
    return f".attempt/{directive.key}.json"
